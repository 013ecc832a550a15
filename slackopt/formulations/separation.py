"""Separation: find the memory rows that a point violates.

Two sweeps over the ops (docs/formulations.md, "Separation"): forward for the out windows, backward
for the in windows. Floats are fine here: a row is rebuilt exactly from its key.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from slackopt.formulations.window import UNITS_PER_BYTE, MemoryKey, WindowFormulation
from slackopt.lifetimes import ABSENT

Floats = npt.NDArray[np.float64]


def most_violated_keys(
    window: WindowFormulation, x: Sequence[float] | Floats, tolerance_bytes: float, limit: int
) -> list[tuple[float, MemoryKey]]:
    """Return violated memory rows, the most violated first, at most one per pair of windows.

    Parameters
    ----------
    window
        The formulation.
    x
        A point: one value per column.
    tolerance_bytes
        Rows violated by less are left out.
    limit
        Return at most this many.

    Returns
    -------
    list of (float, MemoryKey)
        Violation in bytes, and the row.
    """
    best: dict[tuple[int, int], tuple[float, MemoryKey]] = {}
    for violation, key in zip(*violations(window, np.asarray(x, dtype=float)), strict=True):
        if violation > tolerance_bytes:
            pair = (key.out_from, key.in_to)
            if pair not in best or violation > best[pair][0]:
                best[pair] = (violation, key)
    return sorted(best.values(), key=lambda entry: -entry[0])[:limit]


def violations(window: WindowFormulation, x: Floats) -> tuple[list[float], list[MemoryKey]]:
    """For each op and each of its two ends, return the largest violation and its row."""
    life = window.life
    ops = life.num_ops
    out_rate, in_rate = (rate / UNITS_PER_BYTE for rate in window.bandwidths)
    starts = np.array(window.starts_ns, dtype=float)
    stalls = np.concatenate([[0.0], np.cumsum([x[window.stall[k]] for k in range(ops)])])
    total, ended_before, begun_after = _rerun_time(window, x)
    resident = _resident(window, x)
    budget = window.instance.budget_bytes

    # In windows, backward: of the bytes needed in slots (k, h'], what can't come in after tau.
    needed = np.zeros(ops + 1)
    for t, column in window.swap.items():
        use = life.first_backward_use[t]
        if use != ABSENT:
            needed[use] += life.sizes_bytes[t] * x[column]
    needed = np.cumsum(needed[:ops])
    target = needed - in_rate * (starts[:ops] + stalls[1:] + total - begun_after[1 : ops + 1])
    best_to = np.full(ops, ABSENT)
    best_target = np.full(ops, -np.inf)
    for k in range(ops - 2, -1, -1):
        ahead = k + 1 if target[k + 1] > best_target[k + 1] or k + 2 == ops else best_to[k + 1]
        best_to[k], best_target[k] = ahead, target[ahead]

    # Out windows, forward: of the bytes ready in slots [h, k], what can't have left by tau.
    pending = np.zeros(ops + 1)
    idle_from: list[list[int]] = [[] for _ in range(ops + 1)]
    for t in window.swap:
        idle_from[life.last_forward_use[t] + 1].append(t)
    base = out_rate * (starts[: ops + 1] + stalls + ended_before)
    pending += base
    found: list[float] = []
    keys: list[MemoryKey] = []
    for k in range(ops):
        for t in idle_from[k]:
            pending[: window.ready(t) + 1] += life.sizes_bytes[t] * x[window.swap[t]]
        out_from = int(np.argmax(pending[: k + 1]))
        for at_end in (False, True):
            tau = starts[k + 1 if at_end else k]
            left = out_rate * (tau + stalls[k + 1] + total - begun_after[k + 1])
            backlog = pending[out_from] - left
            ahead = in_rate * (tau + stalls[k + 1] + ended_before[k + 1])
            prefetched = best_target[k] - needed[k] + ahead
            violation = resident[k] + max(0.0, backlog) + max(0.0, prefetched) - budget
            found.append(float(violation))
            keys.append(
                MemoryKey(
                    k,
                    at_end,
                    out_from if backlog > 0 else ABSENT,
                    int(best_to[k]) if prefetched > 0 else ABSENT,
                )
            )
    return found, keys


def _rerun_time(window: WindowFormulation, x: Floats) -> tuple[float, Floats, Floats]:
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


def _resident(window: WindowFormulation, x: Floats) -> Floats:
    """Bytes on the device during each op, without the tensors decided swap and recompute."""
    life = window.life
    change = np.zeros(life.num_ops + 1)
    for t in life.candidates:
        columns = [d[t] for d in (window.swap, window.recompute) if t in d]
        if columns:
            size = life.sizes_bytes[t] * (1.0 - sum(x[j] for j in columns))
            change[life.last_forward_use[t] + 1] += size
            change[life.first_backward_use[t]] -= size
    for first, last, size, column in window.extra_residents:
        if last > first:
            change[first] += size * x[column]
            change[last] -= size * x[column]
    resident: Floats = np.cumsum(change[:-1]) + np.array(window.fixed_bytes, dtype=float)
    return resident
