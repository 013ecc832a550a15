"""Make the tables, the figures and the page of the study from the stored results.

    python studies/reproduction/page.py                 # into build/reproduction/page
    python studies/reproduction/page.py --write-text    # report.md, figures/, headroom.csv as well

Tables are written as CSV and LaTeX, figures as PDF. The same stored results give the same bytes;
figures do for one version of matplotlib.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd
from closeness import chosen, close, read_grid
from figures import error_cells, make_figures
from grid import RESULTS, ROOT
from house import Table, csv_text, latex_text, markdown
from optimum import stored_points
from settings import MODELS, Setting
from tables import PUBLISHED, TITLES, against_optimum, make_tables

from slackopt.files import write_bytes
from slackopt.plotting import save_figure

HERE = Path(__file__).resolve().parent
TEMPLATE = HERE / "report.md.in"


def numbers(tables: list[Table], results: Path = RESULTS) -> dict[str, str]:
    """Return every number and table of the text as it stands there."""
    rows = read_grid(results)
    full, around = rows[rows["part"] == "full"], rows[rows["part"] == "around"]
    near = close(rows, 1.0)
    own = chosen(rows)
    optima = against_optimum(rows, results)
    found = {f"table_{table.name}": markdown(table) for table in tables}
    found |= {
        "settings": str(len(rows)),
        "full": str(len(full)),
        "around": str(len(around)),
        "without_plan": str(int(rows["worst"].isna().sum())),
        "within_half": str(len(close(rows, 0.5))),
        "within_one": str(len(near)),
        "full_within_half": str(len(close(full, 0.5))),
        "full_within_one": str(len(close(full, 1.0))),
        "smallest": f"{rows['worst'].min():.2f}",
        "chosen_error": f"{own['worst']:.2f}",
        "chosen_changed": str(own["changed"]),
        "ours_error_eager": f"{_error_of(rows, Setting()):.2f}",
        "ours_error_flash": f"{_error_of(rows, Setting(attention='flash')):.2f}",
        "optimum_points": str(stored_points(results)),
        "optimum_settings": str(len(close(rows, stored_points(results)))),
        "questions": str(len(optima[["question", "model"]].drop_duplicates())),
        "gap_min": f"{optima['gap'].min():.2f}",
        "gap_max": f"{optima['gap'].max():.2f}",
        "gap_median": f"{optima['gap'].median():.2f}",
        "below_half": str(int((optima["gap"] < 0.5).sum())),
        "pairs": str(len(optima)),
        "open_max": f"{optima['open'].max():.2f}",
        "close_cells": str(int((error_cells(rows, "timeline") <= 1.0).sum().sum())),
        "cells": str(error_cells(rows, "timeline").size),
    }
    for reading in ("timeline", "aggregate"):
        of = rows[rows["reading"] == reading]
        found[f"{reading}_smallest"] = f"{of['worst'].min():.2f}"
        found[f"{reading}_within_one"] = str(len(close(of, 1.0)))
    for name, level in (("attention", "flash"), ("dropout", "trained"), ("memory_traffic", "free")):
        of = rows[rows[name] == level]
        found[f"{level}_smallest"] = f"{of['worst'].min():.2f}"
        found[f"{level}_within_one"] = str(len(close(of, 1.0)))
    for model in MODELS:
        key = model.replace("-", "_")
        of = optima[optima["model"] == model]
        found[f"{key}_chosen"] = f"{own[model]:.2f}"
        found[f"{key}_gap_min"] = f"{of['gap'].min():.2f}"
        found[f"{key}_gap_max"] = f"{of['gap'].max():.2f}"
        found[f"{key}_out"] = str(int((of["at_most"] < PUBLISHED[model]).sum()))
    for name in ("matmul_percent", "link_gb_per_s"):
        levels = near[name]
        found[f"near_{name}"] = f"{levels.min()} to {levels.max()}"
    return found


def _error_of(rows: pd.DataFrame, setting: Setting) -> float:
    """Return the error of one setting."""
    same = rows
    for name, value in vars(setting).items():
        same = same[same[name] == value]
    return float(same["worst"].iloc[0])


def headroom_csv(results: Path = RESULTS) -> str:
    """Return the gap of the rule under the close settings, by model, for the other study."""
    optima = against_optimum(read_grid(results), results)
    points = stored_points(results)
    lines = ["model,points,cases,gap_min,gap_median,gap_max"]
    for model in (*MODELS, "all"):
        gaps = optima["gap"] if model == "all" else optima[optima["model"] == model]["gap"]
        name = "all" if model == "all" else TITLES[model]
        ends = ",".join(f"{value:.4f}" for value in (gaps.min(), gaps.median(), gaps.max()))
        lines.append(f"{name},{points},{len(gaps)},{ends}")
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("-o", "--output", type=Path, default=ROOT / "build/reproduction/page")
    parser.add_argument("--write-text", action="store_true", help="write the page here, too")
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    tables = make_tables()
    for table in tables:
        write_bytes(csv_text(table).encode(), options.output / f"{table.name}.csv")
        write_bytes(latex_text(table).encode(), options.output / f"{table.name}.tex")
    text = TEMPLATE.read_text(encoding="utf-8").format(**numbers(tables))
    write_bytes(text.encode(), options.output / "report.md")
    if options.write_text:
        write_bytes(text.encode(), HERE / "report.md")
        write_bytes(headroom_csv().encode(), RESULTS / "headroom.csv")
    for name, figure in make_figures():
        save_figure(figure, options.output / f"{name}.pdf")
        if options.write_text:
            (HERE / "figures").mkdir(exist_ok=True)
            save_figure(figure, HERE / "figures" / f"{name}.png", dpi=160)
        plt.close(figure)
    print(f"{len(tables)} tables, figures and the page are in {options.output}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
