"""Write the instances of this folder, or check that they are what this script writes.

Usage: ``python instances/long-sequence/make.py [--check] [--only TEXT]``
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from slackopt.device import Device
from slackopt.library.making import Recipe, capped, main, slow_link
from slackopt.profiles import transformer

FOLDER = Path(__file__).resolve().parent
GIB = 2**30

# Preset, blocks, tokens, accelerator, link (or a device), budgets as fractions of the peak.
Row = tuple[str, int, int, str, str | Device, tuple[str, ...]]

ROWS: tuple[Row, ...] = (
    # From 8 k to 256 k tokens: the bytes grow with the length, the time of full attention with its
    # square, so that the link hides more and more.
    ("llama-7b", 16, 8192, "a100", "pcie4", ("0.3", "0.5")),
    ("llama-7b", 16, 16384, "a100", "pcie4", ("0.3",)),
    ("llama-7b", 8, 32768, "a100", "pcie4", ("0.3",)),
    ("llama-7b", 8, 65536, "h100", "pcie5", ("0.3",)),
    # A sliding window: the time grows like the bytes, and the link stays short.
    ("mistral-7b", 16, 16384, "a100", "pcie4", ("0.3", "0.5")),
    ("mistral-7b", 8, 32768, "a100", "pcie4", ("0.4",)),
    ("mistral-7b", 8, 65536, "h100", "pcie5", ("0.3", "0.6")),
    # Plain blocks with dropout: more bytes for each second.
    ("gpt2-xl", 16, 8192, "a100", "pcie4", ("0.3", "0.6")),
    ("gpt2-xl", 12, 32768, "h100", "pcie5", ("0.4",)),
    ("gpt2-xl", 24, 4096, "gh200", "c2c", ("0.2",)),
    ("bert-large", 24, 4096, "v100", "pcie3", ("0.4",)),
    # Host memory runs out; both directions at once are slower.
    ("llama-7b", 16, 16384, "a100", capped("a100-pcie4", 12 * GIB), ("0.5",)),
    ("mistral-7b", 8, 32768, "a100", capped("a100-pcie4", 8 * GIB), ("0.5",)),
    ("llama-7b", 16, 16384, "a100", "pcie4-shared", ("0.3",)),
    ("mistral-7b", 8, 32768, "a100", "pcie4-shared", ("0.4",)),
    # Several devices behind one link: the link counts again, however long the sequence.
    ("llama-7b", 8, 32768, "a100", slow_link("a100-pcie4", 4), ("0.4",)),
    ("llama-7b", 8, 65536, "h100", slow_link("h100-pcie5", 4), ("0.4",)),
    ("llama-7b", 4, 131072, "h100", slow_link("h100-pcie5", 8), ("0.35",)),
    ("llama-7b", 4, 262144, "h200", slow_link("h200-pcie5", 16), ("0.4",)),
)


def recipes() -> list[Recipe]:
    """All instances of the family, in the order in which they are made."""
    return [recipe for row in ROWS for recipe in _expand(row)]


def _expand(row: Row) -> Iterator[Recipe]:
    preset, num_layers, seq, accelerator, link, budgets = row
    device = f"{accelerator}-{link}" if isinstance(link, str) else link
    device_name = device if isinstance(device, str) else device.name
    dtype = "fp16" if accelerator == "v100" else "bf16"
    graph = partial(
        transformer,
        preset,
        batch=1,
        seq=seq,
        num_layers=num_layers,
        accelerator=accelerator,
        dtype=dtype,
    )
    for budget in budgets:
        percent = round(100 * float(budget))
        name = f"{preset}-l{num_layers}-s{seq}-{device_name}-{percent}"
        yield Recipe(name, graph, device, budget)


if __name__ == "__main__":
    sys.exit(main(FOLDER, recipes()))
