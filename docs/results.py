"""Write the two tables of the README from the JSON of a comparison.

Usage::

    slackopt compare instances/slackswap/*.json --methods slackswap,slackswap-timeline,milp \
        --time-limit 15 --json > compare.json
    python docs/results.py compare.json
"""

from __future__ import annotations

import argparse
import json
import math
import re
from pathlib import Path
from typing import Any

README = Path(__file__).resolve().parents[1] / "README.md"
MODELS = {"bert-large": "BERT-Large", "gpt2-xl": "GPT-2 XL", "llama-7b": "Llama 7B"}
RULES = ("slackswap", "slackswap-timeline")

Row = dict[str, Any]


def results_table(rows: list[Row]) -> str:
    """Return the table of all runs."""
    lines = [
        (
            "| instance | method | ratio (%) | paper (%) | recompute (ms) | stalls (ms) | LB (ms) "
            "| gap (%) | to best (%) | time (s) |"
        ),
        "|---|---|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for row in rows:
        cells = [
            f"`{row['instance']}`",
            f"`{row['method']}`",
            _number(row["throughput_ratio"], 2, 100),
            _number(row["paper_ratio"], 1, 100),
            _number(row["recompute_ns"], 2, 1e-6),
            _number(row["stall_ns"], 2, 1e-6),
            _number(row["lower_bound_ns"], 3, 1e-6),
            _number(row["gap_to_bound"], 3, 100),
            _number(row["gap_to_best"], 3, 100),
            _number(row["wall_s"], 1, 1),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def distance_table(rows: list[Row]) -> str:
    """Return the table that sets both variants of the rule beside the paper and the bound."""
    by_run = {(row["instance"], row["method"]): row for row in rows}
    lines = [
        (
            "| model | paper | flash: `slackswap` | `-timeline` | best possible at most "
            "| eager: `slackswap` | `-timeline` | best possible at most |"
        ),
        "|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for name, title in MODELS.items():
        cells = [title, _number(by_run[f"{name}-flash", RULES[0]]["paper_ratio"], 1, 100)]
        for kind in ("flash", "eager"):
            runs = [by_run[f"{name}-{kind}", rule] for rule in RULES]
            cells += [_number(run["throughput_ratio"], 1, 100) for run in runs]
            cells.append(_upper(runs[0]["ideal_ns"], runs[0]["best_lower_bound_ns"]))
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def replaced(text: str, name: str, table: str) -> str:
    """Return the text with another table between the markers of `name`."""
    pattern = rf"(<!-- {name}: begin.*?-->\n\n).*?(\n\n<!-- {name}: end -->)"
    found, count = re.subn(pattern, lambda match: match[1] + table + match[2], text, flags=re.S)
    if count != 1:
        raise SystemExit(f"{README.name}: the markers of {name!r} must stand there once")
    return found


def _number(value: float | None, digits: int, scale: float) -> str:
    return "" if value is None else f"{value * scale:.{digits}f}"


def _upper(ideal_ns: int, bound_ns: int | None) -> str:
    """Return the largest ratio that the bound leaves, in percent, rounded up."""
    return "" if bound_ns is None else f"{math.ceil(1000 * ideal_ns / bound_ns) / 10:.1f}"


def main() -> None:
    """Run the script."""
    parser = argparse.ArgumentParser(description="Write the tables of the README.")
    parser.add_argument("comparison", type=Path, help="output of slackopt compare --json")
    rows = json.loads(parser.parse_args().comparison.read_text(encoding="utf-8"))["rows"]
    text = README.read_text(encoding="utf-8")
    text = replaced(text, "results", results_table(rows))
    text = replaced(text, "distance", distance_table(rows))
    README.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
