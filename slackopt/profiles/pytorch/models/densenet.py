"""DenseNet of Huang et al. 2017 (arXiv 1608.06993), table 1, DenseNet-121 with growth rate 32."""

from __future__ import annotations

import torch
from torch import nn

_GROWTH = 32
_BOTTLENECK = 4 * _GROWTH
_DEPTHS = (6, 12, 24, 16)


class DenseLayer(nn.Module):
    """Norm, ReLU, 1x1 convolution, norm, ReLU, 3x3 convolution of all maps so far; section 3."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.norm1 = nn.BatchNorm2d(channels)
        self.conv1 = nn.Conv2d(channels, _BOTTLENECK, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(_BOTTLENECK)
        self.conv2 = nn.Conv2d(_BOTTLENECK, _GROWTH, 3, padding=1, bias=False)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, maps: list[torch.Tensor]) -> torch.Tensor:
        """Return the layer's new maps."""
        out = self.conv1(self.relu(self.norm1(torch.cat(maps, 1))))
        return self.conv2(self.relu(self.norm2(out)))


class DenseBlock(nn.ModuleList):
    """Layers that each read the maps of all before."""

    def __init__(self, channels: int, depth: int) -> None:
        super().__init__(DenseLayer(channels + index * _GROWTH) for index in range(depth))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the maps of all layers."""
        maps = [x]
        for layer in self:
            maps.append(layer(maps))
        return torch.cat(maps, 1)


class DenseNet121(nn.Module):
    """Four dense blocks with transitions that halve the maps: 7,978,856 parameters."""

    def __init__(self, classes: int = 1000) -> None:
        super().__init__()
        channels = 2 * _GROWTH
        self.stem = nn.Sequential(
            nn.Conv2d(3, channels, 7, stride=2, padding=3, bias=False),
            nn.BatchNorm2d(channels),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(3, stride=2, padding=1),
        )
        parts: list[nn.Module] = []
        for depth in _DEPTHS:
            if parts:
                parts.append(_transition(channels))
                channels //= 2
            parts.append(DenseBlock(channels, depth))
            channels += depth * _GROWTH
        self.features = nn.Sequential(*parts)
        self.norm = nn.BatchNorm2d(channels)
        self.relu = nn.ReLU(inplace=True)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Linear(channels, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the classes' scores of a batch of images."""
        x = self.pool(self.relu(self.norm(self.features(self.stem(x)))))
        return self.classifier(torch.flatten(x, 1))


def _transition(channels: int) -> nn.Sequential:
    return nn.Sequential(
        nn.BatchNorm2d(channels),
        nn.ReLU(inplace=True),
        nn.Conv2d(channels, channels // 2, 1, bias=False),
        nn.AvgPool2d(2),
    )
