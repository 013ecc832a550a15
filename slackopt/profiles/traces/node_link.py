"""Reads and writes node-link JSON of networkx: bipartite, ops and tensors are nodes.

A node has ``id`` and ``bipartite`` (``op`` or ``tensor``) and the fields of the record; edges run
producer -> tensor -> reader.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from slackopt.errors import InputError
from slackopt.graph import Graph, Op, Tensor
from slackopt.profiles.traces.fields import Entry, shown
from slackopt.profiles.traces.records import make_op, make_tensor
from slackopt.profiles.traces.streaming import json_entries, json_value

_OP, _TENSOR = "op", "tensor"
_OP_FIELDS = ("phase", "duration_ns", "workspace_bytes", "recomputable", "layer")
_TENSOR_FIELDS = ("size_bytes", "kind", "swappable")


def write_node_link(graph: Graph) -> bytes:
    """Write a graph as node-link JSON, which `networkx.node_link_graph` reads.

    The list of edges is named ``edges``, as networkx 3.4 and newer do by default.
    """
    import networkx as nx  # here, since it takes long to import

    digraph: nx.DiGraph[str] = nx.DiGraph(name=graph.name, provenance=dict(graph.provenance))
    for index, op in enumerate(graph.ops):
        fields = op.model_dump(include=set(_OP_FIELDS))
        digraph.add_node(f"{_OP}/{op.name}", bipartite=_OP, index=index, **fields)
    for index, tensor in enumerate(graph.tensors):
        fields = tensor.model_dump(include=set(_TENSOR_FIELDS))
        digraph.add_node(f"{_TENSOR}/{tensor.name}", bipartite=_TENSOR, index=index, **fields)
    for op in graph.ops:
        for position, name in enumerate(op.inputs):
            digraph.add_edge(f"{_TENSOR}/{name}", f"{_OP}/{op.name}", position=position)
        for position, name in enumerate(op.outputs):
            digraph.add_edge(f"{_OP}/{op.name}", f"{_TENSOR}/{name}", position=position)
    names = {f"{_OP}/{op.name}": op.name for op in graph.ops}
    names |= {f"{_TENSOR}/{tensor.name}": tensor.name for tensor in graph.tensors}
    nx.set_node_attributes(digraph, names, "name")
    document = nx.node_link_data(digraph, edges="edges")
    return (json.dumps(document, ensure_ascii=False, allow_nan=False, indent=1) + "\n").encode()


def read_node_link(path: str, name: str, provenance: dict[str, Any]) -> Graph:
    """Read node-link JSON.

    Parameters
    ----------
    path
        The file.
    name, provenance
        Of the graph, where the document has none.

    Raises
    ------
    InputError
        Naming the node or edge and the field.
    """
    ops: list[tuple[int, str, Entry]] = []
    tensors: list[tuple[int, str, Entry]] = []
    kinds: dict[str, str] = {}
    for i, value in enumerate(json_entries(path, "nodes.item", alone=False)):
        entry = Entry(path, f"nodes[{i}]", value)
        key, kind = _key(entry, "id"), entry.text("bipartite")
        if key in kinds:
            raise entry.wrong("id", f"{key!r} stands twice; ids are unique")
        if kind not in (_OP, _TENSOR):
            raise entry.wrong("bipartite", f"must be 'op' or 'tensor', found {shown(kind)}")
        kinds[key] = kind
        (ops if kind == _OP else tensors).append((entry.integer("index", default=i), key, entry))
    if not kinds:
        raise InputError(f"{path}: field 'nodes' is missing or empty")
    inputs: dict[str, list[tuple[int, str]]] = {}
    outputs: dict[str, list[tuple[int, str]]] = {}
    for i, (field, value) in enumerate(_edges(path)):
        entry = Entry(path, f"{field}[{i}]", value)
        source, target = _key(entry, "source"), _key(entry, "target")
        for end, key in (("source", source), ("target", target)):
            if key not in kinds:
                raise entry.wrong(end, f"is {key!r}, which is the id of no node")
        position = entry.integer("position", default=i)
        if kinds[source] == kinds[target]:
            raise entry.wrong("target", f"is {target!r}: an edge joins an op and a tensor")
        if kinds[source] == _TENSOR:
            inputs.setdefault(target, []).append((position, source))
        else:
            outputs.setdefault(source, []).append((position, target))
    ops.sort(key=lambda item: item[0])
    tensors.sort(key=lambda item: item[0])
    names = {key: entry.text("name", default=key) for _, key, entry in (*ops, *tensors)}
    header = _header(path)
    return Graph(
        name=header.text("name", default=name),
        ops=tuple(_op(key, entry, names, inputs, outputs) for _, key, entry in ops),
        tensors=tuple(_tensor(names[key], entry) for _, key, entry in tensors),
        provenance=header.value.get("provenance", provenance),
    )


def _key(entry: Entry, field: str) -> str:
    value = entry.get(field)
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise entry.wrong(field, f"must be a string or a whole number, found {shown(value)}")
    return str(value)


def _edges(path: str) -> Iterator[tuple[str, Any]]:
    """Yield the edges; older versions of networkx call them links."""
    for field in ("edges", "links"):
        for value in json_entries(path, f"{field}.item", alone=False):
            yield field, value


def _header(path: str) -> Entry:
    found = json_value(path, "graph")
    return Entry(path, "graph", {} if found is None else found)


def _op(
    key: str,
    entry: Entry,
    names: dict[str, str],
    inputs: dict[str, list[tuple[int, str]]],
    outputs: dict[str, list[tuple[int, str]]],
) -> Op:
    fields = {field: entry.value[field] for field in _OP_FIELDS if field in entry.value}
    fields["inputs"] = tuple(names[tensor] for _, tensor in sorted(inputs.get(key, ())))
    fields["outputs"] = tuple(names[tensor] for _, tensor in sorted(outputs.get(key, ())))
    return make_op(entry.path, entry.place, {"name": names[key], **fields})


def _tensor(name: str, entry: Entry) -> Tensor:
    fields = {field: entry.value[field] for field in _TENSOR_FIELDS if field in entry.value}
    return make_tensor(entry.path, entry.place, {"name": name, **fields})
