"""Drop under memory pressure: hold everything, and evict where a slot does not fit.

Ours, in the line of DTR (Kirisame et al. 2021, arXiv 2006.09616), which evicts online by a score of
the same kind; made for budgets at which most other rules find no plan. Three stages:

1. *Passes* (`slackopt.heuristics.common.pressure_pass`). Go through the step slot by slot, reruns
   included. Where a slot does not fit at its worst job, evict the idle tensor with the least
   ``cost^p / (size * (ops to the next need)^q)``, for p and q of 0, 1/2 and 1; sources that only
   reruns read leave at once, or stay until they are evicted; with swaps (the cost is then the
   smaller of rebuild time and copies not hidden) and without. Each plan is simulated.
2. *Repair* (`slackopt.heuristics.common.fitting`), where none of them runs: from the decisions
   of each pass, those with the least excess first, a guided search for decisions that fit.
3. *Moves*: the same search for a plan below the best makespan, from the best plan, again and again.

Parameters: *max_evaluations*, decision vectors that stages 2 and 3 look at; by default so many
that they take about a second. *seed* feeds their random choices. Without a time limit the plan is
the same on every machine.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import product

from slackopt.clock import check_time, deadline_in
from slackopt.heuristics.common.fitting import Fitting
from slackopt.heuristics.common.pressure_pass import PressurePass, Setting
from slackopt.heuristics.registry import NoPlanError, heuristic
from slackopt.instance import Instance
from slackopt.plan import Plan
from slackopt.simulation.evaluator import Evaluator
from slackopt.simulation.sequence import KEEP

_EVALUATIONS, _WORK = 5_000, 500_000
"""Evaluations by default, at most, and times the number of ops: about a second."""

_STEPS = 200
"""Decisions that one search changes at most."""


@heuristic("pressure")
def pressure(
    instance: Instance,
    *,
    seed: int = 0,
    time_limit: float | None = None,
    max_evaluations: int | None = None,
) -> Plan:
    """Evict under memory pressure what is cheap, large and needed late; then repair and improve.

    Parameters
    ----------
    instance
        The instance.
    seed
        Of the random choices of the search.
    time_limit
        Seconds; None for no limit.
    max_evaluations
        Decision vectors that the search looks at; 0 for the passes alone.

    Raises
    ------
    NoPlanError
        If neither a pass nor the search finds a plan.
    """
    deadline = deadline_in(time_limit)
    evaluator = Evaluator(instance)
    life = instance.lifetimes
    kept = [KEEP] * life.num_tensors
    best_ns = evaluator.makespan_ns(kept)
    best = None if best_ns is None else kept
    if best is None:
        starts: list[list[int]] = []
        for decisions in passes(instance, deadline):
            if decisions in starts:
                continue
            starts.append(decisions)
            makespan = evaluator.makespan_ns(decisions)
            if makespan is not None and (best_ns is None or makespan < best_ns):
                best, best_ns = decisions, makespan
        if max_evaluations is None:
            max_evaluations = min(_EVALUATIONS, _WORK // life.num_ops)
        fitting = Fitting(evaluator, seed, max_evaluations, deadline)
        if best is None and not fitting.is_over():
            starts.sort(key=lambda decisions: sum(fitting.fit(decisions).over.values()))
        while starts and not fitting.is_over() and best_ns != instance.ideal_ns:
            for start in [best] if best is not None else starts:
                found = fitting.search(start, _STEPS, best_ns)
                if found is not None:
                    best, best_ns = found
                    break
    if best is None:
        check_time()
        late = deadline is not None and time.monotonic() >= deadline
        why = "time is up" if late else "neither a pass nor the repair of one fits"
        raise NoPlanError("pressure", instance, why)
    return evaluator.plan(best, provenance={"method": "pressure", "seed": seed})


def passes(instance: Instance, deadline: float | None = None) -> Iterator[list[int]]:
    """Yield the decisions of each setting's pass, those that do not fit included."""
    life = instance.lifetimes
    can_swap = any(life.swappable[t] for t in life.candidates)
    powers = (1.0, 0.5, 0.0)
    # Those that find good plans of real models come first, for where time is short.
    ways = [(True, True), (False, True), (True, False), (False, False)]
    for (swap, stay), p, q in product(ways, powers, powers):
        if swap and not can_swap:
            continue
        decisions = PressurePass(instance, Setting(p, q, swap, stay)).run(deadline)
        if decisions is None:
            return
        yield decisions
    if can_swap:
        swaps = [t for t in life.candidates if life.swappable[t]]
        decisions = PressurePass(instance, Setting(), swaps).run(deadline)
        if decisions is not None:
            yield decisions
