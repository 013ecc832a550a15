"""Reports of a batch: tables and figures for the terminal, papers, pages and other programs."""

from slackopt.report.contents import FigureData, Report, figure_data, make_report
from slackopt.report.data_files import csv_bytes, json_rows, parquet_bytes
from slackopt.report.figures import write_figures
from slackopt.report.latex import latex_table, latex_tables
from slackopt.report.page import html_page
from slackopt.report.terminal import report_view

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
