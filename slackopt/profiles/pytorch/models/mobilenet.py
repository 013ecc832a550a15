"""MobileNetV2 of Sandler et al. 2018 (arXiv 1801.04381), table 2."""

from __future__ import annotations

import torch
from torch import nn

_TABLE_2 = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)
"""Expansion, width, number of blocks, stride of the first."""


class InvertedResidual(nn.Module):
    """Expansion by 1x1, depthwise 3x3, linear projection by 1x1; section 3.3."""

    def __init__(self, channels_in: int, channels_out: int, stride: int, expansion: int) -> None:
        super().__init__()
        hidden = channels_in * expansion
        expand = [] if expansion == 1 else [_convolution(channels_in, hidden, 1)]
        self.layers = nn.Sequential(
            *expand,
            _convolution(hidden, hidden, 3, stride=stride, groups=hidden),
            nn.Conv2d(hidden, channels_out, 1, bias=False),
            nn.BatchNorm2d(channels_out),
        )
        self.residual = stride == 1 and channels_in == channels_out

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the block's output."""
        out = self.layers(x)
        return x + out if self.residual else out


class MobileNetV2(nn.Module):
    """MobileNetV2 of width 1.0: 3,504,872 parameters."""

    def __init__(self, classes: int = 1000) -> None:
        super().__init__()
        layers: list[nn.Module] = [_convolution(3, 32, 3, stride=2)]
        channels = 32
        for expansion, width, count, stride in _TABLE_2:
            for index in range(count):
                step = 1 if index else stride
                layers.append(InvertedResidual(channels, width, step, expansion))
                channels = width
        layers.append(_convolution(channels, 1280, 1))
        self.features = nn.Sequential(*layers)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Sequential(nn.Dropout(0.2), nn.Linear(1280, classes))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the classes' scores of a batch of images."""
        x = self.pool(self.features(x))
        return self.classifier(torch.flatten(x, 1))


def _convolution(
    channels_in: int, channels_out: int, size: int, stride: int = 1, groups: int = 1
) -> nn.Sequential:
    padding = (size - 1) // 2
    return nn.Sequential(
        nn.Conv2d(channels_in, channels_out, size, stride, padding, groups=groups, bias=False),
        nn.BatchNorm2d(channels_out),
        nn.ReLU6(inplace=True),
    )
