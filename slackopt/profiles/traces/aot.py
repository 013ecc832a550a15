"""Reads the joint graph that AOTAutograd's partitioner writes while debugging.

PyTorch writes it (as the artifact ``min_cut_information`` of its structured log) when
``torch._functorch.config.activation_memory_budget`` is below 1 and ``AOT_PARTITIONER_DEBUG`` is
set; the writer is ``torch/_functorch/_activation_checkpointing/ac_logging_utils.py``. A node has a
name, a target, a shape as text and its arguments; candidates for recompute also have a memory and a
runtime. Newer versions give ``Absolute Memories`` in bytes, older ones only shares of the total.
Runtimes are milliseconds where the partitioner measured (any is fractional), FLOPs otherwise.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

from slackopt.errors import InputError
from slackopt.graph import Graph, Op, Tensor
from slackopt.profiles.accelerators import Accelerator
from slackopt.profiles.builder import GRADIENT, SWAP_THRESHOLD_BYTES
from slackopt.profiles.roofline import op_time_ns
from slackopt.profiles.traces.fields import Entry
from slackopt.profiles.traces.operators import is_communication, is_random
from slackopt.profiles.traces.records import make_op, make_tensor
from slackopt.profiles.traces.streaming import json_entries, json_pairs
from slackopt.records import MAX_BYTES

_NODES = "Joint Graph Node Information"
_OUTPUT = "output"
_ABSOLUTE = "Absolute Memories"
_SHAPE = re.compile(r"(?:torch\.Size\()?[\[(]\s*((?:\d+\s*,?\s*)*)[\])]\)?")
_FORMAT_OF_BYTES = {2: "bf16", 4: "fp32"}
_VIEWS = frozenset(
    """
    _reshape_alias _unsafe_view alias as_strided chunk detach expand flatten lift_fresh narrow
    permute real reshape select slice split split_with_sizes squeeze t transpose unbind unfold
    unsqueeze view view_as_real
    """.split()  # noqa: SIM905 - a list of words is easier to read
)


@dataclass
class _Node:
    entry: Entry
    index: int
    name: str
    target: str
    inputs: list[str]
    shape: tuple[int, ...]
    candidate: int | None
    runtime: float | None
    backward: bool = False
    base: str = ""
    size_bytes: int = 0
    parts: list[str] = field(default_factory=list)

    @property
    def operator(self) -> str:
        """The operator's name without namespace and overload."""
        return self.target.removeprefix("aten.").partition(".")[0]


def read_aot(
    path: str,
    name: str,
    *,
    accelerator: Accelerator,
    element_bytes: int | None,
    restore_random_state: bool,
    provenance: dict[str, Any],
) -> Graph:
    """Read a partitioner's dump.

    Parameters
    ----------
    path, name
        The file; name of the graph.
    accelerator
        Whose roofline times the nodes without a measured runtime.
    element_bytes
        Bytes of an element where the dump doesn't tell; 2 or 4 for 16 and 32 bit formats.
    restore_random_state
        As in `read_trace`.
    provenance
        Added to.

    Raises
    ------
    InputError
        Naming the node and the field.
    """
    nodes = _read(path)
    known = element_bytes or _element_bytes(path, nodes, _absolute(path))
    _mark_backward(nodes)
    _resolve(nodes, known)
    measured = any(node.runtime is not None and node.runtime % 1 for node in nodes.values())
    clock = _Clock(accelerator, known, measured=measured)
    ops, tensors = _graph(nodes, clock, restore_random_state=restore_random_state)
    if not any(op.phase == "backward" for op in ops):
        raise InputError(
            f"{path}: {_NODES}: nothing depends on a node 'tangents_...'; the graph has no "
            "backward pass"
        )
    return Graph(
        name=name,
        ops=tuple(ops),
        tensors=tuple(tensors),
        provenance={
            **provenance,
            "element_bytes": known,
            "times": "measured by the partitioner, roofline elsewhere" if measured else "roofline",
            "accelerator": accelerator.model_dump(),
            "random_state_restored": restore_random_state,
        },
    )


def _read(path: str) -> dict[str, _Node]:
    found: list[_Node] = []
    for key, value in json_pairs(path, _NODES):
        entry = Entry(path, f"{_NODES}: {key[:60]!r}", value)
        found.append(_node(entry, key))
    if not found:
        raise InputError(f"{path}: field {_NODES!r} is missing or empty")
    found.sort(key=lambda node: node.index)
    nodes: dict[str, _Node] = {}
    for node in found:
        if node.name in nodes:
            raise node.entry.wrong("name", "stands twice; names are unique")
        for argument in node.inputs:
            if argument not in nodes:
                raise node.entry.wrong(
                    "input_arguments",
                    f"names {argument[:60]!r}, which no node of a smaller index is called",
                )
        nodes[node.name] = node
    return nodes


def _node(entry: Entry, key: str) -> _Node:
    name = entry.text("name")
    if name != key:
        raise entry.wrong("name", f"differs from the key {key[:60]!r}")
    inputs = entry.items("input_arguments")
    if not all(isinstance(argument, str) for argument in inputs):
        raise entry.wrong("input_arguments", "must hold names")
    candidate = runtime = None
    if "recomputable_candidate_info" in entry.value:
        info = Entry(entry.path, entry.place, entry.get("recomputable_candidate_info"))
        candidate = info.integer("recomputable_node_idx")
        runtime = info.number("runtime") if "runtime" in info.value else None
    shape = _SHAPE.fullmatch(entry.text("shape").strip())
    if shape is None:
        raise entry.wrong("shape", "must be a shape without symbols, as 'torch.Size([8, 512])'")
    sizes = tuple(int(size) for size in re.findall(r"\d{1,18}", shape[1]))
    return _Node(
        entry, entry.integer("index"), name, entry.text("target"), inputs, sizes, candidate, runtime
    )


def _absolute(path: str) -> list[Any]:
    return list(json_entries(path, f"{_ABSOLUTE}.item", alone=False))


def _element_bytes(path: str, nodes: dict[str, _Node], memories: Sequence[Any]) -> int:
    """Return the commonest size of an element among the candidates."""
    counts: Counter[int] = Counter()
    for node in nodes.values():
        if node.candidate is None or node.candidate >= len(memories) or not node.shape:
            continue
        memory, numel = memories[node.candidate], prod(node.shape)
        if type(memory) is not int or memory < 0:
            raise node.entry.wrong(_ABSOLUTE, "must hold whole numbers of at least 0")
        if numel and memory % numel == 0:
            counts[memory // numel] += 1
    if not counts:
        raise InputError(
            f"{path}: field {_ABSOLUTE!r} is missing, and shapes alone give no bytes; say how many "
            "bytes an element has (2 for 16-bit formats, 4 for fp32)"
        )
    for node in nodes.values():
        if node.candidate is not None and node.candidate < len(memories):
            node.size_bytes = int(memories[node.candidate])
    return max(counts, key=lambda size: (counts[size], -size))


def _mark_backward(nodes: dict[str, _Node]) -> None:
    """Mark the backward nodes: what no result of the forward pass needs.

    Some do not depend on a tangent, the derivative of GELU for example; they are computed in the
    backward pass all the same.
    """
    tangent: set[str] = set()
    for node in nodes.values():
        if node.name.startswith("tangents_") or not tangent.isdisjoint(node.inputs):
            tangent.add(node.name)
    results = [
        argument
        for node in nodes.values()
        if node.target == _OUTPUT
        for argument in node.inputs
        if argument not in tangent
    ]
    needed = set(results)
    for node in reversed(nodes.values()):
        if node.name in needed:
            needed.update(node.inputs)
    for node in nodes.values():
        is_input = not node.inputs and node.name not in tangent
        claimed = node.name in needed or is_input
        node.backward = node.name in tangent or (bool(results) and not claimed)


def _resolve(nodes: dict[str, _Node], element_bytes: int) -> None:
    """Find the storage of each node: its own, or that of the node it views."""
    for node in nodes.values():
        node.base = node.name
        source = nodes[node.inputs[0]] if node.inputs else None
        if source is not None and node.operator in _VIEWS:
            node.base = source.base
        elif source is not None and _is_getitem(node):
            # An item of a tuple is a storage of its own, unless the tuple holds views.
            node.base = node.name if source.base == source.name else source.base
            if node.base == node.name:
                source.parts.append(node.name)
        size = prod(node.shape) * element_bytes
        if size > MAX_BYTES:
            raise node.entry.wrong("shape", f"gives {size} bytes; at most {MAX_BYTES}")
        node.size_bytes = node.size_bytes or size


def _is_getitem(node: _Node) -> bool:
    return "getitem" in node.target


@dataclass(frozen=True)
class _Clock:
    accelerator: Accelerator
    element_bytes: int
    measured: bool

    def time_ns(self, node: _Node, moved_bytes: int) -> int:
        """Return the measured time of a node, or that of the roofline."""
        runtime = node.runtime
        if runtime is not None and self.measured:
            if runtime > 3.6e6:
                raise node.entry.wrong("runtime", "is longer than an hour (in ms)")
            return max(1, math.ceil(runtime * 10**6))
        dtype = _FORMAT_OF_BYTES.get(self.element_bytes, "fp32")
        if dtype not in self.accelerator.peak_flops_per_s:
            dtype = next(iter(self.accelerator.peak_flops_per_s))
        # The partitioner counts an element-wise node as one FLOP.
        flops = int(runtime or 0)
        return op_time_ns(self.accelerator, flops=flops, moved_bytes=moved_bytes, dtype=dtype)


def _graph(
    nodes: dict[str, _Node], clock: _Clock, *, restore_random_state: bool
) -> tuple[list[Op], list[Tensor]]:
    ops: list[Op] = []
    made: dict[str, _Node] = {}
    seeds = [node for node in nodes.values() if node.name.startswith("tangents_")]
    for backward in (False, True):
        if backward and seeds:
            names = [node.name for node in seeds if node.size_bytes]
            fields: dict[str, Any] = {"name": "tangents", "outputs": tuple(names)}
            fields |= {"phase": "backward", "duration_ns": 1, "recomputable": False}
            ops.append(make_op(seeds[0].entry.path, seeds[0].entry.place, fields))
            made |= {node.name: node for node in seeds}
        ops += [
            _op(node, nodes, made, clock, restore_random_state=restore_random_state)
            for node in nodes.values()
            if node.backward == backward and _is_work(node)
        ]
    sizes = {output for op in ops for output in op.outputs}
    tensors = [_tensor(node) for name, node in made.items() if name in sizes]
    return ops, tensors


def _is_work(node: _Node) -> bool:
    """Whether a node is an op: no input of the graph, output, view or item."""
    is_input = not node.inputs and node.target == node.name
    symbolic = node.operator.startswith("sym_")
    outcome = node.target == _OUTPUT
    return not (is_input or symbolic or outcome or node.base != node.name or _is_getitem(node))


def _op(
    node: _Node,
    nodes: dict[str, _Node],
    made: dict[str, _Node],
    clock: _Clock,
    *,
    restore_random_state: bool,
) -> Op:
    outputs = [nodes[part] for part in node.parts] or [node]
    outputs = [output for output in outputs if output.size_bytes]
    bases = list(_bases(node, nodes))
    moved = sum(nodes[base].size_bytes for base in bases) + sum(o.size_bytes for o in outputs)
    made |= {output.name: output for output in outputs}
    random = is_random(node.operator) or "rng" in node.target
    fields = {
        "name": node.name,
        "phase": "backward" if node.backward else "forward",
        "duration_ns": clock.time_ns(node, moved),
        "inputs": tuple(base for base in bases if base in made),
        "outputs": tuple(output.name for output in outputs),
        "recomputable": not (
            node.backward
            or (random and not restore_random_state)
            or is_communication(node.target.replace(".", "::", 1))
        ),
    }
    return make_op(node.entry.path, node.entry.place, fields)


def _bases(node: _Node, nodes: dict[str, _Node]) -> Iterator[str]:
    seen = set()
    for argument in node.inputs:
        base = nodes[argument].base
        if base not in seen:
            seen.add(base)
            yield base


def _tensor(node: _Node) -> Tensor:
    backward = node.backward
    fields = {
        "name": node.name,
        "size_bytes": node.size_bytes,
        "kind": GRADIENT if backward else "activation",
        "swappable": not backward and node.size_bytes >= SWAP_THRESHOLD_BYTES,
    }
    return make_tensor(node.entry.path, node.entry.place, fields)
