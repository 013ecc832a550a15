"""The ``milp`` method: window rows through PuLP, plans priced by the simulator."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from slackopt.environment import package_version
from slackopt.formulations.linear import Row
from slackopt.instance import Instance
from slackopt.progress import LEAST_S, Progress
from slackopt.result import StoppedBy
from slackopt.simulation.evaluator import Evaluator
from slackopt.solvers.milp_schedule import solve_milp_schedule
from slackopt.solvers.options import NODES_PER_UNIT, SolveOptions
from slackopt.solvers.pulp_model import PulpModel, check_solver
from slackopt.solvers.row_loop import RELAXED_SHARE, RowLoop
from slackopt.solvers.row_model import ModelLimits, ModelRun, OnBound, OnPoint
from slackopt.solvers.scaling import Floats
from slackopt.solvers.stages import (
    SEARCH_SHARE,
    ScheduleTry,
    polish,
    round_window_lp,
    start_window,
)
from slackopt.solvers.tie_break import TIE_BREAK_UNITS, tie_break


def solve_milp(instance: Instance, progress: Progress, options: SolveOptions) -> StoppedBy:
    """Bound and plans from a mixed-integer window model, through PuLP."""
    solver = check_solver(options.solver)
    version = package_version("highspy") if solver == "highs" else None
    progress.facts |= {"solver": solver, "solver_version": version}
    evaluator = Evaluator(instance)
    schedule = ScheduleTry(solve_milp_schedule, instance, progress, options)
    started = start_window(instance, progress, options)
    if started is None:
        schedule.run(1.0)
        return progress.reason()
    lp, rows = started.lp, started.model_rows()
    begun = time.monotonic()
    if not progress.is_done():
        round_window_lp(lp, progress, evaluator, options)
    if progress.makespan_ns is None:
        schedule.run(0.5)
    polish(progress, evaluator, options, share=SEARCH_SHARE)
    if not progress.is_done() and progress.seconds_left > LEAST_S:
        with (
            PulpModel(lp.window, tie_break(lp.window), solver) as pulp_model,
            progress.share(1.0 if options.deterministic else 1 - SEARCH_SHARE),
        ):
            work = options.work()
            run_milp_loop(pulp_model, rows, progress, evaluator, options, solver, work)
    polish(progress, evaluator, options, turn=1)
    schedule.run(1.0)
    progress.facts["solve_s"] = time.monotonic() - begun
    return progress.reason()


def run_milp_loop(
    pulp_model: PulpModel,
    rows: Sequence[Row],
    progress: Progress,
    evaluator: Evaluator,
    options: SolveOptions,
    solver: str,
    work: float | None = None,
    relaxed_share: float = RELAXED_SHARE,
    *,
    persist: bool = True,
) -> None:
    """Run the row loop on a PuLP model until the gap is closed, or time or `work` is used up."""
    model = MilpRows(pulp_model, progress, options)
    loop = RowLoop(
        pulp_model.window,
        model,
        progress,
        evaluator,
        options,
        source="milp",
        bound_source=f"{solver} bound",
        work=work,
    )
    loop.run(rows, relaxed_share=relaxed_share, persist=persist)


class MilpRows:
    """A `PulpModel` as the row loop wants it."""

    def __init__(self, model: PulpModel, progress: Progress, options: SolveOptions) -> None:
        self.model = model
        self.progress = progress
        self.options = options

    @property
    def num_rows(self) -> int:
        """Number of rows."""
        return self.model.num_rows

    def add_rows(self, rows: Sequence[Row]) -> None:
        """Append rows."""
        self.model.add_rows(rows)

    def clear_rows(self) -> None:
        """Remove all rows."""
        self.model.clear_rows()

    def solve(
        self,
        limits: ModelLimits,
        *,
        start: Floats | None = None,
        on_point: OnPoint | None = None,
        on_bound: OnBound | None = None,
        is_done: Callable[[], bool] | None = None,
    ) -> ModelRun:
        """Solve once; see `slackopt.solvers.row_model.RowModel`."""
        del on_point, is_done  # PuLP's solvers hand over points, and stop, at the end only

        def take(_seconds: float, _objective: float | None, bound_ns: float | None) -> None:
            added = self._proved(bound_ns)
            if added is not None and on_bound is not None:
                on_bound(added)

        work = limits.deterministic_limit
        outcome = self.model.solve(
            time_limit=limits.time_limit,
            gap_ns=limits.gap_ns,
            threads=self.options.threads if work is None else 1,
            seed=self.options.seed,
            max_nodes=None if work is None else max(1, round(work * NODES_PER_UNIT)),
            start=start,
            on_move=take,
        )
        if outcome.solver_version is not None:
            self.progress.facts["solver_version"] = outcome.solver_version
        return ModelRun(
            outcome.status,
            outcome.x,
            self._proved(outcome.bound_ns),
            outcome.native_status,
            outcome.message,
        )

    def _proved(self, bound_ns: float | None) -> int | None:
        """Take from a solver's bound what the tie-breaks, and its arithmetic, may have added."""
        if bound_ns is None:
            return None
        most = TIE_BREAK_UNITS * self.model.scaling.time_ns
        # A solver's bound is a float with a relative error of about 1e-9; a millionth of the
        # added time is far above that.
        return int((bound_ns - most) * (1 - 1e-6))
