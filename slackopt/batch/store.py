"""The folder of a batch: one file per run, each written whole or not at all.

``DIR/runs/<key>.json`` is all that is needed to read a batch. Several batches may write into one
folder at a time, also over a network file system: a run's file appears by a rename, which is
atomic there too.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path

from slackopt.batch.run import Run
from slackopt.errors import InputError
from slackopt.files import read_record, write_record

CHECKPOINTS = "checkpoints"
RUNS = "runs"
"""Name of the folder of runs in a batch's folder."""

_NAME = re.compile(r"[0-9a-f]{16,64}\.json")


def run_path(folder: str | os.PathLike[str], key: str) -> Path:
    """Return the path of a run's file."""
    return Path(folder) / RUNS / f"{key}.json"


def checkpoint_path(folder: str | os.PathLike[str], key: str) -> Path:
    """Return the path of what a run of a cluster has found so far; gone when it is recorded."""
    return Path(folder) / CHECKPOINTS / f"{key}.json"


def take_checkpoint(folder: str | os.PathLike[str], key: str) -> bytes | None:
    """Return what a run had found, as it sent it, that ended without a record; None if nothing."""
    try:
        return checkpoint_path(folder, key).read_bytes()
    except OSError:
        return None


def run_keys(folder: str | os.PathLike[str]) -> set[str]:
    """Return the keys of all runs in a batch's folder; none if there is no such folder yet."""
    try:
        with os.scandir(Path(folder) / RUNS) as entries:
            return {entry.name[:-5] for entry in entries if _NAME.fullmatch(entry.name)}
    except FileNotFoundError:
        return set()


def read_run(path: str | os.PathLike[str]) -> Run:
    """Read one run's file.

    Raises
    ------
    InputError
        Naming the file and what is wrong with it.
    """
    try:
        # Three times as fast as `read_record`, which is left to say what is wrong with a file.
        run = Run.model_validate_json(Path(path).read_bytes())
    except (OSError, ValueError):
        run = read_record(path, Run)
    if Path(path).name != f"{run.key}.json":
        raise InputError(f"{path}: holds the run {run.key}; a run's file is named <key>.json")
    return run


def read_runs(
    folder: str | os.PathLike[str], *, on_bad: Callable[[InputError], None] | None = None
) -> list[Run]:
    """Read all runs of a batch, sorted by instance, method, seed and key.

    Parameters
    ----------
    folder
        The batch's folder.
    on_bad
        Called with the error of each file that can't be read, which is then left out.

    Raises
    ------
    InputError
        If the folder is none of a batch; for a damaged file, unless `on_bad` is given.
    """
    if not (Path(folder) / RUNS).is_dir():
        raise InputError(
            f"{folder}: no folder of a batch: it has no folder {RUNS!r}; give the folder that "
            "`slackopt batch -o` wrote to"
        )
    return sorted(iter_runs(folder, on_bad=on_bad), key=_order)


def iter_runs(
    folder: str | os.PathLike[str], *, on_bad: Callable[[InputError], None] | None = None
) -> Iterator[Run]:
    """Read the runs of a batch one by one, in the order of their keys; see `read_runs`."""
    for key in sorted(run_keys(folder)):
        try:
            yield read_run(run_path(folder, key))
        except InputError as error:
            if on_bad is None:
                raise
            on_bad(error)


def write_run(folder: str | os.PathLike[str], run: Run) -> Path:
    """Write a run into a batch's folder, making the folder if need be; return the path.

    Raises
    ------
    InputError
        If it can't be written; nothing is left behind.
    """
    path = run_path(folder, run.key)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{path.parent}: can't be made: {error.strerror or error}") from None
    write_record(run, path, durable=True)
    with contextlib.suppress(OSError):
        checkpoint = checkpoint_path(folder, run.key)
        for left in (checkpoint, *checkpoint.parent.glob(f".{checkpoint.name}.*")):
            left.unlink(missing_ok=True)
        checkpoint.parent.rmdir()
    return path


def write_finished(folder: str | os.PathLike[str], run: Run) -> bool:
    """Write a run that just ended; return False if a newer and better record stays.

    An interrupted run never replaces what another batch, which took it over, wrote meanwhile.
    """
    if run.outcome == "interrupted":
        with contextlib.suppress(InputError):
            there = read_run(run_path(folder, run.key))
            if there.outcome != "interrupted" and moment(there.finished_at) >= moment(
                run.started_at
            ):
                return False
    write_run(folder, run)
    return True


def moment(text: str) -> datetime:
    """Read one of the times of a run."""
    return datetime.fromisoformat(text)


def _order(run: Run) -> tuple[str, str, str, int, str]:
    task = run.task
    return (task.instance, task.instance_sha256, task.method, task.seed, run.key)
