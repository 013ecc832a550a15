r"""The transfer-slack window formulation: a bound for every plan from rows over decisions.

Notation (docs/formulations.md has the proofs). In slot ``k``, in this order: stalls ``e_k`` and
reruns, in any order, then base op ``k`` for ``d_k``. ``A_k`` is when op ``k-1`` has ended, ``S_k``
when base op ``k`` starts. Columns: ``swap[t]`` (W), ``recompute[t]`` (R), ``keep[q]`` (K; only for
tensors without a backward use: elsewhere ``K = 1 - W - R``), ``rerun[j]`` (P), ``early[j]``,
``stall[k]`` (e, in ns). The objective is the time added to the ideal step,

    sum over j of d_j P_j  +  sum over k of e_k .

Row ``memory k end h h'``: at an instant ``tau`` in op ``k`` (its start ``S_k`` or its end
``A_{k+1}``), with bandwidths ``b_out``, ``b_in`` and budget ``B``,

    fixed(k) + sum_{t idle in k} s_t (1 - W_t - R_t) + sum_{q} s_q K_q
      + [ sum_{t: ready_t >= h, l_t < k} s_t W_t  -  b_out (tau - A_h) ]
      + [ sum_{t: k < u_t <= h'} s_t W_t  -  b_in (S_h' - tau) ]            <=  B ,

either bracket may be left out. Bytes ready at or after ``A_h`` have left by ``tau`` at most at
``b_out``; bytes needed by ``S_h'`` come in after ``tau`` at most at ``b_in``.

All rows are exact integers: bytes count in units of 1e-9 byte, so that a bandwidth in bytes/s is
units per ns.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

from slackopt.device import Device
from slackopt.formulations.linear import Column, Row
from slackopt.formulations.rerun_slots import RerunSlots
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

    Attributes
    ----------
    columns
        All columns. Columns of decisions that the instance does not allow do not exist.
    swap, recompute, keep
        Tensor -> column.
    rerun, early
        Op -> column.
    stall
        Op -> column, for every op.
    """

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        self.life = life = instance.lifetimes
        decidable = [*life.candidates, *life.closure]
        droppable = [t for t in decidable if life.can_recompute(t)]
        self.slots = RerunSlots.from_lifetimes(life, frozenset(droppable))
        self.columns: list[Column] = []
        self.swap = {t: self._add(f"swap[{t}]") for t in decidable if life.swappable[t]}
        self.recompute = {t: self._add(f"recompute[{t}]") for t in droppable}
        self.keep = {q: self._add(f"keep[{q}]") for q in life.closure}
        reruns = sorted({life.producer[t] for t in droppable})
        self.rerun = {j: self._add(f"rerun[{j}]", life.durations_ns[j]) for j in reruns}
        self.early = {j: self._add(f"early[{j}]") for j in reruns if self.slots.pulled_by[j]}
        self.stall = {
            k: self._add(f"stall[{k}]", 1, upper=None, integer=False) for k in range(life.num_ops)
        }
        self.starts_ns = [0, *accumulate(life.durations_ns)]
        self.fixed_bytes = life.working_set_bytes

    def _add(
        self, name: str, objective: int = 0, *, upper: int | None = 1, integer: bool = True
    ) -> int:
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

    # Static rows.

    def static_rows(self) -> list[Row]:
        """All rows but the memory rows; they are few and always present."""
        rows = [self._choice_row(t) for t in [*self.life.candidates, *self.keep]]
        rows += [row for t in self.recompute for row in self._recompute_rows(t)]
        rows += [row for j in self.early for row in self._early_rows(j)]
        rows += [self._round_trip_row(t) for t in self._short_gaps()]
        return [row for row in rows if row.coefficients]

    def _choice_row(self, t: int) -> Row:
        """``W_t + R_t (+ K_t) <= 1``."""
        columns = [d[t] for d in (self.swap, self.recompute, self.keep) if t in d]
        return Row(f"choice[{t}]", dict.fromkeys(columns, 1), 1)

    def _recompute_rows(self, t: int) -> Iterator[Row]:
        """``R_t <= P_j`` for the producer j; ``R_t <= K_q + W_q + R_q`` for its inputs q.

        The second matters for inputs without a backward use only: elsewhere the sum is 1.
        """
        producer = self.life.producer[t]
        column = self.recompute[t]
        yield Row(f"rerun_of[{t}]", {column: 1, self.rerun[producer]: -1}, 0)
        for q in self.life.inputs[producer]:
            if q in self.keep:
                sources = [d[q] for d in (self.keep, self.swap, self.recompute) if q in d]
                yield Row(f"input[{t},{q}]", {column: 1} | dict.fromkeys(sources, -1), 0)

    def _early_rows(self, j: int) -> Iterator[Row]:
        """``early_j <= P_j``, and an early rerun is pulled by the rerun of a reader.

        A reader whose own range begins before that of j may do so at any time; another only if
        it is early itself.
        """
        yield Row(f"early_rerun[{j}]", {self.early[j]: 1, self.rerun[j]: -1}, 0)
        pulls = {self.early[j]: 1}
        for c in self.slots.pulled_by[j]:
            pulls[self.rerun[c] if self.slots.own[c] < self.slots.own[j] else self.early[c]] = -1
        yield Row(f"early_pull[{j}]", pulls, 0)

    def _short_gaps(self) -> Iterator[int]:
        """Swappable candidates whose idle time may be too short for the way out and back."""
        device, sizes = self.instance.device, self.life.sizes_bytes
        for t in self.swap:
            use = self.life.first_backward_use[t]
            if use == ABSENT:
                continue
            gap = self.starts_ns[use] - self.starts_ns[self.ready(t)]
            if gap < device.swap_out_ns(sizes[t]) + device.swap_in_ns(sizes[t]):
                yield t

    def _round_trip_row(self, t: int) -> Row:
        """Out and back takes its time: ``W_t (out + in) <= S_u - A_ready``."""
        device, size = self.instance.device, self.life.sizes_bytes[t]
        use, ready = self.life.first_backward_use[t], self.ready(t)
        coefficients = {self.swap[t]: device.swap_out_ns(size) + device.swap_in_ns(size)}
        self._spend(coefficients, [(ready, use, 1)])
        return Row(f"round_trip[{t}]", coefficients, self.starts_ns[use] - self.starts_ns[ready])

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
        for q, column in self.keep.items():
            if life.last_forward_use[q] < k < self.slots.first_need(life, q):
                add(column, life.sizes_bytes[q])
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
        self._spend(coefficients, windows)
        return Row(key.name, {j: a for j, a in coefficients.items() if a}, upper)

    def _spend(self, coefficients: dict[int, int], windows: Sequence[tuple[int, int, int]]) -> None:
        """Subtract, for each window ``(first slot, last slot, rate)``, rate x its added time.

        Stalls of the slots count; so do reruns that may fall into one of the slots. A rerun is in
        one slot, so where both windows could hold it the higher rate counts, once.
        """
        for first, last, rate in windows:
            for k in range(first, last + 1):
                coefficients[self.stall[k]] = coefficients.get(self.stall[k], 0) - rate
        slots = self.slots
        for j, column in self.rerun.items():
            duration = self.life.durations_ns[j]
            rate = _rate(windows, slots.own[j], slots.latest[j])
            if rate:
                coefficients[column] = coefficients.get(column, 0) - rate * duration
            if j in self.early:
                more = _rate(windows, slots.earliest[j], slots.own[j] - 1) - rate
                if more:
                    early = self.early[j]
                    coefficients[early] = coefficients.get(early, 0) - more * duration

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
        return {row.name: row for row in self.static_rows()}


def _rate(windows: Sequence[tuple[int, int, int]], earliest: int, latest: int) -> int:
    """Return the largest rate of the windows that a slot range meets; 0 if none."""
    return max((r for a, b, r in windows if earliest <= b and latest >= a), default=0)


def _with_latency(device: Device, bytes_per_s: int, largest_bytes: int) -> int:
    """Return ``b s / (s + latency b)``, rounded up."""
    latency_bytes = device.latency_ns * bytes_per_s  # in units of 1e-9 byte
    size = largest_bytes * UNITS_PER_BYTE
    return -(-bytes_per_s * size // (size + latency_bytes))
