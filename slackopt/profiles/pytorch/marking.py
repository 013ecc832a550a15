"""Marks each traced node with its phase and with the module that called it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx.experimental.proxy_tensor import get_proxy_mode
from torch.nn.modules.module import (
    register_module_forward_hook,
    register_module_forward_pre_hook,
)
from torch.utils._python_dispatch import TorchDispatchMode

from slackopt.graph import Phase

LOSS = "loss"
"""Path of what runs after the model's own forward."""


@dataclass(frozen=True)
class Mark:
    """Where a node comes from.

    Attributes
    ----------
    phase
        Forward or backward.
    path
        Path of the module whose forward called the op, or whose op this is the backward of;
        ``""`` for the model itself, `LOSS` for what comes after it.
    """

    phase: Phase
    path: str


class Marker(TorchDispatchMode):
    """Watches a step being traced by `make_fx`, which marks neither phases nor modules.

    Forward ops belong to the module whose forward is running. A backward op runs for an autograd
    node, and autograd numbers its nodes in the order of the forward ops that made them: the
    number leads back to the module.
    """

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.marks: dict[torch.fx.Node, Mark] = {}
        self.last_op = ""
        self._names = {id(module): name for name, module in model.named_modules()}
        self._model = model
        self._stack: list[str] = []
        self._finished = False
        self._phase: Phase = "forward"
        self._path_of_number: dict[int, str] = {}
        self._backward_path = LOSS

    @property
    def path(self) -> str:
        """Path of the module that runs now; after an error, of the one that it came from."""
        if self._phase == "backward":
            return self._backward_path
        if self._stack:
            return self._stack[-1]
        return LOSS if self._finished else ""

    def begin_backward(self) -> None:
        """Mark everything from here on as backward."""
        self._phase = "backward"

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Let one op pass, and mark the nodes that it left in the trace."""
        del types
        if not str(func).startswith("prim."):
            self.last_op = str(func)
        out = func(*args, **(kwargs or {}))
        if self._phase == "forward":
            self._path_of_number.setdefault(torch.autograd._get_sequence_nr() - 1, self.path)
        else:
            running = torch._C._current_autograd_node()
            if running is not None:
                number = running._sequence_nr()
                self._backward_path = self._path_of_number.get(number, self._backward_path)
        proxy_mode = get_proxy_mode()
        if proxy_mode is not None:
            for node in reversed(proxy_mode.tracer.graph.nodes):
                if node in self.marks or node.op == "placeholder":
                    break
                self.marks[node] = Mark(self._phase, self.path)
        return out

    @contextlib.contextmanager
    def active(self) -> Iterator[None]:
        """Watch ops and calls of modules."""
        # Hooks don't run after an error, so the stack still shows where it came from.
        entered = register_module_forward_pre_hook(self._enter)
        left = register_module_forward_hook(self._leave)
        try:
            with self:
                yield
        finally:
            entered.remove()
            left.remove()

    def _enter(self, module: torch.nn.Module, _: Any) -> None:
        name = self._names.get(id(module))
        self._stack.append(self._stack[-1] if name is None and self._stack else name or "")

    def _leave(self, module: torch.nn.Module, *_: Any) -> None:
        self._stack.pop()
        self._finished = self._finished or module is self._model
