"""Units for floating-point solvers: decisions stay 0..1, times and rows come near 1."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from slackopt.formulations.linear import Row
from slackopt.formulations.window import UNITS_PER_BYTE, WindowFormulation, counts_bytes

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Scaling:
    """Units of one formulation.

    Attributes
    ----------
    time_ns
        Unit of the objective and of stall columns: 1e-5 of the ideal step.
    memory
        Unit of memory rows: a thousandth of the budget.
    column
        Per column: value in exact units = value in the solver x this.
    """

    time_ns: float
    memory: float
    column: Floats

    @classmethod
    def of(cls, window: WindowFormulation) -> Scaling:
        """Choose units for an instance."""
        instance = window.instance
        time_ns = max(instance.ideal_ns / 1e5, 1.0)
        column = np.ones(len(window.columns))
        column[list(window.stall.values())] = time_ns
        return cls(time_ns, instance.budget_bytes * UNITS_PER_BYTE / 1000, column)

    def costs(self, window: WindowFormulation) -> Floats:
        """Objective coefficients in solver units."""
        cost = np.array([float(c.objective) for c in window.columns])
        scaled: Floats = cost * self.column / self.time_ns
        return scaled

    def row_unit(self, row: Row) -> float:
        """Return the unit of a row: fixed where it counts bytes, else its largest coefficient."""
        if counts_bytes(row):
            return self.memory
        return max([1.0, *(abs(a) * float(self.column[j]) for j, a in row.coefficients.items())])

    def row(self, row: Row) -> tuple[list[int], Floats, float, float]:
        """Return columns, coefficients and right side in solver units, and the unit of the row."""
        unit = self.row_unit(row)
        columns = list(row.coefficients)
        coefficients = np.array([float(a) for a in row.coefficients.values()])
        scaled: Floats = coefficients * self.column[columns] / unit
        return columns, scaled, float(row.upper / unit), unit
