"""How a model is traced: number format, attention, dropout, micro-batches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from slackopt.errors import InputError
from slackopt.profiles.accelerators import Dtype
from slackopt.profiles.builder import SWAP_THRESHOLD_BYTES
from slackopt.records import MAX_BYTES

Attention = Literal["flash", "eager"]
Kernels = Literal["cuda", "cpu"]
Autocast = Literal["bf16", "fp16"]

MAX_MICRO_BATCHES = 10**6

MAX_SIZE = 10**7
"""Largest batch, sequence length and number of layers."""


@dataclass(frozen=True)
class TraceSettings:
    """Settings of one trace.

    Attributes
    ----------
    dtype
        Number format that floating-point parameters, buffers and inputs are cast to; None leaves
        them as they are.
    autocast
        Format of automatic mixed precision for forward pass and loss; None for none.
    attention
        ``flash``: one fused op; ``eager``: scores, softmax, dropout, context.
    dropout
        False turns dropout off; True leaves it as the model has it.
    micro_batches
        Micro-batches of which one step accumulates the gradients; the graph is of one of them.
    restore_random_state
        Whether the random state of an op is saved, so that a rerun gives the same values.
    min_swap_bytes
        Smallest tensor that may be swapped.
    kernels
        Whose kernels the ops stand for: those of a CUDA device, or those of a CPU.
    """

    dtype: Dtype | None = None
    autocast: Autocast | None = None
    attention: Attention = "flash"
    dropout: bool = True
    micro_batches: int = 1
    restore_random_state: bool = True
    min_swap_bytes: int = SWAP_THRESHOLD_BYTES
    kernels: Kernels = "cuda"

    def __post_init__(self) -> None:
        """Refuse values that mean nothing."""
        if self.dtype is not None:
            one_of("dtype", self.dtype, get_args(Dtype))
        if self.autocast is not None:
            one_of("autocast", self.autocast, get_args(Autocast))
            if self.dtype not in (None, "fp32"):
                raise InputError(
                    f"autocast {self.autocast} with dtype {self.dtype}: autocast is for parameters "
                    "in fp32; leave one of the two out"
                )
        one_of("attention", self.attention, get_args(Attention))
        whole_number("micro_batches", self.micro_batches, 1, MAX_MICRO_BATCHES)
        whole_number("min_swap_bytes", self.min_swap_bytes, 0, MAX_BYTES)


def whole_number(field: str, value: object, least: int, most: int) -> int:
    """Return `value`, or refuse what is no whole number from `least` to `most`."""
    # Exactly int: neither a float nor a bool is a count, whatever the caller's types say.
    if type(value) is not int or not least <= value <= most:
        raise InputError(f"{field} {value!r}: must be a whole number from {least} to {most}")
    return value


def one_of(field: str, value: object, known: tuple[str, ...]) -> None:
    """Refuse a value that isn't among the known ones."""
    if value not in known:
        raise InputError(f"{field} {value!r}: must be one of {', '.join(known)}")
