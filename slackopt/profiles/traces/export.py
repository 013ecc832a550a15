"""Writes graphs in formats that other programs read."""

from __future__ import annotations

import os
from collections.abc import Callable

from slackopt.errors import InputError
from slackopt.files import write_bytes
from slackopt.graph import Graph
from slackopt.profiles.traces.detect import CSV, NODE_LINK
from slackopt.profiles.traces.node_link import write_node_link
from slackopt.profiles.traces.table import write_table

_WRITERS: dict[str, Callable[[Graph], bytes]] = {NODE_LINK: write_node_link, CSV: write_table}

EXPORT_FORMATS = tuple(_WRITERS)
"""Names of the formats that can be written."""


def export_graph(graph: Graph, path: str | os.PathLike[str], format: str) -> None:  # noqa: A002
    """Write a graph to a file, whole or not at all; `read_trace` gives the same graph back.

    Parameters
    ----------
    graph
        The graph.
    path
        The file.
    format
        One of `EXPORT_FORMATS`: ``node-link`` (JSON of networkx) or ``csv``.

    Raises
    ------
    InputError
        For an unknown format, a provenance that is no JSON, or a file that can't be written.
    """
    if format not in _WRITERS:
        raise InputError(f"unknown format {format!r}; formats: {', '.join(EXPORT_FORMATS)}")
    try:
        data = _WRITERS[format](graph)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"graph {graph.name!r}: its provenance can't be written as JSON: {error}"
        ) from None
    write_bytes(data, path)
