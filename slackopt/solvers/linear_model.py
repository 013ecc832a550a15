"""A mixed-integer model as plain arrays in solver units, and the check of a point against it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from slackopt.solvers.scaling import Floats

Ints = npt.NDArray[np.int64]
TOLERANCE = 1e-6
"""Largest accepted error of a value, relative to max(1, value), and of a row, relative to the sum
of its terms' sizes; solvers work to the same figure."""


@dataclass(frozen=True)
class LinearModel:
    """Minimize ``costs @ x`` over rows ``values @ x[columns] <= right`` and ``0 <= x <= upper``.

    Attributes
    ----------
    costs, upper
        Per column; `upper` is infinite where there is no bound.
    integer
        Per column, whether it must be integral.
    starts
        Where each row begins in `columns` and `values`; one more entry than there are rows.
    columns, values
        The terms of all rows.
    right
        Per row.
    """

    costs: Floats
    upper: Floats
    integer: npt.NDArray[np.bool_]
    starts: Ints
    columns: Ints
    values: Floats
    right: Floats

    def __post_init__(self) -> None:
        for name in ("costs", "values", "right"):
            if not np.isfinite(getattr(self, name)).all():
                raise ValueError(f"{name} of a model must be finite")
        if not (self.upper >= 0).all():
            raise ValueError("upper of a model must be at least 0")

    def objective(self, x: Floats) -> float:
        """Objective at `x`, computed here."""
        return float(self.costs @ x)

    def settle(self, x: Floats) -> tuple[Floats | None, str]:
        """Round the integral columns of a solver's point and check it against every row.

        Integral columns must be within `TOLERANCE` of an integer; every row must hold at the
        rounded point within ``TOLERANCE * (1 + |right| + sum of |value * x|)``.

        Returns
        -------
        The settled point and "", or None and what is wrong with it.
        """
        if x.shape != self.costs.shape or not np.isfinite(x).all():
            return None, "it lacks values"
        settled = np.where(self.integer, np.round(x), x)
        off = float(np.abs(settled - x).max(initial=0.0))
        if off > TOLERANCE:
            return None, f"an integral column is {off:.2g} from an integer"
        settled = np.clip(settled, 0.0, self.upper)
        outside = np.abs(settled - x) - TOLERANCE * np.maximum(1.0, np.abs(x))
        if outside.max(initial=-1.0) > 0:
            return None, "a column is outside its bounds"
        terms = self.values * settled[self.columns]
        rows = np.repeat(np.arange(len(self.right)), np.diff(self.starts))
        size = len(self.right)
        excess = np.bincount(rows, terms, size) - self.right
        allowed = 1.0 + np.abs(self.right) + np.bincount(rows, np.abs(terms), size)
        violated = excess - TOLERANCE * allowed
        if violated.max(initial=-1.0) > 0:
            i = int(violated.argmax())
            return None, f"row {i} is exceeded by {excess[i]:.3g}"
        return settled, ""
