"""The ``cpsat`` method: window rows through OR-Tools CP-SAT, plans priced by the simulator."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from slackopt.environment import package_version
from slackopt.formulations.linear import Row
from slackopt.formulations.plan_points import plan_point
from slackopt.formulations.swap_order import SwapOrder
from slackopt.formulations.window import WindowFormulation
from slackopt.instance import Instance
from slackopt.progress import LEAST_S, Progress
from slackopt.result import StoppedBy
from slackopt.simulation.evaluator import Evaluator
from slackopt.solvers.cpsat_model import CpSatModel
from slackopt.solvers.cpsat_schedule import solve_cpsat_schedule
from slackopt.solvers.options import SolveOptions
from slackopt.solvers.row_loop import RELAXED_SHARE, RowLoop
from slackopt.solvers.scaling import Floats
from slackopt.solvers.stages import (
    SEARCH_SHARE,
    ScheduleTry,
    WindowStart,
    polish,
    round_window_lp,
    start_window,
)
from slackopt.solvers.tie_break import tie_break

ROUND_THE_LP = True
"""Whether the window LP is rounded before CP-SAT starts; off to see what CP-SAT does alone."""


def solve_cpsat(instance: Instance, progress: Progress, options: SolveOptions) -> StoppedBy:
    """Bound and plans from a Boolean window model, through OR-Tools CP-SAT."""
    progress.facts |= {"solver": "cpsat", "solver_version": package_version("ortools")}
    evaluator = Evaluator(instance)
    schedule = ScheduleTry(solve_cpsat_schedule, instance, progress, options)
    started = start_window(instance, progress, options)
    if started is None:
        schedule.run(1.0)
        return progress.reason()
    rows = started.model_rows()
    begun = time.monotonic()
    if ROUND_THE_LP and not progress.is_done():
        round_window_lp(started.lp, progress, evaluator, options)
    if progress.makespan_ns is None:
        schedule.run(0.5)
    polish(progress, evaluator, options, share=SEARCH_SHARE)
    if not progress.is_done() and progress.seconds_left > LEAST_S:
        with progress.share(1.0 if options.deterministic else 1 - SEARCH_SHARE):
            run_cpsat_loop(started, rows, progress, evaluator, options, options.work())
    polish(progress, evaluator, options, turn=1)
    schedule.run(1.0)
    progress.facts["solve_s"] = time.monotonic() - begun
    return progress.reason()


def run_cpsat_loop(
    started: WindowStart,
    rows: Sequence[Row],
    progress: Progress,
    evaluator: Evaluator,
    options: SolveOptions,
    work: float | None = None,
    relaxed_share: float = RELAXED_SHARE,
    *,
    persist: bool = True,
) -> None:
    """Run the row loop on a CP-SAT model until the gap is closed, or time or `work` is used up."""
    window, bound = started.lp.window, started.bound
    model = CpSatModel(window, tie_break(window), threads=options.threads, seed=options.seed)
    lost = model.integer.rounding_cost_ns(bound.weights) / window.instance.ideal_ns
    progress.note(
        f"in small integers the window model gives up at most {lost:.2g} of the ideal step"
    )
    loop = RowLoop(
        window,
        model,
        progress,
        evaluator,
        options,
        source="cpsat",
        bound_source="cpsat bound",
        work=work,
    )
    loop.run(
        rows,
        incumbent=lambda: incumbent_point(window, evaluator, progress, started.order),
        relaxed_share=relaxed_share,
        persist=persist,
    )


def incumbent_point(
    window: WindowFormulation,
    evaluator: Evaluator,
    progress: Progress,
    order: SwapOrder | None = None,
) -> Floats | None:
    """Return the point of the best plan so far, if there is one.

    With its swaps ordered, if there is an order and that plan runs.
    """
    if progress.timeline is None:
        return None
    decisions = evaluator.decisions(progress.timeline.plan)
    for chosen in [order.ordered(decisions), decisions] if order else [decisions]:
        sequence, record = evaluator.simulate(chosen)
        if record.makespan_ns is not None:
            point = plan_point(window, chosen, sequence, record)
            return np.array(order.complete(point) if order else point, dtype=float)
    return None


def export_cpsat(window: WindowFormulation, rows: Sequence[Row], path: Path | str) -> None:
    """Write the CP-SAT model of some rows; see `CpSatModel.export`.

    Parameters
    ----------
    window
        Gives columns and objective.
    rows
        The rows: the static ones and as many memory rows as are wanted.
    path
        ``.pb.txt`` for text, any other name for binary.
    """
    model = CpSatModel(window)
    model.add_rows(rows)
    model.export(path)
