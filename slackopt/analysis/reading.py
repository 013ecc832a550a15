"""Read all runs of a batch for tables; see `slackopt.batch.summary`."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from slackopt.batch.store import RUNS
from slackopt.batch.summary import RunSummary, read_summary
from slackopt.errors import InputError


def read_run_summaries(
    folder: str | os.PathLike[str], *, on_bad: Callable[[InputError], None] | None = None
) -> list[RunSummary]:
    """Read all runs of a batch but for plans, certificates, machine facts and logs.

    Parameters
    ----------
    folder
        The batch's folder.
    on_bad
        Called with the error of each file in the folder of runs that is no sound run, which is
        then left out: damaged files and foreign ones. Hidden files (a run being written) are
        passed over.

    Returns
    -------
    list of RunSummary
        Sorted by instance, method, seed and key. They serve `runs_frame` as `Run` does.

    Raises
    ------
    InputError
        If the folder is none of a batch; for a bad file, unless `on_bad` is given.
    """
    runs_folder = Path(folder) / RUNS
    try:
        with os.scandir(runs_folder) as entries:
            names = sorted(entry.name for entry in entries if not entry.name.startswith("."))
    except (FileNotFoundError, NotADirectoryError):
        raise InputError(
            f"{folder}: no folder of a batch: it has no folder {RUNS!r}; give the folder that "
            "`slackopt batch -o` wrote to"
        ) from None
    except OSError as error:
        raise InputError(f"{runs_folder}: can't be read: {error.strerror or error}") from None
    found: list[RunSummary] = []
    for name in names:
        try:
            found.append(read_summary(runs_folder / name))
        except InputError as error:
            if on_bad is None:
                raise
            on_bad(error)
    return sorted(found, key=_order)


def _order(run: RunSummary) -> tuple[str, str, str, int, str]:
    task = run.task
    return (task.instance, task.instance_sha256, task.method, task.seed, run.key)
