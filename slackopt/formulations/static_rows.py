"""The rows that are always present: choices, reruns and their slots, round trips.

Each function states its inequality; docs/formulations.md proves them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator

from slackopt.clock import check_time
from slackopt.formulations.columns import WindowColumns
from slackopt.formulations.early_reruns import early_rows, kept_early_rows
from slackopt.formulations.host_rows import too_large_for_host
from slackopt.formulations.linear import Row
from slackopt.lifetimes import ABSENT


def static_rows(window: WindowColumns) -> list[Row]:
    """All rows that are always present."""
    rows = [_choice_row(window, t) for t in [*window.life.candidates, *window.life.closure]]
    rows += [row for t in window.recompute for row in _recompute_rows(window, t)]
    rows += [row for j in window.rerun for row in _input_rows(window, j)]
    rows += [row for j in window.before for row in early_rows(window, j)]
    rows += [_kept_for_row(window, q) for q in window.keep]
    rows += [row for q, b in window.kept_early for row in kept_early_rows(window, q, b)]
    rows += window.resident_rows
    rows += window.source_rows
    rows += [_round_trip_row(window, t) for t in _short_gaps(window)]
    rows += [
        row for t, k in _crowded_out(window).items() for row in _crowded_out_rows(window, t, k)
    ]
    rows += too_large_for_host(window)
    return [row for row in rows if row.coefficients]


def _choice_row(window: WindowColumns, t: int) -> Row:
    """``W_t + R_t (+ K_t) <= 1``."""
    columns = [d[t] for d in (window.swap, window.recompute, window.keep) if t in d]
    return Row(f"choice[{t}]", dict.fromkeys(columns, 1), 1)


def _recompute_rows(window: WindowColumns, t: int) -> Iterator[Row]:
    """``R_t <= P_j`` for the producer j."""
    column, rerun = window.recompute[t], window.rerun[window.life.producer[t]]
    if column != rerun:
        yield Row(f"rerun_of[{t}]", {column: 1, rerun: -1}, 0)


def _input_rows(window: WindowColumns, j: int) -> Iterator[Row]:
    """``P_j <= K_q + W_q + R_q`` for the inputs q without a backward use; elsewhere it is 1."""
    for q in window.life.inputs[j]:
        if q in window.keep:
            sources = [d[q] for d in (window.keep, window.swap, window.recompute) if q in d]
            yield Row(f"input[{j},{q}]", {window.rerun[j]: 1} | dict.fromkeys(sources, -1), 0)


def _kept_for_row(window: WindowColumns, q: int) -> Row:
    """``K_q <= sum of P_c`` over its readers: without a rerun there is nothing to keep."""
    readers = {window.rerun[c] for c in window.slots.readers[q]}
    return Row(f"kept_for[{q}]", {window.keep[q]: 1} | dict.fromkeys(readers, -1), 0)


def _short_gaps(window: WindowColumns) -> Iterator[int]:
    """Swappable candidates whose idle time may be too short for the way out and back."""
    device, sizes = window.instance.device, window.life.sizes_bytes
    for t in window.swap:
        use = window.life.first_backward_use[t]
        if use == ABSENT:
            continue
        gap = window.starts_ns[use] - window.starts_ns[window.ready(t)]
        if gap < device.swap_out_ns(sizes[t]) + device.swap_in_ns(sizes[t]):
            yield t


def _round_trip_row(window: WindowColumns, t: int) -> Row:
    """Out and back takes its time: ``W_t (out + in) <= S_u - A_ready``."""
    check_time()
    device, size = window.instance.device, window.life.sizes_bytes[t]
    use, ready = window.life.first_backward_use[t], window.ready(t)
    coefficients = {window.swap[t]: device.swap_out_ns(size) + device.swap_in_ns(size)}
    window.spend(coefficients, [(ready, use, 1)])
    return Row(f"round_trip[{t}]", coefficients, window.starts_ns[use] - window.starts_ns[ready])


def _crowded_out(window: WindowColumns) -> dict[int, int]:
    """Candidates that can't be on the device during some op of their idle time: the last one."""
    budget, life, fixed = window.instance.budget_bytes, window.life, window.fixed_bytes
    ending: dict[int, list[int]] = {}
    for t in life.candidates:
        if t in window.swap or t in window.recompute:
            ending.setdefault(life.first_backward_use[t], []).append(t)
    # Ops before `use` that no later one exceeds: bytes descend, so the last op that leaves less
    # than a tensor's size is found by bisection. Each op enters and leaves once: n log n in all.
    ops: list[int] = []
    room: list[int] = []  # budget - fixed, ascending
    found: dict[int, int] = {}
    done = 0
    for use in sorted(ending):
        for k in range(done, use):
            left = budget - fixed[k]
            while room and room[-1] >= left:
                room.pop()
                ops.pop()
            room.append(left)
            ops.append(k)
        done = use
        for t in ending[use]:
            crowded = bisect_left(room, life.sizes_bytes[t])
            if crowded and ops[crowded - 1] > life.last_forward_use[t]:
                found[t] = ops[crowded - 1]
    return {t: found[t] for t in life.candidates if t in found}


def _crowded_out_rows(window: WindowColumns, t: int, k: int) -> Iterator[Row]:
    """``W_t + R_t >= 1``; and it can come back only after op k: ``W_t in <= S_u - A_{k+1}``."""
    check_time()
    columns = [d[t] for d in (window.swap, window.recompute) if t in d]
    yield Row(f"crowded_out[{t}]", dict.fromkeys(columns, -1), -1)
    if t in window.swap:
        use = window.life.first_backward_use[t]
        coefficients = {
            window.swap[t]: window.instance.device.swap_in_ns(window.life.sizes_bytes[t])
        }
        window.spend(coefficients, [(k + 1, use, 1)])
        slack = window.starts_ns[use] - window.starts_ns[k + 1]
        yield Row(f"back_after_crowd[{t}]", coefficients, slack)
