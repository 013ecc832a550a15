"""The local executor: some runs at a time on this machine, each in a process of its own."""

from __future__ import annotations

import contextlib
import os
import select
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from slackopt.batch.claims import Claims
from slackopt.batch.events import Event, Observer
from slackopt.batch.folder import Stored, stored, sweep_temporary
from slackopt.batch.launcher import Launcher
from slackopt.batch.order import Order
from slackopt.batch.outcome import unwatched_run
from slackopt.batch.processes import signal_name
from slackopt.batch.run import Outcome
from slackopt.batch.store import write_run
from slackopt.errors import InputError

MAX_STARTS = 3
"""Times a run is started whose watching process gets killed."""

_POLL_S = 0.25
_ASK_AGAIN_S = 2.0
_STOP_S = 10.0


@dataclass
class Pending:
    """A run to be done, and what the store said of it when the batch began."""

    order: Order
    known: Stored | None = None
    force: bool = False
    starts: int = 0
    ask_at: float = 0.0


@dataclass
class _Running:
    pending: Pending
    launcher: Launcher
    recorded: bool = False
    lost: str | None = None
    why: str | None = None
    """Why it did not end as it should, where its watching process said so."""


class LocalExecutor:
    """Carries out orders, `jobs` at a time.

    Parameters
    ----------
    jobs
        Runs at a time.
    modules
        Modules that register heuristics.
    """

    def __init__(self, jobs: int = 1, modules: Sequence[str] = ()) -> None:
        self.jobs, self.modules = jobs, tuple(modules)

    def run(
        self,
        folder: str,
        pending: Sequence[Pending],
        claims: Claims,
        observer: Observer,
        stopping: Callable[[], int],
    ) -> str | None:
        """Carry out orders until all are recorded, or until told to stop.

        Parameters
        ----------
        folder
            The batch's folder.
        pending
            What to do.
        claims
            Entered already.
        observer
            Told of everything.
        stopping
            Returns how often the user asked to stop.

        Returns
        -------
        str or None
            Why it ended early, if it did (a full disk).
        """
        return _Loop(self, folder, pending, claims, observer, stopping).run()


class _Loop:
    def __init__(
        self,
        executor: LocalExecutor,
        folder: str,
        pending: Sequence[Pending],
        claims: Claims,
        observer: Observer,
        stopping: Callable[[], int],
    ) -> None:
        self.executor, self.folder, self.claims = executor, folder, claims
        self.observer, self.stopping = observer, stopping
        self.queue = deque(pending)
        self.elsewhere: deque[Pending] = deque()
        self.running: dict[int, _Running] = {}
        self.launchers: dict[int, Launcher] = {}
        self.number = 0
        self.broken: str | None = None
        self.disk_full = False

    def run(self) -> str | None:
        try:
            # After a failure to write nothing is started, but what runs may still find room.
            while self.running or (not self.broken and (self.queue or self.elsewhere)):
                if self.stopping():
                    self.finish()
                    break
                self.fill()
                self.listen(_POLL_S)
                self.claims.beat()
        finally:
            for launcher in self.launchers.values():
                launcher.close()
            self.hear_last()
        return self.broken

    # Starting.

    def fill(self) -> None:
        """Start runs while there is room; take over what other batches left."""
        while len(self.running) < self.executor.jobs and not (self.disk_full or self.broken):
            now = time.monotonic()
            if self.queue:
                pending = self.queue.popleft()
            elif self.elsewhere and self.elsewhere[0].ask_at <= now:
                pending = self.elsewhere.popleft()
            else:
                return
            try:
                self.begin(pending)
            except InputError as error:
                self.queue.appendleft(pending)
                self.broken = str(error)
                self.tell("warning", None, why=f"{error}; nothing more is started")
                return

    def begin(self, pending: Pending) -> None:
        key = pending.order.key
        if not self.claims.claim(key):
            if not pending.ask_at:
                self.tell("waiting", pending)
            pending.ask_at = time.monotonic() + _ASK_AGAIN_S
            self.elsewhere.append(pending)
            return
        there = stored(self.folder, key, asked=pending.order.task)
        if there is not None and there != pending.known and there.counts(retry=False):
            # Done by another batch since this one looked.
            self.claims.release(key)
            self.tell("stored", pending, outcome=there.outcome)
            return
        sweep_temporary(self.folder, {key})
        launcher = self.launcher(pending.order.task.threads)
        self.number += 1
        pending.starts += 1
        self.running[self.number] = _Running(pending, launcher)
        try:
            launcher.start(self.number, pending.order)
        except OSError:  # it just died: heard of in `listen`
            return
        except InputError as error:
            del self.running[self.number]
            self.record(pending, "error", str(error))
            return
        self.tell("started", pending, attempt=pending.order.attempt)

    def launcher(self, threads: int) -> Launcher:
        if threads not in self.launchers:
            made = Launcher(threads, self.executor.modules)
            self.launchers[threads] = made
            self.claims.add_process(made.process.pid)
        return self.launchers[threads]

    # Listening.

    def listen(self, seconds: float) -> None:
        """Wait for messages, and take them in."""
        links = {launcher.link.fileno(): launcher for launcher in self.launchers.values()}
        if not links:
            time.sleep(seconds)
            return
        readable, _, _ = select.select(list(links), [], [], seconds)
        for handle in readable:
            for message in links[handle].messages():
                if message is None:
                    self.restart(links[handle])
                    continue
                try:
                    self.take(message)
                except (KeyError, TypeError, ValueError):
                    # Nobody knows whose it is. What counts is the record of each run.
                    why = "a message of a process below the batch can't be read; it is passed over"
                    self.tell("warning", None, why=why)

    def take(self, message: Mapping[str, Any]) -> None:
        """Take in a message.

        Raises
        ------
        KeyError, TypeError, ValueError
            If it is none that a process below the batch sends.
        """
        event = message["event"]
        running = self.running.get(message.get("id", 0))
        if running is None:
            return
        facts = {name: value for name, value in message.items() if name not in ("id", "event")}
        if event == "recorded":
            self.disk_full = False
            if facts["outcome"] == "interrupted" and not self.stopping():
                # By somebody else; it runs again when its process has ended.
                running.why = str(facts.get("detail"))
                return
            running.recorded = True
            self.tell("recorded", running.pending, **facts)
        elif event == "unwritten":
            if not self.disk_full:
                self.tell("unwritten", running.pending, **facts)
            self.disk_full = True
        elif event == "lost":
            running.lost = str(facts.get("why"))
        elif event == "failed":
            running.why = str(facts.get("why"))
        elif event == "refused":
            del self.running[message["id"]]
            self.record(running.pending, "error", f"its order was refused: {facts.get('why')}")
        elif event == "ended":
            self.ended(message["id"], int(message["status"]))

    def ended(self, number: int, status: int) -> None:
        """Take note that the process that watched a run is gone."""
        running = self.running.pop(number)
        pending, key = running.pending, running.pending.order.key
        if running.recorded or self.has_record(pending):
            self.claims.release(key)
        elif running.lost is not None:
            self.claims.release(key)
            self.tell("lost", pending, why=running.lost)
            self.broken = self.broken or running.lost
        else:
            self.again(pending, running.why or f"its watching process {_ending(status)}")

    def has_record(self, pending: Pending) -> bool:
        """Whether a record came of which no message told: the file is what counts."""
        there = stored(self.folder, pending.order.key, asked=pending.order.task)
        if there is None or there.outcome == "interrupted" or there == pending.known:
            return False
        if there.attempt != pending.order.attempt:
            return False
        self.tell("recorded", pending, outcome=there.outcome, wall_s=there.wall_s)
        return True

    def record(self, pending: Pending, outcome: Outcome, why: str) -> None:
        """Record a run that never began, or that nobody could watch to its end."""
        try:
            write_run(self.folder, unwatched_run(pending.order, outcome, why))
            self.tell("recorded", pending, outcome=outcome, detail=why, wall_s=0.0)
        except InputError as error:
            self.tell("lost", pending, why=str(error))
            self.broken = str(error)
        self.claims.release(pending.order.key)

    def again(self, pending: Pending, why: str) -> None:
        """Run it again whose watching process was killed; record a crash if that goes on."""
        if pending.starts < MAX_STARTS:
            self.claims.release(pending.order.key)
            self.tell("requeued", pending, why=why)
            self.queue.appendleft(pending)
            return
        self.record(pending, "crash", f"{why}, {pending.starts} times in a row")

    def restart(self, launcher: Launcher) -> None:
        """Start a process anew that was killed; the runs that it had are gone with it."""
        self.launchers = {n: found for n, found in self.launchers.items() if found is not launcher}
        launcher.close()
        for number in [n for n, found in self.running.items() if found.launcher is launcher]:
            running = self.running.pop(number)
            if running.recorded or self.has_record(running.pending):
                self.claims.release(running.pending.order.key)
            else:
                self.again(running.pending, "the process that it was started from was killed")

    # Ending.

    def finish(self) -> None:
        """Have the runs that go on stopped and recorded; wait for that, but not for long."""
        self.tell("stopping", None, running=len(self.running))
        asked = self.stopping()
        for launcher in self.launchers.values():
            launcher.stop()
        until = time.monotonic() + _STOP_S
        while self.running and time.monotonic() < until and self.stopping() <= max(asked, 1):
            self.listen(0.05)

    def hear_last(self) -> None:
        """Give back the claims that are left."""
        for running in self.running.values():
            self.claims.release(running.pending.order.key)
        self.running.clear()

    def tell(self, kind: Any, pending: Pending | None, **facts: Any) -> None:
        order = None if pending is None else pending.order
        key, task = (None, None) if order is None else (order.key, order.task)
        facts.pop("key", None)
        with contextlib.suppress(BrokenPipeError):
            self.observer(Event(kind, key, task, facts))


def _ending(status: int) -> str:
    """Say how a process ended."""
    if os.WIFSIGNALED(status):
        return f"was ended by {signal_name(os.WTERMSIG(status))}"
    return f"ended with exit code {os.waitstatus_to_exitcode(status)}, without a record of the run"
