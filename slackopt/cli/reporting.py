"""``report``: tables and figures from a batch."""

from __future__ import annotations

import enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from slackopt.cli.failures import MAX_LINES
from slackopt.cli.options import check_output
from slackopt.cli.output import Answer, Data, natural_width, output_width, text_lines
from slackopt.cli.progress import say
from slackopt.cli.text import count
from slackopt.errors import CheckError, InputError
from slackopt.files import write_bytes
from slackopt.tables import printable

if TYPE_CHECKING:
    from rich.console import RenderableType

    from slackopt.report import Report


class Format(enum.StrEnum):
    """What a report is written as."""

    TABLE = "table"
    CSV = "csv"
    PARQUET = "parquet"
    LATEX = "latex"
    HTML = "html"


class TableName(enum.StrEnum):
    """The tables of a report."""

    METHODS = "methods"
    INSTANCES = "instances"
    RUNS = "runs"
    FAILURES = "failures"


def report(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", show_default=False, help="Folder of a batch.")
    ],
    form: Annotated[Format, typer.Option("--format", "-f", help="What to write.")] = Format.TABLE,
    table: Annotated[
        TableName | None,
        typer.Option(
            "--table",
            "-t",
            show_default=False,
            help="Only this table; for csv and parquet, runs by default.",
        ),
    ] = None,
    methods: Annotated[
        str | None,
        typer.Option(
            "--methods", "-m", metavar="A,B,...", show_default=False, help="Show only these."
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FILE", show_default=False, help="File; standard output."
        ),
    ] = None,
    figures: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            show_default=False,
            help="Write every figure there: PNG, PDF, and its data as CSV.",
        ),
    ] = None,
) -> Answer:
    """Report on a batch: tables per instance and per method, profiles, gaps over time and budget.

    Files that are no sound runs are named and left out. A bound above a plan is told, with exit
    code 6.
    """
    check_output(output)
    _check_choice(form, table, output)
    # With these come jinja2 and matplotlib, which no other command waits for.
    from slackopt import report as reports

    chosen = None
    if methods is not None:
        chosen = [name.strip() for name in _split(methods) if name.strip()]
        if not chosen:
            raise InputError("--methods names no method; name one, or leave it out")
    made = reports.make_report(folder, methods=chosen)
    for line in made.skipped[:MAX_LINES]:
        say(f"warning: skipped: {line}")
    if made.skipped:
        say(f"warning: {count(len(made.skipped), 'file')} skipped in {folder}")
    written = []
    if figures is not None:
        written += reports.write_figures(made, figures)
    data = _bytes(made, form, table)
    if output is not None and data is not None:
        write_bytes(data, output)
        written.append(output)
    document = {
        "runs": len(made.runs),
        "skipped": list(made.skipped),
        "conflicts": list(made.conflicts),
        "methods": reports.json_rows(made.methods),
        "instances": reports.json_rows(made.instances),
        "failures": reports.json_rows(made.failed),
        "written": [str(path) for path in written],
    }
    told = "\n".join(f"written: {printable(str(path))}" for path in written)
    if output is not None:
        view = told
    elif data is not None and form is not Format.TABLE:
        view = Data(data.decode().rstrip("\n"))
        for path in written:
            say(f"written: {path}")
    else:
        names = [table.value] if table else ["instances", "methods", "failures"]
        from rich.console import Group
        from rich.text import Text

        shown = reports.report_view(made, names)
        return _answer(document, Group(shown, Text(told)) if told else shown, made)
    return _answer(document, view, made)


def _split(methods: str) -> list[str]:
    """Split at commas that are not inside of brackets: labels have settings in brackets."""
    parts, depth = [""], 0
    for sign in methods:
        depth += {"(": 1, ")": -1}.get(sign, 0)
        if sign == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += sign
    return parts


def _check_choice(form: Format, table: TableName | None, output: Path | None) -> None:
    if form is Format.PARQUET and output is None:
        raise InputError("--format parquet writes no text; name a file with --output")
    if form is Format.HTML and table is not None:
        raise InputError("--format html has all tables; leave --table out")
    if form in (Format.TABLE, Format.LATEX) and table is TableName.RUNS:
        raise InputError("the table of runs is too wide to be read; use --format csv or parquet")
    if form is Format.LATEX and table is TableName.FAILURES:
        raise InputError("failures are listed by the formats table, csv, parquet and html only")


def _bytes(made: Report, form: Format, table: TableName | None) -> bytes | None:
    """Return what is written to a file; None for the terminal's table on the terminal."""
    from slackopt import report as reports

    one = made.tables[(table or TableName.RUNS).value]
    if form is Format.CSV:
        return reports.csv_bytes(one)
    if form is Format.PARQUET:
        return reports.parquet_bytes(one)
    if form is Format.LATEX:
        names = ("methods", "instances") if table is None else (table.value,)
        return reports.latex_tables(made, names).encode()
    if form is Format.HTML:
        return reports.html_page(made).encode()
    return _text(made, table)


def _text(made: Report, table: TableName | None) -> bytes:
    from rich.console import Console

    from slackopt import report as reports

    names = [table.value] if table else ["instances", "methods", "failures"]
    view = reports.report_view(made, names)
    width = max(output_width(), natural_width(view))
    console = Console(width=width, color_system=None, highlight=False, markup=False)
    return ("\n".join(text_lines(console, view)) + "\n").encode()


def _answer(document: object, view: RenderableType, made: Report) -> Answer:
    if not made.conflicts:
        return Answer(document, view)
    noun = count(len(made.conflicts), "instance")
    message = f"{noun} with claims that can't both be true"
    return Answer(document, view, CheckError.exit_code, message, made.conflicts)
