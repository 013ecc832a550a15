"""What rebuilding a dropped tensor costs, and drops that are complete: shared by several rules."""

from __future__ import annotations

from collections.abc import Iterable

from slackopt.lifetimes import ABSENT, Lifetimes


def rerun_ops(life: Lifetimes, t: int) -> list[int] | None:
    """Return the ops that rebuild tensor `t` when every tensor with a backward use is there.

    Inputs without a backward use are rebuilt in their turn.

    Returns
    -------
    list of int or None
        Op indices in descending order; None if one of them can't run twice.
    """
    ops: set[int] = set()
    pending = [t]
    while pending:
        y = pending.pop()
        if not life.can_recompute(y):
            return None
        op = life.producer[y]
        if op not in ops:
            ops.add(op)
            pending += [q for q in life.inputs[op] if life.first_backward_use[q] == ABSENT]
    return sorted(ops, reverse=True)


def rebuild_ns(life: Lifetimes, t: int) -> int | None:
    """Time of the reruns of `rerun_ops`; None if tensor `t` can't be rebuilt."""
    ops = rerun_ops(life, t)
    return None if ops is None else sum(life.durations_ns[k] for k in ops)


def drop(life: Lifetimes, decisions: list[int], tensors: Iterable[int], code: int) -> None:
    """Decide `code` (recompute) for tensors, and for the inputs without a backward use they need."""
    for t in tensors:
        decisions[t] = code
        for op in rerun_ops(life, t) or ():
            for q in life.inputs[op]:
                if life.first_backward_use[q] == ABSENT:
                    decisions[q] = code
