"""The ``exact`` method: the best certified gap in the time given.

It takes each end from whatever moves it best: the bound from the window LP, with its certificate,
then from HiGHS and CP-SAT; plans from rounding that LP, from search on the simulator, and from the
points of HiGHS and of CP-SAT. Where the schedule model, which is exact, is not too large, it gets
a share of the time before and after. The result's notes say which step moved which end, and when.
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
from slackopt.solvers.stages import ScheduleTry, polish, round_window_lp, start_window
from slackopt.solvers.tie_break import tie_break

LEAST_S = 1.0
"""Seconds that must be left for a model to be built."""


def solve_exact(instance: Instance, progress: Progress, options: SolveOptions) -> StoppedBy:
    """Best certified gap: LP bound, rounding, search, then HiGHS and CP-SAT."""
    solver = check_solver(options.solver)
    versions = [package_version(name) or "unknown" for name in ("highspy", "ortools")]
    progress.facts |= {"solver": f"{solver}+cpsat", "solver_version": "+".join(versions)}
    evaluator = Evaluator(instance)
    schedule = ScheduleTry(solve_cpsat_schedule, instance, progress, options)
    started = start_window(instance, progress, options)
    if started is None:
        # The LP may have no point and no exact proof of that: the schedule model can tell.
        schedule.run(1.0)
        return progress.reason()
    lp, rows = started.lp, started.model_rows()
    begun = time.monotonic()
    # A deterministic run shares work out, not time.
    milp_share, cpsat_share = (1.0, 1.0) if options.deterministic else (0.6, 0.7)
    schedule.run(0.5 if schedule.is_small else 0.15)
    if not progress.is_done():
        round_window_lp(lp, progress, evaluator, options)
    polish(progress, evaluator, options, share=0.1)
    if progress.makespan_ns is None:
        schedule.run(0.5)
    if not progress.is_done() and progress.seconds_left > LEAST_S:
        with (
            PulpModel(lp.window, tie_break(lp.window), solver) as model,
            progress.share(milp_share),
        ):
            work = options.work(0.5)
            run_milp_loop(
                model, rows, progress, evaluator, options, solver, work, 0.8, persist=False
            )
    polish(progress, evaluator, options, share=0.3, turn=1)
    schedule.run(0.5)
    if not progress.is_done() and progress.seconds_left > LEAST_S:
        with progress.share(cpsat_share):
            work = options.work(0.5)
            run_cpsat_loop(started, rows, progress, evaluator, options, work, 0.2, persist=False)
    polish(progress, evaluator, options, share=0.5, turn=2)
    schedule.run(1.0)
    if not progress.is_done() and progress.seconds_left > LEAST_S and not options.deterministic:
        run_cpsat_loop(started, rows, progress, evaluator, options, None, 0.2)
    polish(progress, evaluator, options, turn=3)
    progress.facts["solve_s"] = time.monotonic() - begun
    return progress.reason()
