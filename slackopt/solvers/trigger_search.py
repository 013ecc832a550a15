"""The best prefetch triggers of one decision vector, exactly, by branching on simulated runs.

Swap-ins are served strictly in order of next need, so a plan's triggers act as the ascending
envelope of their values, cut at the slot of each need. Two trigger vectors under which every
swap-in starts in the same slot give the same run, and the search visits one vector for each run.

Write ``run(h)`` for the run under triggers ``h``, and call the slot during which a swap-in starts
its *start slot* (the number of base ops that have ended by then).

*Branching.* Let ``g`` be the triggers of any plan and ``h <= g``, with every swap-in in front of
number i starting in ``run(h)`` at its ``g`` or later. Take the first swap-in j >= i whose start
slot in ``run(h)`` is below ``g_j``. If there is none, each swap-in that starts in ``run(h)`` starts
where ``g`` allows it, and one that never starts (out of memory before) is not started by a later
trigger either: ``run(g) = run(h)``. Otherwise raise ``h_j`` to its start slot plus 1: still ``h <=
g``, and as the two runs agree until swap-in j started, the swap-ins in front of j start as before:
the assumption holds with i = j. From the lowest triggers, raising one swap-in at a time, from j on,
to the slot after its start therefore reaches every run.

*Pruning.* Every run below such a branch agrees with ``run(h)`` until the time at which swap-in j
starts. What is left of the compute sequence then has to run after that; and the jobs from the next
need of j on have to run after base op ``start slot of j`` has ended and a copy at full bandwidth.
Both give a lower bound on the makespan of the whole branch.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate

from slackopt.instance import Instance
from slackopt.simulation.engine import RunRecord, run
from slackopt.simulation.sequence import ComputeSequence


@dataclass
class TriggerSearch:
    """Outcome of `best_triggers`.

    Attributes
    ----------
    makespan_ns
        Best makespan found below the cutoff, or None.
    triggers
        Its triggers: tensor -> op index, for every swapped tensor.
    runs
        How many runs were simulated.
    complete
        Whether every run below the cutoff was visited; False when time ran out.
    """

    makespan_ns: int | None = None
    triggers: dict[int, int] | None = None
    runs: int = 0
    complete: bool = True


def best_triggers(
    instance: Instance,
    sequence: ComputeSequence,
    *,
    cutoff_ns: int | None = None,
    deadline: float | None = None,
    on_better: Callable[[int, dict[int, int]], None] | None = None,
) -> TriggerSearch:
    """Find the triggers with the least makespan below `cutoff_ns`, or show that there are none.

    Parameters
    ----------
    instance
        The instance.
    sequence
        The compute sequence of the decisions.
    cutoff_ns
        Only makespans below it are of interest; None for no cutoff.
    deadline
        `time.monotonic` value at which to stop.
    on_better
        Called as ``(makespan_ns, triggers)`` at each improvement.
    """
    search = TriggerSearch()
    life, slots = instance.lifetimes, sequence.slots
    durations = [life.durations_ns[op] for op in sequence.ops]
    ends = [0, *accumulate(durations)]  # without stalls: end of the job before
    total = ends[-1]
    queue = [t for position in sorted(sequence.needs) for t in sequence.needs[position]]
    copy_ns = {t: instance.device.swap_in_ns(life.sizes_bytes[t]) for t in queue}
    lowest = [last + 1 for last in life.last_forward_use]

    def bound(record: RunRecord, t: int, start: int, slot: int) -> int:
        """Bound the runs that agree with this one until `t` starts, and start it after `slot`."""
        jobs = sum(begun <= start for begun in record.job_starts_ns)
        now = start
        if jobs:
            now = max(now, record.job_starts_ns[jobs - 1] + durations[jobs - 1])
        slot_end = now + ends[sequence.base_position[slot] + 1] - ends[jobs]
        need = max(slot_end + copy_ns[t], now + ends[sequence.next_need[t]] - ends[jobs])
        return need + total - ends[sequence.next_need[t]]

    # A node is a trigger vector with the number of the first swap-in that may be raised.
    nodes = [(0, lowest, total)]
    best = cutoff_ns
    while nodes:
        first, triggers, least = nodes.pop()
        if best is not None and least >= best:
            continue
        if deadline is not None and time.monotonic() >= deadline:
            search.complete = False
            break
        record = run(life, instance.device, instance.budget_bytes, sequence, triggers)
        search.runs += 1
        makespan = record.makespan_ns
        if makespan is not None and (best is None or makespan < best):
            best = search.makespan_ns = makespan
            search.triggers = {t: triggers[t] for t in queue}
            if on_better is not None:
                on_better(makespan, search.triggers)
            if makespan == total:
                break
        base_ends = [
            end
            for end, rerun in zip(record.job_ends_ns, sequence.reruns, strict=False)
            if not rerun
        ]
        for j, (t, start, _) in enumerate(record.swap_ins):
            slot = sum(end <= start for end in base_ends)
            if j >= first and slot < slots[sequence.next_need[t]]:
                raised = list(triggers)
                raised[t] = slot + 1
                nodes.append((j, raised, bound(record, t, start, slot)))
    return search
