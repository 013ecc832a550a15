r"""The transfer-slack window formulation: a bound for every plan from rows over decisions.

Notation (docs/formulations.md has the proofs). In slot ``k``, in this order: stalls ``e_k`` and
reruns, in any order, then base op ``k`` for ``d_k``. ``A_k`` is when op ``k-1`` has ended, ``S_k``
when base op ``k`` starts. Columns: ``swap[t]`` (W), ``recompute[t]`` (R), ``keep[q]`` (K; only for
tensors without a backward use: elsewhere ``K = 1 - W - R``), ``rerun[j]`` (P; the column of its
tensor where only one can be dropped), ``before[j,b]`` (L: op j is rerun in a slot before b), and
``stall[k]`` (e, in ns). The objective is the time added to the ideal step,

    sum over j of d_j P_j  +  sum over k of e_k .

Row ``memory k end h h'``: at an instant ``tau`` in op ``k`` (its start ``S_k`` or its end
``A_{k+1}``), with bandwidths ``b_out``, ``b_in`` and budget ``B``,

    fixed(k) + sum_{t idle in k} s_t (1 - W_t - R_t) + residents(k)
      + [ sum_{t: ready_t >= h, l_t < k} s_t W_t  -  b_out (tau - A_h) ]
      + [ sum_{t: k < u_t <= h'} s_t W_t  -  b_in (S_h' - tau) ]            <=  B ,

where residents(k) are tensors kept for reruns, or rebuilt by early ones
(`slackopt.formulations.residents`). Either bracket may be left out. Bytes ready at or after
``A_h`` have left by ``tau`` at most at ``b_out``; bytes needed by ``S_h'`` come in after ``tau``
at most at ``b_in``.

All rows are exact integers: bytes count in units of 1e-9 byte, so that a bandwidth in bytes/s is
units per ns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate

from slackopt.device import Device
from slackopt.formulations.linear import Column, Row
from slackopt.formulations.rerun_slots import RerunSlots
from slackopt.formulations.residents import add_residents
from slackopt.formulations.static_rows import static_rows
from slackopt.instance import Instance
from slackopt.lifetimes import ABSENT

UNITS_PER_BYTE = 10**9


@dataclass(frozen=True)
class MemoryKey:
    """Which memory row: op, end of the op, out window from `out_from`, in window to `in_to`.

    `ABSENT` windows are left out.
    """

    op: int
    at_end: bool
    out_from: int = ABSENT
    in_to: int = ABSENT

    @property
    def name(self) -> str:
        """Name of the row; `WindowFormulation.row` reads it back."""
        end = "end" if self.at_end else "start"
        return f"memory[{self.op},{end},{_text(self.out_from)},{_text(self.in_to)}]"


def _text(index: int) -> str:
    return "none" if index == ABSENT else str(index)


def _index(text: str) -> int:
    return ABSENT if text == "none" else int(text)


class WindowFormulation:
    """Columns and rows of one instance.

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
        ``(first op, op after the last, bytes, column)``: residency from reruns.
    resident_rows
        The rows that define the columns of `extra_residents`.
    stall
        Op -> column, for every op.
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
        self.extra_residents: list[tuple[int, int, int, int]] = []
        self.resident_rows: list[Row] = []
        add_residents(self)
        self.stall = {
            k: self.add_column(f"stall[{k}]", 1, upper=None, integer=False)
            for k in range(life.num_ops)
        }
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

    @cached_property
    def bandwidths(self) -> tuple[int, int]:
        """Bandwidths out and in, bytes/s, as upper bounds of what a sequence of copies can reach.

        A copy of ``s`` bytes takes the latency and ``s / b``. So however many copies run, the
        bytes of a window are at most its length times ``b * s / (s + latency * b)`` for the
        largest ``s``; the part of a copy that has been done is no better. Shared bandwidths are
        lower: leaving them out is a relaxation.
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

    def static_rows(self) -> list[Row]:
        """All rows but the memory rows; they are few and always present."""
        return static_rows(self)

    # Memory rows.

    def memory_row(self, key: MemoryKey) -> Row:
        """Build one memory row; see the module docstring for the inequality."""
        life, k = self.life, key.op
        out_rate, in_rate = self.bandwidths
        coefficients: dict[int, int] = {}

        def add(column: int, size: int) -> None:
            coefficients[column] = coefficients.get(column, 0) + size * UNITS_PER_BYTE

        used = self.fixed_bytes[k]
        for t in self.idle_in(k):
            size = life.sizes_bytes[t]
            used += size
            for decision in (self.swap, self.recompute):
                if t in decision:
                    add(decision[t], -size)
        for size, column in self._rebuilt_and_kept(k):
            add(column, size)
        upper = (self.instance.budget_bytes - used) * UNITS_PER_BYTE
        tau_ns = self.starts_ns[k + 1 if key.at_end else k]
        windows: list[tuple[int, int, int]] = []
        if key.out_from != ABSENT:
            for t, column in self.swap.items():
                if self.ready(t) >= key.out_from and life.last_forward_use[t] < k:
                    add(column, life.sizes_bytes[t])
            upper += out_rate * (tau_ns - self.starts_ns[key.out_from])
            windows.append((key.out_from, k, out_rate))
        if key.in_to != ABSENT:
            for t, column in self.swap.items():
                if k < life.first_backward_use[t] <= key.in_to:
                    add(column, life.sizes_bytes[t])
            upper += in_rate * (self.starts_ns[key.in_to] - tau_ns)
            windows.append((k + 1, key.in_to, in_rate))
        self.spend(coefficients, windows)
        return Row(key.name, {j: a for j, a in coefficients.items() if a}, upper)

    def spend(self, coefficients: dict[int, int], windows: Sequence[tuple[int, int, int]]) -> None:
        """Subtract, for each window ``(first slot, last slot, rate)``, rate x its added time.

        Stalls of the slots count; so do reruns that may fall into one of the slots. A rerun is in
        one slot, so where both windows could hold it the higher rate counts, once.
        """
        for first, last, rate in windows:
            for k in range(first, last + 1):
                coefficients[self.stall[k]] = coefficients.get(self.stall[k], 0) - rate
        for first_slot, last_slot, duration, plus, minus in self.rerun_pieces:
            rate = _rate(windows, first_slot, last_slot)
            if rate:
                coefficients[plus] = coefficients.get(plus, 0) - rate * duration
                if minus is not None:
                    coefficients[minus] = coefficients.get(minus, 0) + rate * duration

    @cached_property
    def rerun_pieces(self) -> list[tuple[int, int, int, int, int | None]]:
        """Where rerun time can be: ``(first slot, last slot, ns, plus, minus)``.

        A rerun falls into the slots of the piece for which column `plus` minus column `minus`
        (both cumulative, ``L_jb``) is 1.
        """
        pieces: list[tuple[int, int, int, int, int | None]] = []
        for j, rerun in self.rerun.items():
            first, minus = self.slots.earliest[j], None
            for b, column in self.before.get(j, ()):
                pieces.append((first, b - 1, self.life.durations_ns[j], column, minus))
                first, minus = b, column
            pieces.append((first, self.slots.latest[j], self.life.durations_ns[j], rerun, minus))
        return pieces

    def _rebuilt_and_kept(self, k: int) -> list[tuple[int, int]]:
        """Bytes and columns on the device during op `k` that come from reruns."""
        return [
            (size, column)
            for first, last, size, column in self.extra_residents
            if first <= k < last
        ]

    def idle_in(self, k: int) -> list[int]:
        """Candidates that a decision may keep off the device during op `k`."""
        return self._idle[k]

    @cached_property
    def _idle(self) -> list[list[int]]:
        idle: list[list[int]] = [[] for _ in range(self.life.num_ops)]
        for t in self.life.candidates:
            if t in self.swap or t in self.recompute:
                first, use = self.life.last_forward_use[t] + 1, self.life.first_backward_use[t]
                for k in range(first, use):
                    idle[k].append(t)
        return idle

    def row(self, name: str) -> Row:
        """Build a row from its name: what a bound certificate refers to.

        Raises
        ------
        KeyError, ValueError
            If there is no such row.
        """
        kind, _, arguments = name.rstrip("]").partition("[")
        parts = arguments.split(",")
        if kind == "memory":
            op, end, out_from, in_to = parts
            if end not in ("start", "end"):
                raise ValueError(name)
            key = MemoryKey(int(op), end == "end", _index(out_from), _index(in_to))
            self._check_key(key)
            return self.memory_row(key)
        return self._static_by_name[name]

    def _check_key(self, key: MemoryKey) -> None:
        last = self.life.num_ops - 1
        out_ok = key.out_from == ABSENT or 0 <= key.out_from <= key.op
        in_ok = key.in_to == ABSENT or key.op < key.in_to <= last
        if not (0 <= key.op <= last and out_ok and in_ok):
            raise ValueError(key.name)

    @cached_property
    def _static_by_name(self) -> dict[str, Row]:
        return {row.name: row for row in static_rows(self)}


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


def _rate(windows: Sequence[tuple[int, int, int]], earliest: int, latest: int) -> int:
    """Return the largest rate of the windows that a slot range meets; 0 if none."""
    return max((r for a, b, r in windows if earliest <= b and latest >= a), default=0)


def _with_latency(device: Device, bytes_per_s: int, largest_bytes: int) -> int:
    """Return ``b s / (s + latency b)``, rounded up."""
    latency_bytes = device.latency_ns * bytes_per_s  # in units of 1e-9 byte
    size = largest_bytes * UNITS_PER_BYTE
    return -(-bytes_per_s * size // (size + latency_bytes))
