"""Says in one sentence why a model can't be traced, at which op, and what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch._subclasses import fake_tensor

from slackopt.errors import InputError

if TYPE_CHECKING:
    from slackopt.profiles.pytorch.marking import Marker

MAX_DETAIL = 300


def explain(error: Exception, model: torch.nn.Module, marker: Marker) -> InputError:
    """Return the error to raise for one that came up while tracing.

    Parameters
    ----------
    error
        What PyTorch or the model raised.
    model
        Whose step it is.
    marker
        Knows which module and op were reached.
    """
    where = (
        f"{type(model).__name__}, module {marker.path!r}"
        if marker.path
        else (f"{type(model).__name__}")
    )
    chain = list(_causes(error))
    for cause in chain:
        if isinstance(cause, fake_tensor.DataDependentOutputException):
            return InputError(
                f"{where}: op {_op(cause.func)} reads a value of a tensor, and a trace has shapes "
                "only, no values: take out the branch or number that depends on data, or compute "
                "it before the step and pass it as an input"
            )
        if isinstance(cause, fake_tensor.DynamicOutputShapeException):
            if _pads_sparsely(model):
                return InputError(
                    f"{where}: the size of the sparse gradient of an embedding with padding_idx "
                    "depends on data: use sparse=False"
                )
            return InputError(
                f"{where}: the shape of what op {_op(cause.func)} returns depends on data: use an "
                "op of fixed shape (torch.where or a mask instead of nonzero or boolean indexing)"
            )
        if isinstance(cause, fake_tensor.UnsupportedOperatorException):
            return InputError(
                f"{where}: op {_op(cause.func)} has no rule for fake tensors: register one with "
                "torch.library.register_fake, or use an op of PyTorch"
            )
    detail = _short(error)
    if isinstance(error, NotImplementedError) and not str(error):
        return InputError(f"{where}: its forward is not implemented")
    if "data-dependent" in detail.lower() or "GuardOnDataDependent" in type(error).__name__:
        return InputError(
            f"{where}: control flow depends on the value of a tensor after op {marker.last_op}, "
            f"which a trace doesn't have: take it out or pass the value as an input ({detail})"
        )
    if isinstance(error, TypeError) and "argument" in detail and not marker.last_op:
        return InputError(f"{where}: the inputs don't fit its forward: {detail}")
    if "dynamo-optimized" in detail:
        return InputError(f"{where}: a part of it went through torch.compile: leave that out here")
    after = f" after op {marker.last_op}" if marker.last_op else ""
    return InputError(
        f"{where}: tracing failed{after}: {type(error).__name__}: {detail}; check that the model "
        "runs with inputs of these shapes and formats"
    )


def _causes(error: BaseException | None) -> list[BaseException]:
    found: list[BaseException] = []
    while error is not None and error not in found:
        found.append(error)
        error = error.__cause__ or error.__context__
    return found


def _pads_sparsely(model: torch.nn.Module) -> bool:
    embeddings = (torch.nn.Embedding, torch.nn.EmbeddingBag)
    return any(
        isinstance(module, embeddings) and module.sparse and module.padding_idx is not None
        for module in model.modules()
    )


def _op(func: object) -> str:
    return str(func).removeprefix("<OpOverload(").partition(")")[0].replace("op='", "").rstrip("'")


def _short(error: BaseException) -> str:
    """Return the first line with content, cut to a readable length."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    text = lines[0].rstrip(".") if lines else type(error).__name__
    return text if len(text) <= MAX_DETAIL else f"{text[:MAX_DETAIL]}..."
