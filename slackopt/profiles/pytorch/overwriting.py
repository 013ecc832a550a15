"""Ops that work in place: merged into the op before them where possible, marked where not.

A graph knows one producer for each storage, and a rerun of that producer must give the values that
readers want. An op that overwrites what the op right before it made (a ReLU in place after a norm,
an addition in place after a product) is therefore merged with that op, along with ops between the
two that only read it. Elsewhere a storage has
other values at first than later: its producer, the op that overwrites it, and the readers in
between can't be rerun, and a copy taken when its producer ends would be stale, so it isn't
swappable.
"""

from __future__ import annotations

from dataclasses import dataclass

from slackopt.profiles.pytorch.storages import Step, TracedOp, schema_name

_BATCH_NORM = "batch_norm"
"""Ops that update running statistics, which they don't read while training: a rerun gives the same
outputs, and can leave the statistics alone."""


@dataclass(frozen=True)
class Overwriting:
    """What overwriting forbids.

    Attributes
    ----------
    not_recomputable
        Positions of ops that can't run twice.
    pinned
        Storages that can't be swapped.
    """

    not_recomputable: frozenset[int]
    pinned: frozenset[int]


def merge_overwriting(ops: list[TracedOp]) -> list[TracedOp]:
    """Merge each op that overwrites with the op that made what it overwrites, if none is between.

    Ops between that read it (an activation in place first copies what its backward pass needs)
    become part of the merged op too.
    """
    merged: list[TracedOp] = []
    for op in ops:
        start = _producer(merged, op) if op.overwrites else None
        if start is None:
            merged.append(op)
        else:
            merged[start:] = [_merge([*merged[start:], op])]
    return merged


def _producer(before: list[TracedOp], op: TracedOp) -> int | None:
    """Position of the op that made all that `op` overwrites, if it can be merged with it."""
    wanted = set(op.overwrites)
    for start in range(len(before) - 1, -1, -1):
        candidate = before[start]
        if candidate.phase != op.phase:
            return None
        if wanted <= set(candidate.makes):
            return start
        if not wanted & set(candidate.reads):
            return None
    return None


def _merge(ops: list[TracedOp]) -> TracedOp:
    makes = tuple(dict.fromkeys(s for op in ops for s in op.makes))
    first = ops[0]
    return TracedOp(
        nodes=[node for op in ops for node in op.nodes],
        phase=first.phase,
        path=first.path,
        reads=tuple(dict.fromkeys(s for op in ops for s in op.reads if s not in makes)),
        makes=makes,
        overwrites=tuple(dict.fromkeys(s for op in ops for s in op.overwrites if s not in makes)),
        random=any(op.random for op in ops),
    )


def find_overwriting(step: Step) -> Overwriting:
    """Find what can't run twice and what can't be swapped, after merging."""
    last_write: dict[int, int] = {}
    blocked: set[int] = set()
    for k, op in enumerate(step.ops):
        for s in op.overwrites:
            if not (step.storages[s].role == "static" and is_norm(op)):
                last_write[s] = k
                blocked.add(k)
    for k, op in enumerate(step.ops):
        if any(last_write.get(s, k) > k for s in (*op.reads, *op.makes)):
            blocked.add(k)
    pinned = {s for s in last_write if step.storages[s].role != "static"}
    return Overwriting(frozenset(blocked), frozenset(pinned))


def is_norm(op: TracedOp) -> bool:
    """Whether an op is a batch norm."""
    return any(_BATCH_NORM in schema_name(node) for node in op.nodes)
