"""The batch's end of the process that runs are forked from."""

from __future__ import annotations

import contextlib
import json
import os
import select
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from slackopt.batch.order import Order
from slackopt.batch.worker import thread_variables
from slackopt.batch.zygote import MESSAGE_BYTES, read_message
from slackopt.errors import InputError, SlackoptError

START_S = 120.0
"""Seconds that importing everything may take (a network disk, a loaded machine)."""

_SEND_TRIES = 60


class Launcher:
    """Starts runs with a number of threads each.

    Parameters
    ----------
    threads
        What numerical libraries are kept to.
    modules
        To import, beside this package.

    Raises
    ------
    SlackoptError
        If the process does not come up.
    """

    def __init__(self, threads: int, modules: Sequence[str] = ()) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.link = ours
        environment = os.environ | thread_variables(threads)
        environment["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
        with theirs:
            self.process = subprocess.Popen(
                [
                    sys.executable,
                    "-P",
                    "-m",
                    "slackopt.batch.zygote",
                    str(theirs.fileno()),
                    *modules,
                ],
                stdin=subprocess.DEVNULL,
                stdout=2,
                pass_fds=[theirs.fileno()],
                env=environment,
                start_new_session=True,  # Ctrl-C is for the batch, which tells it what to do
            )
        self.link.settimeout(START_S)
        try:
            ready = self.link.recv(MESSAGE_BYTES)
        except TimeoutError:
            ready = b""
        if not ready:
            self.close()
            raise SlackoptError(
                "the process that runs are started from ended before it was ready; what it said "
                "stands above"
            )
        self.link.setblocking(False)

    def start(self, number: int, order: Order) -> None:
        """Start a run; messages about it carry this number.

        Raises
        ------
        InputError
            If the order is too long to be sent.
        OSError
            If the process is gone.
        """
        self._send({"do": "run", "id": number, "order": order.model_dump(mode="json")})

    def stop(self) -> None:
        """Have all runs stopped and recorded as interrupted."""
        with contextlib.suppress(OSError):
            self._send({"do": "stop"})

    def messages(self) -> Iterator[Mapping[str, Any] | None]:
        """Return the messages that are there; None if the process and all its runs are gone.

        One that can't be read is an empty message.
        """
        while True:
            try:
                data = self.link.recv(MESSAGE_BYTES)
            except BlockingIOError:
                return
            except ConnectionError:
                data = b""
            yield (read_message(data) or {}) if data else None
            if not data:
                return

    def close(self) -> None:
        """End the process, and the runs if there are any; wait until all are gone."""
        self.link.close()
        try:
            self.process.wait(timeout=20.0)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def _send(self, message: Mapping[str, Any]) -> None:
        data = json.dumps(message).encode()
        if len(data) > MESSAGE_BYTES:
            raise InputError(f"the options of a run are larger than {MESSAGE_BYTES} bytes")
        for _ in range(_SEND_TRIES):
            try:
                self.link.send(data)
                return
            except BlockingIOError:  # many starts at once: it takes them one by one
                select.select([], [self.link], [], 1.0)
        raise BrokenPipeError("the process that runs are started from does not listen")
