"""Run the rule on the three models under every setting. It can be stopped and resumed.

    python studies/reproduction/grid.py                # a quarter of an hour on one core
    python studies/reproduction/grid.py --seconds 300  # a part of it; the same command goes on

What is done is kept in build/reproduction/grid.csv; when all is, results/grid.csv is written.
"""

from __future__ import annotations

import argparse
import csv
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from settings import MODELS, Setting, as_row, run_model, settings

from slackopt.files import write_bytes

ROOT = Path(__file__).resolve().parents[2]
RESULTS = Path(__file__).resolve().parent / "results"
MEASURED = tuple(f"{model}_{what}_ns" for model in MODELS for what in ("ideal", "makespan"))
COLUMNS = (*as_row("full", Setting()), *MEASURED)


def done_rows(path: Path) -> dict[tuple[str, ...], dict[str, str]]:
    """Return what an earlier run kept, by setting; a line that a kill cut short is left out."""
    if not path.is_file():
        return {}
    text = path.read_text(encoding="utf-8")
    whole = text[: text.rfind("\n") + 1]
    if whole != text:
        path.write_text(whole, encoding="utf-8")
    rows = csv.DictReader(whole.splitlines())
    return {_key(row): row for row in rows}


def run(path: Path, *, seconds: float | None = None, small: bool = False) -> Iterator[int]:
    """Run what is missing in `path`, appending a line for each setting; yield how many are done."""
    path.parent.mkdir(parents=True, exist_ok=True)
    done = done_rows(path)
    begin = time.monotonic()
    with path.open("a", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        if not done:
            writer.writeheader()
        for number, (part, setting) in enumerate(settings(small=small), start=1):
            row: dict[str, Any] = as_row(part, setting)
            if _key(row) not in done:
                if seconds is not None and time.monotonic() - begin > seconds:
                    return
                for model in MODELS:
                    ideal, makespan = run_model(model, setting)
                    row |= {f"{model}_ideal_ns": ideal, f"{model}_makespan_ns": makespan}
                writer.writerow(row)
                file.flush()
            yield number


def finished_text(path: Path, *, small: bool = False) -> str | None:
    """Return the grid in its own order, or None if a setting is missing."""
    done = done_rows(path)
    lines = [",".join(COLUMNS)]
    for part, setting in settings(small=small):
        row = done.get(_key(as_row(part, setting)))
        if row is None:
            return None
        lines.append(",".join(row[name] for name in COLUMNS))
    return "\n".join(lines) + "\n"


def _key(row: dict[str, Any]) -> tuple[str, ...]:
    return tuple(str(row[name]) for name in as_row("full", Setting()))


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--seconds", type=float, help="stop after this time; go on another time")
    parser.add_argument("--kept", type=Path, default=ROOT / "build" / "reproduction" / "grid.csv")
    parser.add_argument("-o", "--output", type=Path, default=RESULTS / "grid.csv")
    parser.add_argument("--small", action="store_true", help="a few settings, for tests")
    options = parser.parse_args()
    total = sum(1 for _ in settings(small=options.small))
    for number in run(options.kept, seconds=options.seconds, small=options.small):
        if number % 50 == 0 or number == total:
            print(f"{number} of {total} settings", flush=True)
    text = finished_text(options.kept, small=options.small)
    if text is None:
        print("not all settings are done; run the same command again")
        return 0
    options.output.parent.mkdir(parents=True, exist_ok=True)
    write_bytes(text.encode(), options.output)
    print(f"{total} settings in {options.output}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
