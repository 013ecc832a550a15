"""The tables of a report for the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd
from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
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


def _table(table: pd.DataFrame, columns: Mapping[str, Shown]) -> Table:
    kept, cells = shown_table(table, columns)
    made = Table(box=box.SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0), pad_edge=False)
    for how in kept.values():
        header = how.header.replace(", ", "\n") + (f"\n{how.unit}" if how.unit else "")
        made.add_column(
            header,
            justify="left" if how.is_text else "right",
            vertical="bottom",
            no_wrap=columns is not FAILURES or not how.is_text,
            overflow="fold",
        )
    names = list(kept)
    group = names.index("instance") if "instance" in names else None
    rows = [list(row) for row in cells.itertuples(index=False)]
    for i, row in enumerate(rows):
        last = i + 1 == len(rows)
        ends = group is not None and not last and rows[i + 1][group] != row[group]
        made.add_row(*(Text(printable(cell)) for cell in row), end_section=ends)
    return made


def _legend(lines: Sequence[str]) -> list[Text]:
    return [Text(line, style="dim") for line in lines]
