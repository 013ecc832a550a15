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
from dataclasses import dataclass, replace
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

    def __init__(self, instance: Instance, thresholds: Sequence[int] | None = None) -> None:
        self.instance = instance
        self.life = life = instance.lifetimes
        decidable = [*life.candidates, *life.closure]
        droppable = [t for t in decidable if life.can_recompute(t)]
        self.slots = RerunSlots.from_lifetimes(life, frozenset(droppable))
        self.columns: list[Column] = []
        self.swap = {t: self._add(f"swap[{t}]") for t in decidable if life.swappable[t]}
        self.recompute = {t: self._add(f"recompute[{t}]") for t in droppable}
        self.keep = {q: self._add(f"keep[{q}]") for q in life.closure}
        self.rerun = self._add_reruns(droppable)
        self.thresholds = tuple(default_thresholds(instance) if thresholds is None else thresholds)
        self.before = {
            j: [(b, self._add(f"before[{j},{b}]", integer=False)) for b in self._thresholds_of(j)]
            for j in self.rerun
            if self.slots.pulled_by[j]
        }
        self.kept_early = self._add_kept_early()
        self.extra_residents: list[tuple[int, int, int, int]] = []
        self._resident_rows: list[Row] = []
        self._add_residents()
        self.stall = {
            k: self._add(f"stall[{k}]", 1, upper=None, integer=False) for k in range(life.num_ops)
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
                rerun[j] = self._add(f"rerun[{j}]", duration)
        return rerun

    def _add_kept_early(self) -> dict[tuple[int, int], int]:
        """Add a column ``M_qb`` = [op c is rerun before slot b, from a kept q].

        For each tensor q without a backward use that a single op c may read again.
        """
        return {
            (q, b): self._add(f"kept_early[{q},{b}]", integer=False)
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
        rows = [self._choice_row(t) for t in [*self.life.candidates, *self.life.closure]]
        rows += [row for t in self.recompute for row in self._recompute_rows(t)]
        rows += [row for j in self.before for row in self._early_rows(j)]
        rows += [self._kept_for_row(q) for q in self.keep]
        rows += [row for q, b in self.kept_early for row in self._kept_early_rows(q, b)]
        rows += self._resident_rows
        rows += [self._round_trip_row(t) for t in self._short_gaps()]
        rows += [
            row for t, k in self._crowded_out().items() for row in self._crowded_out_rows(t, k)
        ]
        return [row for row in rows if row.coefficients]

    @cached_property
    def _closure(self) -> frozenset[int]:
        return frozenset(self.life.closure)

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
        if column != self.rerun[producer]:
            yield Row(f"rerun_of[{t}]", {column: 1, self.rerun[producer]: -1}, 0)
        for q in self.life.inputs[producer]:
            if q in self._closure:
                sources = [d[q] for d in (self.keep, self.swap, self.recompute) if q in d]
                yield Row(f"input[{t},{q}]", {column: 1} | dict.fromkeys(sources, -1), 0)

    def _kept_for_row(self, q: int) -> Row:
        """``K_q <= sum of P_c`` over its readers: without a rerun there is nothing to keep."""
        readers = {self.rerun[c] for c in self.slots.readers[q]}
        return Row(f"kept_for[{q}]", {self.keep[q]: 1} | dict.fromkeys(readers, -1), 0)

    def _early_rows(self, j: int) -> Iterator[Row]:
        """Rows for ``L_jb = [op j is rerun before slot b]``.

        They ascend in b up to ``P_j``. An early rerun is pulled by the rerun of a reader c of an
        output y decided recompute: ``L_jb <= sum over (y, c) of L_cb``; and a reader pulls where
        y is decided recompute: ``L_cb + R_y - 1 <= L_jb``.
        """
        columns = [column for _, column in self.before[j]] + [self.rerun[j]]
        for i, (b, column) in enumerate(self.before[j]):
            yield Row(f"ascending[{j},{b}]", {column: 1, columns[i + 1]: -1}, 0)
            pulls = {column: 1}
            for y, c in self.slots.pulled_by[j]:
                for pull, sign in self._pull(y, c, b).items():
                    pulls[pull] = min(pulls.get(pull, 0) - sign, 1) if sign < 0 else -1
                least = self.before_at_least(c, b)
                if least is not None:
                    forced = {least: 1, column: -1}
                    forced[self.recompute[y]] = forced.get(self.recompute[y], 0) + 1
                    yield Row(f"pulls[{j},{b},{y},{c}]", forced, 1)
            yield Row(f"pulled[{j},{b}]", pulls, 0)

    def _pull(self, y: int, c: int, b: int) -> dict[int, int]:
        """At least [op c is rerun before slot b and y is decided recompute], as a sum."""
        most = self.before_at_most(c, b)
        if most is None:
            return {}
        if y in self.keep and len(self.slots.readers[y]) == 1:
            if most == self.rerun[c]:
                return {self.recompute[y]: 1}
            level = next(level for level, column in self.before[c] if column == most)
            return {most: 1, self.kept_early[y, level]: -1}
        return {most: 1}

    def _kept_early_rows(self, q: int, b: int) -> Iterator[Row]:
        """``M_qb <= K_q``, ``M_qb <= L_cb``, ``L_cb - M_qb <= W_q + R_q``."""
        (c,) = self.slots.readers[q]
        before = next(column for level, column in self.before[c] if level == b)
        early = self.kept_early[q, b]
        yield Row(f"kept_early_keep[{q},{b}]", {early: 1, self.keep[q]: -1}, 0)
        yield Row(f"kept_early_before[{q},{b}]", {early: 1, before: -1}, 0)
        others = {d[q]: -1 for d in (self.swap, self.recompute) if q in d}
        yield Row(f"kept_early_else[{q},{b}]", {before: 1, early: -1} | others, 0)

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
        self.spend(coefficients, [(ready, use, 1)])
        return Row(f"round_trip[{t}]", coefficients, self.starts_ns[use] - self.starts_ns[ready])

    def _crowded_out(self) -> dict[int, int]:
        """Candidates that can't be on the device during some op of their idle time: the last one."""
        budget, life = self.instance.budget_bytes, self.life
        found: dict[int, int] = {}
        for t in life.candidates:
            if t in self.swap or t in self.recompute:
                first, use = life.last_forward_use[t] + 1, life.first_backward_use[t]
                for k in range(use - 1, first - 1, -1):
                    if self.fixed_bytes[k] + life.sizes_bytes[t] > budget:
                        found[t] = k
                        break
        return found

    def _crowded_out_rows(self, t: int, k: int) -> Iterator[Row]:
        """``W_t + R_t >= 1``; and it can come back only after op k: ``W_t in <= S_u - A_{k+1}``."""
        columns = [d[t] for d in (self.swap, self.recompute) if t in d]
        yield Row(f"crowded_out[{t}]", dict.fromkeys(columns, -1), -1)
        if t in self.swap:
            use = self.life.first_backward_use[t]
            coefficients = {self.swap[t]: self.instance.device.swap_in_ns(self.life.sizes_bytes[t])}
            self.spend(coefficients, [(k + 1, use, 1)])
            slack = self.starts_ns[use] - self.starts_ns[k + 1]
            yield Row(f"back_after_crowd[{t}]", coefficients, slack)

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
        """Bytes and columns on the device during op `k` beside `fixed_bytes` and the idle ones."""
        return [
            (size, column)
            for first, last, size, column in self.extra_residents
            if first <= k < last
        ]

    def _add_residents(self) -> None:
        """Residency that comes from reruns, as spans and, where needed, columns of its own."""
        source = self._only_sources()
        for t in self.recompute:
            if self.life.first_backward_use[t] == ABSENT:
                self._add_waiting(t)
            else:
                self._add_rebuilt(t, source.get(t))
        for q, column in self.keep.items():
            first, need = self.life.last_forward_use[q] + 1, self.slots.first_need(self.life, q)
            self.extra_residents.append((first, need, self.life.sizes_bytes[q], column))
            if len(self.slots.readers[q]) == 1:
                self._add_kept_until_rerun(q, self.slots.readers[q][0])

    def _only_sources(self) -> dict[int, int]:
        """Pairs t -> q: t is the only droppable output of the only op that may read q again.

        Only tensors t with a backward use.
        """
        pairs: dict[int, int] = {}
        for q in self.keep:
            if len(self.slots.readers[q]) == 1:
                (c,) = self.slots.readers[q]
                outputs = [t for t in self.life.outputs[c] if t in self.recompute]
                if len(outputs) == 1 and self.life.first_backward_use[outputs[0]] != ABSENT:
                    best = pairs.get(outputs[0])
                    size = self.life.sizes_bytes
                    if best is None or size[q] > size[best]:
                        pairs[outputs[0]] = q
        return pairs

    def _add_rebuilt(self, t: int, q: int | None) -> None:
        """A recomputed tensor t rebuilt before slot b is there from op b - 1 to its use u.

        With j its producer: ``s_t X`` with ``X >= L_jb + R_t - P_j``, which is ``L_jb`` where t is
        the only droppable output. If then t is rebuilt from a q kept for that alone, either q or
        t is there at any time from the first need of q to u: ``min(s_q, s_t) K_q``, and X is for
        the other case, ``X >= L_jb - M_qb``.
        """
        use, j = self.life.first_backward_use[t], self.life.producer[t]
        size = self.life.sizes_bytes[t]
        if q is not None:
            both = min(size, self.life.sizes_bytes[q])
            self.extra_residents.append(
                (self.slots.first_need(self.life, q), use, both, self.keep[q])
            )
        levels = [(b, before) for b, before in self.before.get(j, ()) if b <= use]
        ends = [b - 1 for b, _ in levels[1:]] + [use]
        for (b, before), end in zip(levels, ends, strict=False):
            if b - 1 >= end:
                continue
            there = before
            signs = {before: 1}
            if self.recompute[t] != self.rerun[j]:
                signs |= {self.recompute[t]: 1, self.rerun[j]: -1}
            if q is not None:
                signs[self.kept_early[q, b]] = -1
            if len(signs) > 1:
                there = self._add(f"rebuilt[{t},{b}]", integer=False)
                self._resident_rows.append(Row(f"rebuilt_before[{t},{b}]", signs | {there: -1}, 0))
            self.extra_residents.append((b - 1, end, size, there))

    def _add_kept_until_rerun(self, q: int, c: int) -> None:
        """A tensor q kept for the rerun of its only possible reader c is there until then.

        During op b - 1, and as L ascends during the ops before it: ``s_q X`` with
        ``X >= K_q - M_qb``, less what `_add_rebuilt` counts already.
        """
        size = self.life.sizes_bytes[q]
        outputs = [t for t in self.life.outputs[c] if t in self.recompute]
        if len(outputs) == 1 and self._only_sources().get(outputs[0]) == q:
            size -= min(size, self.life.sizes_bytes[outputs[0]])
        first = self.slots.first_need(self.life, q)
        for b, _ in self.before.get(c, ()) if size else ():
            stays = self._add(f"stays[{q},{b}]", integer=False)
            signs = {self.keep[q]: 1, self.kept_early[q, b]: -1, stays: -1}
            self._resident_rows.append(Row(f"stays_until[{q},{b}]", signs, 0))
            self.extra_residents.append((first, b, size, stays))
            first = b

    def _add_waiting(self, y: int) -> None:
        """A rebuilt tensor without a backward use waits for the rerun of its only reader c.

        During op b - 1: ``s_y X`` with ``X >= L_jb - (L_cb - M_yb) (+ R_y - P_j)``.
        """
        j = self.life.producer[y]
        if len(self.slots.readers[y]) != 1:
            return
        (c,) = self.slots.readers[y]
        for b, before in self.before.get(j, ()):
            waits = self._add(f"waits[{y},{b}]", integer=False)
            signs = {before: 1, waits: -1}
            for column, sign in self._pull(y, c, b).items():
                signs[column] = signs.get(column, 0) - sign
            if self.recompute[y] != self.rerun[j]:
                signs[self.recompute[y]] = 1
                signs[self.rerun[j]] = signs.get(self.rerun[j], 0) - 1
            self._resident_rows.append(Row(f"waits_for[{y},{b}]", signs, 0))
            self.extra_residents.append((b - 1, b, self.life.sizes_bytes[y], waits))

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
