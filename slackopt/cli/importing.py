"""``import`` and ``export``: traces and tables that other programs write and read."""

from __future__ import annotations

import enum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Group

from slackopt.cli import views
from slackopt.cli.options import check_output
from slackopt.cli.output import Answer
from slackopt.cli.text import count, size
from slackopt.describe import describe
from slackopt.errors import InputError
from slackopt.files import read_graph, write_record
from slackopt.graph import Graph
from slackopt.profiles import accelerator_names
from slackopt.profiles.traces import EXPORT_FORMATS, TRACE_FORMATS, export_graph, read_trace
from slackopt.tables import facts_view

_COUNTED = ("saved_activations", "inputs")

TraceFormat = enum.StrEnum("TraceFormat", {name: name for name in TRACE_FORMATS})  # type: ignore[misc]
ExportFormat = enum.StrEnum("ExportFormat", {name: name for name in EXPORT_FORMATS})  # type: ignore[misc]


def import_(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE [FILE2]",
            show_default=False,
            help="Trace or table; or the execution trace and the profiler trace of one run.",
        ),
    ],
    output: Annotated[
        Path,
        typer.Option("--output", "-o", metavar="GRAPH", show_default=False, help="Graph file."),
    ],
    format: Annotated[  # noqa: A002
        TraceFormat | None,
        typer.Option(show_default=False, help="Format of FILE; told from its content by default."),
    ] = None,
    accelerator: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            show_default=False,
            help="Times from its roofline, for a trace without times: "
            f"{', '.join(accelerator_names())}.",
        ),
    ] = None,
    step: Annotated[
        str | None,
        typer.Option(
            metavar="STEP",
            show_default=False,
            help="Which step: its position, from 0, or its label; the last whole one by default.",
        ),
    ] = None,
    restore_random_state: Annotated[
        bool,
        typer.Option(
            "--restore-random-state/--no-restore-random-state",
            help="Whether ops that draw random numbers are recomputable.",
        ),
    ] = True,
    element_bytes: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            max=16,
            show_default=False,
            help="Bytes of an element, for an aot dump that gives shapes only.",
        ),
    ] = None,
    name: Annotated[
        str | None, typer.Option(metavar="NAME", help="Name of the graph; by default the file's.")
    ] = None,
) -> Answer:
    """Make a graph from a trace or a table that you already have.

    Formats: PyTorch execution traces, PyTorch profiler traces (Kineto), both of one run, dumps of
    AOTAutograd's partitioner, node-link JSON of networkx, CSV tables. Plain, .gz, .zip or .tar.gz.
    """
    if len(files) > 2:
        raise InputError(
            f"{len(files)} files given; import takes one, or the execution trace and the profiler "
            "trace of one run"
        )
    check_output(output, *files)
    graph = read_trace(
        files[0],
        None if format is None else str(format.value),
        durations=files[1] if len(files) > 1 else None,
        accelerator=accelerator,
        step=step,
        restore_random_state=restore_random_state,
        element_bytes=element_bytes,
        name=name,
    )
    write_record(graph, output)
    view = views.record_view(graph, written=output)
    facts = _import_facts(graph)
    return Answer(
        {"output": str(output), **describe(graph)},
        Group(facts_view("imported", facts), view) if facts else view,
    )


def _import_facts(graph: Graph) -> dict[str, str]:
    """Say what was taken from a trace and what was left out."""
    found = graph.provenance
    facts = {}
    if "step" in found:
        facts["step"] = f"{found['step']} (found: {', '.join(map(str, found['steps_found']))})"
    for key in ("device", "times", "dataflow"):
        if key in found:
            facts[key] = str(found[key])
    calls = found.get("calls")
    if calls is not None:
        left = sum(calls["left_out"].values())
        facts["calls"] = (
            f"{calls['calls']}: {calls['in_ops']} in ops, {left} left out, "
            f"{calls['without_work']} without work of their own"
        )
    for key, entry in found.get("counted", {}).items():
        left_out = "" if key in _COUNTED else ", left out"
        number = count(entry["number"], "storage")
        facts[key.replace("_", " ")] = f"{number}, {size(entry['bytes'])}{left_out}"
    return facts


# `import` is a word of Python's own and can't be the name of a function.
import_.__name__ = "import"


def export(
    graph: Annotated[Path, typer.Argument(metavar="GRAPH", show_default=False, help="Graph file.")],
    format: Annotated[ExportFormat, typer.Option(show_default=False, help="Format to write.")],  # noqa: A002
    output: Annotated[
        Path,
        typer.Option("--output", "-o", metavar="FILE", show_default=False, help="File to write."),
    ],
) -> Answer:
    """Write a graph as node-link JSON of networkx or as a CSV table.

    `slackopt import` reads both back to the same graph.
    """
    check_output(output, graph)
    made = read_graph(graph)
    export_graph(made, output, str(format.value))
    document = {
        "output": str(output),
        "format": str(format.value),
        "ops": len(made.ops),
        "tensors": len(made.tensors),
    }
    return Answer(
        document,
        f"{output}: {len(made.ops)} ops and {len(made.tensors)} tensors as {format.value}",
    )
