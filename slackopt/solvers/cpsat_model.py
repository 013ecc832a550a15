"""Models of window rows for OR-Tools CP-SAT: integer rows in, an outcome in exact units out."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ortools.sat.python import cp_model

from slackopt.clock import check_time
from slackopt.errors import SolverError
from slackopt.formulations.integer_rows import IntegerRow, IntegerRows
from slackopt.formulations.linear import Row
from slackopt.formulations.window import WindowFormulation
from slackopt.solvers.cpsat_run import CpSatRun
from slackopt.solvers.row_model import ModelLimits, ModelRun, OnBound, OnPoint
from slackopt.solvers.scaling import Floats, Scaling

PARAMETERS: dict[str, Any] = {"linearization_level": 2, "cp_model_presolve": False}
"""Parameters of every solve, beside limits, seed and workers.

Presolve is off because it replaces the rows by thousands of implications (dominance, cliques),
and the LP relaxation then lacks most of them: docs and benchmarks have the figures.
"""

CLAUSES = False
"""Whether rows that are clauses, or at most one, are given to CP-SAT as such, not as linear
constraints; the solver then leaves them out of its LP relaxation."""


class CpSatModel:
    """A CP-SAT model of window rows; rows are added between solves.

    Parameters
    ----------
    window
        Gives the columns.
    tie_break
        Cost per column in the units of `slackopt.solvers.scaling`. It is part of the objective,
        and its largest value is subtracted from bounds.
    threads, seed
        For the solver.

    Attributes
    ----------
    integer
        Columns, units and rows in integers.
    model
        The OR-Tools model.
    log
        Lines of the solver's log, of all solves; kept if `keep_log`.
    """

    def __init__(
        self,
        window: WindowFormulation,
        tie_break: Floats | None = None,
        *,
        threads: int = 1,
        seed: int = 0,
        keep_log: bool = False,
    ) -> None:
        self.window = window
        self.integer = IntegerRows(window)
        self.threads = threads
        self.seed = seed
        self.keep_log = keep_log
        self.log: list[str] = []
        self.work = 0.0
        self.tie_costs = self._tie_costs(tie_break)
        self.clear_rows()

    def clear_rows(self) -> None:
        """Begin again with columns and objective alone."""
        self.model = cp_model.CpModel()
        self.model.name = "window"
        self.variables = [
            self.model.new_bool_var(c.name)
            if c.upper == 1
            else self.model.new_int_var(0, c.upper, c.name)
            for c in self.integer.columns
        ]
        costs = [c.objective + t for c, t in zip(self.integer.columns, self.tie_costs, strict=True)]
        self.model.minimize(cp_model.LinearExpr.weighted_sum(self.variables, costs))
        self._num_rows = 0

    def _tie_costs(self, tie_break: Floats | None) -> list[int]:
        costs = [0] * len(self.integer.columns)
        if tie_break is not None:
            unit = Scaling.of(self.window).time_ns / self.integer.unit_ns
            for j, i in self.integer.boolean.items():
                costs[i] = int(tie_break[j] * unit)
        return costs

    @property
    def num_rows(self) -> int:
        """Number of rows, those that say nothing left out."""
        return self._num_rows

    def add_rows(self, rows: Sequence[Row]) -> None:
        """Append rows: clauses and at-most-ones as such, the others as linear constraints."""
        for row in rows:
            check_time()
            integer = self.integer.row(row)
            if integer is not None:
                self._num_rows += 1
                self._add(integer).with_name(integer.name)

    def _add(self, row: IntegerRow) -> cp_model.Constraint:
        positive = [self.variables[i] for i, a in row.coefficients.items() if a > 0]
        negative = [self.variables[i] for i, a in row.coefficients.items() if a < 0]
        boolean = all(self.integer.columns[i].upper == 1 for i in row.coefficients)
        if CLAUSES and boolean and all(abs(a) == 1 for a in row.coefficients.values()):
            if row.upper == len(positive) - 1:
                # The only value above it: all positive columns 1 and all negative ones 0.
                return self.model.add_bool_or([*(~v for v in positive), *negative])
            if row.upper == 1 and not negative:
                return self.model.add_at_most_one(positive)
        variables = [self.variables[i] for i in row.coefficients]
        total = cp_model.LinearExpr.weighted_sum(variables, list(row.coefficients.values()))
        return self.model.add(total <= row.upper)

    def solve(
        self,
        limits: ModelLimits,
        *,
        start: Floats | None = None,
        on_point: OnPoint | None = None,
        on_bound: OnBound | None = None,
        is_done: Callable[[], bool] | None = None,
    ) -> ModelRun:
        """Solve the model as it stands; see `slackopt.solvers.row_model.RowModel`.

        Raises
        ------
        SolverError
            If the model is invalid.
        """
        self.model.clear_hints()  # type: ignore[no-untyped-call]
        if start is not None:
            for variable, value in zip(
                self.variables, self.integer.point(start.tolist()), strict=True
            ):
                self.model.add_hint(variable, value)
        self.validate()
        run = CpSatRun(self, self._solver(limits))
        run.wait(limits.time_limit, on_point, on_bound, is_done)
        return run.outcome()

    def validate(self) -> None:
        """Raise `SolverError` with CP-SAT's words if the model is invalid."""
        fault = self.model.validate()
        if fault:
            raise SolverError(f"CP-SAT finds the model invalid: {fault.strip()}")

    def _solver(self, limits: ModelLimits) -> cp_model.CpSolver:
        solver = cp_model.CpSolver()
        parameters = solver.parameters
        for name, value in PARAMETERS.items():
            setattr(parameters, name, value)
        parameters.max_time_in_seconds = max(limits.time_limit, 0.0)
        parameters.num_workers = self.threads
        if limits.deterministic_limit is not None:
            parameters.num_workers = 1
            parameters.max_deterministic_time = limits.deterministic_limit
        parameters.random_seed = self.seed
        parameters.relative_gap_limit = 0.0
        parameters.absolute_gap_limit = limits.gap_ns / self.integer.unit_ns
        parameters.catch_sigint_signal = False
        parameters.log_search_progress = self.keep_log
        parameters.log_to_stdout = False
        if self.keep_log:
            solver.log_callback = self.log.append
        return solver

    def added_bound_ns(self, objective_bound: float) -> int | None:
        """Bound on added time, from CP-SAT's on the objective: ties and rounding taken off."""
        if not math.isfinite(objective_bound):
            return None
        return self.integer.added_bound_ns(math.floor(objective_bound) - sum(self.tie_costs))

    def export(self, path: Path | str) -> None:
        """Write the model: ``.pb.txt`` or ``.pbtxt`` as text, any other name in binary.

        Raises
        ------
        SolverError
            If the file can't be written.
        """
        if not self.model.export_to_file(str(path)):
            raise SolverError(f"CP-SAT could not write the model to {path}")
