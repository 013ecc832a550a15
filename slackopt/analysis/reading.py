"""Read the runs of a batch for tables: everything but plans and certificates, quickly.

A run's file is mostly its plan and the certificate of its bound, which no table shows. The reader
leaves them out while it parses, so that ten thousand runs take seconds; every field that it does
read is validated as `slackopt.batch.read_run` validates it. No derived file is kept.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError, create_model

from slackopt.batch.run import Run
from slackopt.batch.store import RUNS
from slackopt.errors import InputError
from slackopt.files import MAX_FILE_BYTES
from slackopt.result import Result
from slackopt.violations import violation_lines

_NOT_READ = {"bound_certificate", "infeasibility_certificate", "environment", "machine", "log_tail"}


class _PlanMark(BaseModel):
    """That there is a plan; what it decides is passed over."""

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True)
    format: Literal["slackopt/plan"] = "slackopt/plan"
    instance_sha256: str


def _without_bulk(record: type[BaseModel], **replaced: Any) -> type[BaseModel]:
    kept: dict[str, Any] = {
        name: (info.annotation, info)
        for name, info in record.model_fields.items()
        if name not in _NOT_READ and name not in replaced
    }
    config = ConfigDict(frozen=True, extra="ignore", strict=True, allow_inf_nan=False)
    return create_model(f"{record.__name__}Summary", __config__=config, **kept, **replaced)


if TYPE_CHECKING:
    RunSummary = Run  # the same fields, but for those of `_NOT_READ` and what is in a plan
else:

    class _ResultSummary(_without_bulk(Result, plan=(_PlanMark | None, None))):
        reason = Result.reason

    RunSummary = _without_bulk(Run, result=(_ResultSummary | None, None))
    RunSummary.__doc__ = "A `Run` without plan, certificate, machine facts and log."

_NAME = re.compile(r"([0-9a-f]{16,64})\.json")


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
            found.append(_read(runs_folder / name))
        except InputError as error:
            if on_bad is None:
                raise
            on_bad(error)
    return sorted(found, key=_order)


def _read(path: Path) -> RunSummary:
    match = _NAME.fullmatch(path.name)
    if match is None:
        raise InputError(f"{path}: no file of a run: those are named <key>.json; move it elsewhere")
    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            raise InputError(f"{path}: larger than {MAX_FILE_BYTES} bytes; refused")
        data = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: can't be read: {error.strerror or error}") from None
    try:
        run = RunSummary.model_validate_json(data)
    except ValidationError as error:
        lines = violation_lines(error)
        noun = "field is" if len(lines) == 1 else "fields are"
        raise InputError(f"{path}: {len(lines)} {noun} wrong", lines) from None
    except InputError as error:
        raise error.in_file(path) from None
    if run.key != match[1]:
        raise InputError(f"{path}: holds the run {run.key}; a run's file is named <key>.json")
    if run.result is not None and run.result.instance_sha256 != run.task.instance_sha256:
        raise InputError(
            f"{path}: result.instance_sha256 is not that of the task; the file was edited or "
            "mixed up: remove it and run the task again"
        )
    return run


def _order(run: RunSummary) -> tuple[str, str, str, int, str]:
    task = run.task
    return (task.instance, task.instance_sha256, task.method, task.seed, run.key)
