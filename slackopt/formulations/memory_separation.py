"""Separation of memory rows: two sweeps over the ops (docs/formulations.md, "Separation").

Forward for the out windows, backward for the in windows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slackopt.formulations.columns import UNITS_PER_BYTE, WindowColumns
from slackopt.formulations.memory_rows import MemoryKey
from slackopt.formulations.point_sums import Floats, rerun_time, resident_bytes, stalls_before
from slackopt.lifetimes import ABSENT


@dataclass(frozen=True)
class Sweeps:
    """The best windows at a point, per op.

    Attributes
    ----------
    resident
        Bytes on the device, without those of windows.
    backlog, out_from
        At the start of the op: of the bytes ready in the best out window, those that can't have
        left (may be below 0); and where the window begins.
    arrivals, in_to
        Of the bytes needed in the best in window, those that can't come in after the ideal start
        of the step, at the bandwidth in; less what stalls and reruns add. See `prefetched`.
    in_rate, starts, stalls, ended_before
        For `prefetched`.
    """

    resident: Floats
    backlog: Floats
    out_from: list[int]
    arrivals: Floats
    in_to: list[int]
    in_rate: float
    starts: Floats
    stalls: Floats
    ended_before: Floats

    def prefetched(self, op: int, from_slot: int) -> float:
        """Of the bytes needed after `op`, those that can't come in from the start of a slot on."""
        time = self.starts[from_slot] + self.stalls[from_slot] + self.ended_before[from_slot]
        return float(self.arrivals[op] + self.in_rate * time)


def memory_violations(
    window: WindowColumns, x: Floats
) -> tuple[list[float], list[MemoryKey], Sweeps]:
    """For each op and each of its two ends, return the largest violation and its memory row.

    And the sweeps, for other rows with windows.
    """
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
    backlogs, outs = np.zeros(ops), [0] * ops
    for k in range(ops):
        for t in idle_from[k]:
            pending[: window.ready(t) + 1] += life.sizes_bytes[t] * x[window.swap[t]]
        out_from = int(np.argmax(pending[: k + 1]))
        for at_end in (False, True):
            tau = starts[k + 1 if at_end else k]
            left = out_rate * (tau + stalls[k + 1] + total - begun_after[k + 1])
            backlog = pending[out_from] - left
            if not at_end:
                backlogs[k], outs[k] = backlog, out_from
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
    ins = [int(k) for k in best_to]
    arrivals = best_target - needed
    sweeps = Sweeps(resident, backlogs, outs, arrivals, ins, in_rate, starts, stalls, ended_before)
    return found, keys, sweeps
