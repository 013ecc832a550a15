"""Fake tensors: shapes, formats and storages without memory behind them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils import _pytree as pytree

DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}
"""PyTorch's names of the number formats."""

DTYPE_NAMES = {dtype: name for name, dtype in DTYPES.items()}


def new_mode() -> FakeTensorMode:
    """Return a mode under which every tensor is fake.

    Tensors that a model keeps outside its parameters and buffers are made fake when it uses them.
    """
    return FakeTensorMode(allow_non_fake_inputs=True)


def mode_of(model: torch.nn.Module, *values: Any) -> FakeTensorMode:
    """Return the mode that a model was built under, or a new one."""
    for tensor in (*state_of(model).values(), *pytree.tree_leaves(values)):
        if isinstance(tensor, FakeTensor):
            tensor.fake_mode.allow_non_fake_inputs = True
            return tensor.fake_mode
    return new_mode()


def state_of(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Parameters and buffers by name; a tied one once, under its first name."""
    return dict(_named(model.named_parameters(), model.named_buffers()))


def _named(*parts: Iterable[tuple[str, torch.Tensor]]) -> Iterator[tuple[str, torch.Tensor]]:
    for part in parts:
        yield from part


def fake_state(
    mode: FakeTensorMode, model: torch.nn.Module, dtype: torch.dtype | None
) -> dict[str, torch.Tensor]:
    """Return fake copies of parameters and buffers; floating-point ones in `dtype`."""
    return {name: _fake(mode, tensor, dtype) for name, tensor in state_of(model).items()}


def fake_values(mode: FakeTensorMode, values: Any, dtype: torch.dtype | None) -> Any:
    """Return `values` with every tensor replaced by a fake one."""
    return pytree.tree_map_only(torch.Tensor, lambda tensor: _fake(mode, tensor, dtype), values)


def _fake(mode: FakeTensorMode, tensor: torch.Tensor, dtype: torch.dtype | None) -> torch.Tensor:
    wanted = dtype if dtype is not None and tensor.is_floating_point() else tensor.dtype
    if tensor.is_meta or wanted != tensor.dtype:
        # A model on the meta device is one that nobody wanted in memory: as good as a fake one.
        device = "cpu" if tensor.is_meta else tensor.device
        with mode:
            made = torch.empty_strided(
                tensor.size(), tensor.stride(), dtype=wanted, device=device
            ).requires_grad_(tensor.requires_grad)
        return (
            torch.nn.Parameter(made)
            if isinstance(tensor, torch.nn.Parameter) and (tensor.requires_grad)
            else made
        )
    if isinstance(tensor, FakeTensor):
        return tensor
    return mode.from_tensor(tensor)
