"""Memory rows of the schedule formulation, at the start and at the end of every job.

At the start of job i, after it has allocated, and just before its end, the bytes on the device
fit in the budget. A tensor counts with its bytes times

- 1 from the start of its producer (the batch: from the beginning) to its last forward use, and
  from its first to its last backward use;
- in its idle time: ``1 - W - R`` (kept), plus ``leaving`` (swapped, and its swap-out hasn't
  ended; by parts, where swap-outs free memory in pieces), plus ``arrived`` (swapped, and its
  swap-in has started), plus ``rebuilt`` (recomputed, and rebuilt by a rerun before job i);
- after its last backward use ``later``: whether a rerun reads it in job i or later. A tensor
  without a backward use is idle from its last forward use on, and what is kept, arrived or
  rebuilt of it counts only where ``later`` is 1.

A rerun counts with all its outputs and its workspace, a base op with its workspace. A rerun that
does not happen takes place, so to speak, at the end of the job before it, when that has freed its
memory: what is counted is on the device then.

Where nothing can be swapped the two rows of a job are one. Rows are made for the jobs asked for:
all of them, or, as a relaxation, some.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from slackopt.clock import check_time
from slackopt.formulations.linear import Row
from slackopt.formulations.schedule_times import Moment, not_before
from slackopt.lifetimes import ABSENT

if TYPE_CHECKING:
    from slackopt.formulations.schedule import ScheduleFormulation


class MemoryRows:
    """Makes the memory rows and the columns that only they need."""

    def __init__(self, model: ScheduleFormulation) -> None:
        self.model = model
        self.life = model.life
        self._later: dict[tuple[int, int], int] = {}
        self._rebuilt_by: dict[tuple[int, int, int | None], int] = {}
        self._done: set[int] = set()
        self._rows: list[Row] = []
        self._releases = {t: model.times.releases(t) for t in model.swap}
        base = model.jobs.base_position
        self._idle_from = [base[k] + 1 if k >= 0 else 0 for k in self.life.last_forward_use]
        self._used_from = [base[k] if k != ABSENT else None for k in self.life.first_backward_use]
        self._used_to = [base[k] if k != ABSENT else None for k in self.life.last_backward_use]

    def rows(self, positions: Iterable[int]) -> list[Row]:
        """Return the rows of the jobs at these positions, without those returned before."""
        self._rows = []
        if not self._done:
            if self.life.batch_bytes > self.model.instance.budget_bytes:
                self._rows.append(Row("batch", {}, -1))
            self._rows += self._host_rows()
        for i in positions:
            if i in self._done:
                continue
            check_time()
            self._done.add(i)
            bytes_at, constant = self._residents(i)
            for side in ("start", "end") if self.model.swap else ("start",):
                total = dict(bytes_at)
                for t in self.model.swap:
                    if self._is_idle(t, i):
                        times = self.model.times
                        moment = times.job_end(i) if side == "end" else times.job_start(i)
                        for column, size in self._on_the_way(t, i, side, moment):
                            total[column] = total.get(column, 0) + size
                upper = self.model.instance.budget_bytes - constant
                if sum(size for size in total.values() if size > 0) > upper:
                    self._rows.append(Row(f"memory[{i},{side}]", total, upper))
        return self._rows

    def _is_idle(self, t: int, i: int) -> bool:
        used = self._used_from[t]
        return i >= self._idle_from[t] and (used is None or i < used)

    def _residents(self, i: int) -> tuple[dict[int, int], int]:
        """Bytes on the device during job i per column, and constant; all but copies on the way."""
        model, life = self.model, self.life
        job = model.jobs.jobs[i]
        total: dict[int, int] = {}

        def add(column: int, size: int) -> None:
            total[column] = total.get(column, 0) + size

        constant = 0
        if job.is_rerun:
            add(model.rerun[i], life.output_bytes[job.op] + life.workspaces_bytes[job.op])
        else:
            constant += life.workspaces_bytes[job.op]
        decidable = set(model.jobs.decidable)
        for t, size in enumerate(life.sizes_bytes):
            producer = life.producer[t]
            made = model.jobs.base_position[producer] if producer != ABSENT else 0
            used_to = self._used_to[t]
            if i < made:
                continue
            if i < self._idle_from[t]:
                constant += size
            elif used_to is not None and i > used_to:
                later = self._later_column(t, i)
                if later is not None:
                    add(later, size)
            elif not self._is_idle(t, i) or (t not in decidable and used_to is not None):
                constant += size
            elif used_to is not None:
                constant += size
                for column in model.decision_columns(t):
                    add(column, -size)
                for column in self._rebuilt(t, i):
                    add(column, size)
            else:
                later = self._later_column(t, i)
                if later is not None and t in decidable:
                    kept = model.add_column(f"kept[{t},{i}]", integer=False)
                    coefficients = {later: 1, kept: -1} | dict.fromkeys(
                        model.decision_columns(t), -1
                    )
                    self._rows.append(Row(f"kept[{t},{i}]", coefficients, 0))
                    add(kept, size)
                    for column in self._rebuilt(t, i):
                        add(column, size)
                elif later is not None:
                    add(later, size)
        return total, constant

    def _later_column(self, t: int, i: int) -> int | None:
        """Column that is 1 if a rerun at position i or later reads `t`; None if none can.

        ``later >= x`` of the next such rerun, ``later >= later`` from the one after it.
        """
        reads = [p for p in self.model.jobs.reads[t] if p >= i and p in self.model.rerun]
        if not reads:
            return None
        if len(reads) == 1:
            return self.model.rerun[reads[0]]
        if (t, reads[0]) not in self._later:
            column = self.model.add_column(f"later[{t},{reads[0]}]", integer=False)
            self._later[t, reads[0]] = column
            after = self._later_column(t, reads[0] + 1)
            for name, other in (("now", self.model.rerun[reads[0]]), ("on", after)):
                if other is not None:
                    row = Row(f"later_{name}[{t},{reads[0]}]", {other: 1, column: -1}, 0)
                    self._rows.append(row)
        return self._later[t, reads[0]]

    def _rebuilt(self, t: int, i: int) -> list[int]:
        """Columns that add up to ``R_t + X - 1`` or more, X for "rebuilt by a rerun before job i".

        In the closure ``R_t + X + later - 2``; no column where no rerun can have been before.
        Where t is the only output that can be dropped, a rerun means that it is: X is enough.
        """
        model = self.model
        if t not in model.recompute:
            return []
        earlier = [p for p in model.jobs.rerun_positions[self.life.producer[t]] if p < i]
        if not earlier:
            return []
        later = self._later_column(t, i) if self._used_from[t] is None else None
        droppable = [y for y in self.life.outputs[self.life.producer[t]] if y in model.recompute]
        if later is None and len(droppable) == 1:
            return [model.rerun[p] for p in earlier]
        key = (t, len(earlier), later)
        if key in self._rebuilt_by:
            return [self._rebuilt_by[key]]
        column = self._rebuilt_by[key] = model.add_column(f"rebuilt[{t},{i}]", integer=False)
        coefficients = {model.rerun[p]: 1 for p in earlier}
        coefficients |= {model.recompute[t]: 1, column: -1}
        upper = 1
        if later is not None:
            coefficients[later] = coefficients.get(later, 0) + 1
            upper = 2
        self._rows.append(Row(f"rebuilt[{t},{i}]", coefficients, upper))
        return [column]

    def _on_the_way(self, t: int, i: int, side: str, moment: Moment) -> Iterator[tuple[int, int]]:
        """Columns that count bytes of a swapped tensor in its idle time, and how many.

        ``leaving = 0`` only if ``O_t <= moment``, or, of a part that leaves before the others, if
        it can have been released by then (`ScheduleTimes.releases`); ``arrived = 0`` only if
        ``I_t >= moment``, or nothing reads the tensor any more.
        """
        model, times, swap = self.model, self.model.times, self.model.swap[t]
        later = None
        started = times.in_started(t)
        for part, (released, size) in enumerate(self._releases[t]):
            if released.lower > moment.upper:
                yield swap, size
            elif released.upper > moment.lower:
                name = f"leaving[{t},{i},{side}{f',{part}' if part else ''}]"
                column = model.add_column(name)
                row = not_before(name, released, moment, unless=[column], unless_not=[swap])
                if row is not None:
                    self._rows.append(row)
                yield column, size
        if self._used_from[t] is None:
            later = self._later_column(t, i)
            if later is None:
                return
        if moment.upper > started.lower:
            column = model.add_column(f"arrived[{t},{i},{side}]")
            switches = [swap] if later is None else [swap, later]
            row = not_before(
                f"arrived[{t},{i},{side}]", moment, started, unless=[column], unless_not=switches
            )
            if row is not None:
                self._rows.append(row)
            yield column, self.life.sizes_bytes[t]

    def _host_rows(self) -> Iterator[Row]:
        """When a swap-out starts, it fits beside the tensors swapped out before and not yet back.

        ``away = 0`` only if ``I_t' + in <= O_t - out``.
        """
        model, sizes = self.model, self.life.sizes_bytes
        host = model.instance.device.host_memory_bytes
        if host is None:
            return
        order = model.times.swap_out_order()
        for n, t in enumerate(order):
            if sum(sizes[q] for q in order[: n + 1]) <= host:
                continue
            total = {model.swap[t]: sizes[t]}
            begun = model.times.out_ended(t).plus(-model.times.out_ns(t))
            for q in order[:n]:
                back = model.times.in_started(q).plus(model.times.in_ns(q))
                if back.lower > begun.upper:
                    # Never back in time; counted where both are swapped.
                    column = model.add_column(f"away[{q},{t}]", integer=False)
                    both = {model.swap[q]: 1, model.swap[t]: 1, column: -1}
                    yield Row(f"away[{q},{t}]", both, 1)
                else:
                    column = model.add_column(f"away[{q},{t}]")
                    row = not_before(
                        f"away[{q},{t}]",
                        back,
                        begun,
                        unless=[column],
                        unless_not=[model.swap[q], model.swap[t]],
                    )
                    if row is not None:
                        yield row
                total[column] = sizes[q]
            yield Row(f"host[{t}]", total, host)
