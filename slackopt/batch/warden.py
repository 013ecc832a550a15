"""The process that watches one run: starts it, keeps it to its limits, records what came of it.

It is the parent of the run's process and inherits every orphan below it, so it can end all of a
run whatever that does: ignore SIGTERM, start processes of its own, print without end.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from slackopt.batch import processes, worker
from slackopt.batch.order import Order
from slackopt.batch.outcome import Ending, make_run, utc_now
from slackopt.batch.run import Run
from slackopt.batch.scratch import own_cores, run_folder, scratch_root
from slackopt.batch.store import checkpoint_path, write_finished
from slackopt.errors import InputError
from slackopt.files import write_bytes

Tell = Callable[[Mapping[str, Any]], None]

LOG_BYTES = 16 * 1024
"""Bytes kept of what a run prints: the last ones."""

_LOOK_S = 0.1
_KEEP_S = 0.3
_CHUNK = 1 << 16
_MOST_DRAINED = 1 << 22


def watch(order: Order, tell: Tell) -> int:
    """Carry out an order: run it in a child process and write its record.

    Parameters
    ----------
    order
        What to do.
    tell
        Called with messages for the batch: ``recorded``, ``unwritten`` (the disk is full; tried
        again) or ``lost`` (given up).

    Returns
    -------
    int
        Exit code of this process: 0 if the run is recorded.
    """
    processes.adopt_orphans()
    root = scratch_root()
    cores_wanted = order.task.threads if order.pin else 0
    with own_cores(cores_wanted) as cores, run_folder(root, order.key) as scratch:
        warden = _Warden(order, scratch, cores)
        run = warden.run()
    return 0 if _record(order, run, tell, warden) else 1


class _Warden:
    def __init__(self, order: Order, scratch: Path, cores: tuple[int, ...]) -> None:
        self.order, self.scratch, self.cores = order, scratch, cores
        self.ending = Ending()
        self.stopped = False
        self._inbox = bytearray()
        self._looked = self._listed = -1.0
        self._kept, self._unkept = -_KEEP_S, False
        self._pids: list[int] = []

    def run(self) -> Run:
        """Run the task to its end and describe that."""
        ending, order = self.ending, self.order
        wake = self._hear_signals()
        ending.oom_kills = processes.oom_kills()
        started_at, begun = utc_now(), time.monotonic()
        pid, messages, log = self._start()
        streams = [messages, log, wake]
        kill_at: float | None = None
        while True:
            late = self._reason(begun)
            if ending.cut is None and late is not None:
                ending.cut = late
                grace = 0.0 if late in ("memory", "unreadable") else order.stop_grace_s
                kill_at = time.monotonic() + grace
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGTERM if grace else signal.SIGKILL)
            if kill_at is not None and time.monotonic() >= kill_at:
                ending.killed = True
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            readable, _, _ = select.select(streams, [], [], self._pause(begun, kill_at))
            for stream in readable:
                if self._read(stream, messages, log) == 0:
                    streams.remove(stream)
            self._keep_checkpoint()
            self._look(pid)
            ended, status, usage = os.wait4(pid, os.WNOHANG)
            if ended:
                break
        wall_s = time.monotonic() - begun
        ending.status = status
        ending.peak_rss_bytes = max(ending.peak_rss_bytes, usage.ru_maxrss * 1024)
        self._drain([stream for stream in streams if stream != wake], messages, log)
        if self._inbox and ending.cut is None and not os.WIFSIGNALED(status):
            self._give_up("it ends in the middle of a message")
        ending.clean = processes.kill_descendants()
        for handle in (messages, log):
            os.close(handle)
        return make_run(order, ending, started_at, wall_s)

    def _hear_signals(self) -> int:
        """Have signals wake up `select`; SIGTERM asks for the end of the run."""
        wake, end = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

        def stop(*_: object) -> None:
            self.stopped = True

        signal.set_wakeup_fd(end, warn_on_full_buffer=False)
        signal.signal(signal.SIGTERM, stop)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for number in (signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
            signal.signal(number, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
        return wake

    def _start(self) -> tuple[int, int, int]:
        messages, messages_end = os.pipe()
        log, log_end = os.pipe()
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                os.close(messages)
                os.close(log)
                code = worker.work(
                    self.order, messages_end, log_end, self.scratch, self.cores, parent
                )
            except SystemExit as error:
                code = error.code if isinstance(error.code, int) else 1
            finally:
                # Nothing of the parent's (open files, exit handlers) is to be run here.
                os._exit(code & 0xFF)
        for handle in (messages_end, log_end):
            os.close(handle)
        for handle in (messages, log):
            os.set_blocking(handle, False)
        return pid, messages, log

    def _reason(self, begun: float) -> str | None:
        """Why the run must end now, if it must."""
        order = self.order
        if self.ending.unreadable is not None:
            return "unreadable"
        limit = order.task.memory_limit_bytes
        if limit is not None and self.ending.resident_bytes > limit:
            return "memory"
        if self.stopped:
            return "stop"
        if order.kill_after_s is not None and time.monotonic() - begun > order.kill_after_s:
            return "time"
        return None

    def _pause(self, begun: float, kill_at: float | None) -> float:
        now, pause = time.monotonic(), _LOOK_S
        for moment in (kill_at, begun + (self.order.kill_after_s or 1e9)):
            if moment is not None and moment > now:
                pause = min(pause, moment - now + 0.001)
        return pause

    def _look(self, pid: int) -> None:
        """Measure memory ten times a second; look for new processes twice a second."""
        now = time.monotonic()
        if now - self._looked < _LOOK_S:
            return
        if now - self._listed >= 5 * _LOOK_S:
            # From this process on: orphans that the run left are its children.
            self._pids = [found for found in processes.tree(os.getpid()) if found != os.getpid()]
            self._listed = now
        if pid not in self._pids:
            self._pids.append(pid)
        self._looked = now
        self.ending.see(processes.resident_bytes(self._pids))

    def _read(self, stream: int, messages: int, log: int) -> int | None:
        """Take in what a stream has; return how many bytes, 0 at its end, None if too early."""
        try:
            data = os.read(stream, _CHUNK)
        except BlockingIOError:
            return None
        if stream == log:
            self.ending.log = (self.ending.log + data)[-LOG_BYTES:]
        elif stream == messages and self.ending.unreadable is None:
            self._inbox += data
            self._take_messages()
        return len(data)

    def _give_up(self, why: str) -> None:
        """Read no more messages: something else than the worker has written into their stream."""
        self.ending.unreadable = why
        self._inbox.clear()

    def _take_messages(self) -> None:
        """Keep the last whole message of every kind."""
        header = worker.HEADER
        while len(self._inbox) >= header.size:
            kind, length = header.unpack_from(self._inbox)
            if kind not in worker.KINDS:
                self._give_up(f"a message of kind {kind!r}")
                return
            if length > worker.MAX_MESSAGE_BYTES:
                self._give_up(f"a message of {length} bytes")
                return
            end = header.size + length
            if len(self._inbox) < end:
                return
            self.ending.messages[kind] = bytes(self._inbox[header.size : end])
            del self._inbox[:end]
            self._unkept |= kind == worker.CHECKPOINT

    def _keep_checkpoint(self) -> None:
        """Write what is known to disk, as a scheduler may kill this process with the run's."""
        wanted = self._unkept and self.order.scheduler is not None
        if wanted and time.monotonic() - self._kept >= _KEEP_S:
            path = checkpoint_path(self.order.folder, self.order.key)
            with contextlib.suppress(OSError, InputError):
                path.parent.mkdir(exist_ok=True)
                write_bytes(self.ending.messages[worker.CHECKPOINT], path)
            self._kept, self._unkept = time.monotonic(), False

    def _drain(self, streams: list[int], messages: int, log: int) -> None:
        """Take in what is still in the pipes, but for a process that goes on printing."""
        for stream in streams:
            for _ in range(_MOST_DRAINED // _CHUNK):
                if not self._read(stream, messages, log):
                    break


def _record(order: Order, run: Run, tell: Tell, warden: _Warden) -> bool:
    """Write the run; wait for a full disk. Return whether it is written."""
    until = time.monotonic() + order.write_patience_s
    while True:
        try:
            write_finished(order.folder, run)
        except InputError as error:
            given_up = warden.stopped or time.monotonic() >= until
            tell({"event": "lost" if given_up else "unwritten", "why": str(error)})
            if given_up:
                return False
            time.sleep(min(1.0, order.write_patience_s))
        else:
            tell({"event": "recorded", **summary(run)})
            return True


def summary(run: Run) -> dict[str, Any]:
    """Return what progress and logs say about a run, as JSON values."""
    result = run.result
    found = (
        {}
        if result is None
        else {
            name: getattr(result, name)
            for name in ("status", "stopped_by", "throughput_ratio", "makespan_ns", "gap")
        }
    )
    return {
        "key": run.key,
        "outcome": run.outcome,
        "detail": run.detail,
        "wall_s": round(run.wall_s, 3),
        "peak_rss_bytes": run.peak_rss_bytes,
        **found,
    }
