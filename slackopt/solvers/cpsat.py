"""The ``cpsat`` method: window rows through OR-Tools CP-SAT, plans priced by the simulator."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from slackopt.environment import package_version
from slackopt.formulations.linear import Row
from slackopt.formulations.plan_points import plan_point
from slackopt.formulations.window import WindowFormulation
from slackopt.instance import Instance
from slackopt.progress import Progress
from slackopt.result import StoppedBy
from slackopt.simulation.evaluator import Evaluator
from slackopt.solvers.cpsat_model import CpSatModel
from slackopt.solvers.options import SolveOptions
from slackopt.solvers.row_loop import RowLoop
from slackopt.solvers.scaling import Floats
from slackopt.solvers.stages import (
    polish,
    reason,
    round_window_lp,
    start_window,
)
from slackopt.solvers.tie_break import tie_break
from slackopt.solvers.window_lp import LpBound

ROUND_THE_LP = True
"""Whether the window LP is rounded before CP-SAT starts; off to see what CP-SAT does alone."""

LEAST_S = 0.5
"""Seconds that must be left for a CP-SAT model to be built."""

WORK_SHARE = 0.5
"""Deterministic runs: CP-SAT's units of work (about a second each) per second of the limit."""


def solve_cpsat(instance: Instance, progress: Progress, options: SolveOptions) -> StoppedBy:
    """Bound and plans from a Boolean window model, through OR-Tools CP-SAT."""
    progress.facts |= {"solver": "cpsat", "solver_version": package_version("ortools")}
    evaluator = Evaluator(instance)
    started = start_window(instance, progress)
    if started is None:
        return reason(progress)
    lp, bound = started
    begun = time.monotonic()
    window = lp.window
    memory_rows = [row for row in lp.rows if row.name.startswith("memory")]
    if ROUND_THE_LP and not options.deterministic and not progress.is_done():
        round_window_lp(lp, progress, evaluator, options)
    if not progress.is_done() and progress.seconds_left > LEAST_S:
        run_cpsat_loop(window, bound, memory_rows, progress, evaluator, options)
    polish(progress, evaluator, options)
    if options.deterministic:
        _say_whether_deterministic(progress)
    progress.facts["solve_s"] = time.monotonic() - begun
    return reason(progress)


def run_cpsat_loop(
    window: WindowFormulation,
    bound: LpBound,
    memory_rows: Sequence[Row],
    progress: Progress,
    evaluator: Evaluator,
    options: SolveOptions,
) -> None:
    """Run the row loop on a CP-SAT model until the gap is closed or time is up."""
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
        work=WORK_SHARE * (options.time_limit or 60.0) if options.deterministic else None,
    )
    loop.run(memory_rows, incumbent=lambda: incumbent_point(window, evaluator, progress))


def incumbent_point(
    window: WindowFormulation, evaluator: Evaluator, progress: Progress
) -> Floats | None:
    """Return the point of the best plan so far, if there is one."""
    if progress.timeline is None:
        return None
    decisions = evaluator.decisions(progress.timeline.plan)
    sequence, record = evaluator.simulate(decisions)
    if record.makespan_ns is None:
        return None
    return np.array(plan_point(window, decisions, sequence, record), dtype=float)


def _say_whether_deterministic(progress: Progress) -> None:
    cut = progress.seconds_left <= 0.5
    progress.facts |= {"deterministic": not cut, "threads": 1}
    if cut:
        progress.note("the time limit cut the run short: it depends on the machine's speed")


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
