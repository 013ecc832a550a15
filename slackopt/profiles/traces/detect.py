"""Tells the format of a trace from its content."""

from __future__ import annotations

import io

from slackopt.errors import InputError
from slackopt.profiles.traces.source import Replayed, first_bytes, open_trace
from slackopt.profiles.traces.streaming import json_events, syntax

EXECUTION_TRACE = "execution-trace"
KINETO = "kineto"
AOT = "aot"
NODE_LINK = "node-link"
CSV = "csv"

FORMATS = (EXECUTION_TRACE, KINETO, AOT, NODE_LINK, CSV)
"""Names of the formats that can be imported."""

_HEAD = 4096

# A key at the top level that one format has and no other.
_KEYS = {
    "schema": EXECUTION_TRACE,
    "traceEvents": KINETO,
    "deviceProperties": KINETO,
    "baseTimeNanoseconds": KINETO,
    "Joint Graph Size": AOT,
    "Joint Graph Edges": AOT,
    "Joint Graph Node Information": AOT,
    "directed": NODE_LINK,
    "multigraph": NODE_LINK,
    "links": NODE_LINK,
}
# A key of the first node, for documents whose nodes stand first.
_NODE_KEYS = {
    "ctrl_deps": EXECUTION_TRACE,
    "attrs": EXECUTION_TRACE,
    "op_schema": EXECUTION_TRACE,
    "rf_id": EXECUTION_TRACE,
    "bipartite": NODE_LINK,
    "size_bytes": NODE_LINK,
    "duration_ns": NODE_LINK,
}


def detect_format(path: str) -> str:
    """Return the format of a trace, one of `FORMATS`, from its content.

    Raises
    ------
    InputError
        If it is none of them, saying what it seems to be.
    """
    with open_trace(path, whole=False) as stream:
        head = first_bytes(stream, _HEAD)
        start = head.lstrip(b" \t\r\n")
        if not start:
            raise InputError(f"{path}: is empty")
        if start[:1] == b"{":
            with syntax(path, stream):
                stream.check_depth(head)
                return _json_format(path, Replayed(head, stream))
        if start[:1] == b"[":
            raise InputError(
                f"{path}: is a JSON list, as the profiler of old PyTorch (torch.autograd.profiler) "
                f"writes; a trace is a JSON object. Formats: {', '.join(FORMATS)}"
            )
        # A table begins with a header, after comments if it has any.
        header = next((line for line in start.splitlines() if line[:1] != b"#"), b"")
        separated = any(sign in header for sign in (b",", b";", b"\t"))
        if (separated and _is_text(header)) or (not header and start[:1] == b"#"):
            return CSV
    raise InputError(f"{path}: is no format known here; formats: {', '.join(FORMATS)}")


def _json_format(path: str, stream: io.RawIOBase) -> str:
    for prefix, event, value in json_events(stream):
        if event != "map_key":
            if prefix == "format" and value == "slackopt/graph":
                raise InputError(f"{path}: is a graph already; use it as it is")
            continue
        if prefix == "" and value in _KEYS:
            return _KEYS[value]
        if prefix == "nodes.item" and value in _NODE_KEYS:
            return _NODE_KEYS[value]
    raise InputError(
        f"{path}: is JSON, but no format known here; formats: {', '.join(FORMATS)}. If it is one "
        "of them, name it with --format to see what it lacks"
    )


def _is_text(line: bytes) -> bool:
    try:
        return line.decode("utf-8").replace("\t", "").isprintable()
    except UnicodeDecodeError:
        return False
