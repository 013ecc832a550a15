"""The index of the library: one table with a row for each instance, as CSV and as HTML."""

from __future__ import annotations

import argparse
import csv
import io
from collections.abc import Sequence
from dataclasses import asdict, fields
from functools import cache
from pathlib import Path
from typing import Any

import jinja2

from slackopt.files import read_text, write_bytes
from slackopt.library.features import Features, features_of_file
from slackopt.library.instances import instance_files
from slackopt.library.records import Best
from slackopt.library.store import read_best

CSV_NAME, HTML_NAME = "index.csv", "index.html"
COLUMNS = tuple(field.name for field in fields(Features))
BEST_COLUMNS = ("makespan_ns", "lower_bound_ns", "gap", "hardness")
"""Columns that change when a better plan or bound is found."""


def library_features(library: Path) -> list[Features]:
    """Return the features of every instance of a library, by family and name.

    Raises
    ------
    InputError
        If there is no instance, or a file is damaged.
    """
    best: dict[Path, Best] = {}
    rows = []
    for path in instance_files([library]):
        family = path.parent
        if family not in best:
            best[family] = read_best(family)
        # The name is in the file; the file is named after it in every family.
        entry = best[family].entry(path.name.removesuffix(".gz").removesuffix(".json"))
        rows.append(features_of_file(path, library, entry))
    return sorted(rows, key=lambda row: (row.family, row.instance))


def csv_text(rows: Sequence[Features]) -> str:
    """Return the index as CSV: integers as they are, shares with six digits, unknown empty."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(COLUMNS)
    for row in rows:
        writer.writerow([_cell(name, value) for name, value in asdict(row).items()])
    return buffer.getvalue()


def html_text(rows: Sequence[Features]) -> str:
    """Return the index as one HTML page that loads nothing; a click on a header sorts."""
    return _template().render(rows=rows, families=sorted({row.family for row in rows}))


def write_index(library: Path) -> list[Features]:
    """Write both files into the folder of the library and return the rows."""
    rows = library_features(library)
    write_bytes(csv_text(rows).encode(), library / CSV_NAME)
    write_bytes(html_text(rows).encode(), library / HTML_NAME)
    return rows


def outdated(library: Path) -> list[str]:
    """Names of the index files that are missing or not as `write_index` writes them."""
    rows = library_features(library)
    wanted = {CSV_NAME: csv_text(rows), HTML_NAME: html_text(rows)}
    return [
        name
        for name, text in wanted.items()
        if not (library / name).is_file() or read_text(library / name) != text
    ]


def main(library: Path, arguments: Sequence[str] | None = None) -> int:
    """Run the script of the index; return its exit code."""
    parser = argparse.ArgumentParser(description="Write index.csv and index.html.")
    parser.add_argument(
        "--check", action="store_true", help="write nothing; fail if a file is out of date"
    )
    if parser.parse_args(arguments).check:
        wrong = outdated(library)
        if wrong:
            print(f"out of date: {', '.join(wrong)}; run instances/index.py")  # noqa: T201
        return 1 if wrong else 0
    print(f"{len(write_index(library))} instances")  # noqa: T201
    return 0


def _cell(name: str, value: Any) -> str:
    if value is None:
        return ""
    if name == "gap":
        return f"{value:.8f}"
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:.6f}" if isinstance(value, float) else str(value)


@cache
def _template() -> jinja2.Template:
    loader = jinja2.PackageLoader("slackopt.library", "templates")
    environment = jinja2.Environment(
        loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    return environment.get_template("index.html.j2")
