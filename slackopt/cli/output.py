"""Standard output: one JSON document or one view, and nothing that a solver prints."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

DEFAULT_WIDTH = 120
"""Columns of human output where standard output is no terminal and COLUMNS isn't set."""


@dataclass(frozen=True)
class Answer:
    """What a command has to say.

    Attributes
    ----------
    document
        JSON values, printed with ``--json``.
    view
        What a person reads on standard output; None for nothing.
    exit_code
        See `slackopt.errors`.
    message
        A sentence for standard error, for answers that are no success.
    """

    document: Any
    view: RenderableType | None = None
    exit_code: int = 0
    message: str | None = None


@contextlib.contextmanager
def noise_to_stderr() -> Iterator[None]:
    """Send everything that is written to standard output to standard error.

    Solvers print to file descriptor 1 from C, whatever they are told, so the descriptor itself is
    turned round, and with it that of every process started meanwhile.
    """
    sys.stdout.flush()
    saved = os.dup(1)
    try:
        sys.stderr.flush()
        os.dup2(2, 1)
        with contextlib.redirect_stdout(sys.stderr):
            yield
    finally:
        _flush_c_streams()
        os.dup2(saved, 1)
        os.close(saved)


def _flush_c_streams() -> None:
    """Empty the buffers of C's stdio, which would otherwise reach standard output later."""
    import ctypes

    with contextlib.suppress(OSError, AttributeError, TypeError):
        ctypes.CDLL(None).fflush(None)


def open_closed_streams() -> None:
    """Give the process the standard streams that its caller closed (``>&-``), leading nowhere.

    Otherwise the next file opened would get their descriptors, and the solvers' noise with them.
    """
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115


def print_json(document: Any) -> None:
    """Print one JSON document, in UTF-8 wherever it goes."""
    text = json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    # A name that is no valid Unicode (a file name can be) becomes a \\u escape: valid JSON.
    data = text.encode("utf-8", "backslashreplace")
    sys.stdout.flush()
    buffer = getattr(sys.stdout, "buffer", None)
    if buffer is None:
        sys.stdout.write(data.decode())
    else:
        buffer.write(data)
    sys.stdout.flush()


def print_view(view: RenderableType) -> None:
    """Print for a person: colours only on a terminal, `DEFAULT_WIDTH` columns elsewhere."""
    with contextlib.suppress(AttributeError):
        sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    terminal = sys.stdout.isatty()
    width = shutil.get_terminal_size().columns if terminal else output_width()
    console = Console(
        file=sys.stdout,
        width=max(width, natural_width(view)),
        force_terminal=terminal,
        color_system="auto" if terminal else None,
        highlight=False,
        markup=False,
        emoji=False,
    )
    if terminal:
        console.print(view)
    else:
        with console.capture() as captured:
            console.print(view, soft_wrap=isinstance(view, str))
        # Tables pad their cells; blanks at the end of a line are of no use in a file.
        lines = [line.rstrip() for line in captured.get().splitlines()]
        sys.stdout.write("\n".join(lines) + "\n")
    sys.stdout.flush()


def natural_width(view: RenderableType) -> int:
    """Return the width that the widest table of numbers needs: none of its columns may go.

    Such tables are those whose columns never wrap; on a narrower terminal their lines run over.
    """
    if isinstance(view, Group):
        return max((natural_width(part) for part in view.renderables), default=0)
    if hasattr(view, "__rich_measure__") and not isinstance(view, Table | Text):
        console = Console(width=10_000)
        return Measurement.get(console, console.options, view).minimum
    if not isinstance(view, Table) or not all(column.no_wrap for column in view.columns):
        return 0
    console = Console(width=10_000)
    return Measurement.get(console, console.options, view).maximum


def output_width() -> int:
    """Return the width asked for with COLUMNS, or `DEFAULT_WIDTH`."""
    columns = os.environ.get("COLUMNS", "")
    return max(40, int(columns)) if columns.isdecimal() and int(columns) else DEFAULT_WIDTH
