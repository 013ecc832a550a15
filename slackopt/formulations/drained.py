"""Rows that make a plan safe: swap-outs queued in a window have ended when an op starts.

The memory rows of `slackopt.formulations.window` are relaxed: bytes leave one by one, and a copy
that is half done has freed half its memory. The simulator frees whole tensors, or pieces that have
been copied. Where a simulated plan waits for memory in front of op k, this row asks, for a slot h,
that the link has time for every copy queued from slot h on before op k starts; it cuts off plans
that may be fine, so it never goes into a bound.
"""

from __future__ import annotations

from collections.abc import Mapping

from slackopt.formulations.linear import Row
from slackopt.formulations.window import WindowFormulation


def drained_row(window: WindowFormulation, op: int, first_slot: int) -> Row:
    """Build ``sum of W_t out_t <= S_op - A_first`` over the tensors ready in the window.

    ``out_t`` is the time of a swap-out with its latency, the copies of a window follow one another.
    """
    life, device = window.life, window.instance.device
    coefficients = {
        column: device.swap_out_ns(life.sizes_bytes[t])
        for t, column in window.swap.items()
        if first_slot <= window.ready(t) <= op
    }
    window.spend(coefficients, [(first_slot, op, 1)])
    slack = window.starts_ns[op] - window.starts_ns[first_slot]
    return Row(f"drained[{op},{first_slot}]", coefficients, slack)


def most_violated_drained_row(
    window: WindowFormulation, x: Mapping[int, float], op: int
) -> Row | None:
    """Return the drained row of `op` that point `x` violates most; None if it violates none.

    Stalls and reruns at `x` are left out of the choice of the window: they are few.
    """
    life, device = window.life, window.instance.device
    queued = [0.0] * (op + 2)
    for t, column in window.swap.items():
        if window.ready(t) <= op:
            queued[window.ready(t)] += device.swap_out_ns(life.sizes_bytes[t]) * x[column]
    best, best_slot, total = 0.0, -1, 0.0
    for slot in range(op, -1, -1):
        total += queued[slot]
        excess = total - (window.starts_ns[op] - window.starts_ns[slot])
        if excess > best:
            best, best_slot = excess, slot
    return None if best_slot < 0 else drained_row(window, op, best_slot)
