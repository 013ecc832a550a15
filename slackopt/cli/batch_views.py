"""What people read about a batch: what will be run, and what was."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from slackopt.batch.batch import BatchState
from slackopt.batch.expand import Case
from slackopt.batch.run import FAILED
from slackopt.batch.store import run_path
from slackopt.cli.batch_progress import duration
from slackopt.cli.failures import MAX_LINES
from slackopt.cli.output import Answer, Data
from slackopt.tables import list_view, printable

MOST_ROWS = 200
"""Rows of a table for people; ``--json`` has all."""

_OUTCOMES = ("done", *sorted(FAILED))


def unsound_lines(state: BatchState) -> list[str]:
    """Return what is wrong with stored files, the first of them in full."""
    lines = [f"{line}; it is run again" for line in state.unsound[:MAX_LINES]]
    if len(state.unsound) > MAX_LINES:
        lines.append(f"and {len(state.unsound) - MAX_LINES} more stored files are no sound runs")
    return lines


def dry_run_view(cases: Sequence[Case], state: BatchState, jobs: int) -> Answer:
    """Answer ``--dry-run``: every run, whether it is stored, and how long the rest may take."""
    pending = set(state.pending)
    limits = [case.task.time_limit_s for case in cases if case.key in pending]
    unlimited = sum(limit is None for limit in limits)
    seconds = _longest_s([limit for limit in limits if limit is not None], jobs)
    table = list_view(
        ("key", "instance", "method", "options", "seed", "limit", "state"),
        (_row(case, state, pending) for case in cases[:MOST_ROWS]),
    )
    lines = []
    if len(cases) > MOST_ROWS:
        lines.append(f"and {len(cases) - MOST_ROWS} more; --json lists all")
    lines.append(
        f"{len(cases)} runs, {len(cases) - len(pending)} stored, {len(pending)} to do"
        + (f"; at most {duration(seconds)} with {jobs} at a time" if pending else "")
        + (f", without {unlimited} runs that have no time limit" if unlimited else "")
    )
    document = {
        "runs": [
            {
                "key": case.key,
                "stored": state.outcomes.get(case.key),
                "to_do": case.key in pending,
                **case.task.model_dump(mode="json"),
            }
            for case in cases
        ],
        "total": len(cases),
        "to_do": len(pending),
        "at_most_s": seconds,
        "without_limit": unlimited,
        "unsound": list(state.unsound),
    }
    return Answer(document, Group(table, Text("\n".join(lines))))


def commands_view(commands: Sequence[str]) -> Answer:
    """Answer ``--print-commands``."""
    return Answer({"commands": list(commands)}, Data("\n".join(commands)) if commands else None)


def state_view(
    folder: Path, cases: Sequence[Case], state: BatchState
) -> tuple[dict[str, Any], RenderableType]:
    """Return the document and the view of a batch that ended: outcomes by method."""
    counts: dict[str, Counter[str]] = {}
    for case in cases:
        method = case.task.tags.get("label", case.task.method)
        counts.setdefault(method, Counter())[state.outcomes.get(case.key, "not run")] += 1
    present = [name for name in (*_OUTCOMES, "not run") if any(c[name] for c in counts.values())]
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0), pad_edge=False)
    table.add_column("method")
    for name in present:
        table.add_column(name.replace("_", " "), justify="right")
    for method, found in counts.items():
        table.add_row(Text(printable(method)), *(str(found[name] or "-") for name in present))
    document = {
        "folder": str(folder),
        "total": len(cases),
        "counts": state.counts,
        "left": list(state.pending),
        "runs": [
            {
                "key": case.key,
                "instance": case.task.instance,
                "method": case.task.method,
                "seed": case.task.seed,
                "outcome": state.outcomes.get(case.key),
                "file": str(run_path(folder, case.key)) if case.key in state.outcomes else None,
            }
            for case in cases
        ],
    }
    place = printable(str(folder))
    where = Text(f"runs in {place}\ntables: slackopt report {place}")
    return document, Group(table, where)


def _longest_s(limits_s: Sequence[float], jobs: int) -> float:
    """Return how long runs can take that begin in their order, as soon as a job is free.

    With n runs and m jobs, the last to end began when no job was free: at most (sum of the others)
    / m after the start (Graham 1966). One of the jobs had at most (n - 1) // m runs before.
    """
    if not limits_s:
        return 0.0
    jobs, longest = min(jobs, len(limits_s)), max(limits_s)
    return min(
        sum(limits_s) / jobs + (1 - 1 / jobs) * longest,
        ((len(limits_s) - 1) // jobs + 1) * longest,
    )


def _row(case: Case, state: BatchState, pending: set[str]) -> tuple[str, ...]:
    task = case.task
    options = ", ".join(f"{name}={value}" for name, value in task.options.items())
    if task.solver is not None:
        options = ", ".join(filter(None, [f"solver={task.solver}", options]))
    stored = state.outcomes.get(case.key)
    what = "to do" if case.key in pending else stored or "to do"
    limit = "none" if task.time_limit_s is None else f"{task.time_limit_s:g} s"
    return (case.key[:8], task.instance, task.method, options, str(task.seed), limit, what)
