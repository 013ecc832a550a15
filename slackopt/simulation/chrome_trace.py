"""Export of a timeline as a Chrome trace, the JSON that Perfetto (ui.perfetto.dev) opens."""

from __future__ import annotations

import json
from typing import Any

from slackopt.simulation.timeline import Timeline

_THREADS = {"compute": 1, "d2h": 2, "h2d": 3}
_TITLES = {"compute": "compute", "d2h": "swap-out (d2h)", "h2d": "swap-in (h2d)"}


def chrome_trace(timeline: Timeline) -> str:
    """Return the trace as JSON text.

    Three threads (compute, swap-out, swap-in) hold jobs, stalls and copies; a counter holds the
    bytes on the device and the bytes left in the budget. Times are microseconds, as the format
    wants, with three digits: exact to the nanosecond.
    """
    graph = timeline.instance.graph
    slices: list[dict[str, Any]] = []
    events: list[dict[str, Any]] = [
        {"ph": "M", "pid": 1, "name": "process_name", "args": {"name": timeline.instance.name}}
    ]
    for stream, thread in _THREADS.items():
        for key, value in (("thread_name", _TITLES[stream]), ("thread_sort_index", thread)):
            args = {"sort_index" if key == "thread_sort_index" else "name": value}
            events.append({"ph": "M", "pid": 1, "tid": thread, "name": key, "args": args})

    def add(stream: str, name: str, category: str, start: int, end: int, **args: Any) -> None:
        slices.append(
            {
                "ph": "X",
                "pid": 1,
                "tid": _THREADS[stream],
                "name": name,
                "cat": category,
                "ts": start / 1000,
                "dur": (end - start) / 1000,
                "args": {"start_ns": start, "end_ns": end, **args},
            }
        )

    oom = timeline.out_of_memory
    stop = timeline.jobs[-1].end_ns if oom is None else oom.time_ns
    for job in timeline.jobs:
        category = "recompute" if job.rerun else graph.ops[job.op_index].phase
        name = f"recompute {job.op}" if job.rerun else job.op
        add(
            "compute", name, category, job.start_ns, job.end_ns, layer=graph.ops[job.op_index].layer
        )
    for stall in timeline.stalls:
        name = f"stall: waiting for {stall.cause}"
        add("compute", name, "stall", stall.start_ns, stall.end_ns, before=stall.op)
    for copy in timeline.copies:
        end = stop if copy.end_ns is None else copy.end_ns
        verb = "swap-out" if copy.direction == "d2h" else "swap-in"
        add(copy.direction, copy.tensor, verb, copy.start_ns, end, size_bytes=copy.size_bytes)
    events += sorted(slices, key=lambda box: (box["tid"], box["args"]["start_ns"]))
    budget = timeline.instance.budget_bytes
    for time, used in zip(timeline.memory.time_ns, timeline.memory.size_bytes, strict=True):
        events.append(
            {
                "ph": "C",
                "pid": 1,
                "name": "device memory (bytes)",
                "ts": time / 1000,
                "args": {"used": used, "free in budget": budget - used},
            }
        )
    document = {"displayTimeUnit": "ns", "otherData": timeline.summary(), "traceEvents": events}
    return json.dumps(document, separators=(",", ":")) + "\n"
