"""Trace the graphs of this folder from PyTorch models, or check that they are as traced.

Usage: ``python instances/cnn/trace.py [--check] [--only TEXT]``; needs the extra ``torch``.
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

from slackopt.library.stored_graphs import main
from slackopt.profiles.pytorch import torch_model

FOLDER = Path(__file__).resolve().parent

# Model, batch, accelerator, number format.
MODELS = (
    ("resnet18", 256, "rtx4090", "bf16"),
    ("resnet50", 64, "a100", "bf16"),
    ("resnet50", 256, "gh200", "bf16"),
    ("resnet152", 64, "a100", "bf16"),
    ("resnet152", 128, "gh200", "bf16"),
    ("vgg16", 64, "a100", "bf16"),
    ("vgg16", 128, "gh200", "bf16"),
    ("unet", 4, "a100", "bf16"),
    ("unet", 8, "gh200", "bf16"),
    ("mobilenet-v2", 256, "a100", "bf16"),
    ("mobilenet-v2", 128, "v100", "fp16"),
    ("densenet121", 64, "a100", "bf16"),
    ("densenet121", 128, "h100", "bf16"),
)
GRAPHS = {
    f"{name}-b{batch}-{accelerator}": partial(
        torch_model,
        name,
        batch=batch,
        accelerator=accelerator,
        dtype=dtype,
        graph_name=f"{name}-b{batch}",
    )
    for name, batch, accelerator, dtype in MODELS
}

if __name__ == "__main__":
    sys.exit(main(FOLDER, GRAPHS))
