"""The columns of the window formulation, and what every row is made from.

Columns (docs/formulations.md): ``swap[t]`` (W), ``recompute[t]`` (R), ``keep[q]`` (K; only for
tensors without a backward use: elsewhere ``K = 1 - W - R``), ``rerun[j]`` (P; the column of its
tensor where only one can be dropped), ``before[j,b]`` (L: op j is rerun in a slot before b),
``kept_early[q,b]`` (M: q is kept and its only reader is rerun before b) and ``stall[k]`` (e, in
ns). The objective is the time added to the ideal step,

    sum over j of d_j P_j  +  sum over k of e_k .

The modules of the rows read this and do not know each other's; `slackopt.formulations.window` puts
them together.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from slackopt.device import Device
from slackopt.formulations.linear import Column, Row
from slackopt.formulations.rerun_slots import RerunSlots
from slackopt.instance import Instance

Ops = npt.NDArray[np.int64]

UNITS_PER_BYTE = 10**9
"""Rows count bytes in units of 1e-9 byte, so that a bandwidth in bytes/s is units per ns."""


BYTE_KINDS = (
    *("memory", "memory_margin", "rerun_memory", "chain_memory"),
    *("host", "host_room", "shared_link"),
)


def counts_bytes(row: Row) -> bool:
    """Whether a row is in units of 1e-9 byte."""
    return row.name.partition("[")[0] in BYTE_KINDS


class Resident(NamedTuple):
    """Bytes on the device during the ops of a span, brought about by reruns.

    Attributes
    ----------
    first, last
        First op, and op after the last.
    size_bytes, column
        How many bytes, where the column is 1.
    tensors
        Whose bytes these are: one tensor, or one of two, now the one and then the other.
    rebuilt_by
        The op whose rerun makes the bytes, in slot `first` or before; `ABSENT` where they have
        been there since before every rerun.
    """

    first: int
    last: int
    size_bytes: int
    column: int
    tensors: tuple[int, ...]
    rebuilt_by: int


@dataclass(frozen=True)
class AwayTerm:
    """Bytes that are on the device or on the host during the ops of a span.

    Attributes
    ----------
    tensor
        The swapped tensor.
    first, last
        First op, and op after the last.
    size_bytes
        How many bytes.
    signs
        Column -> sign: they add up to 1 for a plan for which the bytes are there, else to 0 (or,
        where that is no loss, below).
    """

    tensor: int
    first: int
    last: int
    size_bytes: int
    signs: dict[int, int]


class WindowColumns:
    """Columns of one instance.

    Parameters
    ----------
    instance
        The instance; its tensors keep their indices.
    thresholds
        Slots at which early reruns are told apart; any choice gives valid rows.

    Attributes
    ----------
    columns
        All columns. Columns of decisions that the instance does not allow do not exist.
    swap, recompute, keep
        Tensor -> column.
    rerun
        Op -> column.
    before
        Op -> ascending ``(slot b, column)``; empty for an op that is never rerun early.
    kept_early
        (Tensor q, slot b) -> column; see `slackopt.formulations.early_reruns`.
    extra_residents
        Residency from reruns.
    resident_rows
        The rows that define the columns of `extra_residents`.
    swapped_early
        (Tensor q, slot b) -> column; see `slackopt.formulations.swapped_sources`.
    source_rows
        The rows that define the columns of `swapped_early`.
    away
        Where the bytes of swapped tensors are in one of the memories; empty unless the host memory
        is limited.
    stall
        Op -> column, for every op. These columns and those of residents come last, for
        `slackopt.formulations.window.WindowFormulation` to add; as are those of `swapped_early`.
    ordered
        Tensors whose swaps `slackopt.formulations.swap_order` orders: rows that would tell them
        apart are not separated.
    starts_ns
        When each op starts in the ideal step; at the end, its duration.
    fixed_bytes
        Per op: bytes on the device during it in every plan.
    """

    def __init__(self, instance: Instance, thresholds: Sequence[int] | None = None) -> None:
        self.instance = instance
        self.life = life = instance.lifetimes
        decidable = [*life.candidates, *life.closure]
        droppable = [t for t in decidable if life.can_recompute(t)]
        self.slots = RerunSlots.from_lifetimes(life, frozenset(droppable))
        self.columns: list[Column] = []
        self.swap = {t: self.add_column(f"swap[{t}]") for t in decidable if life.swappable[t]}
        self.recompute = {t: self.add_column(f"recompute[{t}]") for t in droppable}
        self.keep = {q: self.add_column(f"keep[{q}]") for q in life.closure}
        self.rerun = self._add_reruns(droppable)
        self.thresholds = tuple(default_thresholds(instance) if thresholds is None else thresholds)
        self.before = {
            j: [
                (b, self.add_column(f"before[{j},{b}]", integer=False))
                for b in self._thresholds_of(j)
            ]
            for j in self.rerun
            if self.slots.pulled_by[j]
        }
        self.kept_early = self._add_kept_early()
        self.extra_residents: list[Resident] = []
        self.resident_rows: list[Row] = []
        self.swapped_early: dict[tuple[int, int], int] = {}
        self.source_rows: list[Row] = []
        self.away: list[AwayTerm] = []
        self.stall: dict[int, int] = {}
        self.ordered: frozenset[int] = frozenset()
        self.starts_ns = [0, *accumulate(life.durations_ns)]
        self.fixed_bytes = life.working_set_bytes

    def _add_reruns(self, droppable: Sequence[int]) -> dict[int, int]:
        """Add a column per op that may run again; its only droppable output shares the column."""
        outputs: dict[int, list[int]] = {}
        for t in droppable:
            outputs.setdefault(self.life.producer[t], []).append(t)
        rerun: dict[int, int] = {}
        for j, tensors in sorted(outputs.items()):
            duration = self.life.durations_ns[j]
            if len(tensors) == 1:
                rerun[j] = column = self.recompute[tensors[0]]
                self.columns[column] = replace(self.columns[column], objective=duration)
            else:
                rerun[j] = self.add_column(f"rerun[{j}]", duration)
        return rerun

    def _add_kept_early(self) -> dict[tuple[int, int], int]:
        """Add a column ``M_qb`` = [op c is rerun before slot b, from a kept q].

        For each tensor q without a backward use that a single op c may read again.
        """
        return {
            (q, b): self.add_column(f"kept_early[{q},{b}]", integer=False)
            for q in self.keep
            if len(self.slots.readers[q]) == 1
            for b, _ in self.before.get(self.slots.readers[q][0], ())
        }

    def _thresholds_of(self, j: int) -> list[int]:
        earliest, own = self.slots.earliest[j], self.slots.own[j]
        return [*sorted(b for b in set(self.thresholds) if earliest < b < own), own]

    def before_at_most(self, j: int, slot: int) -> int | None:
        """Column that is at least [op j is rerun before `slot`]; None where that can't be."""
        if slot <= self.slots.earliest[j]:
            return None
        return next((column for b, column in self.before.get(j, ()) if b >= slot), self.rerun[j])

    def before_at_least(self, j: int, slot: int) -> int | None:
        """Column that is at most [op j is rerun before `slot`]; None where that may be 0."""
        if slot > self.slots.latest[j]:
            return self.rerun[j]
        return max(
            ((b, column) for b, column in self.before.get(j, ()) if b <= slot), default=(0, None)
        )[1]

    def add_column(
        self, name: str, objective: int = 0, *, upper: int | None = 1, integer: bool = True
    ) -> int:
        """Append a column and return its index."""
        self.columns.append(Column(name, objective, upper, integer))
        return len(self.columns) - 1

    def add_stalls(self) -> None:
        """Add the stall columns."""
        for k in range(self.life.num_ops):
            self.stall[k] = self.add_column(f"stall[{k}]", 1, upper=None, integer=False)

    @cached_property
    def bandwidths(self) -> tuple[int, int]:
        """Bandwidths out and in, bytes/s, as upper bounds of what a sequence of copies can reach.

        A copy of ``s`` bytes takes the latency and ``s / b``. So however many copies run, the
        bytes of a window are at most its length times ``b * s / (s + latency * b)`` for the
        largest ``s``; the part of a copy that has been done is no better. Shared bandwidths are
        lower: `slackopt.formulations.shared_link_rows` has rows of their own for them.
        """
        device = self.instance.device
        largest = max((self.life.sizes_bytes[t] for t in self.swap), default=1)
        return (
            _with_latency(device, device.d2h_bytes_per_s, largest),
            _with_latency(device, device.h2d_bytes_per_s, largest),
        )

    def ready(self, t: int) -> int:
        """Slot at whose beginning tensor `t` can start to leave."""
        return self.life.producer[t] + 1

    def spend(self, coefficients: dict[int, int], windows: Sequence[tuple[int, int, int]]) -> None:
        """Subtract, for each window ``(first slot, last slot, rate)``, rate x its added time.

        Stalls of the slots count; so do reruns that may fall into one of the slots. A rerun is in
        one slot, so where both windows could hold it the higher rate counts, once.
        """
        for first, last, rate in windows:
            for k in range(first, last + 1):
                coefficients[self.stall[k]] = coefficients.get(self.stall[k], 0) - rate
        earliest, latest = self._piece_slots
        met = np.zeros(len(earliest), dtype=bool)
        for first, last, _ in windows:
            met |= (earliest <= last) & (latest >= first)
        for i in np.nonzero(met)[0]:
            first_slot, last_slot, duration, plus, minus = self.rerun_pieces[i]
            time = _rate(windows, first_slot, last_slot) * duration
            coefficients[plus] = coefficients.get(plus, 0) - time
            if minus is not None:
                coefficients[minus] = coefficients.get(minus, 0) + time

    @cached_property
    def rerun_pieces(self) -> list[tuple[int, int, int, int, int | None]]:
        """Where rerun time can be: ``(first slot, last slot, ns, plus, minus)``.

        A rerun falls into the slots of the piece for which column `plus` minus column `minus`
        (both cumulative, ``L_jb``) is 1.
        """
        return [
            (first, last, self.life.durations_ns[j], plus, minus)
            for j in self.rerun
            for first, last, plus, minus in self.pieces_of(j)
        ]

    @cached_property
    def _piece_slots(self) -> tuple[Ops, ...]:
        """First and last slot of each of `rerun_pieces`."""
        return _columns(((first, last) for first, last, *_ in self.rerun_pieces), 2)

    def pieces_of(self, j: int) -> Iterator[tuple[int, int, int, int | None]]:
        """Yield ``(first slot, last slot, plus, minus)``: the pieces of the slots of op `j`."""
        first, minus = self.slots.earliest[j], None
        for b, column in self.before.get(j, ()):
            yield first, b - 1, column, minus
            first, minus = b, column
        yield first, self.slots.latest[j], self.rerun[j], minus

    def residents(self, k: int) -> list[Resident]:
        """Return what is on the device during op `k` because of reruns."""
        first, last = self._resident_ops
        return [self.extra_residents[i] for i in np.nonzero((first <= k) & (k < last))[0]]

    @cached_property
    def _resident_ops(self) -> tuple[Ops, ...]:
        """First op, and op after the last, of each of `extra_residents`."""
        return _columns(((first, last) for first, last, *_ in self.extra_residents), 2)

    def first_read_in(self, k: int) -> list[int]:
        """Candidates that a decision may evict and whose first backward use is op `k`."""
        return self._first_read.get(k, [])

    @cached_property
    def _first_read(self) -> dict[int, list[int]]:
        found: dict[int, list[int]] = {}
        for t in self.life.candidates:
            if t in self.swap or t in self.recompute:
                found.setdefault(self.life.first_backward_use[t], []).append(t)
        return found

    def idle_in(self, k: int) -> list[int]:
        """Candidates that a decision may keep off the device during op `k`."""
        tensors, last_forward, use = self._evictable
        return [int(t) for t in tensors[(last_forward < k) & (k < use)]]

    @cached_property
    def _evictable(self) -> tuple[Ops, ...]:
        """Candidates that a decision may keep off the device, with the ops between which."""
        life = self.life
        spans = (
            (t, life.last_forward_use[t], life.first_backward_use[t])
            for t in life.candidates
            if t in self.swap or t in self.recompute
        )
        return _columns(spans, 3)

    def leaving(self, first_slot: int, op: int) -> list[int]:
        """Swappable tensors that can start to leave in `first_slot` or later, idle before `op`."""
        tensors, ready, last_forward, _ = self._swappable
        return [int(t) for t in tensors[(ready >= first_slot) & (last_forward < op)]]

    def returning(self, op: int, last_op: int) -> list[int]:
        """Swappable tensors whose first backward use is after `op`, and `last_op` or before."""
        tensors, _, _, use = self._swappable
        return [int(t) for t in tensors[(op < use) & (use <= last_op)]]

    @cached_property
    def _swappable(self) -> tuple[Ops, ...]:
        """Swappable tensors: where they can start to leave, their last forward and first use."""
        life = self.life
        spans = (
            (t, self.ready(t), life.last_forward_use[t], life.first_backward_use[t])
            for t in self.swap
        )
        return _columns(spans, 4)


def default_thresholds(instance: Instance, count: int = 1) -> list[int]:
    """Slots at which the formulation tells early reruns apart.

    The slot after the op at the peak, where memory binds first, and others spread evenly over the
    backward ops at which the budget is exceeded when everything is kept.
    """
    live = instance.lifetimes.live_bytes
    over = [
        k
        for k in range(instance.lifetimes.num_forward, len(live))
        if live[k] > instance.budget_bytes
    ]
    if not over:
        return []
    peak = max(over, key=lambda k: (live[k], -k))
    return sorted({peak + 1, *(over[len(over) * i // count] + 1 for i in range(count))})


def _columns(rows: Iterable[tuple[int, ...]], width: int) -> tuple[Ops, ...]:
    """Return the columns of rows of op indices as arrays."""
    table = np.array(list(rows), dtype=np.int64).reshape(-1, width)
    return tuple(table.T.copy())


def _rate(windows: Sequence[tuple[int, int, int]], earliest: int, latest: int) -> int:
    """Return the largest rate of the windows that a slot range meets; 0 if none."""
    return max((r for a, b, r in windows if earliest <= b and latest >= a), default=0)


def _with_latency(device: Device, bytes_per_s: int, largest_bytes: int) -> int:
    """Return ``b s / (s + latency b)``, rounded up."""
    latency_bytes = device.latency_ns * bytes_per_s  # in units of 1e-9 byte
    size = largest_bytes * UNITS_PER_BYTE
    return -(-bytes_per_s * size // (size + latency_bytes))
