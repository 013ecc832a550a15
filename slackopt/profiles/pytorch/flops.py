"""Arithmetic and memory traffic of one call, from its shapes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils import _pytree as pytree
from torch.utils.flop_counter import flop_registry, sdpa_backward_flop_count, sdpa_flop_count

from slackopt.profiles.pytorch import fakes
from slackopt.profiles.pytorch.storages import schema_name

_TABLE_READS = {
    "aten::embedding": 0,
    "aten::gather": 0,
    "aten::index": 0,
    "aten::index_select": 0,
    "aten::nll_loss_forward": 0,
    "aten::nll_loss2d_forward": 0,
    "aten::take": 0,
}
"""Ops that read as many elements of this argument as they return."""

_UNREAD = {"aten::nll_loss_backward": 1, "aten::nll_loss2d_backward": 1}
"""Ops that take this argument for its shape."""


def _cpu_attention(*args: Any, **_: Any) -> int:
    return int(sdpa_flop_count(*(tensor.shape for tensor in args[:3])))


def _cpu_attention_backward(*args: Any, **_: Any) -> int:
    return int(sdpa_backward_flop_count(*(tensor.shape for tensor in args[:4])))


def _grouped_products(left: torch.Tensor, right: torch.Tensor, *_: Any, **__: Any) -> int:
    """Products of the rows (or columns) of each expert: each row meets one expert's matrix."""
    groups = left.size(0) if left.dim() == right.dim() == 3 else 1
    return 2 * groups * left.size(-2) * left.size(-1) * right.size(-1)


_FORMULAS: dict[str, Callable[..., int]] = {
    "aten::_grouped_mm": _grouped_products,
    "aten::_scaled_dot_product_flash_attention_for_cpu": _cpu_attention,
    "aten::_scaled_dot_product_flash_attention_for_cpu_backward": _cpu_attention_backward,
}
"""Formulas that `torch.utils.flop_counter` lacks, in its terms."""


def flops_of(node: torch.fx.Node) -> int:
    """Floating-point operations of a call in matrix products, a multiply-add counted as two.

    The formulas are those of `torch.utils.flop_counter`. Ops without one, element-wise ops and
    reductions, count as 0: their memory traffic takes longer. Causal attention counts in full.
    """
    name = schema_name(node)
    args, kwargs = values(node.args), values(node.kwargs)
    if name in _FORMULAS:
        return _FORMULAS[name](*args, **kwargs)
    packet = getattr(node.target, "overloadpacket", None)
    if packet not in flop_registry:
        return 0
    return int(flop_registry[packet](*args, **kwargs, out_val=node.meta["val"]))


def traffic_of(node: torch.fx.Node) -> int:
    """Bytes that a call reads and writes: each tensor once, and of a view what it shows."""
    name = schema_name(node)
    results = [t for t in pytree.tree_leaves(node.meta["val"]) if isinstance(t, torch.Tensor)]
    written = sum(map(shown_bytes, results))
    read, seen = 0, set()
    for place, argument in enumerate((*node.args, *node.kwargs.values())):
        for tensor in pytree.tree_leaves(values(argument)):
            if not isinstance(tensor, torch.Tensor) or id(tensor) in seen:
                continue
            seen.add(id(tensor))
            if _UNREAD.get(name) == place:
                continue
            size = shown_bytes(tensor)
            read += min(size, written) if _TABLE_READS.get(name) == place else size
    return read + written


def format_of(node: torch.fx.Node) -> str:
    """Return the number format of a call's arithmetic: of its first floating-point input.

    Later ones can be statistics in another format, as those of fused attention are.
    """
    for tensor in pytree.tree_leaves(values(node.args)):
        if isinstance(tensor, torch.Tensor) and tensor.dtype in fakes.DTYPE_NAMES:
            return fakes.DTYPE_NAMES[tensor.dtype]
    return "fp32"


def is_fused_attention(node: torch.fx.Node) -> bool:
    """Whether a call is a fused attention kernel, forward or backward."""
    return "scaled_dot_product" in schema_name(node)


def shown_bytes(tensor: torch.Tensor) -> int:
    """Bytes of the distinct elements that a tensor shows; an expanded dimension counts once."""
    count = 1
    for size, stride in zip(tensor.size(), tensor.stride(), strict=True):
        count *= size if stride else min(size, 1)
    return count * tensor.element_size()


def values(arguments: Any) -> Any:
    """Return a call's arguments with the fake tensors in place of their nodes."""
    return pytree.tree_map_only(torch.fx.Node, lambda node: node.meta.get("val"), arguments)
