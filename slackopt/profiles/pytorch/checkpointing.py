"""Tells models that checkpoint activations by themselves, which leaves a plan nothing to decide."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import torch
from torch.utils import checkpoint

from slackopt.errors import InputError, MendedWarning
from slackopt.profiles.pytorch.marking import Marker

_SHOWN = 3
_SWITCHES = ("gradient_checkpointing_disable", "activation_checkpointing_disable")


class Checkpoints:
    """Watches a trace for `torch.utils.checkpoint`, whatever calls it.

    Parameters
    ----------
    model, marker
        The model, and what knows which of its modules runs.

    Attributes
    ----------
    paths
        Modules that called it, in their order.
    """

    def __init__(self, model: torch.nn.Module, marker: Marker) -> None:
        self._model, self._marker = model, marker
        self.paths: dict[str, None] = {}

    @contextlib.contextmanager
    def active(self) -> Iterator[None]:
        """Note every call of a checkpoint."""
        generator = checkpoint._checkpoint_without_reentrant_generator
        with (
            mock.patch.object(
                checkpoint,
                "_checkpoint_without_reentrant_generator",
                self._noting(generator),
            ),
            mock.patch.object(checkpoint.CheckpointFunction, "apply", self._refuse),
        ):
            yield

    def warn(self) -> None:
        """Warn if there was a call."""
        if self.paths:
            warnings.warn(
                f"{self._where()}: activations are checkpointed by the model itself; its reruns "
                f"are traced as backward ops, and what it doesn't save can't be decided on. "
                f"{self._advice()}",
                MendedWarning,
                stacklevel=2,
            )

    def _noting(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def noted(*args: Any, **kwargs: Any) -> Any:
            self.paths[self._marker.path] = None
            return call(*args, **kwargs)

        return noted

    def _refuse(self, *_: Any) -> None:
        self.paths[self._marker.path] = None
        raise InputError(
            f"{self._where()}: activations are checkpointed by the model itself, in the reentrant "
            f"way, which can't be traced. {self._advice()}"
        )

    def _where(self) -> str:
        named = [path or "the model itself" for path in self.paths]
        more = f" and {len(named) - _SHOWN} more" if len(named) > _SHOWN else ""
        return f"{type(self._model).__name__} ({', '.join(named[:_SHOWN])}{more})"

    def _advice(self) -> str:
        for switch in _SWITCHES:
            if callable(getattr(self._model, switch, None)):
                return f"Turn it off: model.{switch}()"
        return "Turn it off: call the function itself in place of torch.utils.checkpoint"
