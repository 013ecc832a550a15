"""The stages that methods on window rows share: first plans, LP bound, rounding, polishing."""

from __future__ import annotations

import time

from slackopt.formulations.window import WindowFormulation
from slackopt.heuristics import NoPlanError, heuristics
from slackopt.heuristics.common.exchange import local_search
from slackopt.instance import Instance
from slackopt.progress import Progress
from slackopt.result import StoppedBy
from slackopt.simulation.evaluator import Evaluator
from slackopt.solvers.options import SolveOptions
from slackopt.solvers.rounding import rounded_plans
from slackopt.solvers.window_lp import LpBound, WindowLp

STARTING_RULES = ("slackswap-timeline", "slackswap", "keep-all", "swap-all", "recompute-all")

DETERMINISTIC_EVALUATIONS = 500
"""Plans that `polish` prices in a deterministic run."""


def offer_starting_plans(instance: Instance, progress: Progress) -> None:
    """Offer the plans of the cheap rules, so that no exact method loses to them."""
    rules = heuristics()
    for name in STARTING_RULES:
        if progress.seconds_left <= 0:
            return
        try:
            progress.offer_plan(rules[name](instance), name)
        except NoPlanError:
            continue


def offer_lp_bound(lp: WindowLp, progress: Progress) -> LpBound:
    """Solve the window LP and offer its bound."""
    bound = lp.solve(deadline=progress.deadline)
    if not bound.infeasible:
        progress.offer_bound(bound.lower_bound_ns, "window LP", bound.weights)
    elif bound.contradiction:
        progress.prove_infeasible("window LP", bound.contradiction)
    else:
        progress.note("HiGHS finds the window LP infeasible; that is no exact proof")
    return bound


def start_window(instance: Instance, progress: Progress) -> tuple[WindowLp, LpBound] | None:
    """Offer the starting plans and the LP bound; return both, or None if the run is over.

    It is over if a starting plan adds no time at all, time is up, or the LP has no point.
    """
    offer_starting_plans(instance, progress)
    if progress.makespan_ns == instance.ideal_ns:
        progress.offer_bound(instance.ideal_ns, "ideal step")
        return None
    if progress.seconds_left <= 0:
        return None
    begun = time.monotonic()
    lp = WindowLp(WindowFormulation(instance))
    progress.facts["build_s"] = time.monotonic() - begun
    bound = offer_lp_bound(lp, progress)
    return None if bound.infeasible else (lp, bound)


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
    if progress.infeasible or progress.gap == 0:
        return "proof"
    return "gap" if progress.is_done() else "time"
