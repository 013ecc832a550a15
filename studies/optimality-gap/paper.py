"""Make every table, every figure and the text of the study from the stored results.

    python studies/optimality-gap/paper.py                 # into build/paper
    python studies/optimality-gap/paper.py --write-text    # report.md and figures/ as well

build/paper gets tables (``*.tex`` for LaTeX with booktabs, ``*.csv``), figures (``*.pdf``), the
numbers that the text quotes (``numbers.json``) and the text (``report.md``). The same stored
results give the same bytes; figures do for one version of matplotlib. With ``--write-text`` the
text beside this file is written anew, with the figures that it shows.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import matplotlib.pyplot as plt
from study_figures import make_figures
from study_numbers import numbers
from study_results import RESULTS, ROOT, read_runs_table
from study_tables import csv_text, latex_text, make_tables

from slackopt.files import write_bytes
from slackopt.plotting import save_figure

HERE = Path(__file__).resolve().parent
TEMPLATE = HERE / "report.md.in"


def text_of(found: dict[str, str]) -> str:
    """Return the text with its numbers; a name that nobody computes is an error."""
    return TEMPLATE.read_text(encoding="utf-8").format(**found)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of stored results")
    parser.add_argument("-o", "--output", type=Path, default=ROOT / "build" / "paper")
    parser.add_argument("--write-text", action="store_true", help="write the text here, too")
    options = parser.parse_args()
    rows = read_runs_table(options.results)
    options.output.mkdir(parents=True, exist_ok=True)
    tables = make_tables(rows, options.results)
    for table in tables:
        write_bytes(latex_text(table).encode(), options.output / f"{table.name}.tex")
        write_bytes(csv_text(table).encode(), options.output / f"{table.name}.csv")
    found = numbers(rows, tables, options.results)
    write_bytes((json.dumps(found, indent=1) + "\n").encode(), options.output / "numbers.json")
    text = text_of(found)
    write_bytes(text.encode(), options.output / "report.md")
    if options.write_text:
        write_bytes(text.encode(), HERE / "report.md")
    for name, figure in make_figures(rows, options.results):
        save_figure(figure, options.output / f"{name}.pdf")
        if options.write_text and f"figures/{name}.png" in text:
            (HERE / "figures").mkdir(exist_ok=True)
            save_figure(figure, HERE / "figures" / f"{name}.png", dpi=160)
        plt.close(figure)
    print(f"{len(tables)} tables, figures and the text are in {options.output}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
