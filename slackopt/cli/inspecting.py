"""``info``: what is in a file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from slackopt.cli import views
from slackopt.cli.output import Answer
from slackopt.describe import describe
from slackopt.files import read_record
from slackopt.schema import FORMATS


def info(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            show_default=False,
            help="Graph, instance, plan, result, or run of a batch.",
        ),
    ],
) -> Answer:
    """Say what is in a file: ops, tensors, peak, ideal time, hideable share, feasible budget."""
    record = read_record(file, *FORMATS.values())
    return Answer({"file": str(file), **describe(record)}, views.record_view(record))
