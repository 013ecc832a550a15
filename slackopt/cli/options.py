"""Arguments and options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from slackopt.errors import InputError
from slackopt.files import check_writable

InstanceFile = Annotated[
    Path, typer.Argument(metavar="INST", show_default=False, help="Instance file.")
]
TimeLimit = Annotated[float, typer.Option(metavar="S", help="Seconds for each method.")]
Threads = Annotated[int, typer.Option(metavar="N", help="Threads of a solver.")]
Seed = Annotated[int, typer.Option(metavar="N", help="Seed of solvers and searches.")]
Gap = Annotated[
    float, typer.Option(metavar="G", help="Stop at this certified gap (0.001 is 0.1 %).")
]
Solver = Annotated[
    str | None,
    typer.Option(metavar="NAME", show_default=False, help="Solver of a milp method."),
]
Deterministic = Annotated[
    bool, typer.Option("--deterministic", help="Results that don't depend on machine speed.")
]
IdenticalLayers = Annotated[
    bool,
    typer.Option(
        "--identical-layers/--no-identical-layers",
        help="Whether models exploit that layers are alike; the optimum is the same.",
    ),
]

DEFAULT_METHOD = "milp"
DEFAULT_TIME_LIMIT = 60.0
DEFAULT_GAP = 1e-4


def check_output(output: Path | None, *inputs: Path) -> None:
    """Refuse an output that can't be written or is one of the inputs; before any work is done."""
    if output is None:
        return
    check_writable(output)
    for path in inputs:
        if path.exists() and output.exists() and output.samefile(path):
            raise InputError(f"{output}: is an input of this command; name another file to write")
