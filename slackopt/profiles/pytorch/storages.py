"""Reads a trace as ops on storages: views merged, parameters and buffers told apart."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch.utils import _pytree as pytree

from slackopt.graph import Phase
from slackopt.profiles.pytorch.tracing import Trace

Role = Literal["static", "input", "made"]


@dataclass(frozen=True)
class Storage:
    """One storage of a step.

    Attributes
    ----------
    size_bytes
        Its whole size, however little of it a view shows.
    role
        ``static``: parameters, buffers, constants; ``input``: the batch; ``made``: by an op.
    name
        Of an input; ``""`` for others.
    dtype
        Number format of the tensor it was first seen as.
    """

    size_bytes: int
    role: Role
    name: str
    dtype: torch.dtype


@dataclass
class TracedOp:
    """An op of the step; storages are positions in `Step.storages`.

    Attributes
    ----------
    nodes
        Its calls; several where ops that overwrite were merged into the op before them.
    phase, path
        See `slackopt.profiles.pytorch.marking.Mark`.
    reads
        Storages whose values it needs, parameters included.
    makes
        New storages, in the order of its outputs.
    overwrites
        Storages of before that it writes to.
    random
        Whether its values come from a random generator.
    """

    nodes: list[torch.fx.Node]
    phase: Phase
    path: str
    reads: tuple[int, ...]
    makes: tuple[int, ...]
    overwrites: tuple[int, ...]
    random: bool


@dataclass
class Step:
    """The ops and storages of a trace.

    Attributes
    ----------
    ops
        In execution order; views are none.
    storages
        Every storage of the trace.
    gradients
        Storage of each parameter's gradient, by the name of the parameter; unused ones are absent.
    positions
        Position of each storage by its address. The trace keeps every tensor, so that no address
        is used twice.
    """

    ops: list[TracedOp] = field(default_factory=list)
    storages: list[Storage] = field(default_factory=list)
    gradients: dict[str, int] = field(default_factory=dict)
    positions: dict[int, int] = field(default_factory=dict)

    def position(self, tensor: torch.Tensor) -> int:
        """Return the position of a traced tensor's storage."""
        return self.positions[tensor.untyped_storage()._cdata]

    def add(self, tensor: torch.Tensor, role: Role, name: str = "") -> int:
        """Return the position of a traced tensor's storage, after adding it if it is new."""
        storage = tensor.untyped_storage()
        address: int = storage._cdata
        if address not in self.positions:
            self.positions[address] = len(self.storages)
            self.storages.append(Storage(int(storage.nbytes()), role, name, tensor.dtype))
        return self.positions[address]


_SHAPE_ONLY = {
    f"aten::{name}"
    for name in (
        "empty_like",
        "full_like",
        "new_empty",
        "new_empty_strided",
        "new_full",
        "new_ones",
        "new_zeros",
        "ones_like",
        "rand_like",
        "randn_like",
        "zeros_like",
    )
}
"""Ops that need only the shape of their input."""


def read_step(trace: Trace) -> Step:
    """Read the ops and storages of a trace, in order.

    A call that makes no new storage and overwrites none is a view and takes no time.
    """
    step = Step()
    placeholders = 0
    for node in trace.graph_module.graph.nodes:
        if node.op == "placeholder":
            tensors = tensors_of(node, trace)
            if placeholders < trace.num_state:
                step.add(tensors[0], "static")
            elif tensors:
                step.add(tensors[0], "input", trace.input_names[placeholders - trace.num_state])
            placeholders += bool(tensors)
        elif node.op == "get_attr":
            for tensor in tensors_of(node, trace):
                step.add(tensor, "static")
        elif node.op == "call_function" and node.target is not operator.getitem:
            _read_op(step, node, trace)
        elif node.op == "output":
            _, *grads = node.args[0]
            for name, grad in zip(trace.parameter_names, grads, strict=True):
                if grad is not None:
                    # The values of a sparse gradient stand behind its indices.
                    step.gradients[name] = step.position(tensors_of(grad, trace)[-1])
    return step


def _read_op(step: Step, node: torch.fx.Node, trace: Trace) -> None:
    mark = trace.marks[node]
    reads = []
    if schema_name(node) not in _SHAPE_ONLY:
        reads = [
            step.position(tensor)
            for source in node.all_input_nodes
            for tensor in tensors_of(source, trace)
        ]
    overwrites = [
        step.position(tensor) for source in written(node) for tensor in tensors_of(source, trace)
    ]
    before = len(step.storages)
    results = [step.add(tensor, "made") for tensor in tensors_of(node, trace)]
    makes = [s for s in results if s >= before]
    if not makes and not overwrites:
        return
    if not overwrites and all(step.storages[s].size_bytes == 0 for s in makes):
        return  # an empty placeholder, such as the reserve of a batch norm
    step.ops.append(
        TracedOp(
            nodes=[node],
            phase=mark.phase,
            path=mark.path,
            reads=tuple(dict.fromkeys(reads)),
            makes=tuple(dict.fromkeys(makes)),
            overwrites=tuple(dict.fromkeys(overwrites)),
            random=is_random(node),
        )
    )


def tensors_of(node: torch.fx.Node, trace: Trace) -> list[torch.Tensor]:
    """Return the fake tensors that a node stands for."""
    if node.op == "get_attr" and "val" not in node.meta:
        value = getattr(trace.graph_module, str(node.target))
    else:
        value = node.meta.get("val")
    return [leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor)]


def schema_name(node: torch.fx.Node) -> str:
    """Return the name of a call's op without its overload, as in ``aten::add_``."""
    schema = getattr(node.target, "_schema", None)
    return str(node.target) if schema is None else str(schema.name)


def written(node: torch.fx.Node) -> Iterator[torch.fx.Node]:
    """Yield the arguments that a call writes to, by its schema."""
    for name, value, argument in arguments(node):
        del name
        if argument.alias_info is not None and argument.alias_info.is_write:
            for leaf in pytree.tree_leaves(value):
                if isinstance(leaf, torch.fx.Node):
                    yield leaf


def arguments(node: torch.fx.Node) -> Iterator[tuple[str, Any, Any]]:
    """Yield name, value and schema entry of each argument that is given."""
    schema = getattr(node.target, "_schema", None)
    if schema is None:
        return
    for place, argument in enumerate(schema.arguments):
        if place < len(node.args):
            yield argument.name, node.args[place], argument
        elif argument.name in node.kwargs:
            yield argument.name, node.kwargs[argument.name], argument


def is_random(node: torch.fx.Node) -> bool:
    """Whether a call draws random numbers: fused attention without dropout doesn't."""
    tags = getattr(node.target, "tags", ())
    if torch.Tag.nondeterministic_seeded not in tags:
        return False
    given = {name: value for name, value, _ in arguments(node)}
    if "attention" in schema_name(node):
        return float(given.get("dropout_p", 0.0)) > 0
    return True
