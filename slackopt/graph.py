"""The activation graph of one training step: ops in order, and the tensors between them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, model_validator

from slackopt.errors import InputError
from slackopt.lifetimes import Lifetimes
from slackopt.records import SCHEMA_VERSION, DurationNs, Name, OptionalBytes, Record, SizeBytes

if TYPE_CHECKING:
    import networkx as nx

Phase = Literal["forward", "backward"]


class Op(Record):
    """One compute op.

    Attributes
    ----------
    name
        Unique among the ops of a graph.
    phase
        ``forward`` (the loss included) or ``backward``.
    duration_ns
        Time on the compute stream.
    workspace_bytes
        Memory held only while the op runs.
    inputs, outputs
        Names of the tensors it reads and makes. A tensor read twice by the op is listed once.
    recomputable
        False for ops that must not run twice: collectives, ops whose random state isn't saved,
        ops whose inputs are overwritten.
    layer
        Free label, used to group ops in figures and to recognise identical layers.
    """

    name: Name
    phase: Phase
    duration_ns: DurationNs
    inputs: tuple[Name, ...] = ()
    outputs: tuple[Name, ...] = ()
    workspace_bytes: OptionalBytes = 0
    recomputable: bool = True
    layer: str = ""


class Tensor(Record):
    """One storage on the device; views and aliases are merged before a graph is made.

    Attributes
    ----------
    name
        Unique among the tensors of a graph.
    size_bytes
        Size of the storage.
    kind
        Free label: ``activation``, ``gradient``, ``mask``, ``input``, ...
    swappable
        False for storages that must stay on the device until they are freed or recomputed.
    """

    name: Name
    size_bytes: SizeBytes
    kind: str = "activation"
    swappable: bool = True


class Graph(Record):
    """One training step as a sequence of ops; the position in `ops` is the execution order.

    Parameters
    ----------
    name
        Name of the model and setting.
    ops, tensors
        The step. A tensor without a producer (the batch) is on the device from the start.
    provenance
        Where the profile came from and with what settings, so that a result can be cited.

    Raises
    ------
    InputError
        With every violation and its place, if ops and tensors do not make a step.
    """

    format: Literal["slackopt/graph"] = "slackopt/graph"
    schema_version: Annotated[int, Field(ge=SCHEMA_VERSION, le=SCHEMA_VERSION)] = SCHEMA_VERSION
    name: Name
    ops: tuple[Op, ...]
    tensors: tuple[Tensor, ...]
    provenance: Mapping[str, Any] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _check(self) -> Graph:
        violations = list(_violations(self))
        if violations:
            noun = "violation" if len(violations) == 1 else "violations"
            raise InputError(
                f"graph {self.name!r} is not a valid training step ({len(violations)} {noun})",
                violations,
            )
        return self

    @cached_property
    def tensor_index(self) -> dict[str, int]:
        """Position of each tensor, by name."""
        return {tensor.name: t for t, tensor in enumerate(self.tensors)}

    @cached_property
    def lifetimes(self) -> Lifetimes:
        """Integer-indexed view: who makes, reads and frees each tensor."""
        tensor_index = self.tensor_index
        return Lifetimes.from_ops(
            sizes_bytes=tuple(tensor.size_bytes for tensor in self.tensors),
            swappable=tuple(tensor.swappable for tensor in self.tensors),
            durations_ns=tuple(op.duration_ns for op in self.ops),
            workspaces_bytes=tuple(op.workspace_bytes for op in self.ops),
            recomputable=tuple(op.recomputable for op in self.ops),
            inputs=tuple(tuple(tensor_index[name] for name in op.inputs) for op in self.ops),
            outputs=tuple(tuple(tensor_index[name] for name in op.outputs) for op in self.ops),
            num_forward=sum(op.phase == "forward" for op in self.ops),
        )

    @cached_property
    def networkx(self) -> nx.DiGraph[tuple[str, str]]:
        """The graph as a frozen, bipartite `networkx.DiGraph`.

        Nodes are ``("op", name)`` and ``("tensor", name)`` with the record under the attribute
        ``record`` and ops with their position under ``index``; edges run producer -> tensor ->
        reader.
        """
        return _digraph(self.ops, self.tensors)

    @cached_property
    def ideal_ns(self) -> int:
        """Sum of all base durations: the step time with unlimited memory."""
        return sum(op.duration_ns for op in self.ops)

    @property
    def unlimited_peak_bytes(self) -> int:
        """Most bytes live during an op when each tensor is freed after its last use."""
        return self.lifetimes.unlimited_peak_bytes

    def __repr__(self) -> str:
        return (
            f"Graph({self.name!r}, {len(self.ops)} ops, {len(self.tensors)} tensors, "
            f"peak {self.unlimited_peak_bytes / 2**30:.2f} GiB, ideal {self.ideal_ns / 1e6:.2f} ms)"
        )


def _digraph(ops: tuple[Op, ...], tensors: tuple[Tensor, ...]) -> nx.DiGraph[tuple[str, str]]:
    import networkx as nx  # here, since it takes long to import

    graph: nx.DiGraph[tuple[str, str]] = nx.DiGraph()
    for tensor in tensors:
        graph.add_node(("tensor", tensor.name), record=tensor)
    for index, op in enumerate(ops):
        graph.add_node(("op", op.name), record=op, index=index)
        graph.add_edges_from((("tensor", name), ("op", op.name)) for name in op.inputs)
        graph.add_edges_from((("op", op.name), ("tensor", name)) for name in op.outputs)
    nx.freeze(graph)
    return graph


def _violations(graph: Graph) -> Iterator[str]:
    """Yield every reason why ops and tensors do not make a step, with its place in the file."""
    found = False
    for line in _sequence_violations(graph):
        found = True
        yield line
    # A cycle needs a use before the production, which the sequence shows: no search without one.
    if found:
        yield from _cycle(graph)


def _sequence_violations(graph: Graph) -> Iterator[str]:
    if not graph.ops:
        yield "ops: the graph is empty; a step needs at least one op"
    yield from _duplicates("ops", [op.name for op in graph.ops])
    yield from _duplicates("tensors", [tensor.name for tensor in graph.tensors])
    known = {tensor.name for tensor in graph.tensors}
    producer: dict[str, int] = {}
    for k, op in enumerate(graph.ops):
        for i, name in enumerate(op.outputs):
            if name not in known:
                yield f"ops[{k}].outputs[{i}]: tensor {name!r} of op {op.name!r} is not in tensors"
            elif name in producer:
                first = graph.ops[producer[name]].name
                yield (
                    f"ops[{k}].outputs[{i}]: tensor {name!r} is produced twice, "
                    f"by op {first!r} and by op {op.name!r}"
                )
            else:
                producer[name] = k
    read: set[str] = set()
    seen_backward: str | None = None
    for k, op in enumerate(graph.ops):
        if op.phase == "backward":
            seen_backward = seen_backward or op.name
        elif seen_backward is not None:
            yield (
                f"ops[{k}].phase: forward op {op.name!r} stands after backward op "
                f"{seen_backward!r}; all forward ops come first"
            )
        if len(set(op.inputs)) < len(op.inputs):
            yield f"ops[{k}].inputs: op {op.name!r} lists an input twice; list it once"
        for i, name in enumerate(op.inputs):
            read.add(name)
            if name not in known:
                yield f"ops[{k}].inputs[{i}]: tensor {name!r} of op {op.name!r} is not in tensors"
            elif name in producer and producer[name] >= k:
                maker = graph.ops[producer[name]].name
                yield (
                    f"ops[{k}].inputs[{i}]: op {op.name!r} uses tensor {name!r} before op "
                    f"{maker!r} (ops[{producer[name]}]) produces it"
                )
    for i, tensor in enumerate(graph.tensors):
        if tensor.name not in producer and tensor.name not in read:
            yield (
                f"tensors[{i}]: tensor {tensor.name!r} is never produced and never used; remove it"
            )


def _duplicates(field: str, names: list[str]) -> Iterator[str]:
    first: dict[str, int] = {}
    for i, name in enumerate(names):
        if name in first:
            yield f"{field}[{i}].name: {name!r} is already the name of {field}[{first[name]}]"
        first.setdefault(name, i)


def _cycle(graph: Graph) -> Iterator[str]:
    import networkx as nx

    try:
        edges = nx.find_cycle(_digraph(graph.ops, graph.tensors))
    except nx.NetworkXNoCycle:
        return
    names = [node[1] for node, _ in edges if node[0] == "op"]
    yield f"ops: the graph has a cycle through ops {', '.join(map(repr, names))}"
