"""Local search: from any plan, search with the simulator as judge, until time is up.

Ours. First a large neighbourhood: the window LP is rounded and mended, which finds the region of
good plans (`slackopt.heuristics.rounding`); then small moves around the best plan so far, each
simulated (`slackopt.heuristics.common.exchange`). Anytime, seeded, resumable from any plan.

With a time limit the result depends on the machine's speed; `max_evaluations` with no time limit
gives the same plan everywhere.
"""

from __future__ import annotations

from contextlib import suppress

from slackopt.clock import OutOfTimeError, check_time, deadline_in
from slackopt.clock import time_limit as limited_time
from slackopt.heuristics.common.exchange import local_search as exchange_search
from slackopt.heuristics.registry import NoPlanError, heuristic, heuristics
from slackopt.heuristics.rounding import round_plans
from slackopt.instance import Instance
from slackopt.plan import Plan
from slackopt.simulation.evaluator import Evaluator

START_SHARE, ROUNDING_SHARE = 0.4, 0.6
"""Shares of the time limit for the rule to start from, at most, and for rounding."""


@heuristic("local-search")
def local_search(
    instance: Instance,
    *,
    start: str | Plan = "slackswap",
    seed: int = 0,
    time_limit: float | None = 10.0,
    max_evaluations: int = 20_000,
    neighbourhood: bool = True,
) -> Plan:
    """Improve a plan by rounding the window LP and by small simulated moves.

    Parameters
    ----------
    instance
        The instance.
    start
        A plan to start from, or the name of the rule that makes it; where that rule finds none,
        the search starts from what rounding finds.
    seed
        Of the random moves.
    time_limit
        Seconds; None for no limit.
    max_evaluations
        Plans simulated by small moves at most.
    neighbourhood
        Whether to round the window LP first.

    Raises
    ------
    NoPlanError
        If neither the start nor rounding gives a plan.
    """
    deadline = deadline_in(time_limit)
    evaluator = Evaluator(instance)
    best: list[int] | None = None
    best_ns: int | None = None
    with suppress(NoPlanError, OutOfTimeError), limited_time(_part(time_limit, START_SHARE)):
        plan = heuristics()[start](instance) if isinstance(start, str) else start
        best = evaluator.decisions(plan)
        best_ns = evaluator.makespan_ns(best)
    if neighbourhood:
        with suppress(OutOfTimeError):
            part = _part(time_limit, ROUNDING_SHARE)
            for decisions in round_plans(instance, evaluator, deadline=part):
                makespan = evaluator.makespan_ns(decisions)
                if makespan is not None and (best_ns is None or makespan < best_ns):
                    best, best_ns = decisions, makespan
    if best is None or best_ns is None:
        check_time()
        raise NoPlanError("local-search", instance, "neither the start nor rounding gives one")
    with suppress(OutOfTimeError):
        for decisions in exchange_search(
            evaluator, best, seed=seed, deadline=deadline, max_evaluations=max_evaluations
        ):
            best = decisions
    return evaluator.plan(best, provenance={"method": "local-search", "seed": seed})


def _part(time_limit: float | None, share: float) -> float | None:
    return deadline_in(None if time_limit is None else share * time_limit)
