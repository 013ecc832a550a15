"""The folder of a batch beside its runs: the instances and the list of what is asked.

So a batch can be gone on with, moved or sent to a cluster without the files it was made from.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from slackopt.batch.expand import Case, import_modules
from slackopt.batch.key import task_key
from slackopt.batch.run import FAILED, Outcome, Task
from slackopt.batch.store import RUNS, run_path
from slackopt.batch.summary import read_summary
from slackopt.errors import InputError, plain
from slackopt.files import read_instance, read_record, write_bytes, write_record
from slackopt.heuristics import heuristics
from slackopt.instance import Instance
from slackopt.records import SCHEMA_VERSION, Record

INSTANCES, TASKS = "instances", "tasks"


class TaskList(Record):
    """What is asked, as kept in a batch's folder.

    Attributes
    ----------
    tasks
        All tasks of a study.
    modules
        Modules that register the heuristics they use.
    """

    format: Literal["slackopt/tasks"] = "slackopt/tasks"
    schema_version: Annotated[int, Field(ge=SCHEMA_VERSION, le=SCHEMA_VERSION)] = SCHEMA_VERSION
    tasks: tuple[Task, ...]
    modules: tuple[str, ...] = ()


@dataclass(frozen=True)
class Stored:
    """What the store says of a key: how its last run ended, and which attempt that was.

    Attributes
    ----------
    outcome, attempt, wall_s
        See `slackopt.batch.Run`.
    """

    outcome: Outcome
    attempt: int
    wall_s: float

    def counts(self, *, retry: bool) -> bool:
        """Whether it need not be run: it ended, and no retry is asked for."""
        return self.outcome != "interrupted" and not (retry and self.outcome in FAILED)


def instance_path(folder: str | os.PathLike[str], sha256: str) -> Path:
    """Return the path of an instance in a batch's folder."""
    return Path(folder) / INSTANCES / f"{sha256}.json.gz"


def stored(
    folder: str | os.PathLike[str],
    key: str,
    *,
    asked: Task | None = None,
    on_bad: Callable[[InputError], None] | None = None,
) -> Stored | None:
    """Return what the store says of a key; None if nothing, or nothing that is a sound run.

    Parameters
    ----------
    folder, key
        Which run of which batch.
    asked
        What the key stands for; a run of something else is none.
    on_bad
        Called with what is wrong with a file that is there and is no sound run.
    """
    path = run_path(folder, key)
    try:
        run = read_summary(path)
        if asked is not None and _identity(run.task) != _identity(asked):
            raise InputError(f"{path}: holds a run of another task")
    except InputError as error:
        if on_bad is not None and os.path.lexists(path):
            on_bad(error)
        return None
    return Stored(run.outcome, run.attempt, run.wall_s)


def _identity(task: Task) -> tuple[object, ...]:
    # Enough to tell mixed-up files apart; options may be other objects once they are read.
    return (task.instance_sha256, task.method, task.seed)


def prepare(
    folder: str | os.PathLike[str], cases: Sequence[Case], modules: Sequence[str] = ()
) -> None:
    """Write the instances and the task list of a batch into its folder.

    Raises
    ------
    InputError
        If it can't be written.
    """
    if os.fspath(folder) != plain(os.fspath(folder)):
        raise InputError(f"{folder}: its name is no UTF-8, as messages are; rename it")
    for name in (RUNS, INSTANCES, TASKS):
        made = Path(folder) / name
        try:
            made.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"{made}: can't be made: {error.strerror or error}") from None
    for sha256, instance in {case.instance.sha256: case.instance for case in cases}.items():
        path = instance_path(folder, sha256)
        if not path.exists():
            write_record(instance, path)
    tasks = TaskList(tasks=tuple(case.task for case in cases), modules=tuple(modules))
    data = (tasks.model_dump_json() + "\n").encode()
    path = Path(folder) / TASKS / f"{hashlib.sha256(data).hexdigest()[:16]}.json"
    if not path.exists():
        write_bytes(data, path)


def load(folder: str | os.PathLike[str]) -> tuple[list[Case], tuple[str, ...]]:
    """Return everything ever asked in a batch's folder, each task once, and the modules it needs.

    Keys are made anew: with other versions installed, they are other runs.

    Raises
    ------
    InputError
        If the folder is none of a batch, or an instance in it is missing.
    """
    paths = sorted((Path(folder) / TASKS).glob("*.json"))
    if not paths:
        raise InputError(
            f"{folder}: holds no batch to go on with (no {TASKS}/*.json); name instances, or a "
            "study file"
        )
    lists = [read_record(path, TaskList) for path in paths]
    modules = tuple(dict.fromkeys(module for found in lists for module in found.modules))
    import_modules(modules)
    rules = heuristics()
    cases: dict[str, Case] = {}
    instances: dict[str, Instance] = {}
    for task in (task for found in lists for task in found.tasks):
        sha256 = task.instance_sha256
        if sha256 not in instances:
            path = instance_path(folder, sha256)
            instances[sha256] = read_instance(path)
            if instances[sha256].sha256 != sha256:
                raise InputError(
                    f"{path}: holds another instance ({instances[sha256].name!r}, "
                    f"{instances[sha256].sha256[:12]}), not the one of its name; remove it, and "
                    "name the instances or the study file again"
                )
        key = task_key(task, rules)
        cases.setdefault(key, Case(key, task, instances[sha256]))
    return list(cases.values()), modules


def sweep_temporary(folder: str | os.PathLike[str], keys: set[str]) -> None:
    """Remove half-written files of runs whose batch was killed while it held their claims."""
    for key in keys:
        for path in (Path(folder) / RUNS).glob(f".{key}.json.*"):
            with contextlib.suppress(OSError):
                path.unlink()
