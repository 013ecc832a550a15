"""The loop that bounds and plans by models of window rows, whatever solves the models.

One loop serves both ends (docs/formulations.md). While the model holds relaxed rows only, its
bound is a lower bound for every plan. Each of its points is turned into decisions and simulated;
memory rows that the point violates, and rows that make the next point safe where the simulator
waited or ran out of memory, are added, and the model is solved again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from slackopt.formulations.linear import Row
from slackopt.formulations.window import WindowFormulation
from slackopt.heuristics import NoPlanError, heuristics
from slackopt.heuristics.common.exchange import local_search
from slackopt.instance import Instance
from slackopt.progress import Progress
from slackopt.result import StoppedBy
from slackopt.simulation.evaluator import Evaluator
from slackopt.solvers.options import SolveOptions
from slackopt.solvers.rounding import rounded_plans, try_point
from slackopt.solvers.scaling import Floats
from slackopt.solvers.status import Status
from slackopt.solvers.window_lp import LpBound, WindowLp

STARTING_RULES = ("slackswap-timeline", "slackswap", "keep-all", "swap-all", "recompute-all")
UNSAFE_FOR_BOUNDS = ("drained", "memory_margin")
"""Kinds of rows that cut off plans: with them a model bounds nothing."""

OnPoint = Callable[[Floats], None]
OnBound = Callable[[int], None]


@dataclass(frozen=True)
class ModelRun:
    """What one solve of a model gave.

    Attributes
    ----------
    status
        ``optimal`` (within the gap asked for), ``limit``, ``infeasible`` or ``error``.
    x
        A point that satisfies the rows, in exact units, decisions integral; None if there is none.
    added_bound_ns
        Proved for the time added to the ideal step by every plan that satisfies the rows, with
        all corrections made; None if nothing was proved.
    native_status
        The solver's own word.
    message
        For an error, one sentence.
    """

    status: Status
    x: Floats | None = None
    added_bound_ns: int | None = None
    native_status: str = ""
    message: str = ""


@dataclass(frozen=True)
class ModelLimits:
    """When one solve of a model ends.

    Attributes
    ----------
    time_limit
        Seconds.
    gap_ns
        Absolute gap.
    deterministic_limit
        Solver's own count of work, for runs that do not depend on the machine's speed.
    """

    time_limit: float
    gap_ns: float
    deterministic_limit: float | None = None


class RowModel(Protocol):
    """A mixed-integer model to which rows are added between solves."""

    @property
    def num_rows(self) -> int:
        """Number of rows."""

    def add_rows(self, rows: Sequence[Row]) -> None:
        """Append rows."""

    def solve(
        self,
        limits: ModelLimits,
        *,
        start: Floats | None = None,
        on_point: OnPoint | None = None,
        on_bound: OnBound | None = None,
    ) -> ModelRun:
        """Solve the model as it stands.

        `start` is a point to start from. The other two are called while the solver runs, in the
        thread of the caller: with points that satisfy the rows, and with ``added_bound_ns``.
        """


def offer_starting_plans(instance: Instance, progress: Progress) -> None:
    """Offer the plans of the cheap rules, so that no exact method loses to them."""
    rules = heuristics()
    for name in STARTING_RULES:
        try:
            progress.offer_plan(rules[name](instance), name)
        except NoPlanError:
            continue


def offer_lp_bound(lp: WindowLp, progress: Progress) -> LpBound:
    """Solve the window LP and offer its bound."""
    bound = lp.solve(deadline=progress.deadline)
    if not bound.infeasible:
        progress.offer_bound(bound.lower_bound_ns, "window LP", bound.weights)
    elif bound.weights:
        progress.prove_infeasible("window LP", bound.weights)
    else:
        progress.note("HiGHS finds the window LP infeasible; that is no exact proof")
    return bound


def start_window(instance: Instance, progress: Progress) -> WindowLp | None:
    """Offer the starting plans and the LP bound; return the LP, or None if the run is over.

    It is over if a starting plan needs no time at all, or the LP has no point.
    """
    offer_starting_plans(instance, progress)
    if progress.makespan_ns == instance.ideal_ns:
        progress.offer_bound(instance.ideal_ns, "ideal step")
        return None
    begun = time.monotonic()
    lp = WindowLp(WindowFormulation(instance))
    progress.facts["build_s"] = time.monotonic() - begun
    return None if offer_lp_bound(lp, progress).infeasible else lp


def round_window_lp(
    lp: WindowLp, progress: Progress, evaluator: Evaluator, options: SolveOptions
) -> None:
    """Offer rounded plans until the gap is closed, or a third of the time left is used."""
    left = progress.seconds_left
    deadline = None if progress.deadline is None else time.monotonic() + left / 3
    gap_ns = max(options.gap / 2, 5e-5) * lp.window.instance.ideal_ns
    for decisions in rounded_plans(lp, evaluator, gap_ns=gap_ns, deadline=deadline):
        progress.offer_decisions(evaluator, decisions, "rounding")
        if progress.is_done():
            return


def polish(
    progress: Progress, evaluator: Evaluator, options: SolveOptions, *, share: float = 1.0
) -> None:
    """Search around the best plan until the gap is closed or a share of the time left is used."""
    if progress.timeline is None or progress.is_done():
        return
    start = evaluator.decisions(progress.timeline.plan)
    left = progress.seconds_left
    found = local_search(
        evaluator,
        start,
        seed=options.seed,
        deadline=None if progress.deadline is None else time.monotonic() + share * left,
        max_evaluations=DETERMINISTIC_EVALUATIONS if options.deterministic else None,
    )
    for decisions in found:
        progress.offer_decisions(evaluator, decisions, "local search")
        if progress.is_done():
            return


def reason(progress: Progress) -> StoppedBy:
    """Return why a method that ends now has stopped."""
    if progress.conflict:
        return "error"
    if progress.infeasible or progress.makespan_ns == progress.lower_bound_ns:
        return "proof"
    return "gap" if progress.is_done() else "time"


DETERMINISTIC_EVALUATIONS = 500
"""Plans that `polish` prices in a deterministic run."""


class RowLoop:
    """Solve, simulate, add rows, repeat.

    Parameters
    ----------
    window, progress, evaluator, options
        As in the method that runs it.
    model
        What is solved.
    source
        Named with the plans found.
    bound_source
        Named with the bounds proved.
    work
        The most work of all solves together in a deterministic run; None in others.
    """

    def __init__(
        self,
        window: WindowFormulation,
        model: RowModel,
        progress: Progress,
        evaluator: Evaluator,
        options: SolveOptions,
        *,
        source: str,
        bound_source: str,
        work: float | None = None,
    ) -> None:
        self.window = window
        self.model = model
        self.progress = progress
        self.evaluator = evaluator
        self.options = options
        self.source = source
        self.bound_source = bound_source
        self.work_left = work
        self.names: set[str] = set()
        self.relaxed = True
        self.runs: list[ModelRun] = []

    def run(
        self,
        memory_rows: Sequence[Row],
        *,
        incumbent: Callable[[], Floats | None] | None = None,
        rounds: int = 60,
        patience: float = 4.0,
    ) -> None:
        """Run until the gap is closed, nothing new is found at the finest tolerance, or time is up.

        The first solves are coarse: their points show the missing rows sooner.

        Parameters
        ----------
        memory_rows
            To start with, beside the static rows.
        incumbent
            Gives the point of the best plan: where to start when the last point has been cut off.
        rounds
            Solves at most.
        patience
            Seconds for a solve; doubled whenever they did not suffice.
        """
        start = None if incumbent is None else incumbent()
        progress, ideal = self.progress, self.window.instance.ideal_ns
        finest = max(self.options.gap / 2, 2e-5)
        tolerance = max(3e-4, finest)
        self._add([*self.window.static_rows(), *memory_rows])
        for _ in range(rounds):
            left = progress.seconds_left
            if progress.is_done() or left < 0.5 or self.work_left == 0:
                return
            found = self._solve(min(patience, left), tolerance * ideal, start)
            if found.x is None and found.status != "limit":
                words = found.message or f"it ended with {found.native_status!r}"
                progress.note(f"{self.bound_source}: {words}, without a point")
                return
            if found.x is not None:
                start = found.x
                if self._add(self._try_point(found.x)):
                    start = found.x if incumbent is None else incumbent()
                    continue
            if found.status == "limit":
                patience *= 2
            elif tolerance > finest:
                tolerance = max(tolerance / 3, finest)
            else:
                return

    def _solve(self, seconds: float, gap_ns: float, start: Floats | None) -> ModelRun:
        """Solve once; bounds are offered as they come while all rows are relaxed."""
        if self.work_left is None:
            limits = ModelLimits(seconds, gap_ns)
        else:
            work = min(seconds, self.work_left)
            self.work_left -= work
            limits = ModelLimits(self.progress.seconds_left, gap_ns, work)
        found = self.model.solve(
            limits, start=start, on_bound=self._offer_bound if self.relaxed else None
        )
        self.runs.append(found)
        self.progress.facts["num_variables"] = len(self.window.columns)
        self.progress.facts["num_constraints"] = self.model.num_rows
        if self.relaxed and found.added_bound_ns is not None:
            self._offer_bound(found.added_bound_ns)
        return found

    def _offer_bound(self, added_ns: int) -> None:
        self.progress.offer_bound(self.window.instance.ideal_ns + added_ns, self.bound_source)

    def _try_point(self, x: Floats) -> list[Row]:
        """Offer the best plan at `x`; return the rows that it, or its plans, violate."""
        tried = try_point(self.window, self.evaluator, x)
        for makespan, decisions in tried.plans[:1]:
            if self.progress.makespan_ns is None or makespan < self.progress.makespan_ns:
                self.progress.offer_decisions(self.evaluator, decisions, self.source)
        return tried.rows

    def _add(self, rows: Sequence[Row]) -> int:
        new = {row.name: row for row in rows if row.name not in self.names}
        if any(name.startswith(UNSAFE_FOR_BOUNDS) for name in new):
            self.relaxed = False
        self.names.update(new)
        self.model.add_rows(list(new.values()))
        return len(new)
