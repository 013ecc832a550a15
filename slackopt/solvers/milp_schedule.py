"""The ``milp-schedule`` method: the schedule formulation as a MILP, through PuLP."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import ceil

import numpy as np

from slackopt.formulations.coarsening import coarsen
from slackopt.formulations.linear import Row
from slackopt.formulations.schedule import ScheduleFormulation
from slackopt.instance import Instance
from slackopt.progress import Progress
from slackopt.result import StoppedBy
from slackopt.solvers.linear_model import LinearModel
from slackopt.solvers.options import SolveOptions
from slackopt.solvers.pulp_process import PulpProcess
from slackopt.solvers.pulp_solvers import check_solver, pulp_name
from slackopt.solvers.schedule_loop import ScheduleAnswer, solve_schedule

LIMIT = 10**5
"""Horizon, and sum of the coefficients of a row over binaries, in units of the model, at most.

Rows are rounded to integers in these units, as for CP-SAT: with the exact figures of a step in
which durations range over nine digits, divided by one unit, HiGHS 1.16 proved a wrong bound.
"""

RELATIVE_ERROR = 5e-5
"""Taken off the solver's bound, in parts of the horizon.

A binary that is off by the usual tolerance of 1e-6 moves a row by a millionth of its largest
coefficient, which is a difference of times within the horizon: room for a chain of 50 such rows.
"""

NO_LIMIT_S = 1e7
"""Time limit of a solve where the user gave none."""


def solve_milp_schedule(
    instance: Instance,
    progress: Progress,
    options: SolveOptions,
    *,
    process: PulpProcess | None = None,
) -> StoppedBy:
    """Optimum of a small instance: schedule model as a MILP, plans priced by the simulator.

    Parameters
    ----------
    instance, progress, options
        As for every exact method.
    process
        A process to solve in, of the solver that the options name; it is left open. By default
        one is started for this run.
    """
    solver = check_solver(options.solver)
    progress.facts |= {"solver": solver}
    used = process or PulpProcess(pulp_name(solver))
    try:
        return solve_schedule(
            instance, progress, partial(_solve, used, progress, options), "milp-schedule"
        )
    finally:
        if process is None:
            used.close()


def _solve(
    process: PulpProcess,
    progress: Progress,
    options: SolveOptions,
    model: ScheduleFormulation,
    rows: Sequence[Row],
    seconds: float,
) -> ScheduleAnswer:
    unit = model.unit_ns(rows, LIMIT)
    report = process.solve(
        linear_model(model, rows, unit),
        time_limit=min(seconds, NO_LIMIT_S),
        gap=1e-6,
        threads=options.threads,
        seed=options.seed,
    )
    progress.facts["solver_version"] = report.version
    if report.status == "infeasible":
        return ScheduleAnswer("infeasible", native_status=report.native)
    bound = None
    if report.bound is not None:
        error = RELATIVE_ERROR * model.horizon_ns + 1e-6
        bound = ceil(report.bound * unit - error) + model.constant_ns
    if report.x is not None:
        times = model.times.columns
        x = [value * unit if j in times else value for j, value in enumerate(report.x.tolist())]
        return ScheduleAnswer("point", x, bound, report.native)
    if report.status == "limit":
        return ScheduleAnswer("limit", None, bound, report.native)
    return ScheduleAnswer("error", None, bound, report.sentence or report.native)


def linear_model(model: ScheduleFormulation, rows: Sequence[Row], unit_ns: int) -> LinearModel:
    """Return columns and rows as arrays, with times in units of `unit_ns`, relaxed by rounding."""
    times = model.times.columns
    coarse = [coarsen(row, times, unit_ns, LIMIT) for row in rows]
    upper = [
        float(column.upper // unit_ns if j in times else column.upper)
        for j, column in enumerate(model.columns)
        if column.upper is not None
    ]
    terms = [term for row in coarse for term in row.coefficients.items()]
    return LinearModel(
        costs=np.array([column.objective / (1 if times else unit_ns) for column in model.columns]),
        upper=np.array(upper),
        integer=np.array([column.integer for column in model.columns], dtype=np.bool_),
        starts=np.cumsum([0, *(len(row.coefficients) for row in coarse)]),
        columns=np.array([j for j, _ in terms], dtype=np.int64),
        values=np.array([float(a) for _, a in terms]),
        right=np.array([float(row.upper) for row in coarse]),
    )
