"""What people read about a record."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from slackopt.batch.run import Run
from slackopt.cli.text import (
    UNKNOWN,
    bandwidth,
    count,
    is_bound_only,
    milliseconds,
    percent,
    size,
)
from slackopt.describe import describe
from slackopt.graph import Graph
from slackopt.instance import Instance
from slackopt.plan import Plan
from slackopt.records import Record
from slackopt.result import Result
from slackopt.simulation import Timeline
from slackopt.tables import facts_view, printable


def record_view(record: Record, *, written: Path | None = None) -> RenderableType:
    """Render what is in a record, and where it was written."""
    found = describe(record)
    if isinstance(record, Graph):
        view = facts_view(f"graph {record.name}", _graph_facts(found))
    elif isinstance(record, Instance):
        view = facts_view(f"instance {record.name}", _instance_facts(found))
    elif isinstance(record, Plan):
        view = facts_view(f"plan for instance {record.instance}", _plan_facts(found))
    elif isinstance(record, Result):
        view = facts_view(f"result of {record.method} on {record.instance}", _result_facts(record))
    elif isinstance(record, Run):
        view = facts_view(
            f"run of {record.task.method} on {record.task.instance}", _run_facts(record)
        )
    else:
        view = Text(repr(record))
    if written is None:
        return view
    return Group(view, Text(f"written to {printable(str(written))}"))


def timeline_view(timeline: Timeline, *, written: Path | None = None) -> RenderableType:
    """Render the numbers of a simulated step."""
    oom = timeline.out_of_memory
    facts = {"step": timeline.explain()} if oom is not None else {}
    if oom is None:
        facts |= {
            "makespan": milliseconds(timeline.makespan_ns),
            "ideal": milliseconds(timeline.ideal_ns),
            "throughput ratio": percent(timeline.throughput_ratio),
            "recompute": milliseconds(timeline.recompute_ns),
            "waiting for swap-in": milliseconds(timeline.stall_ns("swap-in")),
            "waiting for memory": milliseconds(timeline.stall_ns("memory")),
            "swapped": size(timeline.swapped_bytes),
            "recomputed": size(timeline.recomputed_bytes),
        }
    facts |= {
        "peak": size(timeline.peak_bytes),
        "budget": size(timeline.instance.budget_bytes),
    }
    view = facts_view(f"simulated step of {timeline.instance.name}", facts)
    if written is None:
        return view
    hint = f"trace written to {printable(str(written))}; open it at ui.perfetto.dev"
    return Group(view, Text(hint))


def _graph_facts(found: Mapping[str, Any]) -> dict[str, str]:
    chip = found["provenance"].get("accelerator")
    profiled = chip.get("title") if isinstance(chip, dict) else None
    return {
        "ops": f"{found['ops']} ({found['forward_ops']} forward, {found['backward_ops']} backward)",
        "tensors": f"{found['tensors']} (batch: {size(found['batch_bytes'])})",
        "unlimited peak": size(found["unlimited_peak_bytes"]),
        "ideal time": milliseconds(found["ideal_ns"]),
        "forward / backward": f"{milliseconds(found['forward_ns'])} / "
        f"{milliseconds(found['backward_ns'])}",
        "candidates": _candidates(found),
        "feasible budget": f"at least {size(found['min_budget_lower_bound_bytes'])} "
        "(lower bound: the largest working set of an op)",
        **({"profiled for": str(profiled)} if profiled else {}),
    }


def _candidates(found: Mapping[str, Any]) -> str:
    every, movable = found["candidate_bytes"], found["evictable_candidate_bytes"]
    text = f"{count(found['candidates'], 'tensor')}, {size(every)} in sum"
    return text if movable > 0.999 * every else f"{text}, of which {size(movable)} can be freed"


def _instance_facts(found: Mapping[str, Any]) -> dict[str, str]:
    device = found["device"]
    shared = device["d2h_shared_bytes_per_s"]
    link = (
        f"{bandwidth(device['d2h_bytes_per_s'])} out, {bandwidth(device['h2d_bytes_per_s'])} in, "
        f"latency {device['latency_ns'] / 1000:g} us"
    )
    if shared is not None:
        back = device["h2d_shared_bytes_per_s"]
        link += f"; {bandwidth(shared)} / {bandwidth(back)} while both directions are busy"
    host = device["host_memory_bytes"]
    hideable = "everything fits: nothing need be evicted"
    if found["hideable_share"] is not None:
        hideable = (
            f"{percent(found['hideable_share'], 1)} of the excess "
            f"({size(found['hideable_bytes'])} can be out and back within forward / backward time)"
        )
    return {
        **_graph_facts(found["graph"]),
        "budget": f"{size(found['budget_bytes'])}, {percent(found['budget_share_of_peak'], 2)} "
        "of the peak",
        "excess over budget": size(found["excess_bytes"]),
        "hideable share": hideable,
        "device": f"{device['name']}: {link}",
        "host memory": "no limit" if host is None else size(host),
        **({} if found["infeasible"] is None else {"infeasible": found["infeasible"]}),
        "identity": found["sha256"],
    }


def _plan_facts(found: Mapping[str, Any]) -> dict[str, str]:
    return {
        "decisions": f"{found['swap']} swap, {found['recompute']} recompute, {found['keep']} keep; "
        "a tensor that isn't named is kept",
        "prefetch triggers": str(found["prefetch_triggers"]),
        "made by": ", ".join(f"{key} {value}" for key, value in found["provenance"].items())
        or UNKNOWN,
        "instance identity": found["instance_sha256"],
    }


def _result_facts(result: Result) -> dict[str, str]:
    status = "bounded" if is_bound_only(result) else result.status
    facts = {"status": f"{status}, stopped by {result.stopped_by}"}
    if result.makespan_ns is not None:
        facts |= {
            "makespan": milliseconds(result.makespan_ns),
            "throughput ratio": percent(result.throughput_ratio),
            "recompute": milliseconds(result.recompute_ns),
            "stalls": milliseconds(result.stall_ns),
            "swapped": size(result.swapped_bytes),
            "recomputed": size(result.recomputed_bytes),
            "peak": size(result.peak_bytes),
        }
    facts |= {
        "ideal time": milliseconds(result.ideal_ns),
        "lower bound": milliseconds(result.lower_bound_ns),
        "certified gap": percent(result.gap, 4),
        "budget": size(result.budget_bytes),
        "time": UNKNOWN if result.wall_s is None else f"{result.wall_s:.2f} s",
    }
    if result.solver is not None:
        facts["solver"] = f"{result.solver} {result.solver_version or ''}".strip()
    facts["made by"] = f"slackopt {result.slackopt_version}"
    if result.reason is not None:
        facts["reason"] = result.reason
    return facts


def _run_facts(run: Run) -> dict[str, str]:
    task = run.task
    time_limit = "none" if task.time_limit_s is None else f"{task.time_limit_s:g} s"
    memory = "none" if task.memory_limit_bytes is None else size(task.memory_limit_bytes)
    facts = {
        "outcome": run.outcome if run.detail is None else f"{run.outcome}: {run.detail}",
        "key": run.key,
        "limits": f"time {time_limit}, memory {memory}, gap {task.gap:g}",
        "threads, seed": f"{task.threads}, {task.seed}",
        "started": run.started_at,
        "wall time": f"{run.wall_s:.2f} s",
        "peak memory": size(run.peak_rss_bytes),
        "attempt": str(run.attempt),
    }
    if task.options:
        facts["options"] = ", ".join(f"{key}={value}" for key, value in task.options.items())
    if task.tags:
        facts["tags"] = ", ".join(f"{key}={value}" for key, value in task.tags.items())
    return facts | ({} if run.result is None else _result_facts(run.result))
