"""The ``exact`` method: the best certified gap in the time given.

It takes each end from whatever moves it best: the bound from the window LP, with its certificate,
then from HiGHS and CP-SAT; plans from rounding that LP, from search on the simulator, and from the
points of HiGHS and of CP-SAT. A small instance is first given to the schedule model, which is
exact. The result's notes say which step moved which end, and when.
"""

from __future__ import annotations

import time

from slackopt.environment import package_version
from slackopt.instance import Instance
from slackopt.progress import Progress
from slackopt.result import StoppedBy
from slackopt.simulation.evaluator import Evaluator
from slackopt.solvers.cpsat import run_cpsat_loop
from slackopt.solvers.cpsat_schedule import solve_cpsat_schedule
from slackopt.solvers.milp import run_milp_loop
from slackopt.solvers.options import SolveOptions
from slackopt.solvers.pulp_model import PulpModel, check_solver
from slackopt.solvers.schedule_loop import MAX_OPS
from slackopt.solvers.stages import polish, reason, round_window_lp, start_window
from slackopt.solvers.tie_break import tie_break

LEAST_S = 1.0
"""Seconds that must be left for a model to be built."""

SMALL_CANDIDATES = 12
"""Instances with more candidates than this are left to the window models."""


def solve_exact(instance: Instance, progress: Progress, options: SolveOptions) -> StoppedBy:
    """Best certified gap: LP bound, rounding, search, then HiGHS and CP-SAT."""
    solver = check_solver(options.solver)
    versions = [package_version(name) or "unknown" for name in ("highspy", "ortools")]
    progress.facts |= {"solver": f"{solver}+cpsat", "solver_version": "+".join(versions)}
    evaluator = Evaluator(instance)
    started = start_window(instance, progress, options)
    if started is None:
        # The LP may have no point and no exact proof of that: the schedule model can tell.
        if not progress.is_done() and progress.seconds_left > 0 and is_small(instance):
            _solve_small(instance, progress, options)
        return reason(progress)
    lp, rows = started.lp, started.model_rows()
    begun = time.monotonic()
    # A deterministic run shares work out, not time.
    milp_share, cpsat_share = (1.0, 1.0) if options.deterministic else (0.6, 0.7)
    if not progress.is_done() and is_small(instance):
        _solve_small(instance, progress, options)
    if not progress.is_done():
        round_window_lp(lp, progress, evaluator, options)
    polish(progress, evaluator, options, share=0.1)
    if not progress.is_done() and progress.seconds_left > LEAST_S:
        with (
            PulpModel(lp.window, tie_break(lp.window), solver) as model,
            progress.share(milp_share),
        ):
            work = options.work(0.5)
            run_milp_loop(model, rows, progress, evaluator, options, solver, work, 0.8)
    polish(progress, evaluator, options, share=0.3, turn=1)
    if not progress.is_done() and progress.seconds_left > LEAST_S:
        with progress.share(cpsat_share):
            work = options.work(0.5)
            run_cpsat_loop(started, rows, progress, evaluator, options, work, 0.2)
    polish(progress, evaluator, options, turn=2)
    progress.facts["solve_s"] = time.monotonic() - begun
    return reason(progress)


def is_small(instance: Instance) -> bool:
    """Whether the schedule model is worth a try: it is exact, and for small instances only."""
    life = instance.lifetimes
    return len(life.candidates) <= SMALL_CANDIDATES and life.num_ops <= MAX_OPS


def _solve_small(instance: Instance, progress: Progress, options: SolveOptions) -> None:
    """Give the schedule model half of the time: its optimum is the simulator's."""
    facts = dict(progress.facts)
    with progress.share(1.0 if options.deterministic else 0.5):
        solve_cpsat_schedule(instance, progress, options)
    progress.facts = facts
