"""Progress on standard error: a bar on a terminal, one line per finished item elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from slackopt.cli.output import print_line
from slackopt.cli.text import is_bound_only, milliseconds
from slackopt.instance import Instance
from slackopt.progress import OnMove
from slackopt.result import Result
from slackopt.tables import printable


def say(message: str) -> None:
    """Write one line to standard error."""
    print_line(f"slackopt: {message}")


def say_finished(result: Result) -> None:
    """Write one line about a run to standard error, unless a terminal shows it anyway."""
    if not sys.stderr.isatty():
        say(one_line(result))


def one_line(result: Result) -> str:
    """Say in one line what came out of a run."""
    seconds = "" if result.wall_s is None else f", {result.wall_s:.2f} s"
    if is_bound_only(result):
        bound = milliseconds(result.lower_bound_ns)
        return f"{result.instance}, {result.method}: lower bound {bound}{seconds}"
    found = "no plan"
    if result.throughput_ratio is not None:
        found = f"{100 * result.throughput_ratio:.3f} % of ideal"
    if result.gap is not None:
        found += f", certified gap {100 * result.gap:.4f} %"
    return f"{result.instance}, {result.method}: {result.status}, {found}{seconds}"


@contextmanager
def one_run(instance: Instance, method: str) -> Iterator[OnMove]:
    """Show a run that is going on, with the gap between its ends; on a terminal only."""
    console = Console(file=sys.stderr)
    title = escape(printable(f"{instance.name}, {method}"))
    if not console.is_terminal:
        yield lambda *_: None
        return
    with console.status(title) as status:

        def moved(seconds: float, makespan: int | None, bound: int | None, source: str) -> None:
            plan = "no plan" if makespan is None else f"plan {makespan / 1e6:.3f} ms"
            proved = "no bound" if bound is None else f"bound {bound / 1e6:.3f} ms"
            told = escape(printable(source))
            status.update(f"{title}: {plan}, {proved} ({told}, {seconds:.1f} s)")

        yield moved


class RunsProgress:
    """Progress over many runs; a context manager."""

    def __init__(self, total: int) -> None:
        self.total, self.done = total, 0
        console = Console(file=sys.stderr)
        self._bar: Progress | None = None
        if console.is_terminal:
            self._bar = Progress(
                MofNCompleteColumn(),
                BarColumn(),
                TimeElapsedColumn(),
                TextColumn("{task.description}"),
                console=console,
                transient=True,
            )
            self._task = self._bar.add_task("", total=total)

    def __enter__(self) -> RunsProgress:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def start(self, instance: Instance, method: str) -> None:
        """Say which run begins."""
        if self._bar is not None:
            title = escape(printable(f"{instance.name}, {method}"))
            self._bar.update(self._task, description=title)

    def finish(self, result: Result) -> None:
        """Say what came out of the run."""
        self.done += 1
        if self._bar is None:
            say(f"[{self.done}/{self.total}] {one_line(result)}")
        else:
            self._bar.advance(self._task)
