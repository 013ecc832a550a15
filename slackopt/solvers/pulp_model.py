"""The one module that knows PuLP: rows in, a checked outcome out.

PuLP's own status can't tell a time limit from a proof, and it has no dual bound
(docs/solvers.md); both are read from the solver behind it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import highspy
import numpy as np
import pulp

from slackopt.errors import InputError
from slackopt.formulations.linear import Row
from slackopt.formulations.window import WindowFormulation
from slackopt.solvers.scaling import Floats, Scaling


@dataclass(frozen=True)
class MilpOutcome:
    """What one solve gave.

    Attributes
    ----------
    status
        ``optimal``, ``limit``, ``infeasible`` (proved) or ``error``.
    x
        A feasible point, one value per column in exact units; None if the solver has none.
    objective_ns, bound_ns
        Objective of `x` and proved lower bound on it, tie-break costs included; None if unknown.
    native_status
        The solver's own word.
    """

    status: str
    x: Floats | None
    objective_ns: float | None
    bound_ns: float | None
    native_status: str


class _Highs(pulp.HiGHS):  # type: ignore[misc]
    """PuLP's HiGHS, with a warm start that works: its own ``warmStart`` is without effect."""

    start: dict[str, float] | None = None

    def callSolver(self, lp: pulp.LpProblem) -> None:  # noqa: N802 - PuLP's name
        if self.start is not None:
            solution = highspy.HighsSolution()
            solution.col_value = [self.start[variable.name] for variable in lp.variables()]
            lp.solverModel.setSolution(solution)
        lp.solverModel.run()


class PulpModel:
    """A mixed-integer model of window rows, rebuilt for every solve.

    Parameters
    ----------
    window
        Gives the columns.
    tie_break
        Cost per column in solver units, added to the objective.
    """

    def __init__(self, window: WindowFormulation, tie_break: Floats) -> None:
        self.window = window
        self.scaling = Scaling.of(window)
        self.costs = self.scaling.costs(window) + tie_break
        self._rows: list[tuple[list[int], Floats, float, str]] = []

    def add_rows(self, rows: Sequence[Row]) -> None:
        """Append rows."""
        for row in rows:
            columns, coefficients, upper, _ = self.scaling.row(row)
            self._rows.append((columns, coefficients, upper, row.name))

    @property
    def num_rows(self) -> int:
        """Number of rows."""
        return len(self._rows)

    def solve(
        self,
        *,
        time_limit: float,
        gap_ns: float,
        threads: int,
        seed: int,
        start: Floats | None = None,
    ) -> MilpOutcome:
        """Solve with HiGHS through PuLP.

        Parameters
        ----------
        time_limit
            Seconds.
        gap_ns
            Stop at this absolute gap.
        threads, seed
            For the solver.
        start
            A point in exact units to start from.
        """
        problem = pulp.LpProblem("slackopt", pulp.LpMinimize)
        variables = [
            pulp.LpVariable(
                f"x{j:06d}", 0, c.upper, pulp.LpInteger if c.integer else pulp.LpContinuous
            )
            for j, c in enumerate(self.window.columns)
        ]
        problem += pulp.LpAffineExpression(
            [(variables[j], float(cost)) for j, cost in enumerate(self.costs) if cost]
        )
        for i, (columns, coefficients, upper, _) in enumerate(self._rows):
            terms = [(variables[j], float(a)) for j, a in zip(columns, coefficients, strict=True)]
            expression = pulp.LpAffineExpression(terms)
            problem += pulp.LpConstraint(expression, pulp.LpConstraintLE, f"r{i:06d}", upper)
        solver = _Highs(
            msg=False,
            timeLimit=time_limit,
            gapRel=0.0,
            gapAbs=gap_ns / self.scaling.time_ns,
            threads=threads,
            random_seed=seed,
        )
        if start is not None:
            values = start / self.scaling.column
            solver.start = {v.name: float(values[j]) for j, v in enumerate(variables)}
        problem.solve(solver)
        return self._outcome(problem.solverModel, variables)

    def _outcome(self, highs: highspy.Highs, variables: Sequence[pulp.LpVariable]) -> MilpOutcome:
        status, info = highs.getModelStatus(), highs.getInfo()
        name = highs.modelStatusToString(status)
        known = {
            highspy.HighsModelStatus.kOptimal: "optimal",
            highspy.HighsModelStatus.kTimeLimit: "limit",
            highspy.HighsModelStatus.kInterrupt: "limit",
            highspy.HighsModelStatus.kInfeasible: "infeasible",
        }
        feasible = info.primal_solution_status == highspy.SolutionStatus.kSolutionStatusFeasible
        x = objective = None
        if feasible and status != highspy.HighsModelStatus.kInfeasible:
            x = np.array([variable.varValue for variable in variables]) * self.scaling.column
            objective = info.objective_function_value * self.scaling.time_ns
        bound = info.mip_dual_bound
        return MilpOutcome(
            status=known.get(status, "error"),
            x=x,
            objective_ns=objective,
            bound_ns=bound * self.scaling.time_ns if np.isfinite(bound) else None,
            native_status=name,
        )


def check_solver(name: str | None) -> str:
    """Return the solver to use; raise `InputError` for one that isn't there."""
    if name in (None, "highs"):
        return "highs"
    raise InputError(f"solver {name!r} is not available; choose highs")
