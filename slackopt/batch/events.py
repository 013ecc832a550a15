"""What a batch tells while it runs, and the log of it: one JSON object a line."""

from __future__ import annotations

import contextlib
import json
import os
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TextIO

from slackopt.batch.outcome import utc_now
from slackopt.batch.run import Task

Kind = Literal[
    "batch",  # begins: how many runs, how many of them stored already
    "started",
    "recorded",
    "stored",  # another batch did it meanwhile
    "waiting",  # another batch is at it
    "requeued",  # what watched it was killed; it runs again
    "unwritten",  # its record can't be written yet
    "lost",  # its record could not be written
    "submitted",  # to a scheduler
    "warning",
    "stopping",
    "end",
]

LOGS = "logs"


@dataclass(frozen=True)
class Event:
    """One thing that happened.

    Attributes
    ----------
    kind
        What; see `Kind`.
    key, task
        Of which run; None where it is of the batch.
    facts
        JSON values; for ``recorded`` those of `slackopt.batch.warden.summary`.
    """

    kind: Kind
    key: str | None = None
    task: Task | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)


Observer = Callable[[Event], None]


class EventLog:
    """Writes events to ``logs/<time>-<host>-<process>.jsonl`` in a batch's folder.

    A line that can't be written (a full disk) is left out; the runs' own files are what counts.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        begun = utc_now()[:19].replace(":", "").replace("-", "")
        name = f"{begun}-{socket.gethostname()}-{os.getpid()}.jsonl"
        self.path = Path(folder) / LOGS / name
        self._file: TextIO | None = None

    def __call__(self, event: Event) -> None:
        """Write an event."""
        line: dict[str, Any] = {"time": utc_now(), "event": event.kind}
        if event.key is not None:
            line["key"] = event.key
        if event.task is not None:
            task = event.task
            line |= {"instance": task.instance, "method": task.method, "seed": task.seed}
            line |= {"tags": dict(task.tags)} if task.tags else {}
        with contextlib.suppress(OSError):
            if self._file is None:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                self._file = self.path.open("a", encoding="utf-8", errors="backslashreplace")
            self._file.write(json.dumps(line | dict(event.facts), ensure_ascii=False) + "\n")
            self._file.flush()

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            with contextlib.suppress(OSError):
                self._file.close()
            self._file = None
