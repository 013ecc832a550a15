"""Costs that make needless and late swaps lose ties."""

from __future__ import annotations

import numpy as np

from slackopt.formulations.window import WindowFormulation
from slackopt.solvers.scaling import Floats

TIE_BREAK_UNITS = 0.2
"""Most that all tie-breaks together add to the objective, in units of 1e-5 of the ideal step."""


def tie_break(window: WindowFormulation) -> Floats:
    """Return a cost per column, in solver units; `TIE_BREAK_UNITS` in all at most.

    A swap costs next to nothing in the objective, so a point may swap tensors for nothing, and
    late ones as gladly as early ones, whose idle time is longer.
    """
    life = window.life
    costs = np.zeros(len(window.columns))
    total = sum(life.sizes_bytes[t] for t in window.swap)
    for t, column in window.swap.items():
        lateness = window.ready(t) / life.num_ops
        costs[column] = TIE_BREAK_UNITS * life.sizes_bytes[t] / total * (1 + lateness) / 2
    return costs
