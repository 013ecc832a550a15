"""Separation: find the rows that a point violates.

For memory rows, two sweeps over the ops (docs/formulations.md, "Separation"): forward for the out
windows, backward for the in windows. Floats are fine here: a row is rebuilt exactly from its key.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from slackopt.formulations.columns import UNITS_PER_BYTE, WindowColumns
from slackopt.formulations.host_rows import HostKey, violated_host_keys
from slackopt.formulations.memory_rows import MemoryKey
from slackopt.formulations.point_sums import Floats, rerun_time, resident_bytes, stalls_before
from slackopt.formulations.shared_link_rows import SharedLinkKey
from slackopt.formulations.shared_link_separation import violated_shared_link_keys
from slackopt.lifetimes import ABSENT

LazyKey = MemoryKey | HostKey | SharedLinkKey


def most_violated_keys(
    window: WindowColumns, x: Sequence[float] | Floats, tolerance_bytes: float, limit: int
) -> list[tuple[float, LazyKey]]:
    """Return violated rows, the most violated first; at most one per window, or pair of windows.

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
    list of (float, LazyKey)
        Violation in bytes, and the row; `WindowFormulation.row` builds it from its name.
    """
    point = np.asarray(x, dtype=float)
    best: dict[tuple[object, ...], tuple[float, LazyKey]] = {}

    def offer(violation: float, key: LazyKey, windows: tuple[object, ...]) -> None:
        if windows not in best or violation > best[windows][0]:
            best[windows] = (violation, key)

    for violation, memory in zip(*violations(window, point), strict=True):
        if violation > tolerance_bytes:
            offer(violation, memory, (memory.out_from, memory.in_to))
    for violation, host in violated_host_keys(window, point, tolerance_bytes):
        offer(violation, host, ("host", host.op))
    for violation, link in violated_shared_link_keys(window, point, tolerance_bytes):
        offer(violation, link, (link.outwards, link.limit, link.other))
    return sorted(best.values(), key=lambda entry: -entry[0])[:limit]


def violations(window: WindowColumns, x: Floats) -> tuple[list[float], list[MemoryKey]]:
    """For each op and each of its two ends, return the largest violation and its memory row."""
    life = window.life
    ops = life.num_ops
    out_rate, in_rate = (rate / UNITS_PER_BYTE for rate in window.bandwidths)
    starts = np.array(window.starts_ns, dtype=float)
    stalls = stalls_before(window, x)
    total, ended_before, begun_after = rerun_time(window, x)
    resident = resident_bytes(window, x)
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
