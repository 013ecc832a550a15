"""Separation: find the rows that a point violates.

Each kind has its own module (docs/formulations.md, "Separation"). Floats are fine here: a row is
rebuilt exactly from its key.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from slackopt.formulations.chain_memory_rows import ChainKey, chain_row
from slackopt.formulations.chain_separation import violated_chain_keys
from slackopt.formulations.columns import WindowColumns
from slackopt.formulations.host_rows import HostKey, violated_host_keys
from slackopt.formulations.linear import Row
from slackopt.formulations.memory_rows import MemoryKey
from slackopt.formulations.memory_separation import memory_violations
from slackopt.formulations.point_sums import Floats
from slackopt.formulations.rerun_memory_rows import RerunKey, piece, rerun_row
from slackopt.formulations.rerun_separation import violated_rerun_keys
from slackopt.formulations.shared_link_rows import SharedLinkKey
from slackopt.formulations.shared_link_separation import violated_shared_link_keys

RERUN_OPS = 40_000
"""Rerun and chain rows of one round, times the ops of the instance, at most."""

LazyKey = MemoryKey | RerunKey | ChainKey | HostKey | SharedLinkKey


def most_violated_keys(
    window: WindowColumns, x: Sequence[float] | Floats, tolerance_bytes: float, limit: int
) -> list[tuple[float, LazyKey]]:
    """Return violated rows, the most violated first; at most one per window, or pair of windows.

    Rerun and chain rows only where the point satisfies all others.

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

    found, keys, sweeps = memory_violations(window, point)
    for violation, memory in zip(found, keys, strict=True):
        if violation > tolerance_bytes:
            offer(violation, memory, (memory.out_from, memory.in_to))
    for violation, host in violated_host_keys(window, point, tolerance_bytes):
        offer(violation, host, ("host", host.op))
    for violation, link in violated_shared_link_keys(window, point, tolerance_bytes):
        offer(violation, link, (link.outwards, link.limit, link.other))
    if not best:
        # Each of these is built to learn its violation, in time linear in the ops: so they come
        # last, and on large instances in smaller numbers.
        few = min(limit, max(RERUN_OPS // window.life.num_ops, 4))
        for violation, rerun in violated_rerun_keys(window, point, sweeps, tolerance_bytes, few):
            offer(violation, rerun, ("rerun", rerun.op, rerun.first))
        for violation, chain in violated_chain_keys(window, point, sweeps, tolerance_bytes, few):
            offer(violation, chain, ("chain", chain.op, chain.rerun))
    return sorted(best.values(), key=lambda entry: -entry[0])[:limit]


def violations(window: WindowColumns, x: Floats) -> tuple[list[float], list[MemoryKey]]:
    """For each op and each of its two ends, return the largest violation and its memory row."""
    found, keys, _ = memory_violations(window, x)
    return found, keys


def violated_rerun_rows(
    window: WindowColumns, x: Sequence[float] | Floats, slot: int | None = None, limit: int = 20
) -> list[Row]:
    """Return rows that a point violates because memory is short while ops are rerun.

    Parameters
    ----------
    window
        The formulation.
    x
        A point: one value per column; the columns of early reruns and of residency must satisfy
        the static rows (a model's point does).
    slot
        Only rows of this slot; None for all.
    limit
        Return at most this many, the most violated first.
    """
    point = np.asarray(x, dtype=float)
    _, _, sweeps = memory_violations(window, point)
    tolerance = 1e-6 * window.instance.budget_bytes
    most = 10 * limit
    chains = violated_chain_keys(window, point, sweeps, tolerance, limit, slot, most)
    found: list[tuple[float, Row]] = [(over, chain_row(window, key)) for over, key in chains]
    for over, key in violated_rerun_keys(window, point, sweeps, tolerance, most, most):
        if slot is None or key.first <= slot <= piece(window, key.op, key.first)[0]:
            found.append((over, rerun_row(window, key)))
    return [row for _, row in sorted(found, key=lambda entry: -entry[0])[:limit]]
