"""Separation of rerun rows: which reruns of a point do not fit into memory while they run.

Each piece of each op is tried with an estimate from running sums, and the rows of those that may be
violated are built: as many as are wanted, so the sweep is linear in the pieces.
"""

from __future__ import annotations

from slackopt.formulations.columns import UNITS_PER_BYTE, WindowColumns
from slackopt.formulations.linear import Row
from slackopt.formulations.memory_separation import Sweeps
from slackopt.formulations.point_sums import Floats
from slackopt.formulations.rerun_instants import RerunInstant
from slackopt.formulations.rerun_memory_rows import RerunKey, rerun_row
from slackopt.lifetimes import ABSENT

MOST_MISSES = 12
"""Rows built in vain after which a search for bounds ends: the most promising come first."""


def violated_rerun_keys(
    window: WindowColumns,
    x: Floats,
    sweeps: Sweeps,
    tolerance_bytes: float,
    limit: int,
    most_misses: int = MOST_MISSES,
) -> list[tuple[float, RerunKey]]:
    """Return violation in bytes and row, one at most for each op and piece of its slots.

    `most_misses`: rows built in vain, one after the other, after which the search ends.
    """
    life, budget = window.life, window.instance.budget_bytes
    sizes = life.sizes_bytes
    estimates: list[tuple[float, int, int, int, float]] = []
    for j in window.rerun:
        asked = (
            life.output_bytes[j] + life.workspaces_bytes[j] + sum(sizes[t] for t in life.inputs[j])
        )
        for first, last, plus, minus in window.pieces_of(j):
            share = float(x[plus] - (0.0 if minus is None else x[minus]))
            if share <= 1e-6:
                continue
            less = life.output_bytes[last] + life.workspaces_bytes[last]
            most = sweeps.resident[last] + share * max(asked - less, 0) - budget
            most += max(0.0, float(sweeps.backlog[last]))
            most += max(0.0, sweeps.prefetched(last, first))
            if most > tolerance_bytes:
                estimates.append((most, j, first, last, share))
    found: list[tuple[float, RerunKey]] = []
    misses = 0
    for _, j, first, last, share in sorted(estimates, reverse=True):
        if len(found) == limit or misses == most_misses:
            break
        instant = RerunInstant(window, j, first, last)
        flipped = best_flips(instant, x, share)
        violation = 0.0
        if may_be_violated(instant, x, share, sweeps, tolerance_bytes):
            out_from, in_to = best_windows(window, sweeps, first, last)
            key = RerunKey(j, first, out_from, in_to, flipped)
            violation = violation_bytes(rerun_row(window, key), x)
            if violation > tolerance_bytes:
                found.append((violation, key))
        misses = 0 if violation > tolerance_bytes else misses + 1
    return found


def may_be_violated(
    instant: RerunInstant, x: Floats, share: float, sweeps: Sweeps, tolerance_bytes: float
) -> bool:
    """Whether a row can be violated by more than the tolerance, with the best windows at hand."""
    first, last = instant.first, instant.last
    over = instant.value(x, share) - instant.window.instance.budget_bytes
    over += max(0.0, float(sweeps.backlog[last])) + max(0.0, sweeps.prefetched(last, first))
    return over > tolerance_bytes


def best_windows(window: WindowColumns, sweeps: Sweeps, first: int, last: int) -> tuple[int, int]:
    """Return the windows that add the most bytes; `ABSENT` where they add none.

    No out windows of several slots where swaps are ordered: `slackopt.formulations.swap_order`.
    """
    leaves = sweeps.backlog[last] > 0 and (first == last or not window.ordered)
    out = min(sweeps.out_from[last], first) if leaves else ABSENT
    return out, sweeps.in_to[last] if sweeps.prefetched(last, first) > 0 else ABSENT


def best_flips(instant: RerunInstant, x: Floats, share: float) -> tuple[int, ...]:
    """Flip each tensor for which that adds bytes at the point; return them.

    Tensors whose swaps are ordered are left alone: `slackopt.formulations.swap_order`.
    """
    flips: list[int] = []
    for t in sorted({*instant.read_here, *instant.window.life.inputs[instant.op]}):
        if t in instant.window.ordered or not instant.can_flip(t):
            continue
        if instant.flip_gain(t, x, share) > 1e-6 * instant.window.life.sizes_bytes[t]:
            instant.flip(t)
            flips.append(t)
    return tuple(flips)


def violation_bytes(row: Row, x: Floats) -> float:
    """Bytes by which a point violates a row."""
    total = sum(float(a) * x[j] for j, a in row.coefficients.items())
    return float(total - row.upper) / UNITS_PER_BYTE
