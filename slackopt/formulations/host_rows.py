r"""Rows of the host memory: what is neither on the device nor rebuilt is on the host.

Row ``host[k]``, for a device with host memory ``C``, in op ``k``:

    M(k) + sum_{t idle in k, or in the closure and not yet needed again} s_t W_t   <=   B + C ,

with ``M(k)`` of `slackopt.formulations.memory_rows`: a swapped tensor is whole on the device or
whole in host memory (or in both). Row ``too_large_for_host[t]``: ``W_t <= 0`` where ``s_t > C``.

Row ``host_room[k]`` makes plans safe and cuts off others: no swap-out waits for host memory if all
tensors that are made before op ``k`` and needed by it or later fit in the host together. It never
goes into a bound.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from slackopt.formulations.columns import UNITS_PER_BYTE, WindowColumns
from slackopt.formulations.linear import Row
from slackopt.formulations.memory_rows import not_swapped
from slackopt.formulations.point_sums import Floats, resident_bytes
from slackopt.lifetimes import ABSENT

KIND = "host"
ROOM_KIND = "host_room"


@dataclass(frozen=True)
class HostKey:
    """Which row of the host memory: its op."""

    op: int

    @property
    def name(self) -> str:
        """Name of the row; `read_host_key` reads it back."""
        return f"{KIND}[{self.op}]"


def read_host_key(window: WindowColumns, parts: list[str]) -> HostKey:
    """Read the arguments of a row's name; ValueError where there is no such row."""
    (op,) = parts
    key = HostKey(int(op))
    limited = window.instance.device.host_memory_bytes is not None
    if not (limited and 0 <= key.op < window.life.num_ops):
        raise ValueError(key.name)
    return key


def too_large_for_host(window: WindowColumns) -> Iterator[Row]:
    """``W_t <= 0`` for each tensor that the host memory can't hold."""
    host = window.instance.device.host_memory_bytes
    for t, column in window.swap.items():
        if host is not None and window.life.sizes_bytes[t] > host:
            yield Row(f"too_large_for_host[{t}]", {column: 1}, 0)


def host_row(window: WindowColumns, key: HostKey) -> Row:
    """Build one row of the host memory."""
    host = window.instance.device.host_memory_bytes
    if host is None:
        raise ValueError(f"{key.name}: the host memory has no limit")
    constant, coefficients = not_swapped(window, key.op)
    for term in window.away:
        if term.first <= key.op < term.last:
            for column, sign in term.signs.items():
                coefficients[column] = coefficients.get(column, 0) + sign * term.size_bytes
    upper = window.instance.budget_bytes + host - constant
    return Row(
        key.name,
        {j: a * UNITS_PER_BYTE for j, a in coefficients.items() if a},
        upper * UNITS_PER_BYTE,
    )


def host_violations(window: WindowColumns, x: Floats) -> Floats:
    """Bytes by which a point violates the row of each op; `-inf` without a limit."""
    host = window.instance.device.host_memory_bytes
    if host is None:
        return np.full(window.life.num_ops, -np.inf)
    change = np.zeros(window.life.num_ops + 1)
    for term in window.away:
        size = term.size_bytes * sum(sign * x[column] for column, sign in term.signs.items())
        change[term.first] += size
        change[term.last] -= size
    total = resident_bytes(window, x) + np.cumsum(change[:-1])
    violation: Floats = total - float(window.instance.budget_bytes + host)
    return violation


def violated_host_keys(
    window: WindowColumns, x: Floats, tolerance_bytes: float
) -> list[tuple[float, HostKey]]:
    """Return violation in bytes and row, where the violation is largest among neighbours."""
    violation = host_violations(window, x)
    around = np.concatenate([[-np.inf], violation, [-np.inf]])
    peaks = (violation > around[:-2]) & (violation >= around[2:]) & (violation > tolerance_bytes)
    return [(float(violation[k]), HostKey(int(k))) for k in np.nonzero(peaks)[0]]


def _last_need(window: WindowColumns, t: int) -> int:
    """Return the last slot in which a swapped tensor can be needed first."""
    use = window.life.first_backward_use[t]
    if use != ABSENT:
        return use
    return max((window.slots.latest[c] for c in window.slots.readers[t]), default=window.ready(t))


def most_violated_host_room(window: WindowColumns, x: Floats) -> Row | None:
    """Return the room row that a point violates most; None if it violates none.

    ``sum of s_t W_t <= C`` over the tensors ready by slot k and not needed before it.
    """
    host, life = window.instance.device.host_memory_bytes, window.life
    if host is None:
        return None
    change, widest = np.zeros(life.num_ops + 2), np.zeros(life.num_ops + 2)
    spans = {t: (window.ready(t), _last_need(window, t)) for t in window.swap}
    for t, (ready, end) in spans.items():
        size = life.sizes_bytes[t] * x[window.swap[t]]
        change[ready] += size
        change[end + 1] -= size
        widest[ready] += life.sizes_bytes[t]
        widest[end + 1] -= life.sizes_bytes[t]
    level = np.cumsum(change[: life.num_ops])
    if level.max() <= host * (1 + 1e-9):
        return None
    # Of the slots with the most bytes, the one at which most other swaps would stand as well.
    most = level >= level.max() - 1e-9 * host
    k = int(np.argmax(np.where(most, np.cumsum(widest[: life.num_ops]), -1.0)))
    terms = {
        window.swap[t]: life.sizes_bytes[t] * UNITS_PER_BYTE
        for t, (ready, end) in spans.items()
        if ready <= k <= end
    }
    return Row(f"{ROOM_KIND}[{k}]", terms, host * UNITS_PER_BYTE)
