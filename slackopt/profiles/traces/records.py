"""Makes ops and tensors of untrusted fields, with errors that name the file and the entry."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import ValidationError

from slackopt.errors import InputError
from slackopt.graph import Op, Tensor
from slackopt.records import Record
from slackopt.violations import violation_lines

_RecordT = TypeVar("_RecordT", bound=Record)


def make_op(path: str, place: str, fields: Mapping[str, Any]) -> Op:
    """Make an op; raise `InputError` with every wrong field."""
    return _make(Op, path, place, fields)


def make_tensor(path: str, place: str, fields: Mapping[str, Any]) -> Tensor:
    """Make a tensor; raise `InputError` with every wrong field."""
    return _make(Tensor, path, place, fields)


def _make(kind: type[_RecordT], path: str, place: str, fields: Mapping[str, Any]) -> _RecordT:
    try:
        return kind.model_validate(dict(fields))
    except ValidationError as error:
        raise InputError(
            f"{path}: {place}: {'; '.join(f'field {line}' for line in violation_lines(error))}"
        ) from None
