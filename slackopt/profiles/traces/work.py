"""FLOPs, traffic and number format of a call, from the shapes of its tensors."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import prod

from slackopt.profiles.traces.nodes import Node, TensorRef
from slackopt.profiles.traces.operators import short_name

_FORMATS = {
    "float": "fp32",
    "c10::Half": "fp16",
    "c10::BFloat16": "bf16",
    "double": "fp64",
}
_PRODUCTS = {"mm": 0, "bmm": 0, "addmm": 1, "baddbmm": 1, "addbmm": 1, "_addmm_activation": 1}
_ATTENTION_BACKWARD_RATIO = (5, 2)


@dataclass(frozen=True)
class Work:
    """What one op does.

    Attributes
    ----------
    flops
        Floating-point operations in matrix products, convolutions and fused attention; a
        multiply-add counts as two.
    moved_bytes
        Bytes of its distinct input and output tensors.
    dtype
        Number format of its first floating-point tensor: ``bf16``, ``fp16``, ``fp32``, ``fp64``;
        None without one.
    fused_attention
        Whether it is a fused attention kernel.
    """

    flops: int
    moved_bytes: int
    dtype: str | None
    fused_attention: bool


def work_of(calls: Sequence[Node], device: str) -> Work:
    """Return the work of an op from its call and the calls below it.

    Parameters
    ----------
    calls
        The op's own call first, then those below it.
    device
        Tensors elsewhere are ignored.
    """
    own = calls[0]
    flops = flops_of(own)
    attention = flops is not None and "attention" in own.name
    if flops is None:
        flops = _flops_below(calls[1:])
    inputs, outputs = own.inputs, own.outputs
    if not inputs and not outputs:
        inputs = tuple(ref for node in calls for ref in node.inputs)
        outputs = tuple(ref for node in calls for ref in node.outputs)
    moved = _distinct_bytes(inputs, device) + _distinct_bytes(outputs, device)
    return Work(flops, moved, _dtype((*inputs, *outputs)), attention)


def _flops_below(calls: Sequence[Node]) -> int:
    """Sum the FLOPs of the outermost calls that have some."""
    total, counted = 0, set[int]()
    for node in calls:
        number = None if node.parent in counted else flops_of(node)
        if number is not None or node.parent in counted:
            counted.add(node.id)
        total += number or 0
    return total


def flops_of(node: Node) -> int | None:
    """Return the FLOPs of a call, or None for an operator without matrix products."""
    name = short_name(node.name)
    shapes = [ref.shape for ref in node.inputs]
    if name in _PRODUCTS:
        first = _PRODUCTS[name]
        if len(shapes) < first + 2 or len(shapes[first]) < 2 or not shapes[first + 1]:
            return None
        return 2 * prod(shapes[first]) * shapes[first + 1][-1]
    if "attention" in name and len(shapes) > 2:
        return _attention(name, shapes)
    if "conv" in name:
        return _convolution(name, node)
    return None


def _attention(name: str, shapes: Sequence[tuple[int, ...]]) -> int | None:
    backward = name.endswith("_backward")
    query, key, value = shapes[1:4] if backward and len(shapes) > 3 else shapes[:3]
    if not len(query) == len(key) == len(value) == 4:
        return None
    # Heads stand before positions in the operators of scaled dot products, behind them in the
    # kernels that these call.
    at = 1 if name.startswith(("_flash_attention", "_efficient_attention")) else 2
    heads, width = query[3 - at], query[3]
    forward = 2 * query[0] * heads * query[at] * key[at] * (width + value[3])
    times, over = _ATTENTION_BACKWARD_RATIO if backward else (1, 1)
    return forward * times // over


def _convolution(name: str, node: Node) -> int | None:
    """Two FLOPs for each output element and each weight that makes it; twice that backward."""
    weighty = [ref for ref in node.inputs if len(ref.shape) >= 3]
    if name.endswith("_backward"):
        if len(weighty) < 3:
            return None
        outcome, weight = weighty[0], weighty[2]
        gradients = sum(len(ref.shape) >= 3 for ref in node.outputs)
        return gradients * 2 * outcome.numel * prod(weight.shape[1:])
    if len(weighty) < 2 or not node.outputs:
        return None
    outcome = weighty[0] if "transpose" in name else node.outputs[0]
    return 2 * outcome.numel * prod(weighty[1].shape[1:])


def _distinct_bytes(refs: Iterable[TensorRef], device: str) -> int:
    sizes: dict[tuple[int, int], int] = {}
    for ref in refs:
        if ref.device == device:
            size = ref.numel * ref.itemsize
            # An expanded tensor has more elements than bytes behind them.
            size = min(size, ref.extent_bytes) if ref.exact else size
            key = (ref.storage, ref.extent_bytes)
            sizes[key] = max(size, sizes.get(key, 0))
    return sum(sizes.values())


def _dtype(refs: Iterable[TensorRef]) -> str | None:
    return next((_FORMATS[ref.dtype] for ref in refs if ref.dtype in _FORMATS), None)
