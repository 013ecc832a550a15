"""Time of one op on an accelerator, by the roofline model in exact integer arithmetic."""

from __future__ import annotations

from slackopt.profiles.accelerators import Accelerator

_PERCENT_NS = 100 * 10**9
"""Percent of a rate per second, as a rate per ns."""


def op_time_ns(
    accelerator: Accelerator,
    *,
    flops: int,
    moved_bytes: int,
    dtype: str,
    fused_attention: bool = False,
) -> int:
    """Time of one op in ns.

    The op takes as long as the slower of its arithmetic and its memory traffic::

        max(ceil(flops / (efficiency * peak)), ceil(bytes / (memory * bandwidth))) + launch

    with ``memory`` the accelerator's ``memory_percent`` and ``efficiency`` its ``matmul_percent``,
    or ``attention_percent`` for a fused attention kernel. Every division rounds up to a whole ns
    and no float is involved, so the result is the same on every platform, and at least 1.

    Parameters
    ----------
    accelerator
        Whose figures to use.
    flops
        Floating-point operations in matrix products (a multiply-add counts as two). Those of
        element-wise ops are not counted: their memory traffic takes longer.
    moved_bytes
        Bytes read from and written to device memory.
    dtype
        Number format of the products: ``bf16``, ``fp16`` or ``fp32``.
    fused_attention
        Whether the op is a fused (flash) attention kernel.

    Raises
    ------
    InputError
        If the accelerator has no figure for `dtype`.
    """
    percent = accelerator.attention_percent if fused_attention else accelerator.matmul_percent
    arithmetic = _ceil(flops * _PERCENT_NS, percent * accelerator.peak(dtype))
    traffic = _ceil(
        moved_bytes * _PERCENT_NS, accelerator.memory_percent * accelerator.memory_bytes_per_s
    )
    return max(1, max(arithmetic, traffic) + accelerator.launch_ns)


def _ceil(numerator: int, denominator: int) -> int:
    return -(-numerator // denominator)
