"""`run_batch`: carry out cases, each once, into a folder; resumable at any moment."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import psutil

from slackopt.batch.claims import Claims
from slackopt.batch.events import Event, EventLog, Observer
from slackopt.batch.expand import Case, expand, features
from slackopt.batch.folder import instance_path, prepare, stored, sweep_temporary
from slackopt.batch.local import LocalExecutor, Pending
from slackopt.batch.order import WRITE_PATIENCE_S, Order
from slackopt.batch.scratch import remove_root, scratch_root, sweep
from slackopt.batch.store import run_keys
from slackopt.batch.study import Study
from slackopt.errors import InputError

GRACE_S = 30.0
"""Seconds past its time limit after which a run is killed."""


class Executor(Protocol):
    """What carries out orders; see `slackopt.batch.local.LocalExecutor.run`."""

    def run(
        self,
        folder: str,
        pending: Sequence[Pending],
        claims: Claims,
        observer: Observer,
        stopping: Callable[[], int],
    ) -> str | None:
        """Carry out orders."""
        ...


@dataclass(frozen=True)
class Settings:
    """How the runs of a batch are carried out; nothing here changes what they answer.

    Attributes
    ----------
    grace_s
        Seconds past its time limit after which a run is killed.
    force
        Run again what is stored.
    retry
        Run again what failed.
    pin
        Reserve cores for a run, as many as it has threads, while so many are free.
    write_patience_s
        How long a finished run waits for a full disk before its result is given up.
    """

    grace_s: float = GRACE_S
    force: bool = False
    retry: bool = False
    pin: bool = True
    write_patience_s: float = WRITE_PATIENCE_S


@dataclass(frozen=True)
class BatchState:
    """Which of the runs asked for are stored.

    Attributes
    ----------
    outcomes
        Key -> outcome, of those that are stored.
    pending
        Keys of those that are to be run.
    unsound
        Files that stand for one of them and are no sound run, one sentence each; these are run
        again.
    """

    outcomes: dict[str, str]
    pending: tuple[str, ...]
    unsound: tuple[str, ...] = ()

    @property
    def counts(self) -> dict[str, int]:
        """Number of stored runs by outcome."""
        return dict(Counter(self.outcomes.values()))


def look(
    folder: str | os.PathLike[str], cases: Sequence[Case], settings: Settings | None = None
) -> BatchState:
    """Say which runs of a batch are stored, and which are to be run."""
    bad: list[InputError] = []
    pending, outcomes = _sort_out(folder, cases, settings or Settings(), bad.append)
    keys = tuple(found.order.key for found in pending)
    return BatchState(outcomes, keys, tuple(" ".join(str(error).split()) for error in bad))


def run_study(
    study: Study,
    folder: str | os.PathLike[str],
    *,
    executor: Executor | None = None,
    settings: Settings | None = None,
    observer: Observer | None = None,
) -> BatchState:
    """Carry out every run of a study that is not stored yet; see `run_batch`.

    Examples
    --------
    >>> study = make_study({"instances": ["*.json"], "methods": ["slackswap"]})  # doctest: +SKIP
    >>> run_study(study, "study", executor=LocalExecutor(jobs=2))  # doctest: +SKIP
    """
    return run_batch(
        expand(study),
        folder,
        executor=executor or LocalExecutor(modules=study.modules),
        modules=study.modules,
        settings=settings,
        observer=observer,
    )


def run_batch(
    cases: Sequence[Case],
    folder: str | os.PathLike[str],
    *,
    executor: Executor | None = None,
    modules: Sequence[str] = (),
    settings: Settings | None = None,
    observer: Observer | None = None,
) -> BatchState:
    """Carry out every case that is not stored yet.

    Each is one process with its limits, whose end, however it comes, is a record in
    ``<folder>/runs``. Ctrl-C (or SIGTERM) ends it within seconds: runs that go on are recorded as
    ``interrupted`` and done again next time.

    Parameters
    ----------
    cases
        See `slackopt.batch.expand.expand`.
    folder
        Made if missing. Several batches may share one, at the same time.
    executor
        One run at a time on this machine by default.
    modules
        Modules that register the heuristics used.
    settings
        How to carry them out.
    observer
        Told of every event.

    Returns
    -------
    BatchState
        As it is at the end; `pending` is empty unless the batch was interrupted.

    Raises
    ------
    InputError
        If the folder can't be written, from the start or because its disk is full.
    """
    if not psutil.LINUX:
        raise InputError("batches need Linux, which alone can follow all processes of a run")
    settings = settings or Settings()
    home = Path(folder).resolve()
    prepare(home, cases, modules)
    log = EventLog(home)

    def tell(event: Event) -> None:
        log(event)
        if observer is not None:
            observer(event)

    root = scratch_root()
    sweep(root)
    try:
        with Claims(home) as claims, stop_signals() as stopping:
            sweep_temporary(home, claims.sweep())
            bad: list[InputError] = []
            pending, outcomes = _sort_out(home, cases, settings, bad.append)
            counts = dict(Counter(outcomes.values()))
            tell(Event("batch", facts={"total": len(cases), "pending": len(pending), **counts}))
            for error in bad:
                why = f"{' '.join(str(error).split())}; it is run again"
                tell(Event("warning", facts={"why": why}))
            broken = None
            if pending:
                chosen = executor or LocalExecutor(modules=modules)
                broken = chosen.run(str(home), pending, claims, tell, stopping)
            left, outcomes = _sort_out(home, cases, Settings())
            state = BatchState(outcomes, tuple(found.order.key for found in left))
            tell(Event("end", facts={"left": len(state.pending), **state.counts}))
    finally:
        log.close()
        sweep(root)
        remove_root(root)
    if broken is not None:
        raise InputError(
            f"{broken}; {len(state.outcomes)} of {len(cases)} runs are kept, {len(left)} are left: "
            "make room, and give the same command again"
        )
    return state


def _sort_out(
    folder: str | os.PathLike[str],
    cases: Sequence[Case],
    settings: Settings,
    on_bad: Callable[[InputError], None] | None = None,
) -> tuple[list[Pending], dict[str, str]]:
    """Return what is to be run, and the outcomes of what is stored and stays."""
    pending: list[Pending] = []
    outcomes: dict[str, str] = {}
    facts: dict[str, dict[str, Any]] = {}
    keys = run_keys(folder)
    for case in cases:
        there = (
            stored(folder, case.key, asked=case.task, on_bad=on_bad) if case.key in keys else None
        )
        if there is not None and not settings.force and there.counts(retry=settings.retry):
            outcomes[case.key] = there.outcome
            continue
        sha256, task = case.instance.sha256, case.task
        if sha256 not in facts:
            facts[sha256] = features(case.instance)
        limit = task.time_limit_s
        order = Order(
            key=case.key,
            task=task,
            folder=os.fspath(folder),
            instance_file=os.fspath(instance_path(folder, sha256)),
            features=facts[sha256],
            attempt=1 if there is None else there.attempt + 1,
            kill_after_s=None if limit is None else limit + settings.grace_s,
            pin=settings.pin,
            write_patience_s=settings.write_patience_s,
        )
        pending.append(Pending(order, there, settings.force))
    return pending, outcomes


@contextlib.contextmanager
def stop_signals() -> Iterator[Callable[[], int]]:
    """Count the signals that ask for an end, instead of dying from them; yield the count."""
    asked = 0

    def hear(*_: object) -> None:
        nonlocal asked
        asked += 1

    before: dict[signal.Signals, Any] = {}
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is not signal.SIG_IGN:  # as nohup has it
                before[number] = signal.signal(number, hear)
    try:
        yield lambda: asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
