"""The linear relaxation of the window formulation, rows added lazily, solved with HiGHS.

highspy is used directly here, not through PuLP, because it keeps the basis between rounds.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction

import highspy
import numpy as np

from slackopt.errors import SolverError
from slackopt.formulations.certificate import bound_from_weights, weights_from_duals
from slackopt.formulations.linear import Row
from slackopt.formulations.separation import most_violated_keys
from slackopt.formulations.window import WindowFormulation
from slackopt.solvers.scaling import Floats, Scaling


@dataclass
class LpBound:
    """What the relaxation proved.

    Attributes
    ----------
    lower_bound_ns
        Proved for every plan, from the certificate, in exact arithmetic.
    weights
        The certificate: row name -> weight.
    x
        The last LP point, one value per column (stalls in ns).
    row_names
        Memory rows present at the end.
    objective_ns
        LP value as the solver reports it; for the log only.
    converged
        Whether no violated row was left.
    infeasible
        Whether the solver claims that no point satisfies the rows.
    """

    lower_bound_ns: int
    weights: dict[str, Fraction]
    x: Floats
    row_names: list[str]
    objective_ns: float
    converged: bool
    infeasible: bool = False
    rounds: int = 0
    seconds: float = 0.0


@dataclass
class WindowLp:
    """A lazily separated LP.

    Parameters
    ----------
    window
        The formulation.
    rows_per_round
        Most memory rows added in one round.
    """

    window: WindowFormulation
    rows_per_round: int = 40
    highs: highspy.Highs = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.scaling = Scaling.of(self.window)
        self.rows: list[Row] = []
        self._row_units: list[float] = []
        columns = self.window.columns
        self.highs = new_highs()
        infinity = highspy.kHighsInf
        upper = np.array([infinity if c.upper is None else float(c.upper) for c in columns])
        empty = np.array([], dtype=np.int32)
        self.highs.addCols(
            len(columns),
            self.scaling.costs(self.window),
            np.zeros(len(columns)),
            upper,
            0,
            empty,
            empty,
            np.array([]),
        )
        self.add_rows(self.window.static_rows())

    def add_rows(self, rows: list[Row]) -> None:
        """Append rows."""
        if not rows:
            return
        starts: list[int] = []
        indices: list[int] = []
        values: list[Floats] = []
        uppers: list[float] = []
        for row in rows:
            columns, coefficients, upper, unit = self.scaling.row(row)
            starts.append(len(indices))
            indices += columns
            values.append(coefficients)
            uppers.append(upper)
            self.rows.append(row)
            self._row_units.append(unit)
        self.highs.addRows(
            len(rows),
            np.full(len(rows), -highspy.kHighsInf),
            np.array(uppers),
            len(indices),
            np.array(starts, dtype=np.int32),
            np.array(indices, dtype=np.int32),
            np.concatenate(values),
        )

    def solve(
        self, *, deadline: float | None = None, on_round: Callable[[int], None] | None = None
    ) -> LpBound:
        """Solve, separate, repeat.

        Parameters
        ----------
        deadline
            `time.monotonic` value at which to stop.
        on_round
            Called with the bound after each round that improved it.
        """
        begun = time.monotonic()
        tolerance = self.window.instance.budget_bytes * 1e-6
        best, rounds = self.window.instance.ideal_ns, 0
        weights: dict[str, Fraction] = {}
        x = np.zeros(len(self.window.columns))
        converged = infeasible = False
        objective = 0.0
        present = {row.name for row in self.rows}
        while True:
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                break
            self.highs.setOptionValue("time_limit", 1e30 if left is None else left)
            self.highs.run()
            status = self.highs.getModelStatus()
            if status == highspy.HighsModelStatus.kInfeasible:
                infeasible = True
                break
            if status != highspy.HighsModelStatus.kOptimal:
                if status == highspy.HighsModelStatus.kTimeLimit:
                    break
                raise SolverError(f"HiGHS ended the window LP with {status.name}")
            rounds += 1
            solution = self.highs.getSolution()
            x = np.array(solution.col_value) * self.scaling.column
            objective = self.highs.getObjectiveValue() * self.scaling.time_ns
            keys = most_violated_keys(self.window, x, tolerance, self.rows_per_round)
            new = [key for _, key in keys if key.name not in present]
            if not new or rounds % 4 == 0:
                proposal = self._weights(solution.row_dual)
                bound = bound_from_weights(self.window, proposal)
                if bound > best or not weights:
                    best, weights = bound, proposal
                    if on_round is not None:
                        on_round(best)
            if not new:
                converged = True
                break
            present.update(key.name for key in new)
            self.add_rows([self.window.memory_row(key) for key in new])
        return LpBound(
            lower_bound_ns=best,
            weights=weights,
            x=x,
            row_names=[row.name for row in self.rows if row.name.startswith("memory")],
            objective_ns=objective,
            converged=converged,
            infeasible=infeasible,
            rounds=rounds,
            seconds=time.monotonic() - begun,
        )

    def _weights(self, duals: list[float]) -> dict[str, Fraction]:
        """Weights in ns per unit of the exact rows, from the duals of the scaled model."""
        exact = {
            row.name: -dual * self.scaling.time_ns / scale
            for row, dual, scale in zip(self.rows, duals, self._row_units, strict=True)
            if dual < 0
        }
        return weights_from_duals(self.window, exact)


def new_highs() -> highspy.Highs:
    """Return a silent, single-threaded solver."""
    highs = highspy.Highs()
    for option, value in (("output_flag", False), ("threads", 1), ("random_seed", 0)):
        highs.setOptionValue(option, value)
    return highs
