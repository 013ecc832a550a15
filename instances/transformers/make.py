"""Write the instances of this folder, or check that they are what this script writes.

Usage: ``python instances/transformers/make.py [--check] [--only TEXT]``
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from slackopt.device import Device
from slackopt.library.making import Recipe, capped, main
from slackopt.profiles import transformer

FOLDER = Path(__file__).resolve().parent
GIB = 2**30

# Preset, its settings, accelerator, link (or a device) and budgets as fractions of the peak.
Row = tuple[str, dict[str, Any], str, str | Device, tuple[str, ...]]

ENCODERS: tuple[Row, ...] = (
    ("bert-base", {"batch": 64, "seq": 512}, "a100", "pcie4", ("0.5", "0.7")),
    (
        "bert-base",
        {"batch": 128, "seq": 128, "attention": "eager", "dtype": "fp16"},
        "v100",
        "pcie3",
        ("0.4", "0.6"),
    ),
    ("bert-large", {"batch": 32, "seq": 512}, "a100", "pcie4", ("0.3", "0.4", "0.6", "0.8")),
    (
        "bert-large",
        {"batch": 32, "seq": 512, "attention": "eager"},
        "a100",
        "pcie4",
        ("0.3", "0.7"),
    ),
    ("bert-large", {"batch": 32, "seq": 512}, "a100", "pcie4-shared", ("0.5",)),
    ("bert-large", {"batch": 32, "seq": 512}, "h100", "pcie5", ("0.5",)),
    ("bert-large", {"batch": 32, "seq": 512}, "gh200", "c2c", ("0.3", "0.5")),
    ("bert-large", {"batch": 8, "seq": 512}, "l4", "pcie4", ("0.5",)),
    ("bert-large", {"batch": 64, "seq": 128}, "rtx4090", "pcie4", ("0.5",)),
    ("bert-large", {"batch": 16, "seq": 512, "dropout": False}, "a100-40gb", "pcie4", ("0.5",)),
)
DECODERS: tuple[Row, ...] = (
    ("gpt2", {"batch": 8, "seq": 1024}, "rtx4090", "pcie4", ("0.6",)),
    ("gpt2", {"batch": 16, "seq": 1024, "attention": "eager"}, "a100", "pcie4", ("0.4",)),
    ("gpt2-xl", {"batch": 4, "seq": 1024}, "a100", "pcie4", ("0.3", "0.4", "0.7")),
    (
        "gpt2-xl",
        {"batch": 4, "seq": 1024, "attention": "eager"},
        "a100",
        "pcie4",
        ("0.35", "0.6"),
    ),
    ("gpt2-xl", {"batch": 8, "seq": 1024}, "h100", "pcie5", ("0.5",)),
    ("gpt2-xl", {"batch": 8, "seq": 1024}, "gh200", "c2c", ("0.3",)),
    ("gpt2-xl", {"batch": 4, "seq": 1024}, "a100", "pcie4-shared", ("0.5",)),
    ("gpt2-xl", {"batch": 4, "seq": 1024}, "a100", capped("a100-pcie4", 2 * GIB), ("0.5",)),
    ("gpt2-xl", {"batch": 2, "seq": 1024, "dtype": "fp32"}, "rtx4090", "pcie4", ("0.4",)),
    ("llama-7b", {"batch": 2, "seq": 2048}, "a100", "pcie4", ("0.3", "0.4", "0.7", "0.9")),
    ("llama-7b", {"batch": 2, "seq": 2048, "attention": "eager"}, "a100", "pcie4", ("0.35",)),
    ("llama-7b", {"batch": 4, "seq": 2048}, "h200", "pcie5", ("0.4",)),
    ("llama-7b", {"batch": 2, "seq": 2048}, "gh200", "c2c", ("0.3",)),
    ("llama-7b", {"batch": 2, "seq": 2048}, "a100", "pcie4-shared", ("0.4",)),
    ("llama-7b", {"batch": 2, "seq": 2048}, "a100", capped("a100-pcie4", 4 * GIB), ("0.5",)),
    (
        "llama-7b",
        {"batch": 2, "seq": 2048, "activation_gradients": False},
        "a100",
        "pcie4",
        ("0.4",),
    ),
    ("llama3-8b", {"batch": 1, "seq": 8192}, "a100", "pcie4", ("0.3", "0.5")),
    ("llama3-8b", {"batch": 2, "seq": 4096}, "h100", "pcie5", ("0.4",)),
    ("mistral-7b", {"batch": 1, "seq": 8192}, "a100", "pcie4", ("0.4",)),
    ("mistral-7b", {"batch": 1, "seq": 8192}, "h100", "pcie5", ("0.5",)),
)
ENCODER_DECODERS: tuple[Row, ...] = (
    (
        "bart-large",
        {"batch": 8, "seq": 1024, "target_seq": 256},
        "a100",
        "pcie4",
        ("0.4", "0.6"),
    ),
    (
        "bart-large",
        {"batch": 8, "seq": 1024, "target_seq": 256, "attention": "eager"},
        "a100",
        "pcie4",
        ("0.5",),
    ),
    (
        "bart-large",
        {"batch": 16, "seq": 512, "target_seq": 512},
        "rtx4090",
        "pcie4",
        ("0.5",),
    ),
    ("t5-large", {"batch": 16, "seq": 512, "target_seq": 512}, "a100", "pcie4", ("0.3", "0.6")),
    (
        "t5-large",
        {"batch": 16, "seq": 512, "target_seq": 128, "attention": "eager"},
        "a100",
        "pcie4",
        ("0.5",),
    ),
    ("t5-large", {"batch": 4, "seq": 512, "target_seq": 512}, "l4", "pcie4", ("0.5",)),
    ("t5-large", {"batch": 8, "seq": 1024, "target_seq": 256}, "h100", "pcie5", ("0.5",)),
)
VISION: tuple[Row, ...] = (
    ("vit-base", {"batch": 256}, "a100", "pcie4", ("0.5",)),
    ("vit-base", {"batch": 128}, "rtx4090", "pcie4", ("0.4",)),
    ("vit-base", {"batch": 64}, "l4", "pcie4", ("0.6",)),
    ("vit-large", {"batch": 128}, "a100", "pcie4", ("0.3", "0.5", "0.7")),
    ("vit-large", {"batch": 128, "attention": "eager"}, "a100", "pcie4", ("0.5",)),
    ("vit-large", {"batch": 64, "image_size": 384}, "h100", "pcie5", ("0.5",)),
    ("vit-large", {"batch": 128}, "gh200", "c2c", ("0.3",)),
    ("vit-huge", {"batch": 64}, "a100", "pcie4", ("0.4", "0.6")),
    ("vit-huge", {"batch": 128}, "h200", "pcie5", ("0.5",)),
)
MIXTURES: tuple[Row, ...] = (
    ("mixtral-8x7b", {"batch": 1, "seq": 4096}, "a100", "pcie4", ("0.3", "0.5")),
    ("mixtral-8x7b", {"batch": 1, "seq": 4096}, "h100", "pcie5", ("0.5",)),
    ("mixtral-8x7b", {"batch": 1, "seq": 4096}, "gh200", "c2c", ("0.3",)),
    ("olmoe-1b-7b", {"batch": 4, "seq": 4096}, "a100", "pcie4", ("0.4", "0.6")),
    ("olmoe-1b-7b", {"batch": 4, "seq": 4096}, "h100", "pcie5", ("0.5",)),
    ("olmoe-1b-7b", {"batch": 4, "seq": 4096}, "a100", "pcie4-shared", ("0.5",)),
    (
        "olmoe-1b-7b",
        {"batch": 4, "seq": 4096, "experts": "separate", "num_layers": 2},
        "a100",
        "pcie4",
        ("0.65",),
    ),
)
KINDS = {
    "encoder": ENCODERS,
    "decoder": DECODERS,
    "encoder-decoder": ENCODER_DECODERS,
    "vision": VISION,
    "mixture of experts": MIXTURES,
}
SHORT = {
    "attention": "",
    "dropout": "",
    "experts": "",
    "dtype": "",
    "batch": "b",
    "seq": "s",
    "target_seq": "t",
    "image_size": "px",
    "num_layers": "l",
}


def recipes() -> list[Recipe]:
    """All instances of the family, in the order in which they are made."""
    return [recipe for kind, rows in KINDS.items() for row in rows for recipe in _expand(kind, row)]


def _expand(kind: str, row: Row) -> Iterator[Recipe]:
    preset, settings, accelerator, link, budgets = row
    device = f"{accelerator}-{link}" if isinstance(link, str) else link
    device_name = device if isinstance(device, str) else device.name
    graph = partial(transformer, preset, accelerator=accelerator, **settings)
    label = "-".join([preset, *_labels(settings), device_name])
    for budget in budgets:
        percent = round(100 * float(budget))
        yield Recipe(f"{label}-{percent}", graph, device, budget, note=kind)


def _labels(settings: dict[str, Any]) -> Iterator[str]:
    for key, value in settings.items():
        if key == "activation_gradients":
            yield "no-gradients"
        elif key == "dropout":
            yield "no-dropout"
        else:
            yield f"{SHORT[key]}{value}"


if __name__ == "__main__":
    sys.exit(main(FOLDER, recipes()))
