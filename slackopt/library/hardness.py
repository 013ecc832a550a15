"""Hardness classes of instances: by what is proved, and how long it took."""

from __future__ import annotations

from enum import StrEnum

from slackopt.library.records import BestEntry

PROVED_GAP = 1e-4
"""An instance counts as solved within this certified gap, the tolerance of `slackopt.solve`."""

EASY_S = 60.0
MEDIUM_S = 3600.0


class Hardness(StrEnum):
    """How hard an instance is for what is in this package today.

    ``easy``: solved within a minute; ``medium``: within an hour; ``hard``: in a longer time, or
    in one that nobody recorded; ``open``: not solved. Solved means a certified gap of at most
    `PROVED_GAP`, or a proof that no plan exists.
    """

    EASY = "easy"
    MEDIUM = "medium"
    HARD = "hard"
    OPEN = "open"


def hardness(entry: BestEntry) -> Hardness:
    """Return the class of an instance.

    The time to solve it is the longer of the two times in which its best plan and its best bound
    were reached. It is of the machine and the load of the runs, so that a class can change by one
    where a time is near a limit; a better method moves an instance to an easier class.
    """
    if entry.infeasible is not None:
        times = [_seconds(entry.infeasible.origin.reached_s, entry.infeasible.origin.wall_s)]
    elif entry.gap is not None and entry.gap <= PROVED_GAP and entry.plan and entry.best_bound:
        origins = (entry.plan.origin, entry.best_bound.origin)
        times = [_seconds(origin.reached_s, origin.wall_s) for origin in origins]
    else:
        return Hardness.OPEN
    if max(times) <= EASY_S:
        return Hardness.EASY
    return Hardness.MEDIUM if max(times) <= MEDIUM_S else Hardness.HARD


def _seconds(reached_s: float | None, wall_s: float | None) -> float:
    known = reached_s if reached_s is not None else wall_s
    return float("inf") if known is None else known
