"""What came of a run: from how its process ended and what it had sent, to the record."""

from __future__ import annotations

import contextlib
import os
import platform
import socket
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from typing import Any

from slackopt.batch import worker
from slackopt.batch.order import Order
from slackopt.batch.processes import oom_kills, signal_name
from slackopt.batch.run import Outcome, Run
from slackopt.batch.store import take_checkpoint
from slackopt.environment import environment, package_version
from slackopt.errors import MOST_CHARACTERS, SlackoptError
from slackopt.result import Result, StoppedBy

_STOPPED_BY: dict[Outcome, StoppedBy] = {
    "timeout": "time",
    "out_of_memory": "memory",
    "crash": "error",
    "error": "error",
    "interrupted": "signal",
}


@dataclass
class Ending:
    """How the process of a run ended, as seen by its warden.

    Attributes
    ----------
    cut
        Why the warden ended it: ``time``, ``memory``, ``stop`` or ``unreadable``; None if it ended
        by itself.
    killed
        Whether SIGTERM was not enough.
    status
        As of `os.waitpid`.
    messages
        The last message of every kind.
    log
        The last of what it printed.
    resident_bytes, peak_rss_bytes
        Memory of all its processes together: at the last look, and at most.
    oom_kills
        The kernel's count when the run began.
    clean
        Whether all its processes are gone.
    unreadable
        What stood in the stream of messages that no worker writes; None if nothing did.
    """

    cut: str | None = None
    killed: bool = False
    status: int = 0
    messages: dict[bytes, bytes] = field(default_factory=dict)
    log: bytes = b""
    resident_bytes: int = 0
    peak_rss_bytes: int = 0
    oom_kills: int | None = None
    clean: bool = True
    unreadable: str | None = None

    def see(self, resident_bytes: int) -> None:
        """Take in a measurement of memory."""
        self.resident_bytes = resident_bytes
        self.peak_rss_bytes = max(self.peak_rss_bytes, resident_bytes)


def make_run(order: Order, ending: Ending, started_at: str, wall_s: float) -> Run:
    """Make the record of a run that ended."""
    final = _read(order, ending.messages.get(worker.RESULT))
    result = final or _read(order, ending.messages.get(worker.CHECKPOINT))
    outcome, detail = _judge(order, ending, final, wall_s)
    if result is not None and outcome in _STOPPED_BY and outcome != "error":
        # What the process said of itself when it was cut short, or at its last checkpoint.
        notes = result.notes if detail is None else (*result.notes, f"{outcome}: {detail}")
        result = result.model_copy(update={"stopped_by": _STOPPED_BY[outcome], "notes": notes})
    if detail is not None:
        detail = cut(detail)
    if not ending.clean:
        detail = f"{detail or 'ended'}; a process of it could not be killed"
    signaled = os.WIFSIGNALED(ending.status)
    return Run(
        key=order.key,
        task=order.task,
        outcome=outcome,
        detail=detail,
        exit_code=None if signaled else os.waitstatus_to_exitcode(ending.status),
        signal=signal_name(os.WTERMSIG(ending.status)) if signaled else None,
        result=result,
        features=order.features,
        started_at=started_at,
        finished_at=utc_now(),
        wall_s=wall_s,
        peak_rss_bytes=ending.peak_rss_bytes or None,
        attempt=order.attempt,
        log_tail=ending.log.decode(errors="replace"),
        machine=machine(),
        slackopt_version=package_version("slackopt") or "unknown",
    )


def cut(text: str) -> str:
    """Return a sentence of a length that fits into every message and table."""
    return text if len(text) <= MOST_CHARACTERS else f"{text[:MOST_CHARACTERS]}..."


def _read(order: Order, data: bytes | None) -> Result | None:
    """Return a result; None if there is none, or none of this task."""
    if data is None:
        return None
    try:
        result = Result.model_validate_json(data)
    except (ValueError, SlackoptError):
        return None
    asked = (order.task.instance_sha256, order.task.method)
    return result if (result.instance_sha256, result.method) == asked else None


def _judge(
    order: Order, ending: Ending, final: Result | None, wall_s: float
) -> tuple[Outcome, str | None]:
    """Return the outcome, and a sentence where there is something to say.

    `final` is what the process sent when its method had returned.
    """
    task, messages = order.task, ending.messages
    if ending.unreadable is not None:
        return "error", (
            "something else than its messages stood in the stream to the process that watches it "
            f"({ending.unreadable}); does the method write to file descriptors of others?"
        )
    if worker.RESULT in messages and final is None:
        return "error", "what its process sent is no result of this task"
    if final is not None and final.stopped_by != "signal":
        if "error" in (final.status, final.stopped_by):
            return "error", final.reason or (*final.notes, "the method failed")[-1]
        if final.stopped_by == "memory":
            return "out_of_memory", final.reason
        return "done", None
    how = " (SIGKILL, as SIGTERM was not enough)" if ending.killed else ""
    if ending.cut == "memory":
        return "out_of_memory", (
            f"its processes held {ending.peak_rss_bytes} bytes, above the limit of "
            f"{task.memory_limit_bytes} bytes"
        )
    if ending.cut == "time":
        return "timeout", (
            f"killed {order.kill_after_s:g} s after its start{how}; the method was given "
            f"{task.time_limit_s or 0:g} s"
        )
    if ending.cut == "stop":
        return _stopped(order, wall_s, how)
    if worker.NO_MEMORY in messages:
        return "out_of_memory", "the method ran out of memory (MemoryError)"
    if os.WIFSIGNALED(ending.status):
        number = os.WTERMSIG(ending.status)
        now = oom_kills()
        if number == 9 and now is not None and now > (ending.oom_kills or 0):
            return "out_of_memory", "killed by the kernel, because the machine's memory was used up"
        if number == 6 and b"bad_alloc" in ending.log:
            return "out_of_memory", "a solver ran out of memory (std::bad_alloc)"
        return "crash", f"its process was ended by {signal_name(number)}"
    if worker.FAILED in messages:
        return "error", messages[worker.FAILED].decode(errors="replace")
    if final is not None:  # stopped by a signal
        if order.scheduler is not None:  # it sends its signal to all processes of a job at once
            return _stopped(order, wall_s, how)
        return "interrupted", "its process got a signal that asks it to stop"
    code = os.waitstatus_to_exitcode(ending.status)
    return "crash", f"its process ended by itself with exit code {code}, and without a result"


def _stopped(order: Order, wall_s: float, how: str) -> tuple[Outcome, str]:
    """Say who stopped a run: the batch, or a scheduler's limit."""
    if order.scheduler is None:
        return "interrupted", f"the batch was stopped after {wall_s:.1f} s{how}"
    ends = os.environ.get("SLURM_JOB_END_TIME", "")
    if ends.isdecimal() and datetime.now(UTC).timestamp() >= int(ends) - 1:
        return "timeout", f"killed by {order.scheduler}'s time limit after {wall_s:.1f} s{how}"
    return "interrupted", f"stopped by {order.scheduler} after {wall_s:.1f} s{how}"


def unwatched_run(order: Order, outcome: Outcome, detail: str, log_tail: str = "") -> Run:
    """Make the record of a run that ended with the processes that watched it."""
    now = utc_now()
    result = _read(order, take_checkpoint(order.folder, order.key))
    detail = cut(detail)
    if result is not None:
        notes = (*result.notes, f"{outcome}: {detail}")
        result = result.model_copy(update={"stopped_by": _STOPPED_BY[outcome], "notes": notes})
    return Run(
        key=order.key,
        task=order.task,
        outcome=outcome,
        detail=detail,
        result=result,
        features=order.features,
        started_at=now,
        finished_at=now,
        wall_s=0.0,
        attempt=order.attempt,
        log_tail=log_tail,
        machine=machine(),
        slackopt_version=package_version("slackopt") or "unknown",
    )


def utc_now() -> str:
    """Return the time, ISO 8601, UTC."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


@cache
def machine() -> dict[str, Any]:
    """Return where a run ran: host, processor, versions."""
    return {"host": socket.gethostname(), "processor": _processor(), **environment()}


def _processor() -> str:
    with contextlib.suppress(OSError), open("/proc/cpuinfo") as file:  # noqa: PTH123
        for line in file:
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor()
