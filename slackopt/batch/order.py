"""An order: one run as the processes that carry it out are told of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import Field

from slackopt.batch.run import Task
from slackopt.records import Record

STOP_GRACE_S = 3.0
"""Seconds between SIGTERM and SIGKILL."""

WRITE_PATIENCE_S = 30.0
"""Seconds for which a finished run waits for a full disk before it is given up."""


class Order(Record):
    """One run to carry out.

    Attributes
    ----------
    key, task, features, attempt
        See `slackopt.batch.Run`.
    folder
        The batch's folder; absolute.
    instance_file
        The instance; absolute.
    kill_after_s
        Seconds after which the run is killed; None for never.
    stop_grace_s
        Seconds between SIGTERM and SIGKILL.
    write_patience_s
        How long to wait for a full disk.
    pin
        Whether to reserve cores, if as many as threads are free.
    scheduler
        Name of the scheduler whose job this is (``slurm``), for sentences; None if none.
    """

    key: str
    task: Task
    folder: str
    instance_file: str
    features: Mapping[str, Any] = Field(default_factory=dict)
    attempt: int = 1
    kill_after_s: float | None = None
    stop_grace_s: float = STOP_GRACE_S
    write_patience_s: float = WRITE_PATIENCE_S
    pin: bool = True
    scheduler: str | None = None
