"""``profile`` and ``instance``: what is asked."""

from __future__ import annotations

import enum
from pathlib import Path
from typing import Annotated

import typer
from pydantic import ValidationError

from slackopt.cli import views
from slackopt.cli.options import check_output
from slackopt.cli.output import Answer
from slackopt.cli.progress import say
from slackopt.describe import describe
from slackopt.errors import InputError
from slackopt.files import read_graph, write_record
from slackopt.instance import Instance
from slackopt.profiles import accelerator_names, device_names, preset_names, transformer
from slackopt.violations import violation_lines


class Attention(enum.StrEnum):
    """How attention is computed."""

    FLASH = "flash"
    EAGER = "eager"


def profile(
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL", show_default=False, help=f"Preset: {', '.join(preset_names())}."
        ),
    ],
    output: Annotated[
        Path,
        typer.Option("--output", "-o", metavar="GRAPH", show_default=False, help="Graph file."),
    ],
    batch: Annotated[
        int | None, typer.Option(metavar="N", help="Sequences per step; the preset's by default.")
    ] = None,
    seq: Annotated[
        int | None, typer.Option(metavar="N", help="Tokens per sequence; the preset's by default.")
    ] = None,
    attention: Annotated[
        Attention, typer.Option(help="One fused op, or scores and probabilities kept.")
    ] = Attention.FLASH,
    dropout: Annotated[
        bool | None,
        typer.Option("--dropout/--no-dropout", help="Train with dropout; the preset's by default."),
    ] = None,
    layers: Annotated[
        int | None, typer.Option(metavar="N", help="Number of blocks; the preset's by default.")
    ] = None,
    device: Annotated[
        str,
        typer.Option(metavar="NAME", help="Accelerator (a100) or device (a100-pcie4)."),
    ] = "a100",
    name: Annotated[
        str | None, typer.Option(metavar="NAME", help="Name of the graph; by default its settings.")
    ] = None,
) -> Answer:
    """Make the graph of one training step of a transformer, from public figures only.

    A file name that ends in .gz is compressed.
    """
    check_output(output)
    try:
        graph = transformer(
            model,
            batch=batch,
            seq=seq,
            attention=attention.value,
            dropout=dropout,
            accelerator=accelerator_of(device),
            num_layers=layers,
            name=name,
        )
    except ValidationError as error:
        raise InputError("these settings make no valid step", violation_lines(error)) from None
    write_record(graph, output)
    return Answer(
        {"output": str(output), **describe(graph)}, views.record_view(graph, written=output)
    )


def instance(
    graph: Annotated[Path, typer.Argument(metavar="GRAPH", show_default=False, help="Graph file.")],
    device: Annotated[
        str,
        typer.Option(
            metavar="NAME", show_default=False, help=f"One of: {', '.join(device_names())}."
        ),
    ],
    budget: Annotated[
        str,
        typer.Option(
            metavar="SIZE",
            show_default=False,
            help="Fraction of the unlimited peak (0.5, 50%) or bytes (12GiB).",
        ),
    ],
    output: Annotated[
        Path,
        typer.Option("--output", "-o", metavar="INST", show_default=False, help="Instance file."),
    ],
    name: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Name; the graph's by default."),
    ] = None,
) -> Answer:
    """Make an instance: a graph, a device and a memory budget.

    A budget that one op alone exceeds is refused with exit code 3, and nothing is written.
    """
    check_output(output, graph)
    step = read_graph(graph)
    made = Instance.from_graph(step, device=device, budget=budget, name=name)
    made.check_working_set()
    chip = step.provenance.get("accelerator")
    profiled = chip.get("name") if isinstance(chip, dict) else None
    if isinstance(profiled, str) and not device.startswith(f"{profiled}-"):
        say(f"warning: {graph} was profiled on {profiled!r}, and the link is that of {device!r}")
    write_record(made, output)
    return Answer(
        {"output": str(output), **describe(made)}, views.record_view(made, written=output)
    )


def accelerator_of(device: str) -> str:
    """Return the accelerator of an accelerator's or a device's name."""
    chips = accelerator_names()
    if device in chips:
        return device
    if device in device_names():
        for chip in sorted(chips, key=len, reverse=True):
            if device.startswith(f"{chip}-"):
                return chip
    raise InputError(
        f"unknown device {device!r}; accelerators: {', '.join(chips)}; "
        f"devices: {', '.join(device_names())}"
    )
