"""Trace the graphs of this folder from PyTorch models, or check that they are as traced.

Usage: ``python instances/diffusion/trace.py [--check] [--only TEXT]``; needs the extra ``torch``.
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import Any

from slackopt.library.stored_graphs import main
from slackopt.profiles.pytorch import torch_model

FOLDER = Path(__file__).resolve().parent

# Ho et al. 2020 (arXiv 2006.11239), appendix B: six resolutions, attention at 16 x 16.
PIXELS_256: dict[str, Any] = {
    "image_size": 256,
    "multipliers": (1, 1, 2, 2, 4, 4),
    "attention_levels": (4,),
}
# Channels and depth of the U-Net of latent diffusion (Rombach et al. 2022, arXiv 2112.10752), on
# latents of 64 x 64 x 4, with self-attention and without the cross-attention to a text.
LATENT: dict[str, Any] = {
    "image_size": 64,
    "channels": 4,
    "width": 320,
    "multipliers": (1, 2, 4, 4),
    "attention_levels": (0, 1, 2),
}

# Name, batch, options of the model, accelerator, attention.
MODELS: tuple[tuple[str, int, dict[str, Any], str, str], ...] = (
    ("ddpm-32px", 128, {}, "a100", "flash"),
    ("ddpm-32px", 256, {}, "gh200", "flash"),
    ("ddpm-64px", 64, {"image_size": 64}, "a100", "flash"),
    ("ddpm-64px-eager", 32, {"image_size": 64}, "a100", "eager"),
    ("ddpm-256px", 8, PIXELS_256, "a100", "flash"),
    ("ddpm-256px", 16, PIXELS_256, "h100", "flash"),
    ("latent-64px", 16, LATENT, "a100", "flash"),
    ("latent-64px", 32, LATENT, "gh200", "flash"),
)
GRAPHS = {
    f"{name}-b{batch}-{accelerator}": partial(
        torch_model,
        "ddpm-unet",
        batch=batch,
        overrides=options,
        accelerator=accelerator,
        attention=attention,
        dtype="bf16",
        graph_name=f"{name}-b{batch}",
    )
    for name, batch, options, accelerator, attention in MODELS
}

if __name__ == "__main__":
    sys.exit(main(FOLDER, GRAPHS))
