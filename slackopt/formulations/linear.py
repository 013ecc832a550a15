"""Solver-neutral linear models: columns and rows in exact integers.

Both solver families take the same rows; each back end scales them for its solver, and
`slackopt.formulations.certificate` adds them up exactly.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Column:
    """A variable between 0 and `upper`; None for no upper bound.

    Attributes
    ----------
    name
        Stable and readable: ``swap[12]`` is the swap decision of tensor 12.
    objective
        Cost per unit.
    integer
        Whether it must be integral.
    """

    name: str
    objective: int = 0
    upper: int | None = 1
    integer: bool = True


@dataclass(frozen=True)
class Row:
    """An inequality: the sum of ``coefficients[j] * x[j]`` is at most `upper`."""

    name: str
    coefficients: dict[int, int]
    upper: int
