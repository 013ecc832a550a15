"""A task (what is asked of a method) and a run (what came of it): the records of a batch."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, model_validator

from slackopt.errors import InputError
from slackopt.records import MAX_INT, SCHEMA_VERSION, Count, Name, Record, Seconds, Sha256, Whole
from slackopt.result import Result

Outcome = Literal["done", "timeout", "out_of_memory", "crash", "error", "interrupted"]

FAILED: frozenset[Outcome] = frozenset(
    {"timeout", "out_of_memory", "crash", "error", "interrupted"}
)
"""Outcomes that ``--retry failed`` runs again."""


def _moment(text: str) -> str:
    """Refuse a time that is in no calendar, or in none that tables of times can hold."""
    try:
        year = datetime.fromisoformat(text).year
    except ValueError as error:
        raise ValueError(f"must be a time, and {error}") from None
    if not 1970 <= year <= 2261:
        raise ValueError("must be a time of the years 1970 to 2261")
    return text


Moment = Annotated[
    str,
    Field(pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?(Z|\+00:00)$"),
    AfterValidator(_moment),
]


class Task(Record):
    """One method on one instance with its limits: what is asked.

    Attributes
    ----------
    instance_path
        As given, for people; not part of the key.
    instance, instance_sha256
        Name and content hash of the instance.
    method, solver
        See `slackopt.methods`; the solver of a ``milp`` method, None for its default.
    time_limit_s
        Wall-clock limit given to the method; None for no limit.
    memory_limit_bytes
        Limit on the resident memory of the run's processes together; None for no limit.
    gap, threads, seed, deterministic, options
        As in `slackopt.solve`.
    tags
        Labels of a study (budget, device, family, ...), for tables; not part of the key.
    """

    instance_path: str
    instance: Name
    instance_sha256: Sha256
    method: Name
    solver: str | None = None
    time_limit_s: Annotated[float, Field(gt=0)] | None = 60.0
    memory_limit_bytes: Annotated[int, Field(gt=0, le=MAX_INT)] | None = None
    gap: Annotated[float, Field(ge=0, lt=1)] = 1e-4
    threads: Annotated[int, Field(ge=1, le=MAX_INT)] = 1
    seed: Whole = 0
    deterministic: bool = False
    options: Mapping[str, Any] = Field(default_factory=dict)
    tags: Mapping[str, str] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _check(self) -> Task:
        for name, value in self.options.items():
            if isinstance(value, float) and not math.isfinite(value):
                raise InputError(f"option {name!r} of method {self.method!r} must be finite")
        return self

    @property
    def label(self) -> str:
        """Instance and method, for one line."""
        return f"{self.instance}, {self.method}"


class Run(Record):
    """One task and what came of it.

    Attributes
    ----------
    key
        Identity of the task and of the versions that ran it; also the name of the file.
    task
        What was asked.
    outcome
        How the process of the run ended: ``done`` (the method returned, with a plan or not),
        ``timeout`` (killed at the hard limit), ``out_of_memory``, ``crash`` (ended by a signal or
        an exit of its own), ``error`` (the solver failed or an exception was raised),
        ``interrupted`` (the batch or the scheduler ended it).
    detail
        A sentence on an outcome that is not ``done``.
    exit_code, signal
        Of the run's process; None where it has none.
    result
        What was found; after a kill, the best plan and bound found before.
    features
        Facts about the instance, so that nobody has to open it: ``num_ops``, ``num_tensors``,
        ``num_candidates``, ``unlimited_peak_bytes``, ``budget_fraction``, ``ideal_ns``,
        ``device``.
    started_at, finished_at
        ISO 8601, UTC.
    wall_s
        Seconds between the two, by a clock that never jumps.
    peak_rss_bytes
        Largest resident memory of the run's processes together, as seen by sampling.
    attempt
        1 for the first time this task ran in this folder.
    log_tail
        The last of what the run and its solvers printed.
    machine, slackopt_version
        Host name, processor and versions; version of this package.
    """

    format: Literal["slackopt/run"] = "slackopt/run"
    schema_version: Annotated[int, Field(ge=SCHEMA_VERSION, le=SCHEMA_VERSION)] = SCHEMA_VERSION
    key: Annotated[str, Field(pattern=r"^[0-9a-f]{16,64}$")]
    task: Task
    outcome: Outcome
    detail: str | None = None
    exit_code: Whole | None = None
    signal: str | None = None
    result: Result | None = None
    features: Mapping[str, Any] = Field(default_factory=dict)
    started_at: Moment
    finished_at: Moment
    wall_s: Seconds
    peak_rss_bytes: Count | None = None
    attempt: Annotated[int, Field(ge=1, le=MAX_INT)] = 1
    log_tail: str = ""
    machine: Mapping[str, Any] = Field(default_factory=dict)
    slackopt_version: str

    @property
    def failed(self) -> bool:
        """Whether ``--retry failed`` runs it again: anything but ``done``."""
        return self.outcome in FAILED

    def __repr__(self) -> str:
        found = "no result" if self.result is None else repr(self.result)
        return f"Run({self.task.label!r}, {self.outcome}, {self.wall_s:.1f} s: {found})"
