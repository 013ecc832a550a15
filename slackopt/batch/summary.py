"""Read a run's file but for its plan and certificate, quickly, and as strictly as all of it.

A run's file is mostly its plan and the certificate of its bound, which no table shows. They are
passed over while the file is parsed, so that five thousand runs take a second; every field that is
read is validated as `slackopt.batch.read_run` validates it. No derived file is kept.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError, create_model

from slackopt.batch.run import Run
from slackopt.errors import InputError, SlackoptError
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


def read_summary(path: str | os.PathLike[str]) -> RunSummary:
    """Read one run's file but for plan, certificate, machine facts and log.

    Raises
    ------
    InputError
        Naming the file and what is wrong with it: it is damaged, no run, not the run that its name
        says, or its result is of another instance or method.
    """
    text = os.fspath(path)
    match = _NAME.fullmatch(os.path.basename(text))  # noqa: PTH119 - thousands of files
    if match is None:
        raise InputError(f"{path}: no file of a run: those are named <key>.json; move it elsewhere")
    try:
        with open(text, "rb") as file:  # noqa: PTH123
            if os.fstat(file.fileno()).st_size > MAX_FILE_BYTES:
                raise InputError(f"{path}: larger than {MAX_FILE_BYTES} bytes; refused")
            data = file.read()
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
    except (SlackoptError, ValueError, TypeError, ArithmeticError, RecursionError) as error:
        raise InputError(f"{path}: can't be read as a run: {error}") from None
    if run.key != match[1]:
        raise InputError(f"{path}: holds the run {run.key}; a run's file is named <key>.json")
    result, task = run.result, run.task
    if result is not None:
        for name in ("instance_sha256", "method"):
            if getattr(result, name) != getattr(task, name):
                raise InputError(
                    f"{path}: result.{name} is not that of the task; the file was edited or mixed "
                    "up: remove it and run the task again"
                )
    return run
