r"""Tables for LaTeX, with booktabs; each stands alone in a float, or runs over pages.

A table needs ``\usepackage{booktabs}``, a long one ``\usepackage{longtable}`` as well. Numbers of
a column have the same digits behind the point and are aligned to the right, so the points stand
below each other without another package.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd

from slackopt.report.columns import (
    INSTANCES,
    INSTANCES_LEGEND,
    METHODS,
    METHODS_LEGEND,
    UNKNOWN,
    Shown,
    shown_table,
)
from slackopt.report.contents import Report
from slackopt.tables import printable

LONG = 40
"""A table of more rows runs over several pages."""


def latex_tables(report: Report, names: Sequence[str] = ("methods", "instances")) -> str:
    r"""Return tables of a report as LaTeX, to be read by ``\input``."""
    made = []
    if "methods" in names:
        caption = "Methods. " + _sentences(METHODS_LEGEND)
        made.append(latex_table(report.methods, METHODS, caption, "tab:methods"))
    if "instances" in names:
        caption = "Instances. " + _sentences(INSTANCES_LEGEND)
        made.append(latex_table(report.instances, INSTANCES, caption, "tab:instances"))
    return "\n".join(["% needs \\usepackage{booktabs,longtable}", *made])


def latex_table(table: pd.DataFrame, columns: Mapping[str, Shown], caption: str, label: str) -> str:
    """Return one table as LaTeX; every text in it is escaped."""
    kept, cells = shown_table(table, columns)
    cells = cells.map(lambda cell: "--" if cell == UNKNOWN else _plain(cell))
    cells.columns = pd.Index(
        [
            stacked_header(
                [*how.header.split(", "), *([f"({how.unit})"] if how.unit else [])],
                "l" if how.is_text else "r",
            )
            for how in kept.values()
        ]
    )
    style = cells.style.format(escape="latex").hide(axis=0)
    text: str = style.to_latex(
        hrules=True,
        column_format="".join("l" if how.is_text else "r" for how in kept.values()),
        caption=_escaped(caption),
        label=label,
        environment="longtable" if len(cells) > LONG else None,
        position_float=None if len(cells) > LONG else "centering",
    )
    return text


def stacked_header(lines: Sequence[str], side: str) -> str:
    r"""Return a column header of several lines, so that it is no wider than its cells.

    Parameters
    ----------
    lines
        Text, escaped here.
    side
        ``l`` or ``r``, as the column is aligned.
    """
    text = r"\\".join(map(_escaped, lines))
    return text if len(lines) == 1 else rf"\shortstack[{side}]{{{text}}}"


def _sentences(legend: Sequence[str]) -> str:
    return " ".join(f"{line[0].upper()}{line[1:]}." for line in legend)


def _plain(text: str) -> str:
    """Return text without what pdfLaTeX can't set: control signs and letters beyond Latin-1."""
    return "".join(sign if sign < "\u0100" else f"<U+{ord(sign):04X}>" for sign in printable(text))


def _escaped(text: str) -> str:
    """Escape a caption, with the rule by which pandas escapes cells."""
    marked = pd.DataFrame({"x": [_plain(text)]}).style.format(escape="latex").hide(axis=0)
    body = marked.to_latex()
    lines = [line for line in body.splitlines() if line.rstrip().endswith("\\\\")]
    return lines[-1].rstrip()[:-2].rstrip()
