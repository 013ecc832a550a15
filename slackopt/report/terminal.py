"""The tables of a report for the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd
from rich.console import Group, RenderableType
from rich.text import Text

from slackopt.report.columns import (
    FAILURES,
    INSTANCES,
    INSTANCES_LEGEND,
    METHODS,
    METHODS_LEGEND,
    Shown,
    shown_table,
)
from slackopt.report.contents import Report
from slackopt.report.grid import Column, Grid
from slackopt.tables import printable


def report_view(report: Report, names: Sequence[str]) -> RenderableType:
    """Render tables of a report, each with its legend."""
    parts: list[RenderableType] = []
    if "instances" in names:
        parts += [_table(report.instances, INSTANCES), Text(), *_legend(INSTANCES_LEGEND), Text()]
    if "methods" in names:
        parts += [_table(report.methods, METHODS), Text(), *_legend(METHODS_LEGEND)]
    if "failures" in names and len(report.failed):
        parts += [Text(), Text("failed runs", style="bold"), _table(report.failed, FAILURES)]
    elif list(names) == ["failures"]:
        parts.append(Text("no failed runs"))
    return Group(*parts)


def _table(table: pd.DataFrame, columns: Mapping[str, Shown]) -> Grid:
    kept, cells = shown_table(table, columns)
    made = [
        Column(how.header.split(", ") + ([how.unit] if how.unit else []), how.is_text)
        for how in kept.values()
    ]
    names = list(kept)
    group = names.index("instance") if "instance" in names and columns is not FAILURES else None
    rows = [[printable(cell) for cell in row] for row in cells.itertuples(index=False)]
    ends = (
        ()
        if group is None
        else (i for i in range(len(rows) - 1) if rows[i][group] != rows[i + 1][group])
    )
    return Grid(made, rows, frozenset(ends), wrap=columns is FAILURES)


def _legend(lines: Sequence[str]) -> list[Text]:
    return [Text(line, style="dim") for line in lines]
