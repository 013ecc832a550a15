"""The point of a simulated plan in the schedule formulation, column by column."""

from __future__ import annotations

from slackopt.formulations.linear import Row
from slackopt.formulations.schedule import ScheduleFormulation
from slackopt.lifetimes import ABSENT
from slackopt.simulation.engine import RunRecord
from slackopt.simulation.sequence import RECOMPUTE, SWAP, ComputeSequence


def point_of(
    model: ScheduleFormulation,
    decisions: list[int],
    sequence: ComputeSequence,
    record: RunRecord,
) -> list[int]:
    """Map a run to a point: decisions and times as they were, the rest as its rows allow."""
    life, jobs, times = model.life, model.jobs, model.times
    x = [0] * len(model.columns)
    for t, column in model.swap.items():
        x[column] = int(decisions[t] == SWAP)
    for t, column in model.recompute.items():
        x[column] = int(decisions[t] == RECOMPUTE)
    ran = {
        (op, slot, rerun): i
        for i, (op, slot, rerun) in enumerate(
            zip(sequence.ops, sequence.slots, sequence.reruns, strict=True)
        )
    }
    time, ends = 0, []
    for i, job in enumerate(jobs.jobs):
        position = ran.pop((job.op, job.slot, job.is_rerun), None)
        if model.swap:
            x[times.start[i]] = time if position is None else record.job_starts_ns[position]
        if position is not None:
            time = record.job_ends_ns[position]
            if job.is_rerun:
                x[model.rerun[i]] = 1
        ends.append(time)
    assert not ran, "every job of the sequence is in the list"
    out = {t: end for t, _, end in record.swap_outs}
    into = {t: start for t, start, _ in record.swap_ins}
    time = 0
    for t in times.swap_out_order():
        made = ends[jobs.base_position[life.producer[t]]] if life.producer[t] != ABSENT else 0
        time = out.get(t, max(time, made))
        x[times.out_end[t]] = time
        idle = (
            ends[jobs.base_position[life.last_forward_use[t]]]
            if (life.last_forward_use[t] >= 0)
            else 0
        )
        x[times.in_start[t]] = into.get(t, max(time, idle))
    named = {row.name: row for row in model.rows}
    for j, column in enumerate(model.columns):
        kind, _, rest = column.name.rstrip("]").partition("[")
        if kind == "pull":
            t, i = map(int, rest.split(","))
            x[j] = min(x[model.recompute[t]], x[model.rerun[i]])
        elif kind == "later":
            t, i = map(int, rest.split(","))
            x[j] = max(x[model.rerun[p]] for p in jobs.reads[t] if p >= i and p in model.rerun)
        elif kind == "first":
            a, b = map(int, rest.split(","))
            x[j] = int(_need(model, x, a) < _need(model, x, b))
    for j, column in enumerate(model.columns):
        kind = column.name.partition("[")[0]
        if kind in ("kept", "rebuilt", "leaving", "arrived", "away") and column.name in named:
            x[j] = int(not holds(named[column.name], x))
    return x


def _need(model: ScheduleFormulation, x: list[int], t: int) -> tuple[int, int]:
    for i in model.times.needs(t):
        if i not in model.rerun or x[model.rerun[i]]:
            return i, model.life.inputs[model.jobs.jobs[i].op].index(t)
    return len(model.jobs.jobs), t


def holds(row: Row, x: list[int]) -> bool:
    """Whether a point satisfies a row."""
    return sum(a * x[column] for column, a in row.coefficients.items()) <= row.upper
