"""The parent's side of the child process that runs PuLP: requests, limits, what came back.

One child serves all solves of a model, because starting one costs more than a small solve. It is
killed, with the solvers it started, when a solve is late, when this process is interrupted, and
when the model is closed or collected; it ends by itself when this process dies.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import queue
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time
import weakref
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from slackopt.solvers.linear_model import LinearModel
from slackopt.solvers.scaling import Floats
from slackopt.solvers.solve_run import OnMove, Report, SolveRun

WORKER = Path(__file__).with_name("pulp_worker.py")
GRACE_S = 1.0
"""Seconds past the time limit after which the child is killed."""
_POLL_S = 0.25


@dataclass
class _Child:
    process: subprocess.Popen[bytes]
    messages: queue.SimpleQueue[tuple[Any, ...] | None]


class PulpProcess:
    """A child that solves models with one of PuLP's solvers.

    Parameters
    ----------
    solver
        PuLP's name for the solver.
    """

    def __init__(self, solver: str) -> None:
        self.solver = solver
        self.folder = Path(tempfile.mkdtemp(prefix="slackopt-pulp-"))
        self._children: list[_Child] = []
        self._finalizer = weakref.finalize(self, _clean, self._children, self.folder, os.getpid())
        self._solves = 0
        self._start()

    def close(self) -> None:
        """End the child and remove its files."""
        self._finalizer()

    def solve(
        self,
        model: LinearModel,
        *,
        time_limit: float,
        gap: float,
        threads: int,
        seed: int,
        max_nodes: int | None = None,
        start: Floats | None = None,
        on_move: OnMove | None = None,
    ) -> Report:
        """Solve a model; return within `time_limit` + `GRACE_S` whatever the solver does."""
        begun = time.monotonic()
        if not self._finalizer.alive:
            raise ValueError("this model is closed")
        self._solves += 1
        folder = self.folder / f"solve-{self._solves:04d}"
        folder.mkdir()
        run = SolveRun(model, folder, begun, time_limit, gap, on_move)
        request = {
            **{name: getattr(model, name) for name in model.__dataclass_fields__},
            "solver": self.solver,
            "folder": str(folder),
            "time_limit": time_limit,
            "gap": gap,
            "threads": threads,
            "seed": seed,
            "max_nodes": max_nodes,
            "start": start,
        }
        try:
            if not self._children:
                self._start()
            _send(self._children[0].process, request)
            final = self._wait(run)
            if final is None or final[0] == "died":
                self._kill()
            return run.report(final, self._last_words())
        except BaseException:
            self._kill()  # Ctrl-C in here must leave no solver behind
            raise
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _wait(self, run: SolveRun) -> tuple[Any, ...] | None:
        """Take in moves until the last message comes; None if the child is late."""
        messages = self._children[0].messages
        while True:
            left = run.begun + run.time_limit + GRACE_S - time.monotonic()
            try:
                message = messages.get(timeout=max(0.0, min(_POLL_S, left)))
            except queue.Empty:
                run.poll()
                if left <= 0:
                    return None
                continue
            if message is None:
                return ("died", self._children[0].process.wait())
            if message[0] != "move":
                return message
            run.take(time.monotonic() - run.begun, *message[1:])

    def _start(self) -> None:
        with (self.folder / "worker.log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-P", str(WORKER)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                cwd=self.folder,
                start_new_session=True,  # no Ctrl-C of ours reaches it, and we can kill the lot
            )
        messages: queue.SimpleQueue[tuple[Any, ...] | None] = queue.SimpleQueue()
        self._children.append(_Child(process, messages))
        threading.Thread(target=_receive, args=(process.stdout, messages), daemon=True).start()

    def _kill(self) -> None:
        while self._children:
            _kill(self._children.pop())

    def _last_words(self) -> str:
        """Last line that the child printed, for error messages."""
        with contextlib.suppress(OSError):
            lines = (self.folder / "worker.log").read_text(errors="replace").split("\n")
            return next((line.strip() for line in reversed(lines) if line.strip()), "")
        return ""


def _send(process: subprocess.Popen[bytes], request: dict[str, Any]) -> None:
    data = pickle.dumps(request, protocol=5)
    stdin = process.stdin
    # If the child is dead, its last message says so.
    with contextlib.suppress(BrokenPipeError):
        if stdin is not None:
            stdin.write(struct.pack("<Q", len(data)) + data)
            stdin.flush()


def _receive(stream: BinaryIO, messages: queue.SimpleQueue[tuple[Any, ...] | None]) -> None:
    """Put messages into the queue; None at the end of the stream. Closes the stream."""
    with stream:
        while len(header := stream.read(8)) == 8:
            data = stream.read(struct.unpack("<Q", header)[0])
            with contextlib.suppress(pickle.UnpicklingError, EOFError):
                messages.put(pickle.loads(data))  # noqa: S301 - from our own child process
    messages.put(None)


def _kill(child: _Child) -> None:
    """Kill a child and everything it started."""
    process = child.process
    if process.returncode is None and os.name == "posix":
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    process.kill()
    process.wait()
    if process.stdin is not None:
        with contextlib.suppress(OSError):
            process.stdin.close()


def _clean(children: list[_Child], folder: Path, owner: int) -> None:
    if os.getpid() != owner:  # a fork of the process that started them
        return
    while children:
        _kill(children.pop())
    shutil.rmtree(folder, ignore_errors=True)
