"""The ``cpsat-schedule`` method: the schedule formulation in OR-Tools CP-SAT."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from functools import partial

from ortools.sat.python import cp_model

from slackopt.clock import check_time
from slackopt.environment import package_version
from slackopt.formulations.coarsening import coarsen
from slackopt.formulations.linear import Row
from slackopt.formulations.schedule import ScheduleFormulation
from slackopt.instance import Instance
from slackopt.progress import Progress
from slackopt.result import StoppedBy
from slackopt.solvers.options import SolveOptions
from slackopt.solvers.schedule_loop import ScheduleAnswer, solve_schedule

LIMIT = 1 << 25
"""Largest time, and largest sum of coefficients of a row over binaries, in units of the model.

CP-SAT 9.15 can be wrong where sums exceed 2^31 (docs/solvers.md). A row over time has up to four
binaries, each with a coefficient of up to twice the largest time: room for 64 of the latter.
"""


def solve_cpsat_schedule(
    instance: Instance, progress: Progress, options: SolveOptions
) -> StoppedBy:
    """Optimum of a small instance: schedule model in CP-SAT, plans priced by the simulator."""
    progress.facts |= {"solver": "cpsat", "solver_version": package_version("ortools")}
    return solve_schedule(instance, progress, partial(_solve, options), "cpsat-schedule")


def _solve(
    options: SolveOptions, model: ScheduleFormulation, rows: Sequence[Row], seconds: float
) -> ScheduleAnswer:
    times = model.times.columns
    unit = model.unit_ns(rows, LIMIT)
    cp = cp_model.CpModel()
    variables = []
    for j, column in enumerate(model.columns):
        upper = column.upper or 0
        variables.append(cp.new_int_var(0, upper // unit if j in times else upper, column.name))
    for row in rows:
        check_time()
        coarse = coarsen(row, times, unit, LIMIT)
        cp.add(
            cp_model.LinearExpr.weighted_sum(
                [variables[j] for j in coarse.coefficients], list(coarse.coefficients.values())
            )
            <= coarse.upper
        )
    costs = [
        (j, column.objective if times else column.objective // unit)
        for j, column in enumerate(model.columns)
        if column.objective
    ]
    cp.minimize(
        cp_model.LinearExpr.weighted_sum([variables[j] for j, _ in costs], [c for _, c in costs])
    )
    problem = cp.validate()
    if problem:
        return ScheduleAnswer("error", native_status=problem)
    solver = cp_model.CpSolver()
    parameters = solver.parameters
    if seconds != float("inf"):
        # Building may have used up the time; CP-SAT calls a model with a limit below 0 invalid.
        parameters.max_time_in_seconds = max(seconds, 0.0)
    parameters.num_workers = 1 if options.deterministic else options.threads
    parameters.random_seed = options.seed
    # Its handler would end the solve without a word, and leave Ctrl-C to kill the process later.
    parameters.catch_sigint_signal = False
    status = _solve_in_thread(solver, cp)
    name = solver.status_name(status)
    if status == cp_model.INFEASIBLE:
        return ScheduleAnswer("infeasible", native_status=name)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE, cp_model.UNKNOWN):
        return ScheduleAnswer("error", native_status=name)
    # The start of the last job, or the time of reruns, is its number of units or more.
    bound = round(solver.best_objective_bound) * unit + model.constant_ns
    if status == cp_model.UNKNOWN:
        return ScheduleAnswer("limit", None, bound, name)
    x = [
        float(solver.value(variable) * (unit if j in times else 1))
        for j, variable in enumerate(variables)
    ]
    return ScheduleAnswer("point", x, bound, name)


def _solve_in_thread(solver: cp_model.CpSolver, cp: cp_model.CpModel) -> cp_model.CpSolverStatus:
    """Solve in a thread of its own, so that Ctrl-C is heard while it runs, and ends it."""
    with ThreadPoolExecutor(max_workers=1) as pool:
        running = pool.submit(solver.solve, cp)
        try:
            while not running.done():
                wait([running], timeout=0.1)
        except BaseException:
            while not running.done():
                solver.stop_search()
                wait([running], timeout=0.05)
            raise
        return running.result()
