"""Checks that nothing waits without a reason: every start is the earliest that the rules allow.

Queues are served in their order as well.

With the other checks this pins a timeline down: a plan is priced at what it costs, no less and no
more. Nothing here calls the engine or the sequence builder.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator

from slackopt.simulation.timeline import Copy, Job, Timeline


def check_promptness(timeline: Timeline) -> Iterator[str]:
    """Yield what starts later than it could, or in another order than the queues'.

    Parameters
    ----------
    timeline
        A timeline whose step ended.
    """
    outs = [copy for copy in timeline.copies if copy.direction == "d2h"]
    ins = [copy for copy in timeline.copies if copy.direction == "h2d"]
    needs = _next_needs(timeline)
    queued = _queued_at(timeline)
    if [copy.tensor for copy in outs] != [name for name in queued if name in needs]:
        yield "the swap-outs are not those of the plan in the order in which they are queued"
        return
    if [copy.tensor for copy in ins] != list(needs):
        yield "the swap-ins are not those of the plan in the order of their next need"
        return
    yield from _late_swap_outs(timeline, outs, queued)
    waits = _waits_for_memory(timeline, ins)
    if sum(end - begin for begin, end in waits.values()) != timeline.stall_ns("memory"):
        yield "the time of waiting for memory differs from the one derived from jobs and copies"
    yield from _late_jobs(timeline, waits)
    yield from _late_swap_ins(timeline, outs, ins, needs, list(waits.values()))


def _reads_later(timeline: Timeline, job: Job) -> bool:
    """Whether what a job reads is read after its last forward use."""
    return job.rerun or timeline.instance.graph.ops[job.op_index].phase == "backward"


def _next_needs(timeline: Timeline) -> dict[str, int]:
    """Per swapped tensor, in order of need: position of the first job that reads it later."""
    ops, decisions = timeline.instance.graph.ops, timeline.plan.decisions
    found: dict[str, int] = {}
    for position, job in enumerate(timeline.jobs):
        if _reads_later(timeline, job):
            for name in ops[job.op_index].inputs:
                if decisions.get(name) == "swap":
                    found.setdefault(name, position)
    return found


def _queued_at(timeline: Timeline) -> dict[str, int]:
    """Per tensor, in the order of the queue: when a swap-out of it is queued."""
    graph = timeline.instance.graph
    produced = {name for op in graph.ops for name in op.outputs}
    queued = {tensor.name: 0 for tensor in graph.tensors if tensor.name not in produced}
    for job in timeline.jobs:
        if not job.rerun:
            queued.update(dict.fromkeys(graph.ops[job.op_index].outputs, job.end_ns))
    return queued


def _late_swap_outs(timeline: Timeline, outs: list[Copy], queued: dict[str, int]) -> Iterator[str]:
    if timeline.instance.device.host_memory_bytes is not None:
        return  # the host may have had no room
    idle_from = 0
    for copy in outs:
        if copy.start_ns > max(idle_from, queued[copy.tensor]):
            yield f"swap-out of {copy.tensor!r} starts at {copy.start_ns} ns, later than it could"
        idle_from = copy.start_ns if copy.end_ns is None else copy.end_ns


def _waits_for_memory(timeline: Timeline, ins: list[Copy]) -> dict[int, tuple[int, int]]:
    """Per position of a job that waits with all inputs resident: since when, and until when."""
    ops = timeline.instance.graph.ops
    arrival = {copy.tensor: copy.end_ns for copy in ins}
    waits: dict[int, tuple[int, int]] = {}
    ready = 0
    for position, job in enumerate(timeline.jobs):
        if _reads_later(timeline, job):
            for name in ops[job.op_index].inputs:
                ready = max(ready, arrival.get(name) or 0)
        if job.start_ns > ready:
            waits[position] = (ready, job.start_ns)
        ready = job.end_ns
    return waits


def _late_jobs(timeline: Timeline, waits: dict[int, tuple[int, int]]) -> Iterator[str]:
    graph = timeline.instance.graph
    size = {tensor.name: tensor.size_bytes for tensor in graph.tensors}
    for position, (ready, start) in waits.items():
        job = timeline.jobs[position]
        op = graph.ops[job.op_index]
        asked = op.workspace_bytes + sum(size[name] for name in op.outputs)
        if any(_free_bytes(timeline, t) >= asked for t in _changes(timeline, ready, start)):
            yield f"job {job.op!r} starts at {start} ns, and its memory was free before"


def _late_swap_ins(
    timeline: Timeline,
    outs: list[Copy],
    ins: list[Copy],
    needs: dict[str, int],
    waits: list[tuple[int, int]],
) -> Iterator[str]:
    slot_begins = [0, *(job.end_ns for job in timeline.jobs if not job.rerun)]
    forward_end: dict[str, int] = {}
    for job in timeline.jobs:
        op = timeline.instance.graph.ops[job.op_index]
        if not job.rerun:
            forward_end.update(dict.fromkeys(op.outputs, job.end_ns))
            if op.phase == "forward":
                forward_end.update(dict.fromkeys(op.inputs, job.end_ns))
    out_end = {copy.tensor: copy.end_ns or 0 for copy in outs}
    wait_ends = [end for _, end in waits]
    idle_from = 0
    for copy in ins:
        name, start = copy.tensor, copy.start_ns
        need = timeline.jobs[needs[name]].start_ns
        # A trigger after the slot of the need counts as reached when that slot begins.
        slot = min(timeline.plan.prefetch[name], bisect_right(slot_begins, need) - 1)
        released = max(out_end[name], forward_end.get(name, 0))
        ready = max(idle_from, slot_begins[slot], released)
        if start < ready:
            yield f"swap-in of {name!r} starts at {start} ns, before {ready} ns"
        moments = _changes(timeline, ready, start)
        moments += wait_ends[bisect_right(wait_ends, ready) : bisect_left(wait_ends, start)]
        for t in moments:
            i = bisect_right(wait_ends, t)  # the first wait that is not over
            compute_waits = i < len(waits) and waits[i][0] <= t
            if _free_bytes(timeline, t) >= copy.size_bytes and not compute_waits:
                yield f"swap-in of {name!r} starts at {start} ns, and could start at {t} ns"
                break
        idle_from = start if copy.end_ns is None else copy.end_ns


def _changes(timeline: Timeline, begin: int, end: int) -> list[int]:
    """Return `begin` and the later times before `end` at which the memory changes."""
    if begin >= end:
        return []
    times = timeline.memory.time_ns
    return [begin, *times[bisect_right(times, begin) : bisect_left(times, end)]]


def _free_bytes(timeline: Timeline, t: int) -> int:
    """Bytes of the budget that are free after all that happens at time `t`."""
    curve = timeline.memory
    return timeline.instance.budget_bytes - curve.size_bytes[bisect_right(curve.time_ns, t) - 1]
