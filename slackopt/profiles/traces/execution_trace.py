"""Reads PyTorch execution traces: JSON of the schemas 1.0.1 to 1.1.x (Chakra).

Facts of the format come from the writer, ``torch/csrc/profiler/standalone/
execution_trace_observer.cpp`` of PyTorch: a tensor is written as ``[tensor id, storage id, offset,
elements, bytes of an element, device]``, an id 1 is the process, ids grow in the order of calls,
and a call is written when it returns. Schema 1.0.1 has the attributes of a node side by side,
later ones in a list ``attrs``; 1.0 has ``input_shapes`` and ``input_types`` beside ``inputs``, 1.1
has all three within ``inputs``; 1.1.1 adds strides.
"""

from __future__ import annotations

from math import prod
from typing import Any

from slackopt.errors import InputError
from slackopt.profiles.traces.fields import Entry, shown
from slackopt.profiles.traces.nodes import Node, TensorRef
from slackopt.profiles.traces.operators import (
    dropout_argument,
    is_random,
    mutated_arguments,
    writes_bytes,
)
from slackopt.profiles.traces.source import open_trace
from slackopt.profiles.traces.streaming import json_entries, json_events, syntax
from slackopt.records import MAX_BYTES

ROOT_ID = 1
_SCHEMAS = ("1.0.", "1.1.")
_MAX_DEPTH = 16
_MAX_NAME = 400
_TENSOR_FIELDS = 6


def read_nodes(path: str) -> list[Node]:
    """Read all nodes of an execution trace, in the order of their ids.

    Raises
    ------
    InputError
        Naming file, node and field of the first thing that is wrong.
    """
    _check_schema(path)
    reader = _NodeReader(path)
    for i, value in enumerate(json_entries(path, "nodes.item")):
        reader.add(Entry(path, f"nodes[{i}]", value))
    if not reader.nodes:
        raise InputError(f"{path}: nodes: the trace has no node")
    return [reader.nodes[key] for key in sorted(reader.nodes)]


def _check_schema(path: str) -> None:
    with open_trace(path, whole=False) as stream, syntax(path, stream):
        for prefix, event, value in json_events(stream):
            if prefix == "schema":
                if event == "string" and str(value).startswith(_SCHEMAS):
                    return
                raise InputError(
                    f"{path}: field 'schema' is {shown(value)}; schemas 1.0.x and 1.1.x are read"
                )
            if prefix == "nodes" and event == "start_array":
                return
    raise InputError(
        f"{path}: field 'nodes' is missing; is it a PyTorch execution trace (not a profiler trace)?"
    )


class _NodeReader:
    def __init__(self, path: str) -> None:
        self.path = path
        self.nodes: dict[int, Node] = {}
        self._refs: dict[TensorRef, TensorRef] = {}
        self._texts: dict[str, str] = {}

    def add(self, entry: Entry) -> None:
        number = entry.integer("id", minimum=0)
        entry.place = f"node {number}"
        if number in self.nodes:
            raise entry.wrong("id", f"is {number} for a second time; ids are unique")
        name = entry.text("name")
        if not name or len(name) > _MAX_NAME:
            raise entry.wrong("name", f"must have 1 to {_MAX_NAME} characters")
        attributes = self._attributes(entry)
        parent = entry.integer("ctrl_deps" if "ctrl_deps" in entry.value else "parent", minimum=0)
        if parent >= number and number != ROOT_ID:
            raise entry.wrong(
                "ctrl_deps" if "ctrl_deps" in entry.value else "parent",
                f"is {parent}: a call comes after the call that made it, so the parents would be "
                "cyclic",
            )
        schema = attributes.text("op_schema", default="")
        values, inputs = self._arguments(entry, "inputs", "input")
        _, outputs = self._arguments(entry, "outputs", "output")
        mutated: list[TensorRef] = []
        if writes_bytes(name):
            positions = mutated_arguments(schema)
            mutated = [ref for i in positions if i < len(inputs) for ref in inputs[i]]
        probability = dropout_argument(schema)
        dropped = (
            probability is not None
            and probability < len(values)
            and isinstance(values[probability], int | float)
            and values[probability] > 0
        )
        self.nodes[number] = Node(
            id=number,
            parent=parent,
            name=self._texts.setdefault(name, name),
            inputs=tuple(ref for refs in inputs for ref in refs),
            outputs=tuple(ref for refs in outputs for ref in refs),
            mutated=tuple(mutated),
            scope=attributes.integer("scope", default=0),
            sequence=attributes.integer("seq_id", minimum=-1, default=-1),
            record_id=attributes.integer("rf_id", default=0),
            has_schema=bool(schema),
            random=dropped or is_random(name),
        )

    def _attributes(self, entry: Entry) -> Entry:
        if "attrs" not in entry.value:
            return entry
        found: dict[str, Any] = {"name": entry.value["name"]}
        for i, value in enumerate(entry.items("attrs")):
            attribute = Entry(self.path, f"{entry.place}: attrs[{i}]", value)
            key = attribute.text("name")
            if key != "name":
                found[key] = attribute.get("value")
        return Entry(self.path, entry.place, found)

    def _arguments(
        self, entry: Entry, field: str, prefix: str
    ) -> tuple[list[Any], list[list[TensorRef]]]:
        """Return the values of all arguments, and the tensors in each."""
        value = entry.get(field)
        if isinstance(value, dict):
            holder = Entry(self.path, f"{entry.place}: {field}", value)
            values, types = holder.items("values"), holder.items("types")
            shapes = holder.items("shapes")
            strides = holder.items("strides") if "strides" in value else []
        else:
            holder = entry
            values = entry.as_items(field, value)
            types, shapes = entry.items(f"{prefix}_types"), entry.items(f"{prefix}_shapes")
            strides = []
        if not len(values) == len(types):
            raise holder.wrong("types", f"has {len(types)} entries for {len(values)} values")
        found: list[list[TensorRef]] = []
        for i, (kind, argument) in enumerate(zip(types, values, strict=True)):
            refs: list[TensorRef] = []
            if not isinstance(kind, str):
                raise holder.wrong("types", f"must hold strings, found {shown(kind)}")
            if "Tensor(" in kind:
                shape = shapes[i] if i < len(shapes) else None
                stride = strides[i] if i < len(strides) else None
                self._collect(holder, kind, argument, shape, stride, refs, 0)
            found.append(refs)
        return values, found

    def _collect(
        self,
        entry: Entry,
        kind: str,
        value: object,
        shape: object,
        stride: object,
        refs: list[TensorRef],
        depth: int,
    ) -> None:
        """Append the tensors of one argument, those within lists and tuples included."""
        if kind.startswith("Tensor("):
            ref = self._tensor(entry, kind, value, shape, stride)
            if ref is not None:
                refs.append(ref)
        elif kind.endswith("]") and "Tensor(" in kind:
            if depth >= _MAX_DEPTH:
                raise entry.wrong("types", f"is nested more than {_MAX_DEPTH} deep")
            kinds = _split(kind[kind.index("[") + 1 : -1])
            values = entry.as_items("values", value)
            shapes = shape if isinstance(shape, list) else []
            strides = stride if isinstance(stride, list) else []
            for i, (inner, element) in enumerate(zip(kinds, values, strict=False)):
                self._collect(
                    entry,
                    inner,
                    element,
                    shapes[i] if i < len(shapes) else None,
                    strides[i] if i < len(strides) else None,
                    refs,
                    depth + 1,
                )

    def _tensor(
        self, entry: Entry, kind: str, value: object, shape: object, stride: object
    ) -> TensorRef | None:
        if not isinstance(value, list) or len(value) != _TENSOR_FIELDS:
            raise entry.wrong(
                "values",
                "must give a tensor as [tensor id, storage id, offset, elements, bytes of an "
                f"element, device], found {shown(value)}",
            )
        tensor, storage, offset, numel, itemsize = (
            entry.as_integer("values", part) for part in value[:-1]
        )
        device = value[-1]
        if not isinstance(device, str):
            raise entry.wrong("values", f"must name a tensor's device, found {shown(device)}")
        if numel == 0 or itemsize == 0:
            return None
        sizes = self._whole_numbers(entry, "shapes", shape)
        steps = self._whole_numbers(entry, "strides", stride)
        if isinstance(shape, list) and prod(sizes) != numel:
            raise entry.wrong("shapes", f"gives {list(sizes)[:8]} to a tensor of {numel} elements")
        exact = len(steps) == len(sizes) and stride is not None
        span = numel
        if exact:
            span = 1 + sum((size - 1) * step for size, step in zip(sizes, steps, strict=True))
        extent = (offset + span) * itemsize
        if not 0 < extent <= MAX_BYTES:
            raise entry.wrong("values", f"gives a tensor of {extent} bytes; at most {MAX_BYTES}")
        dtype = kind[len("Tensor(") : -1]
        ref = TensorRef(
            tensor,
            storage,
            extent,
            exact,
            numel,
            itemsize,
            self._texts.setdefault(device, device),
            self._texts.setdefault(dtype, dtype),
            sizes,
        )
        return self._refs.setdefault(ref, ref)

    @staticmethod
    def _whole_numbers(entry: Entry, field: str, value: object) -> tuple[int, ...]:
        if not isinstance(value, list):
            return ()
        return tuple(entry.as_integer(field, part) for part in value)


def _split(text: str) -> list[str]:
    """Split ``Tensor(float),GenericList[Int,Int]`` at its outer commas."""
    found, depth, begin = [], 0, 0
    for i, character in enumerate(text):
        depth += (character in "[(") - (character in "])")
        if character == "," and depth == 0:
            found.append(text[begin:i])
            begin = i + 1
    found.append(text[begin:])
    return found
