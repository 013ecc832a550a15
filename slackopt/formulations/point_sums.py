"""Sums at a point that every separation needs: bytes per op, and where rerun time can be."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from slackopt.formulations.columns import WindowColumns

Floats = npt.NDArray[np.float64]


def stalls_before(window: WindowColumns, x: Floats) -> Floats:
    """Stall time of the slots before each slot, and of all slots at the end."""
    stalls = [x[window.stall[k]] for k in range(window.life.num_ops)]
    total: Floats = np.concatenate([[0.0], np.cumsum(stalls)])
    return total


def rerun_time(window: WindowColumns, x: Floats) -> tuple[float, Floats, Floats]:
    """Return rerun time in all, surely before slot h, and surely in slots of index k or more.

    A rerun with slot range [a, b] meets the slots [h, k] unless b < h or a > k; so the time that
    may fall into them is ``total - ended_before[h] - begun_after[k + 1]``.
    """
    ops = window.life.num_ops
    ended, begun = np.zeros(ops + 2), np.zeros(ops + 2)
    total = 0.0

    def add(first: int, last: int, time: float) -> float:
        ended[last + 1] += time
        begun[first] += time
        return time

    for first, last, duration, plus, minus in window.rerun_pieces:
        share = x[plus] - (0.0 if minus is None else x[minus])
        if share:
            total += add(first, last, duration * share)
    return total, np.cumsum(ended)[: ops + 1], np.cumsum(begun[::-1])[::-1][: ops + 1]


def resident_bytes(window: WindowColumns, x: Floats) -> Floats:
    """Bytes on the device during each op, without the tensors decided swap and recompute.

    ``M(k)`` of `slackopt.formulations.memory_rows`.
    """
    life = window.life
    change = np.zeros(life.num_ops + 1)
    for t in life.candidates:
        columns = [d[t] for d in (window.swap, window.recompute) if t in d]
        if columns:
            size = life.sizes_bytes[t] * (1.0 - sum(x[j] for j in columns))
            change[life.last_forward_use[t] + 1] += size
            change[life.first_backward_use[t]] -= size
    for entry in window.extra_residents:
        if entry.last > entry.first:
            change[entry.first] += entry.size_bytes * x[entry.column]
            change[entry.last] -= entry.size_bytes * x[entry.column]
    resident: Floats = np.cumsum(change[:-1]) + np.array(window.fixed_bytes, dtype=float)
    return resident
