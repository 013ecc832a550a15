"""What this study shares with the optimality-gap study: how tables and results are written."""

from __future__ import annotations

import sys
from pathlib import Path

GAP_STUDY = Path(__file__).resolve().parents[1] / "optimality-gap"
if str(GAP_STUDY) not in sys.path:
    sys.path.append(str(GAP_STUDY))

from study_numbers import markdown  # noqa: E402
from study_results import (  # noqa: E402
    bound_line,
    packed,
    plan_from_line,
    plan_line,
    proved_from_line,
    read_lines,
    read_runs_table,
)
from study_tables import Table, csv_text, latex_text  # noqa: E402

__all__ = [
    "Table",
    "bound_line",
    "csv_text",
    "latex_text",
    "markdown",
    "packed",
    "plan_from_line",
    "plan_line",
    "proved_from_line",
    "read_lines",
    "read_runs_table",
]
