"""What is printed: on standard output one JSON document or one view, and nothing of a solver's.

Everything that the command line prints goes through `print_json`, `print_view` or `print_line`.
They turn every sign that is none to be read (control characters, what turns the direction of text
round) into an escape, whatever file it came from: it could clear the screen, or hide what is there.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sys
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.measure import Measurement
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from slackopt.tables import printable, printable_lines

DEFAULT_WIDTH = 120
"""Columns of human output where standard output is no terminal and COLUMNS isn't set."""


class Data(str):
    """Text for another program (a table, a bibliography, commands), written as it is to a file.

    On a terminal it is text like any other.
    """

    __slots__ = ()


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
    details
        Lines below that sentence.
    """

    document: Any
    view: RenderableType | None = None
    exit_code: int = 0
    message: str | None = None
    details: tuple[str, ...] = ()


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
    if not text.replace("\n", "").isprintable():
        # As \\u escapes they are the same JSON; a name that is no valid Unicode (a file name can
        # be) becomes one as well.
        text = "".join(c if c.isprintable() or c == "\n" else json.dumps(c)[1:-1] for c in text)
    data = text.encode()
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
    if isinstance(view, Data):
        sys.stdout.write((printable_lines(view) if terminal else view) + "\n")
        sys.stdout.flush()
        return
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
        console.print(Escaped(view))
    else:
        sys.stdout.write("\n".join(text_lines(console, view)) + "\n")
    sys.stdout.flush()


def text_lines(console: Console, view: RenderableType) -> list[str]:
    """Return what a console without colours prints, without the blanks at the ends of lines."""
    with console.capture() as captured:
        console.print(Escaped(view), soft_wrap=isinstance(view, str))
    # Tables pad their cells; blanks at the end of a line are of no use in a file.
    return [line.rstrip() for line in captured.get().removesuffix("\n").split("\n")]


class Escaped:
    """A view whose texts are made printable when it is rendered, after rich has styled them."""

    def __init__(self, view: RenderableType) -> None:
        self.view = view

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the segments of the view."""
        for segment in console.render(self.view, options):
            if segment.control:
                yield segment
            else:
                yield Segment(printable_lines(segment.text), segment.style)


def print_line(text: str, *details: str) -> None:
    """Write a line to standard error, and lines below it."""
    lines = [printable(text), *(f"  - {printable(line)}" for line in details)]
    sys.stderr.write("\n".join(lines) + "\n")
    sys.stderr.flush()


def print_traceback(error: BaseException) -> None:
    """Write where an error was raised to standard error."""
    sys.stderr.write(printable_lines("".join(traceback.format_exception(error))))
    sys.stderr.flush()


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
