"""The U-Net of a diffusion model: Ho et al. 2020 (arXiv 2006.11239), appendix B, CIFAR-10.

Four resolutions from 32 x 32 to 4 x 4, of 128, 256, 256 and 256 channels, two residual blocks at
each, self-attention at 16 x 16 and in the middle, group norms, dropout 0.1, and an embedding of
the diffusion time that every block adds: 35.7 million parameters.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

_GROUPS = 32


class ResidualBlock(nn.Module):
    """Two convolutions after norm and SiLU, with the embedding of the time in between."""

    def __init__(self, channels_in: int, channels_out: int, embedding: int, dropout: float) -> None:
        super().__init__()
        self.norm1 = nn.GroupNorm(_GROUPS, channels_in)
        self.conv1 = nn.Conv2d(channels_in, channels_out, 3, padding=1)
        self.time = nn.Linear(embedding, channels_out)
        self.norm2 = nn.GroupNorm(_GROUPS, channels_out)
        self.dropout = nn.Dropout(dropout)
        self.conv2 = nn.Conv2d(channels_out, channels_out, 3, padding=1)
        same = channels_in == channels_out
        self.shortcut = nn.Identity() if same else nn.Conv2d(channels_in, channels_out, 1)

    def forward(self, x: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
        """Return the block's output."""
        out = self.conv1(F.silu(self.norm1(x)))
        out = out + self.time(F.silu(time))[:, :, None, None]
        out = self.conv2(self.dropout(F.silu(self.norm2(out))))
        return self.shortcut(x) + out


class SelfAttention(nn.Module):
    """Attention of one head among the pixels of a map."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(_GROUPS, channels)
        self.query = nn.Conv2d(channels, channels, 1)
        self.key = nn.Conv2d(channels, channels, 1)
        self.value = nn.Conv2d(channels, channels, 1)
        self.projection = nn.Conv2d(channels, channels, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the map with what each pixel gathered."""
        normed = self.norm(x)
        query, key, value = (
            layer(normed).flatten(2).transpose(1, 2).unsqueeze(1)
            for layer in (self.query, self.key, self.value)
        )
        out = F.scaled_dot_product_attention(query, key, value)
        out = out.squeeze(1).transpose(1, 2).reshape(x.shape)
        return x + self.projection(out)


class Stage(nn.Module):
    """A residual block, with attention after it where the resolution asks for it."""

    def __init__(
        self, channels_in: int, channels_out: int, embedding: int, dropout: float, attention: bool
    ) -> None:
        super().__init__()
        self.block = ResidualBlock(channels_in, channels_out, embedding, dropout)
        self.attention = SelfAttention(channels_out) if attention else nn.Identity()

    def forward(self, x: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
        """Return the stage's output."""
        return self.attention(self.block(x, time))


class Upsample(nn.Module):
    """Double the resolution and convolve."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the larger map."""
        return self.conv(F.interpolate(x, scale_factor=2.0))


class DiffusionUNet(nn.Module):
    """Predicts the noise in an image at a diffusion time.

    Parameters
    ----------
    channels
        Of the image.
    width
        Channels at full resolution.
    multipliers
        Channels at each resolution, in units of `width`.
    depth
        Residual blocks at each resolution on the way down; one more on the way up.
    attention_levels
        Resolutions with attention, 0 the full one.
    dropout
        In the residual blocks.
    """

    def __init__(
        self,
        channels: int = 3,
        width: int = 128,
        multipliers: tuple[int, ...] = (1, 2, 2, 2),
        depth: int = 2,
        attention_levels: tuple[int, ...] = (1,),
        dropout: float = 0.1,
    ) -> None:
        super().__init__()
        self.width = width
        embedding = 4 * width
        self.time = nn.Sequential(
            nn.Linear(width, embedding), nn.SiLU(), nn.Linear(embedding, embedding)
        )
        self.stem = nn.Conv2d(channels, width, 3, padding=1)
        skipped, current, last = [width], width, len(multipliers) - 1
        self.down = nn.ModuleList()
        for level, multiplier in enumerate(multipliers):
            for _ in range(depth):
                attention = level in attention_levels
                out = width * multiplier
                self.down.append(Stage(current, out, embedding, dropout, attention))
                current = out
                skipped.append(current)
            if level < last:
                self.down.append(nn.Conv2d(current, current, 3, stride=2, padding=1))
                skipped.append(current)
        self.middle = nn.ModuleList(
            Stage(current, current, embedding, dropout, attention) for attention in (True, False)
        )
        self.up = nn.ModuleList()
        for level in reversed(range(len(multipliers))):
            for _ in range(depth + 1):
                attention = level in attention_levels
                out = width * multipliers[level]
                self.up.append(Stage(current + skipped.pop(), out, embedding, dropout, attention))
                current = out
            if level:
                self.up.append(Upsample(current))
        self.norm = nn.GroupNorm(_GROUPS, current)
        self.head = nn.Conv2d(current, channels, 3, padding=1)

    def forward(self, image: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
        """Return the noise; `time` has one number for each image."""
        embedded = self.time(self.positions(time).to(image.dtype))
        x = self.stem(image)
        skipped = [x]
        for layer in self.down:
            x = layer(x, embedded) if isinstance(layer, Stage) else layer(x)
            skipped.append(x)
        for layer in self.middle:
            x = layer(x, embedded)
        for layer in self.up:
            if isinstance(layer, Stage):
                x = layer(torch.cat([x, skipped.pop()], 1), embedded)
            else:
                x = layer(x)
        return self.head(F.silu(self.norm(x)))

    def positions(self, time: torch.Tensor) -> torch.Tensor:
        """Return sines and cosines of the time, as Transformers embed positions."""
        half = self.width // 2
        steps = torch.arange(half, device=time.device) * (-math.log(10_000) / (half - 1))
        angles = time[:, None].float() * steps.exp()[None]
        return torch.cat([angles.sin(), angles.cos()], 1)
