"""Reads and writes CSV tables: one activation a row; commas, semicolons or tabs between columns.

Two layouts, told apart by their headers; ``docs/traces.md`` describes the columns.

The *short* one is for people with their own profiler: a row is a forward op, the activation it
makes and the time of the backward op that reads it. The *full* one holds any graph exactly: a row
is an op with one tensor that it makes, in the order of execution.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from slackopt.errors import InputError
from slackopt.graph import Graph, Op, Tensor
from slackopt.profiles.traces.fields import MAX_INTEGER
from slackopt.profiles.traces.records import make_op, make_tensor
from slackopt.profiles.traces.source import open_trace
from slackopt.profiles.traces.table_lines import TableLines, text_ends

SHORT_COLUMNS = ("activation", "size_bytes", "forward_ns", "backward_ns")
"""Columns that a short table must have."""

SHORT_OPTIONAL = ("inputs", "saved", "kind", "swappable", "recomputable", "layer")

FULL_COLUMNS = (
    "op",
    "phase",
    "duration_ns",
    "inputs",
    "workspace_bytes",
    "recomputable",
    "layer",
    "tensor",
    "size_bytes",
    "kind",
    "swappable",
    "tensor_position",
)
"""Columns of a full table, in the order they are written."""

_FULL_REQUIRED = ("op", "phase", "duration_ns", "inputs", "tensor", "size_bytes")
_MAX_CELL = 2**24
_NAME, _PROVENANCE = "# name: ", "# provenance: "


@dataclass(frozen=True)
class _Row:
    path: str
    line: int
    cells: Mapping[str, str]

    def wrong(self, column: str, sentence: str) -> InputError:
        return InputError(f"{self.path}: line {self.line}: column {column!r} {sentence}")

    def text(self, column: str) -> str:
        return self.cells.get(column, "")

    def whole(self, column: str, default: int | None = None) -> int:
        text = self.text(column).strip()
        if not text and default is not None:
            return default
        digits = text.removeprefix("-")
        if not (digits.isascii() and digits.isdecimal() and len(digits) <= len(str(MAX_INTEGER))):
            raise self.wrong(column, f"must be a whole number, found {text[:60]!r}")
        return int(text)

    def flag(self, column: str, *, default: bool) -> bool:
        text = self.text(column).strip().lower()
        if not text:
            return default
        if text not in ("true", "false"):
            raise self.wrong(column, f"must be true or false, found {text[:60]!r}")
        return text == "true"

    def names(self, column: str) -> tuple[str, ...]:
        return split_names(self.text(column))


@dataclass
class _Table:
    header: list[str] = field(default_factory=list)
    rows: list[_Row] = field(default_factory=list)
    name: str | None = None
    provenance: dict[str, Any] | None = None


def read_table(path: str, name: str, provenance: dict[str, Any]) -> Graph:
    """Read a CSV table.

    Parameters
    ----------
    path
        The file.
    name, provenance
        Of the graph, where the table has none.

    Raises
    ------
    InputError
        Naming the line and the column.
    """
    table = _parse(path)
    if not table.rows:
        raise InputError(f"{path}: has no row below its header")
    if set(SHORT_COLUMNS) <= set(table.header):
        ops, tensors = _short(table)
    elif set(_FULL_REQUIRED) <= set(table.header):
        ops, tensors = _full(table)
    else:
        short = [column for column in SHORT_COLUMNS if column not in table.header]
        full = [column for column in _FULL_REQUIRED if column not in table.header]
        raise InputError(
            f"{path}: line 1: columns are missing; a short table lacks {', '.join(short)}, a full "
            f"one lacks {', '.join(full)}"
        )
    return Graph(
        name=table.name or name,
        ops=tuple(ops),
        tensors=tuple(tensors),
        provenance=provenance if table.provenance is None else table.provenance,
    )


def write_table(graph: Graph) -> bytes:
    """Write a graph as a full table; `read_table` gives the same graph back."""
    tensors = {tensor.name: (i, tensor) for i, tensor in enumerate(graph.tensors)}
    made = {name for op in graph.ops for name in op.outputs}
    lines = [f"{_NAME}{json.dumps(graph.name)}\n"]
    lines.append(f"{_PROVENANCE}{json.dumps(dict(graph.provenance), allow_nan=False)}\n")
    lines.append(f"{','.join(FULL_COLUMNS)}\n")
    for i, tensor in enumerate(graph.tensors):
        if tensor.name not in made:
            lines.append(_line(_tensor_cells(i, tensor)))
    for op in graph.ops:
        cells = {
            "op": op.name,
            "phase": op.phase,
            "duration_ns": op.duration_ns,
            "inputs": join_names(op.inputs),
            "workspace_bytes": op.workspace_bytes,
            "recomputable": str(op.recomputable).lower(),
            "layer": op.layer,
        }
        if not op.outputs:
            lines.append(_line(cells))
        lines += [_line(cells | _tensor_cells(*tensors[name])) for name in op.outputs]
    return "".join(lines).encode()


def join_names(names: Sequence[str]) -> str:
    """Join names by semicolons; a semicolon or backslash within one gets a backslash before it."""
    return ";".join(name.replace("\\", "\\\\").replace(";", "\\;") for name in names)


def split_names(text: str) -> tuple[str, ...]:
    """Undo `join_names`."""
    if not text:
        return ()
    names, current, escaped = [], "", False
    for character in text:
        if escaped or character not in ("\\", ";"):
            current, escaped = current + character, False
        elif character == "\\":
            escaped = True
        else:
            names.append(current)
            current = ""
    return (*names, current)


def _line(cells: Mapping[str, Any]) -> str:
    """Write one row."""
    text = io.StringIO()
    # With this line end, the writer quotes cells that hold either of its characters.
    end = "\r\n"
    writer = csv.DictWriter(text, FULL_COLUMNS, restval="", lineterminator=end)
    writer.writerow(cells)
    return f"{text.getvalue().removesuffix(end)}\n"


def _tensor_cells(position: int, tensor: Tensor) -> dict[str, Any]:
    return {
        "tensor": tensor.name,
        "size_bytes": tensor.size_bytes,
        "kind": tensor.kind,
        "swappable": str(tensor.swappable).lower(),
        "tensor_position": position,
    }


def _parse(path: str) -> _Table:
    table = _Table()
    csv.field_size_limit(_MAX_CELL)
    with open_trace(path) as stream:
        lines = TableLines(path, stream, {_NAME: str, _PROVENANCE: dict})
        line = 1
        try:
            separator = lines.separator({*SHORT_COLUMNS, *SHORT_OPTIONAL, *FULL_COLUMNS})
            reader = csv.reader(lines, strict=True, delimiter=separator)
            for cells in reader:
                line = lines.first + reader.line_num - 1
                if not table.header:
                    table.header = _header(path, line, cells)
                elif cells:
                    table.rows.append(_row(path, line, table.header, cells))
                stream.mark()
        except csv.Error as error:
            raise InputError(f"{path}: line {line + 1}: not CSV: {error}") from None
        except UnicodeDecodeError:
            raise InputError(f"{path}: not UTF-8 text (near byte {text_ends(path)})") from None
    table.name, table.provenance = lines.found.get(_NAME), lines.found.get(_PROVENANCE)
    if not table.header:
        raise InputError(f"{path}: has no header line")
    return table


def _header(path: str, line: int, cells: list[str]) -> list[str]:
    header = [cell.strip() for cell in cells]
    known = {*SHORT_COLUMNS, *SHORT_OPTIONAL, *FULL_COLUMNS}
    for column in header:
        if column not in known:
            raise InputError(
                f"{path}: line {line}: column {column[:60]!r} is not known; columns of a short "
                f"table: {', '.join((*SHORT_COLUMNS, *SHORT_OPTIONAL))}; of a full one: "
                f"{', '.join(FULL_COLUMNS)}"
            )
        if header.count(column) > 1:
            raise InputError(f"{path}: line {line}: column {column!r} stands twice")
    return header


def _row(path: str, line: int, header: list[str], cells: list[str]) -> _Row:
    if len(cells) != len(header):
        raise InputError(
            f"{path}: line {line}: has {len(cells)} cells, and the header has {len(header)}"
        )
    return _Row(path, line, dict(zip(header, cells, strict=True)))


def _short(table: _Table) -> tuple[list[Op], list[Tensor]]:
    """Make the forward ops of the rows, and a backward op for each in reverse order."""
    forward: list[Op] = []
    backward: list[Op] = []
    tensors: list[Tensor] = []
    names: set[str] = set()
    previous: tuple[str, ...] = ()
    for row in table.rows:
        name = row.text("activation")
        if name in names:
            raise row.wrong("activation", f"is {name[:60]!r} for a second time; names are unique")
        names.add(name)
        place = f"line {row.line}"
        tensors.append(_table_tensor(row, name, full=False))
        inputs = row.names("inputs") if row.text("inputs") else previous
        saved = row.names("saved") if row.text("saved") else (name,)
        for column, read in (("inputs", inputs), ("saved", saved)):
            unknown = [other for other in read if other not in names]
            if unknown:
                raise row.wrong(column, f"names {unknown[0][:60]!r}, which no row up to here makes")
        fields = {
            "name": name,
            "phase": "forward",
            "duration_ns": row.whole("forward_ns"),
            "inputs": inputs,
            "outputs": (name,),
            "recomputable": row.flag("recomputable", default=True),
            "layer": row.text("layer"),
        }
        forward.append(make_op(row.path, place, fields))
        fields |= {
            "name": f"{name}.backward",
            "phase": "backward",
            "duration_ns": row.whole("backward_ns"),
            "inputs": saved,
            "outputs": (),
            "recomputable": False,
        }
        backward.append(make_op(row.path, place, fields))
        previous = (name,)
    return forward + backward[::-1], tensors


def _full(table: _Table) -> tuple[list[Op], list[Tensor]]:
    tensors: list[tuple[int, Tensor]] = []
    ops: list[dict[str, Any]] = []
    lines: list[int] = []
    for i, row in enumerate(table.rows):
        name, op = row.text("tensor"), row.text("op")
        if not name and not op:
            raise row.wrong("op", "and column 'tensor' are both empty")
        if name:
            position = row.whole("tensor_position", default=i)
            tensors.append((position, _table_tensor(row, name, full=True)))
        if not op:
            continue
        fields: dict[str, Any] = {
            "name": op,
            "phase": row.text("phase"),
            "duration_ns": row.whole("duration_ns"),
            "inputs": row.names("inputs"),
            "workspace_bytes": row.whole("workspace_bytes", default=0),
            "recomputable": row.flag("recomputable", default=True),
            "layer": row.text("layer"),
        }
        if ops and ops[-1]["name"] == op:
            differing = [key for key, value in fields.items() if ops[-1][key] != value]
            if differing:
                raise row.wrong(
                    differing[0], f"differs from the line above, for the same op {op!r}"
                )
        else:
            ops.append(fields | {"outputs": ()})
            lines.append(row.line)
        if name:
            ops[-1]["outputs"] += (name,)
    path = table.rows[0].path
    tensors.sort(key=lambda item: item[0])
    made = [make_op(path, f"line {line}", fields) for line, fields in zip(lines, ops, strict=True)]
    return made, [tensor for _, tensor in tensors]


def _table_tensor(row: _Row, name: str, *, full: bool) -> Tensor:
    fields = {
        "name": name,
        "size_bytes": row.whole("size_bytes"),
        "kind": row.cells.get("kind", "activation") if full else row.text("kind") or "activation",
        "swappable": row.flag("swappable", default=True),
    }
    return make_tensor(row.path, f"line {row.line}", fields)
