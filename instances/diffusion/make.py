"""Write the instances of this folder, or check that they are what this script writes.

Usage: ``python instances/diffusion/make.py [--check] [--only TEXT]``
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

from slackopt.library.making import Recipe, main
from slackopt.library.stored_graphs import stored_graph

FOLDER = Path(__file__).resolve().parent

# Graph, device, budgets as fractions of the peak.
ROWS: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("ddpm-32px-b128-a100", "a100-pcie4", ("0.4", "0.6")),
    ("ddpm-32px-b256-gh200", "gh200-c2c", ("0.3",)),
    ("ddpm-64px-b64-a100", "a100-pcie4", ("0.5",)),
    ("ddpm-64px-b64-a100", "a100-pcie4-shared", ("0.6",)),
    ("ddpm-64px-eager-b32-a100", "a100-pcie4", ("0.5",)),
    ("ddpm-256px-b8-a100", "a100-pcie4", ("0.4", "0.7")),
    ("ddpm-256px-b16-h100", "h100-pcie5", ("0.5",)),
    ("latent-64px-b16-a100", "a100-pcie4", ("0.4", "0.6")),
    ("latent-64px-b32-gh200", "gh200-c2c", ("0.4",)),
)


def recipes() -> list[Recipe]:
    """All instances of the family, in the order in which they are made."""
    return [
        Recipe(
            f"{graph.rpartition('-')[0]}-{device}-{round(100 * float(budget))}",
            partial(stored_graph, FOLDER, graph),
            device,
            budget,
        )
        for graph, device, budgets in ROWS
        for budget in budgets
    ]


if __name__ == "__main__":
    sys.exit(main(FOLDER, recipes()))
