"""The process from which runs are forked: it has everything imported, and nothing started.

Importing this package takes most of a second; a fork of a process that has, some milliseconds.
So one process is started for a batch, as ``python -m slackopt.batch.zygote``, before any solver
has made threads, and each run is a fork of it: as separate as a process of its own can be, at a
fraction of the cost.

It speaks with the batch over a socket that keeps messages apart. When the batch dies, the socket
ends; the runs are then stopped and recorded as interrupted, their processes and files removed.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import select
import signal
import socket
import sys
import time
import traceback
import warnings
from collections.abc import Mapping
from typing import Any

from slackopt.batch.order import Order
from slackopt.batch.outcome import machine
from slackopt.batch.processes import (
    adopt_orphans,
    die_with_parent,
    keep_open,
    kill_descendants,
    open_descriptors,
)
from slackopt.batch.scratch import scratch_root, sweep
from slackopt.batch.warden import watch
from slackopt.errors import SlackoptError, named, told
from slackopt.tables import printable_lines

MESSAGE_BYTES = 1 << 17
"""Longest message."""


def read_message(data: bytes) -> dict[str, Any] | None:
    """Read a message of the batch, or of a process below it; None if it is none."""
    try:
        message = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return message if isinstance(message, dict) else None


_END_PATIENCE_S = 12.0
"""Seconds after the batch's death until runs that don't end are killed with their wardens."""


def main(arguments: list[str]) -> int:
    """Serve orders.

    Parameters
    ----------
    arguments
        File descriptor of the socket, then the modules to import.
    """
    link = socket.socket(fileno=int(arguments[0]))
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, signal.SIG_IGN)
    adopt_orphans()
    ours = open_descriptors()
    for module in arguments[1:]:
        importlib.import_module(module)
    keep_open(open_descriptors() - ours)
    machine()  # asked for by every run
    gc.collect()
    gc.freeze()
    gc.disable()  # a collection would copy every page that is shared with the runs
    # Threads of libraries that know about forks are no danger here.
    warnings.filterwarnings("ignore", category=DeprecationWarning, message=".*fork.*")
    _Zygote(link).serve()
    return 0


class _Zygote:
    def __init__(self, link: socket.socket) -> None:
        self.link = link
        self.wardens: dict[int, int] = {}

    def serve(self) -> None:
        """Carry out orders until the batch ends."""
        wake, end = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(end, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self.tell({"event": "ready", "pid": os.getpid()})
        while True:
            readable, _, _ = select.select([self.link.fileno(), wake], [], [])
            if wake in readable:
                with contextlib.suppress(BlockingIOError):
                    os.read(wake, 4096)
                self.reap()
            if self.link.fileno() in readable:
                data = self.link.recv(MESSAGE_BYTES)
                if not data:
                    break
                self.take(read_message(data) or {})
        self.end()

    def take(self, message: Mapping[str, Any]) -> None:
        """Carry out what the batch asks for."""
        if message.get("do") == "run":
            try:
                order = Order.model_validate_json(json.dumps(message.get("order")))
            except (ValueError, SlackoptError) as error:
                # The order of one run: the others go on.
                self.tell({"id": message.get("id"), "event": "refused", "why": told(error)})
            else:
                self.start(message["id"], order)
        elif message.get("do") == "stop":
            self.signal_all(signal.SIGTERM)

    def start(self, number: int, order: Order) -> None:
        """Fork the process that watches a run."""
        parent = os.getpid()
        # Held back until the warden hears it: a stop that comes now must not be lost.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        pid = os.fork()
        if pid:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
            self.wardens[pid] = number
            return
        code = 1
        try:
            signal.set_wakeup_fd(-1)
            die_with_parent(parent, signal.SIGTERM)
            code = watch(order, lambda message: self.tell({"id": number, **message}))
        except BaseException as error:
            sys.stderr.write(printable_lines(traceback.format_exc()))
            why = f"the watching process failed: {named(error)}"
            self.tell({"id": number, "event": "failed", "why": why})
        finally:
            os._exit(code)

    def reap(self) -> None:
        """Take note of wardens that ended; end what one that was killed left."""
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return
                number = self.wardens.pop(pid, None)
                if number is None:
                    continue
                if os.WIFSIGNALED(status):
                    kill_descendants(frozenset(self.wardens))
                    sweep(scratch_root())
                self.tell({"id": number, "event": "ended", "status": status})

    def end(self) -> None:
        """Stop all runs, after the batch's death; their wardens record and tidy up."""
        self.signal_all(signal.SIGTERM)
        until = time.monotonic() + _END_PATIENCE_S
        while self.wardens and time.monotonic() < until:
            time.sleep(0.02)
            self.reap()
        kill_descendants()

    def signal_all(self, number: signal.Signals) -> None:
        """Send a signal to every warden."""
        for pid in self.wardens:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def tell(self, message: Mapping[str, Any]) -> None:
        """Send a message to the batch; one that is dead gets none."""
        # ASCII, whatever the texts in it: json.dumps writes everything else as an escape.
        data = json.dumps(message).encode()
        if len(data) > MESSAGE_BYTES:  # never seen; cut off, so that it can't be read
            data = data[:MESSAGE_BYTES]
        with contextlib.suppress(OSError):
            self.link.send(data)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
