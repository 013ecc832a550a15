"""What rebuilding a dropped tensor costs, and drops that are complete: shared by several rules."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from slackopt.clock import check_time
from slackopt.lifetimes import ABSENT, Lifetimes


def rerun_ops(life: Lifetimes, t: int, there: Collection[int] = ()) -> list[int] | None:
    """Return the ops that rebuild tensor `t` when every tensor with a backward use is there.

    Inputs without a backward use are rebuilt in their turn, up to those in `there` and to batch
    tensors, which have no producer and so can only stay.

    Parameters
    ----------
    life
        The step.
    t
        The tensor to rebuild.
    there
        Tensors without a backward use that the caller keeps.

    Returns
    -------
    list of int or None
        Op indices in descending order; None if one of them can't run twice.
    """
    check_time()
    ops: set[int] = set()
    pending = [t]
    while pending:
        y = pending.pop()
        if not life.can_recompute(y):
            return None
        op = life.producer[y]
        if op not in ops:
            ops.add(op)
            pending += [q for q in life.inputs[op] if _is_dropped_too(life, q, there)]
    return sorted(ops, reverse=True)


def _is_dropped_too(life: Lifetimes, q: int, there: Collection[int]) -> bool:
    """Whether input `q` of a rerun is missing unless it is rebuilt as well."""
    return life.first_backward_use[q] == ABSENT and life.producer[q] != ABSENT and q not in there


def rebuild_ns(life: Lifetimes, t: int, there: Collection[int] = ()) -> int | None:
    """Time of the reruns of `rerun_ops`; None if tensor `t` can't be rebuilt."""
    ops = rerun_ops(life, t, there)
    return None if ops is None else sum(life.durations_ns[k] for k in ops)


def drop(
    life: Lifetimes,
    decisions: list[int],
    tensors: Iterable[int],
    code: int,
    there: Collection[int] = (),
) -> None:
    """Decide `code` (recompute) for tensors, and for the inputs without a backward use they need.

    Inputs in `there` and batch tensors are left as they are.
    """
    for t in tensors:
        decisions[t] = code
        for op in rerun_ops(life, t, there) or ():
            for q in life.inputs[op]:
                if _is_dropped_too(life, q, there):
                    decisions[q] = code


def recompute_step(life: Lifetimes, t: int, code: int) -> dict[int, int]:
    """Return `drop` of one tensor as a mapping: the tensors it decides, and `code`."""
    step = {t: code}
    for op in rerun_ops(life, t) or ():
        step.update((q, code) for q in life.inputs[op] if _is_dropped_too(life, q, ()))
    return step
