"""Progress of a batch on standard error: a bar on a terminal, a line per finished run elsewhere."""

from __future__ import annotations

import sys
import time
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from slackopt.batch.events import Event
from slackopt.cli.progress import say
from slackopt.cli.text import count
from slackopt.tables import printable


class BatchProgress:
    """Shows the events of a batch; a context manager.

    Parameters
    ----------
    verbose
        A line for every run that starts or ends, on a terminal too.
    """

    def __init__(self, *, verbose: bool = False) -> None:
        self.verbose = verbose
        self.total = self.done = self.failed = self.running = self.stored = 0
        self.begun = time.monotonic()
        console = Console(file=sys.stderr)
        self._bar: Progress | None = None
        if console.is_terminal:
            self._bar = Progress(
                MofNCompleteColumn(),
                BarColumn(),
                TextColumn("{task.description}"),
                TimeElapsedColumn(),
                console=console,
                transient=True,
            )
            self._task = self._bar.add_task("", total=None)

    def __enter__(self) -> BatchProgress:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def __call__(self, event: Event) -> None:
        """Show an event."""
        facts = event.facts
        label = "" if event.task is None else _label(event)
        if event.kind == "batch":
            self.total = int(facts["pending"])
            self.stored = int(facts["total"]) - self.total
            if self.stored:
                self._line(f"{self.stored} of {facts['total']} runs are stored already")
        elif event.kind == "started":
            if not self.running and not self.done:
                self.begun = time.monotonic()  # what comes before says nothing of the runs
            self.running += 1
            if self.verbose:
                self._line(f"started {label}")
        elif event.kind == "submitted":
            self._line(f"submitted {facts['number']} runs as job {facts['job']}")
        elif event.kind == "recorded":
            self._finished(label, facts)
        elif event.kind == "stored":
            self.done += 1
            if self.verbose:
                self._line(f"{label}: done by another batch")
        elif event.kind == "requeued":
            self.running = max(0, self.running - 1)
            self._line(f"warning: {label} runs again: {facts['why']}")
        elif event.kind == "waiting":
            if self.verbose:
                self._line(f"{label}: another batch is at it")
        elif event.kind in ("unwritten", "lost", "warning"):
            self._line(f"warning: {facts['why']}")
        elif event.kind == "stopping":
            self._line(f"stopping {count(int(facts['running']), 'run')}; what was found is kept")
        self._show()

    def _finished(self, label: str, facts: Any) -> None:
        self.running = max(0, self.running - 1)
        outcome = facts["outcome"]
        if outcome == "interrupted":
            return
        self.done += 1
        self.failed += outcome != "done"
        if self._bar is None or self.verbose or outcome in ("crash", "error"):
            self._line(f"[{self.done}/{self.total}] {label}: {_found(facts)}")

    def _line(self, text: str) -> None:
        if self._bar is None:
            say(text)
        else:
            self._bar.console.print(escape(printable(f"slackopt: {text}")), soft_wrap=True)

    def _show(self) -> None:
        if self._bar is None:
            return
        text = f"{self.running} running"
        if self.failed:
            text += f", [red]{self.failed} failed[/red]"
        if self.done and self.total > self.done:
            elapsed = time.monotonic() - self.begun
            text += f", about {duration(elapsed / self.done * (self.total - self.done))} left,"
        self._bar.update(self._task, description=text, completed=self.done, total=self.total)


def duration(seconds: float) -> str:
    """Write a time span in the unit that suits it."""
    for unit, scale in (("d", 86400.0), ("h", 3600.0), ("min", 60.0)):
        if seconds >= scale:
            return f"{seconds / scale:.1f} {unit}"
    return f"{seconds:.0f} s"


def _label(event: Event) -> str:
    task = event.task
    if task is None:
        return ""
    seed = f", seed {task.seed}" if task.seed else ""
    return f"{task.instance}, {task.tags.get('label', task.method)}{seed}"


def _found(facts: Any) -> str:
    outcome, detail = facts["outcome"], facts.get("detail")
    text = outcome if detail is None else f"{outcome} ({detail})"
    if facts.get("throughput_ratio") is not None:
        text += f", {100 * facts['throughput_ratio']:.3f} % of ideal"
    elif outcome == "done":
        text += f", {str(facts.get('status')).replace('_', ' ')}"
    if facts.get("gap") is not None:
        text += f", certified gap {100 * facts['gap']:.4f} %"
    return f"{text}, {facts['wall_s']:.2f} s"
