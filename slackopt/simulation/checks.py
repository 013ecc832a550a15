"""Independent checks of a timeline: re-derived from graph, plan and recorded times alone.

Nothing here calls the engine or the sequence builder; names are resolved from the graph again.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator
from functools import partial
from itertools import pairwise
from operator import itemgetter

from slackopt.device import copy_ns
from slackopt.errors import CheckError
from slackopt.simulation.promptness import check_promptness
from slackopt.simulation.timeline import Copy, Timeline

Spans = list[tuple[int, int]]
"""Stretches of time, one after the other."""


def check_timeline(timeline: Timeline) -> None:
    """Check a finished timeline; raise `CheckError` with everything that does not hold.

    It checks that each stream serves one job at a time and each op runs in order for its
    duration; that every input is resident while it is read; that copies take the time that
    their bandwidth asks for, and a swap-in follows its swap-out and its trigger; that the
    memory, summed up again from the events, never exceeds the budget and equals the recorded
    curve; that makespan = ideal + recompute + stalls; and that nothing waits without a reason
    (`slackopt.simulation.promptness`).

    Parameters
    ----------
    timeline
        A timeline whose step ended.
    """
    if not timeline.feasible:
        raise CheckError([timeline.explain()])
    failures = [
        *_check_streams(timeline),
        *_check_copies(timeline),
        *_check_memory(timeline),
        *_check_sums(timeline),
    ]
    if not failures:  # only a timeline that hangs together has queues to follow
        failures += check_promptness(timeline)
    if failures:
        raise CheckError(failures)


def _check_streams(timeline: Timeline) -> Iterator[str]:
    ops = timeline.instance.graph.ops
    base = [job.op_index for job in timeline.jobs if not job.rerun]
    if base != list(range(len(ops))):
        yield "the base ops do not run each once and in order"
    reruns = [job.op_index for job in timeline.jobs if job.rerun]
    if len(set(reruns)) < len(reruns):
        yield "an op is rerun more than once"
    for name in (ops[k].name for k in reruns if not ops[k].recomputable):
        yield f"op {name!r} is rerun but not recomputable"
    intervals: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for job in timeline.jobs:
        intervals["compute"].append((job.start_ns, job.end_ns))
        if (
            job.end_ns - job.start_ns != ops[job.op_index].duration_ns
            or ops[job.op_index].name != job.op
        ):
            yield f"job {job.op!r} at {job.start_ns} ns does not run for the duration of its op"
    for copy in timeline.copies:
        end = copy.end_ns if copy.end_ns is not None else timeline.jobs[-1].end_ns
        intervals[copy.direction].append((copy.start_ns, end))
    for stream, spans in intervals.items():
        for before, after in pairwise(spans):
            if after[0] < before[1]:
                yield f"stream {stream} runs two jobs at {after[0]} ns"


def _check_copies(timeline: Timeline) -> Iterator[str]:
    plan = timeline.plan
    step_end = timeline.jobs[-1].end_ns
    slot_begins = [0, *(job.end_ns for job in timeline.jobs if not job.rerun)]
    produced = _base_end_of_outputs(timeline)
    read_at: dict[str, list[int]] = defaultdict(list)
    for job in timeline.jobs:
        for name in timeline.instance.graph.ops[job.op_index].inputs:
            read_at[name].append(job.start_ns)
    outs = {copy.tensor: copy for copy in timeline.copies if copy.direction == "d2h"}
    ins = [copy for copy in timeline.copies if copy.direction == "h2d"]
    busy = {way: _in_flight(timeline, way) for way in ("d2h", "h2d")}
    for copy in timeline.copies:
        end = step_end if copy.end_ns is None else copy.end_ns
        other = busy["h2d" if copy.direction == "d2h" else "d2h"]
        whole = copy.size_bytes * 10**9
        too_short = copy.end_ns is not None and _moved(timeline, copy, end, other) < whole
        before = end if copy.end_ns is None else end - 1
        too_long = _moved(timeline, copy, before, other) >= whole
        if too_short or too_long:
            yield f"the {copy.direction} copy of {copy.tensor!r} takes {end - copy.start_ns} ns"
        if plan.decisions.get(copy.tensor) != "swap":
            yield f"tensor {copy.tensor!r} is copied but not decided swap"
    for name, copy in outs.items():
        if copy.start_ns < produced.get(name, 0):
            yield f"swap-out of {name!r} starts before its producer has ended"
    for copy in ins:
        out = outs.get(copy.tensor)
        if out is None or out.end_ns is None or out.end_ns > copy.start_ns:
            yield f"swap-in of {copy.tensor!r} starts before its swap-out has ended"
        # A trigger after the slot of the need counts as reached when that slot begins.
        starts = read_at[copy.tensor]
        first = bisect_left(starts, copy.start_ns)
        need = starts[first] if first < len(starts) else step_end
        trigger = min(plan.prefetch.get(copy.tensor, 0), bisect_right(slot_begins, need) - 1)
        if copy.start_ns < slot_begins[trigger]:
            yield f"swap-in of {copy.tensor!r} starts before its trigger"
    host = timeline.instance.device.host_memory_bytes
    if host is not None:
        ended = {copy.tensor: copy.end_ns for copy in ins}
        events = [(copy.start_ns, 1, copy.size_bytes) for copy in outs.values()]
        events += [
            (end, 0, -outs[name].size_bytes)
            for name, end in ended.items()
            if end is not None and name in outs
        ]
        level = 0
        for time, _, change in sorted(events):
            level += change
            if level > host:
                yield f"host memory exceeds {host} bytes at {time} ns"


def _in_flight(timeline: Timeline, direction: str) -> Spans:
    """When a direction of the link has a copy in flight."""
    step_end = timeline.jobs[-1].end_ns
    return [
        (copy.start_ns, step_end if copy.end_ns is None else copy.end_ns)
        for copy in timeline.copies
        if copy.direction == direction
    ]


def _moved(timeline: Timeline, copy: Copy, until: int, other_busy: Spans) -> int:
    """Work that a copy has done by a time, in units of 1e-9 byte; see "Shared link"."""
    device = timeline.instance.device
    alone, shared = device.d2h_bytes_per_s, device.d2h_shared_bytes_per_s
    if copy.direction == "h2d":
        alone, shared = device.h2d_bytes_per_s, device.h2d_shared_bytes_per_s
    begin = copy.start_ns + device.latency_ns
    if until <= begin:
        return 0
    if shared is None:
        return alone * (until - begin)
    first = bisect_right(other_busy, begin, key=itemgetter(1))
    last = bisect_left(other_busy, until, key=itemgetter(0))
    both = sum(min(until, end) - max(begin, start) for start, end in other_busy[first:last])
    return alone * (until - begin) - (alone - shared) * both


def _base_end_of_outputs(timeline: Timeline) -> dict[str, int]:
    ops = timeline.instance.graph.ops
    return {
        name: job.end_ns
        for job in timeline.jobs
        if not job.rerun
        for name in ops[job.op_index].outputs
    }


def _check_memory(timeline: Timeline) -> Iterator[str]:
    """Rebuild, tensor by tensor, the spans of residency; check reads and sum the bytes up."""
    graph, plan = timeline.instance.graph, timeline.plan
    size = {tensor.name: tensor.size_bytes for tensor in graph.tensors}
    step_end = timeline.jobs[-1].end_ns
    spans: list[tuple[int, int, int]] = []  # from, to, bytes
    readable: dict[str, list[tuple[int, int]]] = defaultdict(list)
    made: dict[str, tuple[int, int]] = {}
    reads: dict[str, list[tuple[int, int, bool]]] = defaultdict(list)
    rebuilt: dict[str, tuple[int, int]] = {}
    for job in timeline.jobs:
        op = graph.ops[job.op_index]
        spans.append((job.start_ns, job.end_ns, op.workspace_bytes))
        for name in op.inputs:
            forward = op.phase == "forward" and not job.rerun
            reads[name].append((job.start_ns, job.end_ns, forward))
        for name in op.outputs:
            if not job.rerun:
                made[name] = (job.start_ns, job.end_ns)
            elif plan.decisions.get(name) == "recompute":
                rebuilt[name] = (job.start_ns, job.end_ns)
            else:
                spans.append((job.start_ns, job.end_ns, size[name]))
    copies: dict[tuple[str, str], Copy] = {(c.tensor, c.direction): c for c in timeline.copies}
    for tensor in graph.tensors:
        name = tensor.name
        start, made_end = made.get(name, (0, 0))
        forward_end = max([made_end, *(end for _, end, forward in reads[name] if forward)])
        last_use = max([made_end, *(end for _, end, _ in reads[name])])
        later = last_use > forward_end
        decision = plan.decisions.get(name, "keep") if later else "keep"
        here: list[tuple[int, int]]
        if decision == "recompute":
            again = rebuilt.get(name, (step_end, step_end))
            here = [(start, forward_end), (again[0], last_use)]
        elif decision == "swap":
            out, back = copies.get((name, "d2h")), copies.get((name, "h2d"))
            if out is None or back is None or out.end_ns is None or back.end_ns is None:
                yield f"tensor {name!r} is decided swap and read later, but doesn't go out and back"
                continue
            pieces = _pieces(timeline, out, out.end_ns, forward_end)
            spans.extend((start, time, piece) for time, piece in pieces)
            spans.append((back.start_ns, last_use, size[name]))
            readable[name] = [(start, forward_end), (back.end_ns, last_use)]
            here = []
        else:
            if name in rebuilt:
                spans.append((*rebuilt[name], size[name]))
            here = [(start, last_use)]
        spans.extend((a, b, size[name]) for a, b in here)
        readable[name] = readable[name] or here
        for begin, end, _ in reads[name]:
            if not any(a <= begin and end <= b for a, b in readable[name]):
                yield f"tensor {name!r} is read at {begin} ns while it is not resident"
    deltas: dict[int, int] = defaultdict(int)
    for begin, end, amount in spans:
        deltas[begin] += amount
        deltas[end] -= amount
    budget = timeline.instance.budget_bytes
    level, curve = 0, []
    for time in sorted(deltas):
        level += deltas[time]
        if level > timeline.instance.budget_bytes:
            yield f"{level} bytes at {time} ns exceed the budget of {budget}"
        if (deltas[time] or time == 0) and time <= step_end:
            curve.append((time, level))
    recorded = list(zip(timeline.memory.time_ns, timeline.memory.size_bytes, strict=True))
    if curve != recorded:
        yield "the memory curve differs from the one summed up from jobs and copies"


def _pieces(
    timeline: Timeline, out: Copy, out_end: int, forward_end: int
) -> Iterator[tuple[int, int]]:
    """Yield release time and bytes of each piece of a swap-out."""
    device = timeline.instance.device
    chunk = device.chunk_bytes
    if not chunk or chunk >= out.size_bytes:
        yield max(out_end, forward_end), out.size_bytes
        return
    begin = out.start_ns + device.latency_ns
    other = [] if device.independent else _in_flight(timeline, "h2d")
    for first in range(0, out.size_bytes, chunk):
        last = min(first + chunk, out.size_bytes)
        copied_at = begin + copy_ns(last, device.d2h_bytes_per_s)
        if other:  # the first nanosecond at which so much has moved
            times = range(begin, out_end)
            moved = partial(_moved, timeline, out, other_busy=other)
            copied_at = begin + bisect_left(times, last * 10**9, key=moved)
        yield max(copied_at, forward_end), last - first


def _check_sums(timeline: Timeline) -> Iterator[str]:
    graph = timeline.instance.graph
    duration = {op.name: op.duration_ns for op in graph.ops}
    makespan = timeline.jobs[-1].end_ns
    idle, previous = 0, 0
    for job in timeline.jobs:
        idle += job.start_ns - previous
        previous = job.end_ns
    recompute = sum(duration[job.op] for job in timeline.jobs if job.rerun)
    ideal = sum(op.duration_ns for op in graph.ops)
    if makespan != ideal + recompute + idle:
        yield f"makespan {makespan} is not ideal {ideal} + recompute {recompute} + stalls {idle}"
    if timeline.stall_ns() != idle or timeline.recompute_ns != recompute:
        yield "the stalls or the recompute time of the timeline differ from its jobs"
    if timeline.peak_bytes > timeline.instance.budget_bytes:
        yield "the peak exceeds the budget"
