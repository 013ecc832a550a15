"""Rows over time of the schedule formulation: compute, swap-outs, swap-ins.

Each says that one moment is not before another, unless some binary column switches it off: with
moments ``a``, ``b``, binaries ``y`` and tensors ``t`` that are swapped only perhaps,

    a <= b + sum of M y + sum of M_t (1 - W_t) .

Every M is the largest value that ``a - b`` can have, from the bounds of the two moments; where it
isn't above 0, the row says nothing and is left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import TYPE_CHECKING

from slackopt.clock import check_time
from slackopt.device import copy_ns
from slackopt.formulations.linear import Row
from slackopt.lifetimes import ABSENT

if TYPE_CHECKING:
    from slackopt.formulations.schedule import ScheduleFormulation


MAX_PARTS = 4
"""Parts of a tensor told apart where swap-outs free memory in pieces."""


@dataclass(frozen=True)
class Moment:
    """A point in time, linear in the columns, and what its value can be.

    Attributes
    ----------
    column
        Time column.
    terms
        Further columns, in ns.
    constant_ns
        Constant.
    lower, upper
        Range of its values; of a copy's moment, where the tensor is swapped.
    lower_without, upper_without
        Range of its values where the tensor is not swapped.
    """

    column: int
    lower: int
    upper: int
    lower_without: int
    upper_without: int
    constant_ns: int = 0
    terms: dict[int, int] = field(default_factory=dict)

    def plus(self, ns: int) -> Moment:
        """Return the moment `ns` later."""
        return replace(
            self,
            constant_ns=self.constant_ns + ns,
            lower=self.lower + ns,
            upper=self.upper + ns,
            lower_without=self.lower_without + ns,
            upper_without=self.upper_without + ns,
        )


def not_before(
    name: str,
    early: Moment,
    late: Moment,
    *,
    unless: Sequence[int] = (),
    unless_not: Sequence[int] = (),
) -> Row | None:
    """Return the row ``early <= late``, or None if it can't fail.

    Parameters
    ----------
    name
        Of the row.
    early, late
        The moments.
    unless
        Columns that switch the row off at 1.
    unless_not
        Columns that switch it off at 0; swap columns of the tensors whose moments these are.
    """
    most = early.upper - late.lower
    if most <= 0:
        return None
    largest = max(early.upper, early.upper_without) - min(late.lower, late.lower_without)
    coefficients = {early.column: 1, late.column: -1}
    upper = late.constant_ns - early.constant_ns
    for column, ns in early.terms.items():
        coefficients[column] = coefficients.get(column, 0) + ns
    for column, ns in late.terms.items():
        coefficients[column] = coefficients.get(column, 0) - ns
    for column in unless:
        coefficients[column] = coefficients.get(column, 0) - most
    for column in unless_not:
        coefficients[column] = coefficients.get(column, 0) + largest
        upper += largest
    return Row(name, coefficients, upper)


class ScheduleTimes:
    """Time columns, their ranges, and the rows that need no memory.

    Attributes
    ----------
    start
        Per position: column.
    out_end, in_start
        Swappable tensor -> column.
    columns
        All time columns; none where nothing can be swapped, since reruns alone then set all times.
    """

    def __init__(self, model: ScheduleFormulation) -> None:
        self.model = model
        life, jobs, horizon = model.life, model.jobs, model.horizon_ns
        timed = range(len(jobs.jobs)) if model.swap else ()
        last = len(jobs.jobs) - 1
        self.start = [
            model.add_column(f"start[{i}]", objective=int(i == last), upper=horizon, integer=False)
            for i in timed
        ]
        self.out_end = {
            t: model.add_column(f"out_end[{t}]", upper=horizon, integer=False) for t in model.swap
        }
        self.in_start = {
            t: model.add_column(f"in_start[{t}]", upper=horizon, integer=False) for t in model.swap
        }
        self.columns = frozenset([*self.start, *self.out_end.values(), *self.in_start.values()])
        self._base_ns = [0 if job.is_rerun else life.durations_ns[job.op] for job in jobs.jobs]
        self._before_ns = [0, *accumulate(self._base_ns)]

    # Copy times; one beyond the horizon is as good as any, and keeps coefficients small.

    def out_ns(self, t: int) -> int:
        """Time of the swap-out at full bandwidth."""
        size = self.model.life.sizes_bytes[t]
        return min(self.model.horizon_ns + 1, self.model.instance.device.swap_out_ns(size))

    def in_ns(self, t: int) -> int:
        """Time of the swap-in at full bandwidth."""
        size = self.model.life.sizes_bytes[t]
        return min(self.model.horizon_ns + 1, self.model.instance.device.swap_in_ns(size))

    # Moments.

    def job_start(self, i: int) -> Moment:
        """Return S_i: after all base ops before it, with time left for those from it on."""
        lower = self._before_ns[i]
        upper = self.model.horizon_ns - (self._before_ns[-1] - lower)
        return Moment(self.start[i], lower, upper, lower, upper)

    def job_end(self, i: int) -> Moment:
        """Return E_i; a rerun that does not happen takes no time."""
        start = self.job_start(i)
        job = self.model.jobs.jobs[i]
        if not job.is_rerun:
            return start.plus(self._base_ns[i])
        duration = self.model.life.durations_ns[job.op]
        return replace(start, terms={self.model.rerun[i]: duration})

    def out_ended(self, t: int) -> Moment:
        """Return O_t; without a swap, the end of the producer or of the swap-out in front."""
        producer = self.model.life.producer[t]
        made = 0
        if producer != ABSENT:
            made = self.job_end(self.model.jobs.base_position[producer]).lower
        lower = made + self.out_ns(t)
        return Moment(self.out_end[t], lower, self._last_in_start(t), made, self.model.horizon_ns)

    def releases(self, t: int) -> list[tuple[Moment, int]]:
        """Moments before which parts of a swapped tensor have not been released, and their bytes.

        A whole tensor is released at O_t. Of a tensor that leaves in pieces, ``m`` bytes have been
        copied at ``O_t - rest`` or later, ``rest`` the time of ``s - m`` bytes at the lowest
        bandwidth, since the copy has ended at the first nanosecond after these. Neighbouring
        pieces make a part: all of it counts as released with its first piece.
        """
        device, size = self.model.instance.device, self.model.life.sizes_bytes[t]
        ended, chunk = self.out_ended(t), device.chunk_bytes or size
        pieces = -(-size // chunk)
        parts = min(MAX_PARTS, pieces)
        found = []
        for part in range(parts):
            first, after = pieces * part // parts, pieces * (part + 1) // parts
            rate = device.d2h_shared_bytes_per_s or device.d2h_bytes_per_s
            rest = copy_ns(size - min(size, (first + 1) * chunk), rate)
            # A moment below 0 says nothing; the largest coefficient is the horizon, about.
            moment = ended.plus(-min(self.model.horizon_ns + 1, rest))
            found.append((moment, min(size, after * chunk) - first * chunk))
        return found

    def in_started(self, t: int) -> Moment:
        """Return I_t; without a swap, any time after O_t and the end of the last forward use."""
        out, last = self.out_ended(t), self.model.life.last_forward_use[t]
        idle = self.job_end(self.model.jobs.base_position[last]).lower if last >= 0 else 0
        return Moment(
            self.in_start[t],
            max(out.lower, idle),
            self._last_in_start(t),
            max(out.lower_without, idle),
            self.model.horizon_ns,
        )

    def _last_in_start(self, t: int) -> int:
        """Latest start of the swap-in of `t`: before the last job that can be its next need."""
        needs = self.needs(t)
        if not needs:
            return -1
        return self.job_start(needs[-1]).upper - self.in_ns(t)

    def needs(self, t: int) -> tuple[int, ...]:
        """Positions of the jobs that can be the next need of `t`, up to its first backward use."""
        reads, use = self.model.jobs.reads[t], self.model.life.first_backward_use[t]
        if use == ABSENT:
            return reads
        until = self.model.jobs.base_position[use]
        return tuple(i for i in reads if i <= until)

    def swap_out_order(self) -> list[int]:
        """Tensors in the order in which their swap-outs are queued."""
        life = self.model.life
        place = {t: i for outputs in life.outputs for i, t in enumerate(outputs)}
        return sorted(self.out_end, key=lambda t: (life.producer[t], place.get(t, t)))

    # Rows.

    def rows(self) -> Iterator[Row]:
        """Yield all rows that need no memory."""
        rows = [*self._compute_rows(), *self._out_rows()]
        rows += [row for t in self.in_start for row in self._in_rows(t)]
        tensors = sorted(self.in_start)
        for i, a in enumerate(tensors):
            check_time()
            for b in tensors[i + 1 :]:
                rows += self._order_rows(a, b)
        return (row for row in rows if row is not None)

    def _compute_rows(self) -> Iterator[Row | None]:
        """``E_(i-1) <= S_i``. The bounds of S follow from these, so none is left out."""
        for i in range(1, len(self.start)):
            end = self.job_end(i - 1)
            row = {end.column: 1, self.start[i]: -1} | end.terms
            yield Row(f"sequence[{i}]", row, -end.constant_ns)

    def _out_rows(self) -> Iterator[Row | None]:
        """``O_t >= O_t' + out W_t`` for the swap-out t' in front; ``O_t >= E_p + out W_t``."""
        life, before = self.model.life, None
        for t in self.swap_out_order():
            copy = self.out_ns(t)
            column, swap = self.out_end[t], self.model.swap[t]
            if self.out_ended(t).lower > self.out_ended(t).upper:
                yield Row(f"no_time[{t}]", {swap: 1}, 0)
            if before is not None:
                row = {self.out_end[before]: 1, column: -1, swap: copy}
                yield Row(f"out_after[{t}]", row, 0)
            if life.producer[t] != ABSENT:
                end = self.job_end(self.model.jobs.base_position[life.producer[t]])
                row = {end.column: 1, column: -1, swap: copy}
                yield Row(f"out_made[{t}]", row, -end.constant_ns)
            else:
                yield Row(f"out_batch[{t}]", {column: -1, swap: copy}, 0)
            before = t

    def _in_rows(self, t: int) -> Iterator[Row | None]:
        """``O_t <= I_t``, ``E_l <= I_t``; ``I_t + in <= S_i`` for each job that can need it."""
        life, swap = self.model.life, self.model.swap[t]
        started, last = self.in_started(t), life.last_forward_use[t]
        yield Row(f"out_in[{t}]", {self.out_end[t]: 1, started.column: -1}, 0)
        if last >= 0:
            end = self.job_end(self.model.jobs.base_position[last])
            row = {end.column: 1, started.column: -1}
            yield Row(f"in_idle[{t}]", row, -end.constant_ns)
        arrived = started.plus(self.in_ns(t))
        for i in self.needs(t):
            present = [self.model.rerun[i]] if i in self.model.rerun else []
            yield not_before(
                f"arrival[{t},{i}]", arrived, self.job_start(i), unless_not=[swap, *present]
            )

    def _order_rows(self, a: int, b: int) -> Iterator[Row | None]:
        """One swap-in at a time, in order of next need.

        ``first = 1`` says that a comes before b. It does if some job i needs a and none needs b
        up to it: ``first >= x_i - sum of x`` over the jobs that can need b, up to i.
        """
        model = self.model
        first = model.add_column(f"first[{a},{b}]")
        for one, other, sign in ((a, b, 1), (b, a, -1)):
            for i in self.needs(one):
                upto = [
                    p
                    for p in self.needs(other)
                    if p < i or (p == i and self._is_input_before(other, one, i))
                ]
                if all(p in model.rerun for p in upto):
                    coefficients = {model.rerun[p]: -1 for p in upto}
                    upper = 0 if sign > 0 else 1
                    if i in model.rerun:
                        coefficients[model.rerun[i]] = coefficients.get(model.rerun[i], 0) + 1
                    else:
                        upper -= 1
                    coefficients[first] = -sign
                    yield Row(f"needed_first[{one},{other},{i}]", coefficients, upper)
        swaps = [model.swap[a], model.swap[b]]
        started_a, started_b = self.in_started(a), self.in_started(b)
        copy_ns = [self.in_ns(a), self.in_ns(b)]
        yield not_before(
            f"link[{a},{b}]", started_a.plus(copy_ns[0]), started_b, unless_not=[*swaps, first]
        )
        yield not_before(
            f"link[{b},{a}]",
            started_b.plus(copy_ns[1]),
            started_a,
            unless=[first],
            unless_not=swaps,
        )

    def _is_input_before(self, one: int, other: int, i: int) -> bool:
        inputs = self.model.life.inputs[self.model.jobs.jobs[i].op]
        return inputs.index(one) < inputs.index(other)
