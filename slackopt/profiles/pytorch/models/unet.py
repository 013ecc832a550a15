"""U-Net of Ronneberger et al. 2015 (arXiv 1505.04597), figure 1."""

from __future__ import annotations

import torch
from torch import nn


class UNet(nn.Module):
    """Four steps down, four up, and a skip connection at each: 23 convolutions.

    Convolutions are not padded, so that an image of 572 x 572 gives a map of 388 x 388; the maps
    of the way down are cropped where the way up reads them.

    Parameters
    ----------
    channels, classes
        Of the image and of the map.
    width
        Channels at the top; they double with each step down.
    """

    def __init__(self, channels: int = 1, classes: int = 2, width: int = 64) -> None:
        super().__init__()
        widths = [width * 2**level for level in range(5)]
        self.down = nn.ModuleList(
            _two_convolutions(before, after)
            for before, after in zip([channels, *widths], widths, strict=False)
        )
        self.pool = nn.MaxPool2d(2)
        self.up = nn.ModuleList(
            nn.ConvTranspose2d(2 * w, w, 2, stride=2) for w in reversed(widths[:-1])
        )
        self.merge = nn.ModuleList(_two_convolutions(2 * w, w) for w in reversed(widths[:-1]))
        self.classifier = nn.Conv2d(width, classes, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the classes' scores of each pixel."""
        skipped = []
        for level, block in enumerate(self.down):
            x = block(self.pool(x) if level else x)
            skipped.append(x)
        skipped.pop()
        for up, merge in zip(self.up, self.merge, strict=True):
            x = up(x)
            x = merge(torch.cat([_crop(skipped.pop(), x), x], 1))
        return self.classifier(x)


def unet_side(side: int) -> int:
    """Side of the map that a square image gives: 388 for 572.

    Raises
    ------
    ValueError
        If a map on the way down has an odd side, or nothing is left at the bottom.
    """
    sides = []
    for level in range(5):
        side -= 4
        sides.append(side)
        if level < 4 and (side % 2 or side < 2):
            raise ValueError(f"a map of {side} x {side} can't be halved")
        side = side // 2 if level < 4 else side
    if side < 1:
        raise ValueError("nothing is left at the bottom")
    for _ in range(4):
        side = 2 * side - 4
    return side


def _two_convolutions(channels_in: int, channels_out: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(channels_in, channels_out, 3),
        nn.ReLU(inplace=True),
        nn.Conv2d(channels_out, channels_out, 3),
        nn.ReLU(inplace=True),
    )


def _crop(maps: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """Cut the middle of `maps`, as large as `like`."""
    top, left = ((maps.size(d) - like.size(d)) // 2 for d in (2, 3))
    return maps[:, :, top : top + like.size(2), left : left + like.size(3)]
