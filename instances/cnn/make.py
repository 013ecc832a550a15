"""Write the instances of this folder, or check that they are what this script writes.

Usage: ``python instances/cnn/make.py [--check] [--only TEXT]``
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
    ("resnet18-b256-rtx4090", "rtx4090-pcie4", ("0.6",)),
    ("resnet50-b64-a100", "a100-pcie4", ("0.5", "0.7")),
    ("resnet50-b256-gh200", "gh200-c2c", ("0.4", "0.6")),
    ("resnet152-b64-a100", "a100-pcie4", ("0.4", "0.6", "0.8")),
    ("resnet152-b128-gh200", "gh200-c2c", ("0.3",)),
    ("vgg16-b64-a100", "a100-pcie4", ("0.7", "0.85")),
    ("vgg16-b128-gh200", "gh200-c2c", ("0.6",)),
    ("unet-b4-a100", "a100-pcie4", ("0.6", "0.8")),
    ("unet-b8-gh200", "gh200-c2c", ("0.5",)),
    ("mobilenet-v2-b256-a100", "a100-pcie4", ("0.5", "0.7")),
    ("mobilenet-v2-b128-v100", "v100-pcie3", ("0.6",)),
    ("densenet121-b64-a100", "a100-pcie4", ("0.6", "0.8")),
    ("densenet121-b64-a100", "a100-pcie4-shared", ("0.7",)),
    ("densenet121-b128-h100", "h100-pcie5", ("0.5",)),
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
