"""Builds a model without memory where that works, and for real where it doesn't."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any
from unittest import mock

import torch
from torch._subclasses import fake_tensor

from slackopt.errors import InputError

_NEEDS_VALUES = (
    fake_tensor.DataDependentOutputException,
    fake_tensor.DynamicOutputShapeException,
    fake_tensor.UnsupportedOperatorException,
)


def build_fake(make: Callable[[], Any], mode: fake_tensor.FakeTensorMode, name: str) -> Any:
    """Call `make` under fake tensors; if its code reads values of tensors, for real.

    Parameters
    ----------
    make
        Builds the model; maybe called twice.
    mode
        The fake mode.
    name
        What is built, for messages.

    Raises
    ------
    InputError
        If it raises.
    """
    try:
        with mode, _no_truncated_normals():
            return make()
    except InputError:
        raise
    except _NEEDS_VALUES:
        # Some models read numbers from tensors when they are built; that needs real ones.
        try:
            return make()
        except InputError:
            raise
        except Exception as error:
            raise _failure(name, error) from error
    except Exception as error:
        raise _failure(name, error) from error


def _failure(name: str, error: Exception) -> InputError:
    line = str(error).strip().partition("\n")[0]
    return InputError(f"{name} can't be built: {type(error).__name__}: {line}")


def _no_truncated_normals() -> contextlib.AbstractContextManager[Any]:
    """Leave out an initialisation that looks at the values it draws, which fake tensors lack."""
    draw = "_no_grad_trunc_normal_"
    if not hasattr(torch.nn.init, draw):
        return contextlib.nullcontext()
    return mock.patch.object(torch.nn.init, draw, lambda tensor, *_, **__: tensor)
