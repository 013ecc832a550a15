"""Round: the window LP's solution, rounded by small integer models and mended by simulation.

Ours; near-optimal in a second or two. See `slackopt.solvers.rounding` for how.
"""

from __future__ import annotations

from collections.abc import Iterator

from slackopt.clock import check_time, deadline_in
from slackopt.formulations.window import WindowFormulation
from slackopt.heuristics.registry import NoPlanError, heuristic
from slackopt.instance import Instance
from slackopt.plan import Plan
from slackopt.simulation.evaluator import Evaluator


@heuristic("round")
def round_rule(instance: Instance, *, rounds: int = 12, time_limit: float | None = None) -> Plan:
    """Round the solution of the window LP and mend it until it runs without stalls.

    Parameters
    ----------
    instance
        The instance.
    rounds
        How often the LP is mended and rounded at most.
    time_limit
        Seconds; None for no limit.

    Raises
    ------
    NoPlanError
        If no rounded point runs.
    """
    deadline = deadline_in(time_limit)
    evaluator = Evaluator(instance)
    best: list[int] | None = None
    for decisions in round_plans(instance, evaluator, rounds=rounds, deadline=deadline):
        best = decisions
    if best is None:
        check_time()
        raise NoPlanError("round", instance, "no rounded point of the window LP runs")
    return evaluator.plan(best, provenance={"method": "round", "rounds": rounds})


def round_plans(
    instance: Instance, evaluator: Evaluator, *, rounds: int = 40, deadline: float | None = None
) -> Iterator[list[int]]:
    """Yield ever faster decision vectors from rounding the window LP."""
    # HiGHS takes a third of a second to import, and the other rules do without it.
    from slackopt.solvers.rounding import rounded_plans
    from slackopt.solvers.window_lp import WindowLp

    lp = WindowLp(WindowFormulation(instance))
    gap_ns = 5e-5 * instance.ideal_ns
    yield from rounded_plans(lp, evaluator, gap_ns=gap_ns, deadline=deadline, rounds=rounds)
