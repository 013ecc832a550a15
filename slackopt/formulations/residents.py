"""Residency that comes from reruns: the bytes they put on the device, and those they wait for.

Each is a span of ops, a size and a column; some need a column and a row of their own.
"""

from __future__ import annotations

from slackopt.clock import check_time
from slackopt.formulations.columns import Resident, WindowColumns
from slackopt.formulations.early_reruns import pull
from slackopt.formulations.linear import Row
from slackopt.lifetimes import ABSENT


def add_residents(window: WindowColumns) -> None:
    """Add residency that comes from reruns, as spans and, where needed, columns of its own."""
    source = only_sources(window)
    for t in window.recompute:
        check_time()
        if window.life.first_backward_use[t] == ABSENT:
            _add_waiting(window, t)
        else:
            _add_rebuilt(window, t, source.get(t))
    for q, column in window.keep.items():
        first, need = window.life.last_forward_use[q] + 1, window.slots.first_need(window.life, q)
        size = window.life.sizes_bytes[q]
        window.extra_residents.append(Resident(first, need, size, column, (q,), ABSENT))
        if len(window.slots.readers[q]) == 1:
            _add_kept_until_rerun(window, q, window.slots.readers[q][0], source)


def only_sources(window: WindowColumns) -> dict[int, int]:
    """Pairs t -> q: t is the only droppable output of the only op that may read q again.

    Only tensors t with a backward use.
    """
    pairs: dict[int, int] = {}
    for q in window.keep:
        if len(window.slots.readers[q]) == 1:
            (c,) = window.slots.readers[q]
            outputs = [t for t in window.life.outputs[c] if t in window.recompute]
            if len(outputs) == 1 and window.life.first_backward_use[outputs[0]] != ABSENT:
                best = pairs.get(outputs[0])
                size = window.life.sizes_bytes
                if best is None or size[q] > size[best]:
                    pairs[outputs[0]] = q
    return pairs


def _add_rebuilt(window: WindowColumns, t: int, q: int | None) -> None:
    """Add t: recomputed and rebuilt before slot b, it is there from op b - 1 to its use u.

    With j its producer: ``s_t X`` with ``X >= L_jb + R_t - P_j``, which is ``L_jb`` where t is
    the only droppable output. If then t is rebuilt from a q kept for that alone, either q or
    t is there at any time from the first need of q to u: ``min(s_q, s_t) K_q``, and X is for
    the other case, ``X >= L_jb - M_qb``.
    """
    use, j = window.life.first_backward_use[t], window.life.producer[t]
    size = window.life.sizes_bytes[t]
    if q is not None:
        both = min(size, window.life.sizes_bytes[q])
        need = window.slots.first_need(window.life, q)
        window.extra_residents.append(Resident(need, use, both, window.keep[q], (q, t), ABSENT))
    levels = [(b, before) for b, before in window.before.get(j, ()) if b <= use]
    ends = [b - 1 for b, _ in levels[1:]] + [use]
    for (b, before), end in zip(levels, ends, strict=False):
        if b - 1 >= end:
            continue
        there = before
        signs = {before: 1}
        if window.recompute[t] != window.rerun[j]:
            signs |= {window.recompute[t]: 1, window.rerun[j]: -1}
        if q is not None:
            signs[window.kept_early[q, b]] = -1
        if len(signs) > 1:
            there = window.add_column(f"rebuilt[{t},{b}]", integer=False)
            window.resident_rows.append(Row(f"rebuilt_before[{t},{b}]", signs | {there: -1}, 0))
        window.extra_residents.append(Resident(b - 1, end, size, there, (t,), j))


def _add_kept_until_rerun(window: WindowColumns, q: int, c: int, source: dict[int, int]) -> None:
    """Add q: kept for the rerun of its only possible reader c, it is there until then.

    During op b - 1, and as L ascends during the ops before it: ``s_q X`` with
    ``X >= K_q - M_qb``, less what `_add_rebuilt` counts already.
    """
    size = window.life.sizes_bytes[q]
    outputs = [t for t in window.life.outputs[c] if t in window.recompute]
    if len(outputs) == 1 and source.get(outputs[0]) == q:
        size -= min(size, window.life.sizes_bytes[outputs[0]])
    first = window.slots.first_need(window.life, q)
    for b, _ in window.before.get(c, ()) if size else ():
        stays = window.add_column(f"stays[{q},{b}]", integer=False)
        signs = {window.keep[q]: 1, window.kept_early[q, b]: -1, stays: -1}
        window.resident_rows.append(Row(f"stays_until[{q},{b}]", signs, 0))
        window.extra_residents.append(Resident(first, b, size, stays, (q,), ABSENT))
        first = b


def _add_waiting(window: WindowColumns, y: int) -> None:
    """Add y: rebuilt, without a backward use, it waits for the rerun of its only reader c.

    During op b - 1: ``s_y X`` with ``X >= L_jb - (L_cb - M_yb) (+ R_y - P_j)``.
    """
    j = window.life.producer[y]
    if len(window.slots.readers[y]) != 1:
        return
    (c,) = window.slots.readers[y]
    for b, before in window.before.get(j, ()):
        waits = window.add_column(f"waits[{y},{b}]", integer=False)
        signs = {before: 1, waits: -1}
        for column, sign in pull(window, y, c, b).items():
            signs[column] = signs.get(column, 0) - sign
        if window.recompute[y] != window.rerun[j]:
            signs[window.recompute[y]] = signs.get(window.recompute[y], 0) + 1
            signs[window.rerun[j]] = signs.get(window.rerun[j], 0) - 1
        window.resident_rows.append(Row(f"waits_for[{y},{b}]", signs, 0))
        size = window.life.sizes_bytes[y]
        window.extra_residents.append(Resident(b - 1, b, size, waits, (y,), j))
