"""Turns the tree of operator calls of one step into the ops that do the work.

A call of an operator calls others: ``aten::linear`` calls ``aten::addmm``, which may call
``aten::expand`` and ``aten::copy_``. An *op* is the lowest call that accounts for all its reads and
writes: ``addmm`` here, since its children do not read the weights. Views, allocations and queries
are no ops.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from slackopt.profiles.traces.nodes import Node, TensorRef
from slackopt.profiles.traces.operators import (
    ANNOTATION_SCOPE,
    BACKWARD_SCOPE,
    is_allocation,
    is_communication,
    is_gradient_accumulation,
    is_query,
)


@dataclass
class Call:
    """An op, or an allocation outside of ops (``node`` is then its last call).

    Attributes
    ----------
    index
        Position of its node in the step.
    node
        The call.
    is_op
        False for an allocation.
    calls
        Positions of all nodes below it, itself included.
    allocated
        Storages that it allocates, with the mentions that tell their sizes.
    """

    index: int
    node: Node
    is_op: bool
    calls: list[int] = field(default_factory=list)
    allocated: dict[int, list[TensorRef]] = field(default_factory=dict)


@dataclass
class _Below:
    """What the calls below a node do, as sets of storages."""

    reads: set[int] = field(default_factory=set)
    writes: set[int] = field(default_factory=set)
    allocated: set[int] = field(default_factory=set)
    has_ops: bool = False


def find_calls(nodes: Sequence[Node], device: str) -> list[Call]:
    """Return ops and allocations of a step in the order of execution.

    Parameters
    ----------
    nodes
        The nodes of the step, in the order of their ids.
    device
        Storages elsewhere are ignored.
    """
    fresh, ops = _decide(nodes, device)
    position = {node.id: i for i, node in enumerate(nodes)}
    owner: list[int | None] = [None] * len(nodes)
    calls: dict[int, Call] = {}
    for i, node in enumerate(nodes):
        above = position.get(node.parent)
        top = owner[above] if above is not None and above != i else None
        if top is None and ops[i]:
            top = i
            calls[i] = Call(i, node, is_op=True)
        owner[i] = top
        if top is not None:
            calls[top].calls.append(i)
        if fresh[i]:
            call = calls[top] if top is not None else Call(i, node, is_op=False)
            calls.setdefault(call.index, call)
            for ref in node.outputs:
                if ref.storage in fresh[i] and ref.device == device:
                    call.allocated.setdefault(ref.storage, []).append(ref)
    return [calls[i] for i in sorted(calls)]


def _decide(nodes: Sequence[Node], device: str) -> tuple[list[set[int]], list[bool]]:
    """Say for each node which storages appear with it, and whether it is an op."""
    position = {node.id: i for i, node in enumerate(nodes)}
    below: dict[int, _Below] = {}
    fresh: list[set[int]] = [set()] * len(nodes)
    ops = [False] * len(nodes)
    # A call has a smaller id than those it makes: from the last to the first, all calls below a
    # node are known when it is reached.
    for i in range(len(nodes) - 1, -1, -1):
        node = nodes[i]
        known = below.pop(i, None) or _Below()
        takes = {ref.storage for ref in node.inputs if ref.device == device}
        gives = {ref.storage for ref in node.outputs if ref.device == device}
        changes = {ref.storage for ref in node.mutated if ref.device == device}
        new = gives - takes - known.allocated
        fresh[i] = new
        allocated = known.allocated | new
        ops[i] = _is_op(node, takes, gives, changes, new, known)
        above = position.get(node.parent)
        if above is None or above == i:
            continue
        outer = below.setdefault(above, _Below())
        outer.allocated |= allocated
        outer.reads |= known.reads
        outer.writes |= known.writes
        outer.has_ops |= known.has_ops or ops[i]
        if ops[i]:
            outer.reads |= takes
            outer.writes |= changes | allocated
            if is_communication(node.name):
                outer.writes |= takes
    return fresh, ops


def _is_op(
    node: Node,
    takes: set[int],
    gives: set[int],
    changes: set[int],
    new: set[int],
    known: _Below,
) -> bool:
    if is_communication(node.name):
        return bool(takes or gives)
    if node.scope == ANNOTATION_SCOPE:
        return False
    allocated = known.allocated | new
    if not node.has_schema:
        if node.scope == BACKWARD_SCOPE:
            # A backward function of the user's whose kernels the trace doesn't show.
            hidden = known.allocated - known.writes
            return bool(hidden) and not is_gradient_accumulation(node.name)
        return bool((gives & allocated) - known.writes)
    if is_allocation(node.name) or is_query(node.name):
        return False
    if not known.has_ops:
        return bool((gives & allocated) or changes or (takes and not gives))
    unread = takes - known.reads - known.writes
    unwritten = ((gives & allocated) | changes) - known.writes
    # What is written below before it is given out was allocated here, unseen by the trace.
    return bool(unread or unwritten or (new & known.writes))
