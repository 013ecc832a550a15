"""Finds the training steps in an execution trace, and picks one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from slackopt.errors import InputError
from slackopt.profiles.traces.nodes import Node
from slackopt.profiles.traces.operators import (
    ANNOTATION_SCOPE,
    is_backward_entry,
    is_gradient_accumulation,
    is_optimizer,
    is_step_marker,
)

BACKWARD, OPTIMIZER, ACCUMULATION = 1, 2, 4
"""Flags of a node: it lies below a backward function, the optimizer, the gradient accumulation."""

_MAX_LISTED = 8


@dataclass(frozen=True)
class Step:
    """A forward pass and the backward pass after it.

    Attributes
    ----------
    label
        The profiler's marker (``ProfilerStep#3``; with ``.0``, ``.1`` for micro-batches within
        one), or ``step 3`` where the trace has none.
    begin, end
        Positions in the list of nodes: ``begin`` is in, ``end`` is out.
    num_forward, num_backward
        Operator calls in each pass.
    followed
        Whether the trace goes on after it.
    """

    label: str
    begin: int
    end: int
    num_forward: int
    num_backward: int
    followed: bool


@dataclass(frozen=True)
class Context:
    """What each node inherits from the calls above it.

    Attributes
    ----------
    flags
        By position: `BACKWARD`, `OPTIMIZER`, `ACCUMULATION`.
    layers
        By position: the user's annotations above it, joined by slashes.
    """

    flags: list[int]
    layers: list[str]


def inherit(nodes: Sequence[Node]) -> Context:
    """Compute for each node in which pass and below which annotations it lies."""
    position = {node.id: i for i, node in enumerate(nodes)}
    flags, layers = [0] * len(nodes), [""] * len(nodes)
    for i, node in enumerate(nodes):
        # A call that had not returned when recording ended is missing, its children are there.
        above = position.get(node.parent)
        if above is not None and above != i:
            flags[i], layers[i] = flags[above], layers[above]
        if is_backward_entry(node.name, node.scope):
            flags[i] |= BACKWARD
        if is_gradient_accumulation(node.name):
            flags[i] |= ACCUMULATION
        if node.scope == ANNOTATION_SCOPE:
            if is_optimizer(node.name):
                flags[i] |= OPTIMIZER
            elif _is_layer(node.name):
                layers[i] = f"{layers[i]}/{node.name}" if layers[i] else node.name
    return Context(flags, layers)


def find_steps(path: str, nodes: Sequence[Node], context: Context) -> list[Step]:
    """Return the steps of a trace: every forward pass that a backward pass follows.

    Raises
    ------
    InputError
        If a step marker stands twice, or no whole step is there.
    """
    _check_markers(path, nodes)
    found: list[tuple[str | None, int, int, int, int]] = []
    marker, begin, forward, backward = None, 0, 0, 0
    for i, node in enumerate(nodes):
        calls_operator = node.has_schema and not context.flags[i] & OPTIMIZER
        is_backward = bool(context.flags[i] & BACKWARD)
        marked = is_step_marker(node.name) and node.scope == ANNOTATION_SCOPE
        leaves = context.flags[i] & OPTIMIZER or (calls_operator and not is_backward)
        if backward and (marked or leaves):
            found.append((marker, begin, i, forward, backward))
            begin, forward, backward = i, 0, 0
        if marked:
            marker, begin, forward, backward = node.name, i, 0, 0
        if calls_operator:
            forward, backward = forward + (not is_backward), backward + is_backward
    if backward:
        found.append((marker, begin, len(nodes), forward, backward))
    whole = [entry for entry in found if entry[3]]
    if not whole:
        raise InputError(f"{path}: {_why_none(found, nodes, context)}")
    return _labelled(whole, len(nodes))


def pick_step(path: str, steps: Sequence[Step], step: int | str | None) -> Step:
    """Return the step asked for, or the last whole one.

    Parameters
    ----------
    path
        Named in errors.
    steps
        All steps of the trace.
    step
        A position (0 is the first), a label, or None. The last step is whole if the trace goes on
        after it, or if its backward pass has as many calls as the one before.

    Raises
    ------
    InputError
        If there is no such step.
    """
    if step is None:
        last = steps[-1]
        cut = len(steps) > 1 and not last.followed and last.num_backward < steps[-2].num_backward
        return steps[-2] if cut else last
    labels = [entry.label for entry in steps]
    if isinstance(step, str) and step in labels:
        return steps[labels.index(step)]
    number = int(step) if isinstance(step, int) or step.isdecimal() else -1
    if not 0 <= number < len(steps):
        listed = ", ".join(f"{i} ({label})" for i, label in enumerate(labels[:_MAX_LISTED]))
        more = "" if len(labels) <= _MAX_LISTED else f" and {len(labels) - _MAX_LISTED} more"
        raise InputError(f"{path}: has no step {step!r}; it has {listed}{more}")
    return steps[number]


def _is_layer(name: str) -> bool:
    return not (is_step_marker(name) or name.startswith(("[pytorch|", "nccl:", "## process_group")))


def _check_markers(path: str, nodes: Sequence[Node]) -> None:
    seen: dict[str, int] = {}
    for node in nodes:
        if not is_step_marker(node.name) or node.scope != ANNOTATION_SCOPE:
            continue
        if node.name in seen:
            raise InputError(
                f"{path}: node {node.id}: field 'name': step marker {node.name!r} stands twice, "
                f"also at node {seen[node.name]}"
            )
        if seen and node.parent in seen.values():
            raise InputError(
                f"{path}: node {node.id}: field 'ctrl_deps': step marker {node.name!r} lies within "
                f"the step marker at node {node.parent}"
            )
        seen[node.name] = node.id


def _labelled(found: Sequence[tuple[str | None, int, int, int, int]], length: int) -> list[Step]:
    markers = [entry[0] for entry in found]
    steps: list[Step] = []
    for i, (marker, begin, end, forward, backward) in enumerate(found):
        label = f"step {i}" if marker is None else marker
        if marker is not None and markers.count(marker) > 1:
            label += f".{i - markers.index(marker)}"
        steps.append(Step(label, begin, end, forward, backward, end < length))
    return steps


def _why_none(
    found: Sequence[tuple[str | None, int, int, int, int]],
    nodes: Sequence[Node],
    context: Context,
) -> str:
    if found:
        where = f"node {nodes[found[0][1]].id}"
        return (
            f"no whole step: the backward pass from {where} on has no forward pass in the same "
            "step; check the step markers, or record from the start of a step"
        )
    if any(node.has_schema for node in nodes):
        return "no whole step: the trace has no backward pass; record loss.backward() too"
    if any(flag & BACKWARD for flag in context.flags):
        return "no whole step: no operator has a schema (field 'op_schema')"
    return "no whole step: the trace has no operator call"
