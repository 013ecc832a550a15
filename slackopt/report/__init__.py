"""Reports of a batch: tables and figures for the terminal, papers, pages and other programs."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from slackopt.report.contents import FigureData, Report, figure_data, make_report
from slackopt.report.data_files import csv_bytes, json_rows, parquet_bytes
from slackopt.report.latex import latex_table, latex_tables
from slackopt.report.terminal import report_view

if TYPE_CHECKING:
    from slackopt.report.figures import write_figures
    from slackopt.report.page import html_page

__all__ = [
    "FigureData",
    "Report",
    "csv_bytes",
    "figure_data",
    "html_page",
    "json_rows",
    "latex_table",
    "latex_tables",
    "make_report",
    "parquet_bytes",
    "report_view",
    "write_figures",
]

# matplotlib, which draws, takes half a second to import; tables need none of it.
_LATER = {"html_page": "page", "write_figures": "figures"}


def __getattr__(name: str) -> Any:
    if name in _LATER:
        return getattr(import_module(f"slackopt.report.{_LATER[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
