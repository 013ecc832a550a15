"""A model with what a training step needs besides: inputs, targets, a loss."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Workload:
    """One training step of a PyTorch model, not yet traced.

    Attributes
    ----------
    model
        A ``torch.nn.Module``; real, fake or on the meta device.
    inputs
        A tensor, a tuple of positional arguments or a mapping of keyword arguments.
    targets
        Tensors that only the loss reads; any nesting of tuples, lists and dicts.
    loss
        Called with the model's output, and with `targets` if there are any; returns a scalar.
        Without it, the output is the loss, or has it as ``output.loss`` or ``output["loss"]``.
    name
        Name of the graph.
    record
        What the model is, for the provenance of the graph; JSON values.
    """

    model: torch.nn.Module
    inputs: Any
    targets: Any = None
    loss: Callable[..., Any] | None = None
    name: str = ""
    record: Mapping[str, Any] = field(default_factory=dict)
