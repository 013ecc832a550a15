r"""The schedule formulation: decisions, reruns and times of one step, for small instances.

Columns: ``swap[t]`` (W), ``recompute[t]`` (R), ``rerun[j,k]`` (x: op j is rerun in front of base
op k), and in ns ``start[i]`` (S_i, of job i), ``out_end[t]`` (O_t) and ``in_start[t]`` (I_t); the
job before has ended at ``E_i = S_i + d_i x_i``. The objective is ``S`` of the last base op; with
its duration, the makespan. Rows over decisions and reruns are here, rows over time in
`slackopt.formulations.schedule_times`, memory in `slackopt.formulations.schedule_memory`.

The run of every plan that the simulator accepts, and that ends at `horizon_ns` or before, is a
point of these rows with its makespan as objective: they are a relaxation, whose bound holds for
every plan. Decisions fix the rest of a plan but its triggers, so with `differs_row` for each
decision vector whose best triggers are known, the optimum is the simulator's
(docs/schedule.md; `slackopt.solvers.schedule_loop`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import gcd

from slackopt.clock import check_time
from slackopt.formulations.coarsening import time_unit
from slackopt.formulations.linear import Column, Row
from slackopt.formulations.schedule_jobs import ScheduleJobs
from slackopt.formulations.schedule_memory import MemoryRows
from slackopt.formulations.schedule_times import ScheduleTimes
from slackopt.instance import Instance
from slackopt.lifetimes import ABSENT
from slackopt.simulation.sequence import KEEP, RECOMPUTE, SWAP


class ScheduleFormulation:
    """Columns and rows of the schedule formulation.

    Parameters
    ----------
    instance
        The instance.
    horizon_ns
        Only plans that end by then are points; `longest_makespan_ns` keeps all of them.

    Attributes
    ----------
    columns, rows
        The model, in exact integers. Decisions that the instance does not allow have no column.
        Where nothing can be swapped, memory rows of reruns are left to `add_memory_rows`.
    swap, recompute
        Tensor -> column.
    rerun
        Position of a rerun in `jobs` -> column.
    times
        The time columns and what is known about their values.
    constant_ns
        What to add to the objective to get the makespan.
    """

    def __init__(self, instance: Instance, horizon_ns: int) -> None:
        self.instance = instance
        self.life = life = instance.lifetimes
        self.horizon_ns = horizon_ns
        self.jobs = jobs = ScheduleJobs.from_lifetimes(life)
        self.columns: list[Column] = []
        self.swap = {
            t: self.add_column(f"swap[{t}]")
            for t in jobs.decidable
            if life.swappable[t] and life.last_forward_use[t] + 1 < life.num_ops
        }
        self.recompute = {t: self.add_column(f"recompute[{t}]") for t in sorted(jobs.droppable)}
        self.rerun = {
            i: self.add_column(
                f"rerun[{job.op},{job.slot}]",
                objective=0 if self.swap else life.durations_ns[job.op],
            )
            for i, job in enumerate(jobs.jobs)
            if job.is_rerun
        }
        self.constant_ns = life.durations_ns[-1] if self.swap else instance.ideal_ns
        self.times = ScheduleTimes(self)
        self.memory = MemoryRows(self)
        self.rows: list[Row] = [
            *self._decision_rows(),
            *self._rerun_rows(),
            *(self.times.rows() if self.swap else self._horizon_row()),
            *self.memory.rows(range(len(jobs.jobs)) if self.swap else jobs.base_position),
        ]

    def unit_ns(self, rows: Sequence[Row], limit: int) -> int:
        """Return a unit in which no time, or no time of reruns, exceeds `limit`."""
        if self.swap:
            return time_unit(rows, self.times.columns, self.horizon_ns, limit)
        durations = [self.columns[column].objective for column in self.rerun.values()]
        exact = gcd(*durations) or 1
        return exact * max(1, -(-sum(durations) // (exact * limit)))

    def add_memory_rows(self, positions: Iterable[int]) -> int:
        """Add the memory rows of some jobs; return how many rows and definitions are new."""
        rows = self.memory.rows(positions)
        self.rows += rows
        return len(rows)

    def add_column(
        self, name: str, *, objective: int = 0, upper: int = 1, integer: bool = True
    ) -> int:
        """Append a column and return its index."""
        self.columns.append(Column(name, objective, upper, integer))
        return len(self.columns) - 1

    def decision_columns(self, t: int) -> list[int]:
        """Columns that are 0 where tensor `t` is kept."""
        return [column[t] for column in (self.swap, self.recompute) if t in column]

    # Decisions and reruns.

    def _decision_rows(self) -> Iterator[Row]:
        """``W_t + R_t <= 1``; in the closure, ``W_q, R_q <= sum of x`` over reruns that read q.

        The latter leaves one point for all vectors that differ in decisions without effect only.
        """
        for t in self.jobs.decidable:
            columns = self.decision_columns(t)
            yield Row(f"choice[{t}]", dict.fromkeys(columns, 1), 1)
            if self.life.first_backward_use[t] == ABSENT:
                readers = {self.rerun[i]: -1 for i in self.jobs.reads[t]}
                for column in columns:
                    yield Row(f"effect[{self.columns[column].name}]", {column: 1} | readers, 0)

    def _rerun_rows(self) -> Iterator[Row]:
        """Each rerun is where the compute sequence has it.

        With X_jk for "op j is rerun in a slot up to k": an op runs twice at most, ``X_jT <= 1``;
        where a missing output y is read, it has been rebuilt,

            R_y <= X_jk                  for the first backward use k of y         (rebuilt)
            R_y + x_ck - 1 <= X_jk       for reruns of c, a reader of y            (pulls)

        and nothing else sets off a rerun (set_off), with ``z <= R_y, z <= x_ck`` (by) for a pull,

            x_jk <= sum over y first used by op k of R_y + sum over pulls in slot k of z .
        """
        life, jobs = self.life, self.jobs
        for j, positions in enumerate(jobs.rerun_positions):
            if not positions:
                continue
            check_time()
            yield Row(f"once[{j}]", {self.rerun[i]: 1 for i in positions}, 1)
            causes: dict[int, dict[int, int]] = {i: {} for i in positions}
            at_slot = {jobs.jobs[i].slot: i for i in positions}
            for y in life.outputs[j]:
                if y not in jobs.droppable:
                    continue
                dropped, use = self.recompute[y], life.first_backward_use[y]
                for i in jobs.reads[y]:
                    k = jobs.jobs[i].slot
                    if use != ABSENT and k > use:
                        continue
                    up_to = {self.rerun[p]: -1 for p in positions if jobs.jobs[p].slot <= k}
                    if not jobs.jobs[i].is_rerun:
                        yield Row(f"rebuilt[{y}]", {dropped: 1} | up_to, 0)
                        causes[at_slot[k]][dropped] = -1
                        continue
                    reader = self.rerun[i]
                    yield Row(f"pulls[{y},{i}]", {dropped: 1, reader: 1} | up_to, 1)
                    pull = self.add_column(f"pull[{y},{i}]", integer=False)
                    yield Row(f"by_drop[{y},{i}]", {pull: 1, dropped: -1}, 0)
                    yield Row(f"by_rerun[{y},{i}]", {pull: 1, reader: -1}, 0)
                    causes[at_slot[k]][pull] = -1
            for i, cause in causes.items():
                yield Row(f"set_off[{j},{jobs.jobs[i].slot}]", {self.rerun[i]: 1} | cause, 0)

    def _horizon_row(self) -> Iterator[Row]:
        """``ideal + sum of d_i x_i <= horizon``, where there are no time columns."""
        durations = {c: self.columns[c].objective for c in self.rerun.values()}
        yield Row("horizon", durations, self.horizon_ns - self.instance.ideal_ns)

    # Points and plans.

    def decisions_of(self, x: Sequence[float]) -> list[int]:
        """Read the decision vector off a point."""
        decisions = [KEEP] * self.life.num_tensors
        for code, columns in ((SWAP, self.swap), (RECOMPUTE, self.recompute)):
            for t, column in columns.items():
                if x[column] > 0.5:
                    decisions[t] = code
        return decisions

    def triggers_of(self, x: Sequence[float]) -> dict[int, int]:
        """Triggers at which the swap-ins of a point may start: the slots they start in."""
        if not self.swap:
            return {}
        ends = [
            x[self.times.start[i]] + self.life.durations_ns[k]
            for k, i in enumerate(self.jobs.base_position)
        ]
        last = self.life.num_ops - 1
        return {
            t: min(
                last,
                max(
                    self.life.last_forward_use[t] + 1,
                    sum(end <= x[self.times.in_start[t]] + 0.5 for end in ends),
                ),
            )
            for t, column in self.swap.items()
            if x[column] > 0.5
        }


def longest_makespan_ns(instance: Instance) -> int:
    """Return a makespan that no accepted plan exceeds.

    Until the step ends, a job or a copy is in progress at any time (or the plan is out of memory):
    so the step is no longer than all of them one after the other, copies at shared bandwidth.
    """
    life, device = instance.lifetimes, instance.device
    total = sum(life.durations_ns)
    total += sum(d for d, ok in zip(life.durations_ns, life.recomputable, strict=True) if ok)
    for size, swappable in zip(life.sizes_bytes, life.swappable, strict=True):
        if swappable:
            total += 2 * (device.latency_ns + 1)
            for rate in (
                device.d2h_shared_bytes_per_s or device.d2h_bytes_per_s,
                device.h2d_shared_bytes_per_s or device.h2d_bytes_per_s,
            ):
                total += -(-size * 10**9 // rate)
    return total
