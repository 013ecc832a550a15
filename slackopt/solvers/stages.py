"""The stages that methods on window rows share: first plans, LP bound, rounding, polishing."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction

from slackopt.clock import OutOfTimeError, time_limit
from slackopt.formulations.linear import Row
from slackopt.formulations.row_bound import single_row_bound
from slackopt.formulations.swap_order import SwapOrder
from slackopt.formulations.window import WindowFormulation, is_lazy
from slackopt.heuristics import NoPlanError, heuristics
from slackopt.heuristics.common.exchange import local_search
from slackopt.instance import Instance
from slackopt.progress import LEAST_S, Progress
from slackopt.result import StoppedBy
from slackopt.simulation.evaluator import Evaluator
from slackopt.solvers.options import NODES_PER_UNIT, SolveOptions
from slackopt.solvers.rounding import rounded_plans
from slackopt.solvers.schedule_loop import schedule_size
from slackopt.solvers.window_lp import LpBound, WindowLp

STARTING_RULES = (
    "keep-all",
    "swap-all",
    "recompute-all",
    "selective",
    "layer-checkpoint",
    "slackswap-timeline",
    "slackswap",
    "knapsack",
)
"""Cheap rules: those that mostly swap, and those that only recompute, for slow links. Those that
price a single plan come first: on a large instance the others may be cut short."""

SMALL_SCHEDULE = 3_000
LARGE_SCHEDULE = 60_000
"""Sizes of schedule models that are likely to end soon, and that are not worth a try any more."""

TIGHT_RULES = ("chain", "pressure")
"""They take longer and find plans near the working set: for where those above find none."""

SEARCH_SHARE = 0.25
"""Share of the time left that `milp` and `cpsat` give to small moves before their models, and that
they leave for them after: without it they can end below ``local-search``."""

STARTING_SHARE = 0.25
"""Share of the time left that the starting rules get together, except in a deterministic run."""

DETERMINISTIC_EVALUATIONS = 500
"""Plans that `polish` prices in a deterministic run."""

DETERMINISTIC_ROUNDS = 12
"""Rounds of `round_window_lp` in a deterministic run."""


def offer_starting_plans(instance: Instance, progress: Progress, share: float = 1.0) -> None:
    """Offer the plans of the cheap rules, so that no exact method loses to them.

    They get a share of the time left, in which they are cut short.
    """
    rules = heuristics()
    with progress.share(share), time_limit(progress.deadline):
        for name in (*STARTING_RULES, *TIGHT_RULES):
            if progress.makespan_ns == instance.ideal_ns or progress.seconds_left <= 0:
                return
            if name == TIGHT_RULES[0] and progress.makespan_ns is not None:
                return
            try:
                progress.offer_plan(rules[name](instance), name)
            except (NoPlanError, OutOfTimeError):
                continue


def offer_row_bound(window: WindowFormulation, progress: Progress) -> None:
    """Offer what single rows prove: a bound within a second or two, before any solver runs."""
    bound, weights = single_row_bound(window)
    if weights:
        progress.offer_bound(bound, "window row", weights)


def offer_lp_bound(lp: WindowLp, progress: Progress) -> LpBound:
    """Solve the window LP and offer its bounds, as they come."""

    def offer(bound_ns: int, weights: Mapping[str, Fraction]) -> None:
        progress.offer_bound(bound_ns, "window LP", weights)

    bound = lp.solve(deadline=progress.deadline, on_round=offer)
    if not bound.infeasible:
        progress.offer_bound(bound.lower_bound_ns, "window LP", bound.weights)
    elif bound.contradiction:
        progress.prove_infeasible("window LP", bound.contradiction)
    else:
        progress.note("HiGHS finds the window LP infeasible; that is no exact proof")
    if bound.failure:
        progress.note(f"{bound.failure}; the bound is what it proved before")
    return bound


@dataclass(frozen=True)
class WindowStart:
    """What methods on window rows start from.

    Attributes
    ----------
    lp, bound
        The window LP, and what it proved.
    order
        Rows for identical layers; None if they are switched off.
    """

    lp: WindowLp
    bound: LpBound
    order: SwapOrder | None

    def model_rows(self) -> list[Row]:
        """Rows to start a model with, beside the static rows."""
        lazy_rows = [row for row in self.lp.rows if is_lazy(row)]
        return [*lazy_rows, *(self.order.rows() if self.order else [])]


def start_window(
    instance: Instance, progress: Progress, options: SolveOptions
) -> WindowStart | None:
    """Offer the starting plans and the LP bound; return the start, or None if the run is over.

    It is over if a starting plan adds no time at all, time is up, or the LP has no point. A first
    bound comes before the rules, which on a large instance take long.
    """
    begun = time.monotonic()
    window = WindowFormulation(instance)
    progress.facts["build_s"] = time.monotonic() - begun
    offer_row_bound(window, progress)
    offer_starting_plans(instance, progress, 1.0 if options.deterministic else STARTING_SHARE)
    if progress.makespan_ns == progress.lower_bound_ns:
        return None
    if progress.seconds_left <= 0:
        return None
    begun = time.monotonic()
    order = SwapOrder(window) if options.identical_layers else None
    lp = WindowLp(window)
    progress.facts["build_s"] += time.monotonic() - begun
    bound = offer_lp_bound(lp, progress)
    return None if bound.infeasible else WindowStart(lp, bound, order)


def round_window_lp(
    lp: WindowLp, progress: Progress, evaluator: Evaluator, options: SolveOptions
) -> None:
    """Offer rounded plans until the gap is closed, or a third of the time left is used.

    Two thirds while rounding has found no plan at all.

    A deterministic run counts rounds and nodes instead of seconds.
    """
    gap_ns = max(options.gap / 2, 5e-5) * lp.window.instance.ideal_ns
    if options.deterministic:
        plans = rounded_plans(
            lp,
            evaluator,
            gap_ns=gap_ns,
            deadline=progress.deadline,
            rounds=DETERMINISTIC_ROUNDS,
            max_nodes=NODES_PER_UNIT,
        )
    else:
        plans = rounded_plans(
            lp,
            evaluator,
            gap_ns=gap_ns,
            deadline=_part(progress, 2 / 3),
            enough=_part(progress, 1 / 3),
        )
    for decisions in plans:
        progress.offer_decisions(evaluator, decisions, "rounding")
        if progress.is_done():
            return


def polish(
    progress: Progress,
    evaluator: Evaluator,
    options: SolveOptions,
    *,
    share: float = 1.0,
    turn: int = 0,
) -> None:
    """Search around the best plan until the gap is closed or a share of the time left is used.

    A deterministic run counts evaluations instead of seconds.
    """
    if progress.timeline is None or progress.is_done():
        return
    start = evaluator.decisions(progress.timeline.plan)
    found = local_search(
        evaluator,
        start,
        seed=options.seed + turn,  # another turn from the same plan tries other moves
        deadline=progress.deadline if options.deterministic else _part(progress, share),
        max_evaluations=DETERMINISTIC_EVALUATIONS if options.deterministic else None,
    )
    for decisions in found:
        progress.offer_decisions(evaluator, decisions, "local search")
        if progress.is_done():
            return


class ScheduleTry:
    """The schedule model as a stage of methods on window rows, where its size is worth a try.

    Its optimum is the simulator's, so it closes gaps that window rows leave, and proves that no
    plan exists; but it grows with the swaps that are possible and the slots of reruns.

    Parameters
    ----------
    solve
        The schedule method.
    instance, progress, options
        As for the method that runs it.
    """

    def __init__(
        self,
        solve: Callable[[Instance, Progress, SolveOptions], StoppedBy],
        instance: Instance,
        progress: Progress,
        options: SolveOptions,
    ) -> None:
        self.solve = solve
        self.instance = instance
        self.progress = progress
        self.options = options
        self.size = schedule_size(instance.lifetimes)
        # Its solves count seconds: a deterministic run takes it only where it ends by itself.
        self.largest = SMALL_SCHEDULE if options.deterministic else LARGE_SCHEDULE

    @property
    def is_small(self) -> bool:
        """Whether it is likely to end soon."""
        return self.size <= SMALL_SCHEDULE

    def run(self, share: float) -> None:
        """Give it a share of the time left, unless the run is over or the model too large."""
        progress = self.progress
        least = 0.0 if self.is_small else LEAST_S
        if progress.is_done() or progress.seconds_left <= least or self.size > self.largest:
            return
        facts = dict(progress.facts)
        with (
            suppress(OutOfTimeError),
            progress.share(1.0 if self.options.deterministic else share),
            time_limit(progress.deadline),
        ):
            self.solve(self.instance, progress, self.options)
        progress.facts = facts


def _part(progress: Progress, share: float) -> float | None:
    """Return the `time.monotonic` value at which a share of the time left will be used."""
    if progress.deadline is None:
        return None
    return time.monotonic() + share * max(progress.seconds_left, 0.0)
