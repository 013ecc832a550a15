"""Residual networks of He et al. 2016 (arXiv 1512.03385), table 1, for 1000 classes of images.

The stride of a downsampling bottleneck block is in its 3x3 convolution, as in most training code
("version 1.5"), and not in the first 1x1 convolution of the paper. Parameters and FLOPs are nearly
the same.
"""

from __future__ import annotations

import torch
from torch import nn


class BasicBlock(nn.Module):
    """Two 3x3 convolutions and a shortcut; table 1, 18 and 34 layers."""

    expansion = 1

    def __init__(self, channels_in: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels_in, width, 3, stride=stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.relu = nn.ReLU(inplace=True)
        self.shortcut = _shortcut(channels_in, width, stride)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the block's output."""
        identity = self.shortcut(x)
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        out += identity
        return self.relu(out)


class Bottleneck(nn.Module):
    """Convolutions of 1x1, 3x3 and 1x1 and a shortcut; table 1, 50 layers and more."""

    expansion = 4

    def __init__(self, channels_in: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels_in, width, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride=stride, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, 4 * width, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(4 * width)
        self.relu = nn.ReLU(inplace=True)
        self.shortcut = _shortcut(channels_in, 4 * width, stride)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the block's output."""
        identity = self.shortcut(x)
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.relu(self.bn2(self.conv2(out)))
        out = self.bn3(self.conv3(out))
        out += identity
        return self.relu(out)


class ResNet(nn.Module):
    """A residual network.

    Parameters
    ----------
    block
        Kind of its blocks.
    depths
        Blocks in each of the four stages, of widths 64, 128, 256 and 512.
    classes
        Width of the last layer.
    """

    def __init__(
        self, block: type[BasicBlock | Bottleneck], depths: tuple[int, ...], classes: int = 1000
    ) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, 64, 7, stride=2, padding=3, bias=False),
            nn.BatchNorm2d(64),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(3, stride=2, padding=1),
        )
        blocks, channels = [], 64
        for stage, depth in enumerate(depths):
            width = 64 * 2**stage
            for index in range(depth):
                stride = 2 if stage and not index else 1
                blocks.append(block(channels, width, stride))
                channels = width * block.expansion
        self.blocks = nn.Sequential(*blocks)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Linear(channels, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the classes' scores of a batch of images."""
        x = self.blocks(self.stem(x))
        return self.classifier(torch.flatten(self.pool(x), 1))


def resnet18() -> ResNet:
    """Return ResNet-18: 11,689,512 parameters."""
    return ResNet(BasicBlock, (2, 2, 2, 2))


def resnet50() -> ResNet:
    """Return ResNet-50: 25,557,032 parameters."""
    return ResNet(Bottleneck, (3, 4, 6, 3))


def resnet152() -> ResNet:
    """Return ResNet-152: 60,192,808 parameters."""
    return ResNet(Bottleneck, (3, 8, 36, 3))


def _shortcut(channels_in: int, channels_out: int, stride: int) -> nn.Module:
    """Return the identity, or a projection where the shape changes (option B of the paper)."""
    if stride == 1 and channels_in == channels_out:
        return nn.Identity()
    return nn.Sequential(
        nn.Conv2d(channels_in, channels_out, 1, stride=stride, bias=False),
        nn.BatchNorm2d(channels_out),
    )
