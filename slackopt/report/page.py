"""The report as one HTML page that stands alone: tables, figures, what was skipped."""

from __future__ import annotations

import base64
from collections.abc import Mapping

import jinja2
import pandas as pd

from slackopt.environment import package_version
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
from slackopt.report.figures import svg_figures
from slackopt.tables import printable


def html_page(report: Report) -> str:
    """Return the page; it loads nothing from elsewhere, and all text is escaped."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("slackopt.report", "."),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    runs = report.runs
    return environment.get_template("page.html.jinja").render(
        folder=printable(report.folder),
        version=package_version("slackopt") or "unknown",
        num_runs=len(runs),
        num_instances=runs["instance_sha256"].nunique(),
        num_methods=runs["label"].nunique(),
        first=_minute(runs["started_at"].min()),
        last=_minute(runs["finished_at"].max()),
        versions=", ".join(sorted(runs["slackopt_version"].dropna().unique())),
        conflicts=[printable(line) for line in report.conflicts],
        skipped=[printable(line) for line in report.skipped],
        methods=_table(report.methods, METHODS),
        methods_legend=METHODS_LEGEND,
        instances=_table(report.instances, INSTANCES),
        instances_legend=INSTANCES_LEGEND,
        failures=_table(report.failed, FAILURES),
        figures=[
            {"title": item.title, "image": base64.b64encode(svg).decode()}
            for item, svg in svg_figures(report)
        ],
    )


def _table(table: pd.DataFrame, columns: Mapping[str, Shown]) -> dict[str, object]:
    kept, cells = shown_table(table, columns)
    return {
        "headers": [
            (how.header, how.unit, "text" if how.is_text else "number") for how in kept.values()
        ],
        "rows": [
            [
                (printable(cell), "text" if how.is_text else "number")
                for cell, how in zip(row, kept.values(), strict=True)
            ]
            for row in cells.itertuples(index=False)
        ],
    }


def _minute(moment: pd.Timestamp) -> str:
    return moment.strftime("%Y-%m-%d %H:%M UTC")
