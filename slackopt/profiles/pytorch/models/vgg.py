"""VGG of Simonyan and Zisserman 2015 (arXiv 1409.1556), table 1, configuration D: VGG-16."""

from __future__ import annotations

import torch
from torch import nn

_CONFIGURATION_D = ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3))
"""Width and number of the 3x3 convolutions before each pooling."""


class VGG16(nn.Module):
    """Thirteen convolutions and three linear layers, with dropout: 138,357,544 parameters."""

    def __init__(self, classes: int = 1000) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        channels = 3
        for width, count in _CONFIGURATION_D:
            for _ in range(count):
                layers += [nn.Conv2d(channels, width, 3, padding=1), nn.ReLU(inplace=True)]
                channels = width
            layers.append(nn.MaxPool2d(2))
        self.features = nn.Sequential(*layers)
        self.classifier = nn.Sequential(
            nn.Linear(512 * 7 * 7, 4096),
            nn.ReLU(inplace=True),
            nn.Dropout(0.5),
            nn.Linear(4096, 4096),
            nn.ReLU(inplace=True),
            nn.Dropout(0.5),
            nn.Linear(4096, classes),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the classes' scores of a batch of images of 224 x 224."""
        return self.classifier(torch.flatten(self.features(x), 1))
