"""From decisions to a plan: price it, or take the first of a row of decisions that runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from slackopt.clock import OutOfTimeError, check_time
from slackopt.heuristics.registry import NoPlanError
from slackopt.plan import Plan
from slackopt.simulation.evaluator import Evaluator
from slackopt.simulation.sequence import KEEP, RECOMPUTE, SWAP

Step = Mapping[int, int]
"""Tensors and the decisions that one step of a rule gives them."""


def priced(
    evaluator: Evaluator,
    rule: str,
    decisions: Sequence[int],
    given: Mapping[int, int] | None = None,
    **options: object,
) -> Plan:
    """Return the plan of a decision vector if it runs, else raise `NoPlanError` with its op."""
    record = evaluator.run(decisions, given)
    if record.out_of_memory is not None:
        oom = record.out_of_memory
        instance = evaluator.instance
        op = instance.graph.ops[oom.op].name
        raise NoPlanError(
            rule,
            instance,
            f"op {op!r} waits for {oom.asked_bytes} bytes and {oom.free_bytes} are free",
        )
    return evaluator.plan(decisions, given, {"method": rule, **options})


def runs(evaluator: Evaluator, decisions: Sequence[int]) -> bool:
    """Whether the step runs without running out of memory; minds the time limit."""
    check_time()
    return evaluator.makespan_ns(decisions) is not None


def evict_until_it_runs(
    evaluator: Evaluator, rule: str, steps: Sequence[Step], enough: int | None
) -> list[int]:
    """Return the decisions after the fewest steps with which the step runs.

    If it runs after no number of steps, because the reruns themselves take too much memory,
    recomputed tensors are swapped instead, one more at a time, those of the last steps first.

    Parameters
    ----------
    evaluator
        Of the instance; before the first step, everything is kept.
    rule
        Name of the rule.
    steps
        What the rule evicts, in its order.
    enough
        Steps after which the rule thinks that memory fits; None if it never does.

    Raises
    ------
    NoPlanError
        If it doesn't run in any of these ways.
    """
    life = evaluator.life
    start = [KEEP] * life.num_tensors
    begin = len(steps) if enough is None else enough
    found = first_that_runs(evaluator, start, steps, begin)
    if found is None:
        dropped = [t for step in reversed(steps) for t, code in step.items() if code == RECOMPUTE]
        instead: list[Step] = [
            {t: SWAP} for t in dict.fromkeys(dropped) if life.is_candidate(t) and life.swappable[t]
        ]
        found = first_that_runs(evaluator, start, [*steps, *instead], len(steps))
    if found is None:
        raise NoPlanError(rule, evaluator.instance, "even with all evicted that it can evict")
    return found


def first_that_runs(
    evaluator: Evaluator, start: Sequence[int], steps: Sequence[Step], begin: int
) -> list[int] | None:
    """Return `start` after the fewest steps, at least `begin`, with which the step runs.

    Found by doubling and bisection. Only where doubling finds nothing is each number of steps
    tried: more drops need not mean less memory, because their reruns take memory, too. When the
    time limit ends the bisection, the fewest steps that ran until then are taken.

    Returns
    -------
    list of int or None
        None if it runs after no number of steps.
    """

    def after(number: int) -> list[int]:
        decisions = list(start)
        for step in steps[:number]:
            for t, code in step.items():
                decisions[t] = code
        return decisions

    tried: set[int] = set()
    low, stride = begin, 1
    while True:
        number = min(low + stride - 1, len(steps))
        tried.add(number)
        if runs(evaluator, after(number)):
            break
        if number == len(steps):
            return next(
                (
                    after(n)
                    for n in range(begin, len(steps) + 1)
                    if n not in tried and runs(evaluator, after(n))
                ),
                None,
            )
        low, stride = number + 1, 2 * stride
    high = number
    try:
        while low < high:
            middle = (low + high) // 2
            if runs(evaluator, after(middle)):
                high = middle
            else:
                low = middle + 1
    except OutOfTimeError:
        pass
    return after(high)
