"""Write the tables of the README from the JSON of a comparison.

Usage::

    slackopt compare instances/slackswap/*-paper.json instances/slackswap/*-eager.json \
        instances/slackswap/*-flash.json --methods slackswap-timeline,slackswap,exact \
        --time-limit 10 --json > compare.json
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
MODELS = ("bert-large", "gpt2-xl", "llama-7b")
RULES = ("slackswap-timeline", "slackswap")
EXACT = "exact"

Row = dict[str, Any]


def results_table(rows: list[Row], kinds: tuple[str, ...]) -> str:
    """Return one line a model and kind of instance: paper, rules, exact method and its proof."""
    by_run = {(row["instance"], row["method"]): row for row in rows}
    rules = " | ".join(f"`{rule}`" for rule in RULES)
    lines = [
        f"| instance | paper | {rules} | `exact` | it gains | no plan above | gap of `exact` |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for kind in kinds:
        for name in MODELS:
            runs = [by_run[f"{name}-{kind}", method] for method in (*RULES, EXACT)]
            exact = runs[-1]
            gain = exact["throughput_ratio"] - runs[0]["throughput_ratio"]
            cells = [
                f"`{name}-{kind}`",
                f"{100 * runs[0]['paper_ratio']:.1f}",
                *(f"{100 * run['throughput_ratio']:.2f}" for run in runs),
                f"{100 * gain:+.2f}",
                upper_percent(exact["ideal_ns"], exact["best_lower_bound_ns"]),
                f"{100 * exact['gap_to_bound']:.3f}",
            ]
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def upper_percent(ideal_ns: int, bound_ns: int) -> str:
    """Return the largest ratio that the bound leaves, in percent, rounded up."""
    return f"{math.ceil(10_000 * ideal_ns / bound_ns) / 100:.2f}"


def replaced(text: str, name: str, table: str) -> str:
    """Return the text with another table between the markers of `name`."""
    pattern = rf"(<!-- {name}: begin.*?-->\n\n).*?(\n\n<!-- {name}: end -->)"
    found, count = re.subn(pattern, lambda match: match[1] + table + match[2], text, flags=re.S)
    if count != 1:
        raise SystemExit(f"{README.name}: the markers of {name!r} must stand there once")
    return found


def main() -> None:
    """Run the script."""
    parser = argparse.ArgumentParser(description="Write the tables of the README.")
    parser.add_argument("comparison", type=Path, help="output of slackopt compare --json")
    rows = json.loads(parser.parse_args().comparison.read_text(encoding="utf-8"))["rows"]
    text = README.read_text(encoding="utf-8")
    text = replaced(text, "reproduced", results_table(rows, ("paper",)))
    text = replaced(text, "ours", results_table(rows, ("eager", "flash")))
    README.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
