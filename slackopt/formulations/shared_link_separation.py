"""Separation of the rows of a shared link: for each op, the most violated one of each way.

As in `slackopt.formulations.separation`, sweeps over the ops with running arrays; floats are fine.
"""

from __future__ import annotations

import numpy as np

from slackopt.formulations.columns import UNITS_PER_BYTE, WindowColumns
from slackopt.formulations.point_sums import Floats, rerun_time, resident_bytes, stalls_before
from slackopt.formulations.shared_link_rows import LinkShare, SharedLinkKey
from slackopt.lifetimes import ABSENT


def violated_shared_link_keys(
    window: WindowColumns, x: Floats, tolerance_bytes: float
) -> list[tuple[float, SharedLinkKey]]:
    """Return violation in bytes and row, for each op and way at most one."""
    if window.instance.device.independent:
        return []
    found = [*_outwards(window, x), *_inwards(window, x)]
    return [(violation, key) for violation, key in found if violation > tolerance_bytes]


def _outwards(window: WindowColumns, x: Floats) -> list[tuple[float, SharedLinkKey]]:
    link = LinkShare.of(window, outwards=True)
    rate, share = link.rate / UNITS_PER_BYTE, float(link.share)
    if not share:
        return []
    life, ops = window.life, window.life.num_ops
    budget = window.instance.budget_bytes
    starts, stalls = np.array(window.starts_ns, dtype=float), stalls_before(window, x)
    total, ended_before, begun_after = rerun_time(window, x)
    resident, needed = resident_bytes(window, x), needed_bytes(window, x)
    idle_from: list[list[int]] = [[] for _ in range(ops + 1)]
    back_by: list[list[int]] = [[] for _ in range(ops)]
    for t in window.swap:
        idle_from[life.last_forward_use[t] + 1].append(t)
        if life.first_backward_use[t] != ABSENT:
            back_by[life.first_backward_use[t]].append(t)
    pending = rate * (starts[: ops + 1] + stalls + ended_before)
    returned = np.zeros(ops + 1)
    kept_out = resident - needed  # M(i) less what has come in by op i
    found = []
    for k in range(ops):
        for t in idle_from[k]:
            pending[: window.ready(t) + 1] += life.sizes_bytes[t] * x[window.swap[t]]
        for t in back_by[k]:
            returned[: window.ready(t) + 1] += life.sizes_bytes[t] * x[window.swap[t]]
        forced = np.full(k + 1, -np.inf)  # per h: the most that an op i in h..k-1 asks for
        forced[:k] = np.maximum.accumulate(kept_out[:k][::-1])[::-1] + needed[k] - budget
        value = pending[: k + 1] + share * np.maximum(forced, returned[: k + 1])
        h = int(np.argmax(value))
        left = rate * (starts[k] + stalls[k + 1] + total - begun_after[k + 1])
        other = ABSENT
        if forced[h] > returned[h]:
            other = h + int(np.argmax(kept_out[h:k]))
        violation = float(resident[k] - budget + value[h] - left)
        found.append((violation, SharedLinkKey(True, k, h, other)))
    return found


def _inwards(window: WindowColumns, x: Floats) -> list[tuple[float, SharedLinkKey]]:
    link = LinkShare.of(window, outwards=False)
    rate, share = link.rate / UNITS_PER_BYTE, float(link.share)
    if not share:
        return []
    life, ops = window.life, window.life.num_ops
    budget = window.instance.budget_bytes
    starts, stalls = np.array(window.starts_ns, dtype=float), stalls_before(window, x)
    total, ended_before, begun_after = rerun_time(window, x)
    resident, needed = resident_bytes(window, x), needed_bytes(window, x)
    made_in: list[list[int]] = [[] for _ in range(ops + 1)]
    for t in window.swap:
        made_in[window.ready(t)].append(t)
    target = needed - rate * (starts[:ops] + stalls[1:] + total - begun_after[1 : ops + 1])
    left_by, returned = np.zeros(ops), np.zeros(ops)
    found = []
    for k in range(ops - 2, -1, -1):
        for t in made_in[k + 1]:
            size = life.sizes_bytes[t] * x[window.swap[t]]
            left_by[life.last_forward_use[t] + 1 :] += size
            if life.first_backward_use[t] != ABSENT:
                returned[life.first_backward_use[t] :] += size
        asked = (resident + left_by)[k + 1 :] - budget  # per op i
        forced = np.maximum.accumulate(asked)
        value = target[k + 1 :] + share * np.maximum(forced, returned[k + 1 :])
        best = int(np.argmax(value))
        other = ABSENT
        if forced[best] > returned[k + 1 + best]:
            other = k + 1 + int(np.argmax(asked[: best + 1]))
        ahead = rate * (starts[k + 1] + stalls[k + 1] + ended_before[k + 1])
        violation = float(resident[k] - budget + value[best] - needed[k] + ahead)
        found.append((violation, SharedLinkKey(False, k, k + 1 + best, other)))
    return found


def needed_bytes(window: WindowColumns, x: Floats) -> Floats:
    """Return the swapped bytes with a first backward use up to each op."""
    needed = np.zeros(window.life.num_ops)
    for t, column in window.swap.items():
        use = window.life.first_backward_use[t]
        if use != ABSENT:
            needed[use] += window.life.sizes_bytes[t] * x[column]
    total: Floats = np.cumsum(needed)
    return total
