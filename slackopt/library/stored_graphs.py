"""Graphs that a family keeps beside its instances, since tracing them again needs PyTorch.

The instances of such a family are made from the files in its folder ``graphs``, on any Python and
without PyTorch. The graphs themselves are traced by its ``trace.py``; another version of PyTorch
may trace another graph, so that they are made again on purpose only.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from slackopt.errors import InputError
from slackopt.files import read_graph, read_text, write_bytes
from slackopt.graph import Graph
from slackopt.library.making import compress

GRAPHS = "graphs"
SUFFIX = ".graph.gz"
"""Not ``.json.gz``: commands that look for instance files must not find graphs."""


def stored_graph(family: Path, name: str) -> Graph:
    """Read a graph that a family keeps.

    Raises
    ------
    InputError
        If it is missing or damaged.
    """
    return read_graph(family / GRAPHS / f"{name}{SUFFIX}")


def main(
    family: Path, graphs: Mapping[str, Callable[[], Graph]], arguments: Sequence[str] | None = None
) -> int:
    """Run a family's tracing script: trace graphs and store them; return its exit code.

    A file whose ops and tensors are those traced is left as it is, so that its provenance keeps
    the versions that it was made with.
    """
    parser = argparse.ArgumentParser(description=f"Trace the graphs of {family.name!r}.")
    parser.add_argument(
        "--check", action="store_true", help="write nothing; fail if a traced graph differs"
    )
    parser.add_argument("--only", default="", metavar="TEXT", help="only names that contain it")
    options = parser.parse_args(arguments)
    changed = []
    for name, trace in graphs.items():
        if options.only not in name:
            continue
        graph = trace()
        if _holds(family, name, graph):
            continue
        changed.append(name)
        if not options.check:
            path = family / GRAPHS / f"{name}{SUFFIX}"
            path.parent.mkdir(exist_ok=True)
            write_bytes(compress(graph.model_dump_json(indent=1) + "\n"), path)
    if changed:
        print(f"{'differing' if options.check else 'written'}: {', '.join(changed)}")  # noqa: T201
    return 1 if changed and options.check else 0


def _holds(family: Path, name: str, graph: Graph) -> bool:
    path = family / GRAPHS / f"{name}{SUFFIX}"
    try:
        stored = Graph.model_validate_json(read_text(path))
    except (InputError, ValueError):
        return False
    return (stored.name, stored.ops, stored.tensors) == (graph.name, graph.ops, graph.tensors)
