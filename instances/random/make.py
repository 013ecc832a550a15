"""Write the instances of this folder, or check that they are what this script writes.

Usage: ``python instances/random/make.py [--check] [--only TEXT]``
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

from slackopt.device import Device
from slackopt.library.making import Between, Recipe, capped, main, slow_link
from slackopt.profiles import random_graph
from slackopt.profiles.random_graphs import Kind

FOLDER = Path(__file__).resolve().parent
GIB = 2**30

# Seed, forward ops, device, budget in percent of the way from working set to unlimited peak.
Row = tuple[int, int, str | Device, int]

LAYERED: tuple[Row, ...] = (
    (101, 40, "a100-pcie4", 20),
    (102, 40, "gh200-c2c", 10),
    (103, 80, "a100-pcie4", 40),
    (104, 80, slow_link("a100-pcie4", 4), 50),
    (105, 80, "a100-pcie4-shared", 25),
    (106, 160, "a100-pcie4", 25),
    (107, 160, "h100-pcie5", 5),
    (108, 160, capped("a100-pcie4", GIB), 50),
    (109, 160, slow_link("a100-pcie4", 8), 70),
    (110, 320, "a100-pcie4", 30),
    (111, 320, "h100-pcie5", 5),
    (112, 320, "a100-pcie4-shared", 35),
    (113, 640, "a100-pcie4", 40),
    (114, 640, slow_link("a100-pcie4", 4), 60),
)
SERIES_PARALLEL: tuple[Row, ...] = (
    (201, 40, "a100-pcie4", 30),
    (202, 40, "gh200-c2c", 10),
    (203, 80, "a100-pcie4", 20),
    (204, 80, slow_link("a100-pcie4", 4), 50),
    (205, 80, "a100-pcie4-shared", 40),
    (206, 160, "a100-pcie4", 10),
    (207, 160, "h100-pcie5", 15),
    (208, 160, capped("a100-pcie4", GIB), 50),
    (209, 160, slow_link("a100-pcie4", 8), 70),
    (210, 320, "a100-pcie4", 30),
    (211, 320, "h100-pcie5", 5),
    (212, 320, "a100-pcie4-shared", 20),
    (213, 640, "a100-pcie4", 40),
    (214, 640, slow_link("a100-pcie4", 4), 60),
)
KINDS: dict[Kind, tuple[Row, ...]] = {"layered": LAYERED, "series-parallel": SERIES_PARALLEL}


def recipes() -> list[Recipe]:
    """All instances of the family, in the order in which they are made."""
    return [_recipe(kind, row) for kind, rows in KINDS.items() for row in rows]


def _recipe(kind: Kind, row: Row) -> Recipe:
    seed, num_ops, device, percent = row
    graph = partial(random_graph, kind, seed=seed, num_forward_ops=num_ops)
    device_name = device if isinstance(device, str) else device.name
    return Recipe(f"{kind}-{num_ops}-{seed}-{device_name}", graph, device, Between(percent))


if __name__ == "__main__":
    sys.exit(main(FOLDER, recipes()))
