"""The kernels that training uses, in place of those that a CPU would.

On a CUDA device dropout is one op that keeps a mask of one byte an element, and scaled-dot-product
attention is one fused op. A trace on fake CPU tensors would show neither: CPU dropout keeps a
scaled mask as large as its input, and CPU attention saves other tensors. Both are replaced while a
model is traced, where Python calls them: `torch.nn.functional.dropout` (``nn.Dropout`` too) and
`torch.nn.functional.scaled_dot_product_attention`, also within ``nn.MultiheadAttention``.
"""

from __future__ import annotations

import contextlib
import math
import sys
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import torch
import torch.nn.functional as F  # noqa: N812
from torch.overrides import TorchFunctionMode

from slackopt.profiles.pytorch.autocasting import cast_low
from slackopt.profiles.pytorch.settings import TraceSettings

_FLASH_DTYPES = (torch.float16, torch.bfloat16)
_FLASH_MAX_HEAD_DIM = 256
_HEAD_DIM_MULTIPLE = 8

_DROPOUT = F.dropout
_ATTENTION = F.scaled_dot_product_attention


class Substitutes(TorchFunctionMode):
    """Replaces dropout and attention by the kernels that the settings ask for."""

    def __init__(self, settings: TraceSettings) -> None:
        super().__init__()
        self.settings = settings
        self._replaced: dict[Callable[..., Any], Callable[..., Any]] = {
            _DROPOUT: self.dropout,
            _ATTENTION: self.attention,
        }

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Answer one call of the torch API."""
        del types
        return self._replaced.get(func, func)(*args, **(kwargs or {}))

    @contextlib.contextmanager
    def active(self) -> Iterator[None]:
        """Replace the functions, for the model's own calls and for calls within PyTorch."""
        # The mode is off within a function of torch.nn.functional; such callers read the globals.
        with (
            mock.patch.object(F, "dropout", self.dropout),
            mock.patch.object(F, "scaled_dot_product_attention", self.attention),
            _one_sequence_a_row(),
            self,
        ):
            yield

    def dropout(
        self,
        input: torch.Tensor,  # noqa: A002
        p: float = 0.5,
        training: bool = True,
        inplace: bool = False,
    ) -> torch.Tensor:
        """Drop out: the fused kernel, unless it works in place or drops all."""
        if not training or p == 0.0 or not self.settings.dropout:
            return input
        if inplace or p == 1.0 or self.settings.kernels == "cpu":
            return _DROPOUT(input, p, training, inplace)
        return torch.native_dropout(input, p, True)[0]

    def attention(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        attn_mask: torch.Tensor | None = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        scale: float | None = None,
        enable_gqa: bool = False,
    ) -> torch.Tensor:
        """Attend: with the kernel that CUDA's dispatch would pick, a CPU's, or unfused."""
        p = dropout_p if self.settings.dropout else 0.0
        if self.settings.attention == "eager":
            return self._unfused(query, key, value, attn_mask, p, is_causal, scale, enable_gqa)
        if self.settings.kernels == "cpu" or query.dim() != 4 or key.dim() != 4:
            return _ATTENTION(
                query, key, value, attn_mask, p, is_causal, scale=scale, enable_gqa=enable_gqa
            )
        # Fused attention is in the 16-bit list of autocast; the kernels below are not.
        query, key, value, attn_mask = cast_low(query, key, value, attn_mask)
        assert query is not None and key is not None and value is not None  # noqa: PT018, S101
        width = query.size(-1)
        if scale is None:
            scale = 1.0 / math.sqrt(width)
        pad = -width % _HEAD_DIM_MULTIPLE
        if pad:
            query, key, value = (F.pad(tensor, (0, pad)) for tensor in (query, key, value))
        flash = (
            attn_mask is None
            and query.dtype in _FLASH_DTYPES
            and width <= _FLASH_MAX_HEAD_DIM
            and key.size(-1) == value.size(-1)
        )
        if flash:
            out = torch.ops.aten._scaled_dot_product_flash_attention(
                query, key, value, p, is_causal, False, scale=scale
            )[0]
        else:
            key, value = _repeat_heads(query, key, value)
            bias = _additive(attn_mask, query)
            out = torch.ops.aten._scaled_dot_product_efficient_attention(
                query, key, value, bias, True, p, is_causal, scale=scale
            )[0]
        return out[..., : value.size(-1) - pad] if pad else out

    def _unfused(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        attn_mask: torch.Tensor | None,
        dropout_p: float,
        is_causal: bool,
        scale: float | None,
        enable_gqa: bool,
    ) -> torch.Tensor:
        if enable_gqa:
            key, value = _repeat_heads(query, key, value)
        scale = 1.0 / math.sqrt(query.size(-1)) if scale is None else scale
        scores = torch.matmul(query, key.transpose(-2, -1)) * scale
        if is_causal:
            attn_mask = torch.ones(
                query.size(-2), key.size(-2), dtype=torch.bool, device=query.device
            ).tril()
        bias = _additive(attn_mask, query, expand=False)
        if bias is not None:
            scores = scores + bias
        weights = self.dropout(torch.softmax(scores, -1), dropout_p)
        return torch.matmul(weights, value)


def _one_sequence_a_row() -> contextlib.AbstractContextManager[Any]:
    """Tell transformers that no row of tokens holds several sequences.

    Its causal models look for them in the values of the positions, which a trace doesn't have.
    """
    masks = sys.modules.get("transformers.masking_utils")
    if masks is None or not hasattr(masks, "find_packed_sequence_indices"):
        return contextlib.nullcontext()
    return mock.patch.object(masks, "find_packed_sequence_indices", return_value=None)


def _repeat_heads(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Repeat the heads of keys and values until there are as many as of queries."""
    times = query.size(1) // key.size(1)
    if times == 1:
        return key, value
    return key.repeat_interleave(times, 1), value.repeat_interleave(times, 1)


def _additive(
    mask: torch.Tensor | None, query: torch.Tensor, *, expand: bool = True
) -> torch.Tensor | None:
    """Return a mask as numbers to add to the scores, of the fused kernel's shape."""
    if mask is None:
        return None
    if mask.dtype == torch.bool:
        zero = torch.zeros((), dtype=query.dtype, device=query.device)
        mask = torch.where(mask, zero, float("-inf"))
    if not expand:
        return mask
    return mask.to(query.dtype).expand(query.size(0), query.size(1), query.size(2), mask.size(-1))
