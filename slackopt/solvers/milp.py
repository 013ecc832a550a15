"""The ``milp`` method: window rows through PuLP, plans priced by the simulator.

One loop serves both ends (docs/formulations.md). While the model holds relaxed rows
only, its bound is a lower bound for every plan. Each of its points is turned into decisions and
simulated; memory rows that the point violates, and rows that make the next point safe where the
simulator waited or ran out of memory, are added, and the model is solved again.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from slackopt.environment import package_version
from slackopt.formulations.linear import Row
from slackopt.formulations.window import WindowFormulation
from slackopt.heuristics import NoPlanError, heuristics
from slackopt.heuristics.local_search import local_search
from slackopt.instance import Instance
from slackopt.progress import Progress
from slackopt.result import StoppedBy
from slackopt.simulation.evaluator import Evaluator
from slackopt.solvers.options import SolveOptions
from slackopt.solvers.pulp_model import MilpOutcome, PulpModel, check_solver
from slackopt.solvers.rounding import rounded_plans, try_point
from slackopt.solvers.scaling import Floats
from slackopt.solvers.tie_break import TIE_BREAK_UNITS, tie_break
from slackopt.solvers.window_lp import WindowLp

STARTING_RULES = ("slackswap-timeline", "slackswap", "keep-all", "swap-all", "recompute-all")


def solve_milp(instance: Instance, progress: Progress, options: SolveOptions) -> StoppedBy:
    """Bound and plans from a mixed-integer window model, through PuLP."""
    solver = check_solver(options.solver)
    progress.facts |= {"solver": solver, "solver_version": package_version("highspy")}
    evaluator = Evaluator(instance)
    offer_starting_plans(instance, progress)
    if progress.is_done():
        return _reason(progress)
    begun = time.monotonic()
    window = WindowFormulation(instance)
    lp = WindowLp(window)
    progress.facts["build_s"] = time.monotonic() - begun
    bound = lp.solve(deadline=progress.deadline)
    progress.offer_bound(bound.lower_bound_ns, "window LP", bound.weights)
    if bound.infeasible:
        progress.note("HiGHS finds the window LP infeasible; that is no exact proof")
        return "error"
    if progress.gap is None or progress.gap > options.gap:
        memory_rows = [row for row in lp.rows if row.name.startswith("memory")]
        round_window_lp(lp, progress, evaluator, options)
        loop = _MilpLoop(window, progress, evaluator, options)
        loop.run(memory_rows)
    _polish(progress, evaluator, options)
    progress.facts["solve_s"] = time.monotonic() - begun - progress.facts["build_s"]
    return _reason(progress)


def offer_starting_plans(instance: Instance, progress: Progress) -> None:
    """Offer the plans of the cheap rules, so that no exact method loses to them."""
    rules = heuristics()
    for name in STARTING_RULES:
        try:
            progress.offer_plan(rules[name](instance), name)
        except NoPlanError:
            continue


def round_window_lp(
    lp: WindowLp,
    progress: Progress,
    evaluator: Evaluator,
    options: SolveOptions,
) -> None:
    """Offer rounded plans until the gap is closed, or a third of the time left is used."""
    left = progress.seconds_left
    deadline = None if progress.deadline is None else time.monotonic() + left / 3
    gap_ns = max(options.gap / 2, 5e-5) * lp.window.instance.ideal_ns
    for decisions in rounded_plans(lp, evaluator, gap_ns=gap_ns, deadline=deadline):
        progress.offer_decisions(evaluator, decisions, "rounding")
        if progress.is_done():
            return


def _reason(progress: Progress) -> StoppedBy:
    if progress.conflict:
        return "error"
    if progress.infeasible or progress.makespan_ns == progress.lower_bound_ns:
        return "proof"
    return "gap" if progress.is_done() else "time"


class _MilpLoop:
    """Solve, simulate, add rows, repeat."""

    def __init__(
        self,
        window: WindowFormulation,
        progress: Progress,
        evaluator: Evaluator,
        options: SolveOptions,
    ) -> None:
        self.window = window
        self.progress = progress
        self.evaluator = evaluator
        self.options = options
        self.model = PulpModel(window, tie_break(window))
        self.names: set[str] = set()
        self.relaxed = True

    def run(self, memory_rows: Sequence[Row], rounds: int = 60) -> None:
        """Run until the gap is closed, nothing new is found at the finest tolerance, or time is up.

        The first solves are coarse: their points show the missing rows sooner.
        """
        progress, ideal = self.progress, self.window.instance.ideal_ns
        finest = max(self.options.gap / 2, 2e-5)
        tolerance = max(3e-4, finest)
        self._add([*self.window.static_rows(), *memory_rows])
        start: Floats | None = None
        patience = 4.0
        for _ in range(rounds):
            left = progress.seconds_left
            if progress.is_done() or left < 0.5:
                return
            outcome = self.model.solve(
                time_limit=min(patience, left),
                gap_ns=tolerance * ideal,
                threads=self.options.threads,
                seed=self.options.seed,
                start=start,
            )
            progress.facts["num_variables"] = len(self.window.columns)
            progress.facts["num_constraints"] = self.model.num_rows
            self._take_bound(outcome)
            if outcome.x is None and outcome.status != "limit":
                progress.note(f"HiGHS ended with {outcome.native_status!r} and without a point")
                return
            if outcome.x is not None:
                start = outcome.x
                if self._add(self._try_point(outcome.x)):
                    continue
            if outcome.status == "limit":
                patience *= 2
            elif tolerance > finest:
                tolerance = max(tolerance / 3, finest)
            else:
                return

    def _take_bound(self, outcome: MilpOutcome) -> None:
        """Offer the solver's bound, less what the tie-breaks may have added to it."""
        if self.relaxed and outcome.bound_ns is not None:
            most = TIE_BREAK_UNITS * self.model.scaling.time_ns
            # A solver's bound is a float with a relative error of about 1e-9; a millionth of
            # the added time is far above that.
            added = (outcome.bound_ns - most) * (1 - 1e-6)
            self.progress.offer_bound(self.window.instance.ideal_ns + int(added), "HiGHS bound")

    def _try_point(self, x: Floats) -> list[Row]:
        """Offer the best plan at `x`; return the rows that it, or its plans, violate."""
        tried = try_point(self.window, self.evaluator, x)
        for makespan, decisions in tried.plans[:1]:
            if self.progress.makespan_ns is None or makespan < self.progress.makespan_ns:
                self.progress.offer_decisions(self.evaluator, decisions, "milp")
        return tried.rows

    def _add(self, rows: Sequence[Row]) -> int:
        new = {row.name: row for row in rows if row.name not in self.names}
        if any(name.startswith(("drained", "memory_margin")) for name in new):
            self.relaxed = False
        self.names.update(new)
        self.model.add_rows(list(new.values()))
        return len(new)


def _polish(progress: Progress, evaluator: Evaluator, options: SolveOptions) -> None:
    """Search around the best plan until the gap is closed or time is up."""
    if progress.timeline is None or progress.is_done():
        return
    start = evaluator.decisions(progress.timeline.plan)
    for decisions in local_search(evaluator, start, seed=options.seed, deadline=progress.deadline):
        progress.offer_decisions(evaluator, decisions, "local search")
        if progress.is_done():
            return
