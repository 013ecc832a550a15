"""Makes a graph of one step of an execution trace."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from slackopt.errors import InputError
from slackopt.graph import Graph
from slackopt.profiles.traces.accounting import account
from slackopt.profiles.traces.assemble import assemble
from slackopt.profiles.traces.nodes import Node
from slackopt.profiles.traces.steps import (
    BACKWARD,
    OPTIMIZER,
    Context,
    Step,
    find_steps,
    inherit,
    pick_step,
)
from slackopt.profiles.traces.storages import Use, follow, main_device

DurationsFor = Callable[[str], Callable[[Use], int]]


def graph_of_nodes(
    path: str,
    nodes: Sequence[Node],
    *,
    durations: DurationsFor,
    name: str,
    step: int | str | None,
    restore_random_state: bool,
    provenance: dict[str, Any],
) -> Graph:
    """Make the graph of one step.

    Parameters
    ----------
    path
        Named in errors.
    nodes
        The whole trace, in the order of ids.
    durations
        Given the device, returns the function that times an op.
    name, step, restore_random_state
        As in `read_trace`.
    provenance
        Added to.

    Raises
    ------
    InputError
        If there is no such step, or nothing in it counts.
    """
    context = inherit(nodes)
    steps = find_steps(path, nodes, context)
    chosen = pick_step(path, steps, step)
    kept = [i for i in range(chosen.begin, chosen.end) if not context.flags[i] & OPTIMIZER]
    window = [nodes[i] for i in kept]
    flags = [context.flags[i] for i in kept]
    device = main_device(window)
    if device is None:
        raise InputError(f"{path}: {chosen.label} has no tensor")
    uses = follow(window, flags, device)
    duration = durations(device)
    assembly = assemble(
        uses,
        duration=duration,
        layers=_layers(uses, window, kept, context),
        optimizer_storages=_optimizer_storages(nodes, context, device),
        restore_random_state=restore_random_state,
    )
    _check(path, chosen, assembly.counts)
    calls = account(f"{path}: {chosen.label}", window, uses, assembly.left_out, duration)
    return Graph(
        name=name,
        ops=assembly.ops,
        tensors=assembly.tensors,
        provenance={
            **provenance,
            "step": chosen.label,
            "steps_found": [entry.label for entry in steps],
            "device": device,
            "random_state_restored": restore_random_state,
            "counted": assembly.counts,
            "calls": calls,
        },
    )


def _check(path: str, step: Step, counts: dict[str, Any]) -> None:
    if not counts["saved_activations"]["number"]:
        raise InputError(
            f"{path}: {step.label}: its backward pass reads no tensor that its forward pass made; "
            "there is nothing to decide on. Does the trace have both passes on one device?"
        )


def _layers(
    uses: Sequence[Use], window: Sequence[Node], kept: Sequence[int], context: Context
) -> list[str]:
    """Label each op; a backward op has the label of the forward op it belongs to.

    Autograd gives both the same sequence number.
    """
    position = {node.id: i for i, node in enumerate(window)}
    forward: dict[int, str] = {}
    for i, node in enumerate(window):
        if node.sequence >= 0 and not context.flags[kept[i]] & BACKWARD:
            forward[node.sequence] = context.layers[kept[i]]
    labels = []
    for use in uses:
        label = context.layers[kept[use.position]]
        if use.backward:
            label = _forward_label(use.node, window, position, forward) or label
        labels.append(label)
    return labels


def _forward_label(
    node: Node, window: Sequence[Node], position: dict[int, int], forward: dict[int, str]
) -> str:
    above: Node | None = node
    while above is not None:
        if above.sequence >= 0 and above.sequence in forward:
            return forward[above.sequence]
        at = position.get(above.parent)
        above = window[at] if at is not None and above.parent != above.id else None
    return ""


def _optimizer_storages(nodes: Sequence[Node], context: Context, device: str) -> frozenset[int]:
    return frozenset(
        ref.storage
        for i, node in enumerate(nodes)
        if context.flags[i] & OPTIMIZER
        for ref in node.mutated
        if ref.device == device
    )
