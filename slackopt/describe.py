"""What is in a file, as JSON values: the numbers that `slackopt info` prints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from slackopt.batch.run import Run
from slackopt.errors import InfeasibleError
from slackopt.graph import Graph
from slackopt.instance import Instance
from slackopt.library.records import Best, Certificate
from slackopt.plan import Plan
from slackopt.records import Record
from slackopt.result import Result


def describe(record: Record) -> dict[str, Any]:
    """Describe a graph, an instance, a plan, a result or a run of a batch.

    Parameters
    ----------
    record
        One of the records that have a file format.

    Returns
    -------
    dict
        JSON values; units are in the names, unknown is None.
    """
    if isinstance(record, Graph):
        return describe_graph(record)
    if isinstance(record, Instance):
        return describe_instance(record)
    if isinstance(record, Plan):
        return describe_plan(record)
    if isinstance(record, Result):
        return describe_result(record)
    if isinstance(record, Run):
        return describe_run(record)
    if isinstance(record, Best):
        return {"format": record.format, "family": record.family, "entries": len(record.entries)}
    if isinstance(record, Certificate):
        return record.model_dump(mode="json", exclude={"schema_version", "weights"}) | {
            "rows": len(record.weights)
        }
    raise TypeError(f"nothing is known about a {type(record).__name__}")


def describe_graph(graph: Graph) -> dict[str, Any]:
    """Describe a graph.

    ``min_budget_lower_bound_bytes`` is the largest working set of an op: no plan exists below
    it, and one may need more.
    """
    life = graph.lifetimes
    forward_ns = sum(life.durations_ns[: life.num_forward])
    sizes = life.sizes_bytes
    decidable = [t for t in life.candidates if life.swappable[t] or life.can_recompute(t)]
    return {
        "format": graph.format,
        "name": graph.name,
        "ops": life.num_ops,
        "forward_ops": life.num_forward,
        "backward_ops": life.num_ops - life.num_forward,
        "tensors": life.num_tensors,
        "batch_bytes": life.batch_bytes,
        "ideal_ns": graph.ideal_ns,
        "forward_ns": forward_ns,
        "backward_ns": graph.ideal_ns - forward_ns,
        "unlimited_peak_bytes": graph.unlimited_peak_bytes,
        "min_budget_lower_bound_bytes": min_budget_lower_bound_bytes(graph),
        "candidates": len(life.candidates),
        "candidate_bytes": sum(sizes[t] for t in life.candidates),
        "swappable_candidate_bytes": sum(sizes[t] for t in life.candidates if life.swappable[t]),
        "evictable_candidate_bytes": sum(sizes[t] for t in decidable),
        "provenance": dict(graph.provenance),
    }


def min_budget_lower_bound_bytes(graph: Graph) -> int:
    """Return the budget below which one op (or the batch) alone does not fit."""
    life = graph.lifetimes
    return max(life.batch_bytes, *life.working_set_bytes)


def describe_instance(instance: Instance) -> dict[str, Any]:
    """Describe an instance: its graph, its device, and how hard the budget presses.

    The *excess* is the unlimited peak beyond the budget. The *hideable* bytes are those that
    the link can take out during the forward ops and bring back during the backward ops, at
    full bandwidth and without latency, at most those of the swappable candidates; the hideable
    share is that part of the excess.
    """
    graph, device = instance.graph, instance.device
    facts = describe_graph(graph)
    excess = max(0, facts["unlimited_peak_bytes"] - instance.budget_bytes)
    hideable = min(
        facts["forward_ns"] * device.d2h_bytes_per_s // 10**9,
        facts["backward_ns"] * device.h2d_bytes_per_s // 10**9,
        facts["swappable_candidate_bytes"],
    )
    try:
        instance.check_working_set()
        infeasible = None
    except InfeasibleError as error:
        infeasible = str(error)
    return {
        "format": instance.format,
        "name": instance.name,
        "sha256": instance.sha256,
        "budget_bytes": instance.budget_bytes,
        "budget_fraction": instance.budget_fraction,
        "budget_share_of_peak": instance.budget_bytes / facts["unlimited_peak_bytes"],
        "excess_bytes": excess,
        "hideable_bytes": hideable,
        "hideable_share": min(1.0, hideable / excess) if excess else None,
        "infeasible": infeasible,
        "device": device.model_dump(mode="json"),
        "graph": facts,
    }


def describe_plan(plan: Plan) -> dict[str, Any]:
    """Describe a plan: how many tensors it names for each decision."""
    counts = plan.counts
    return {
        "format": plan.format,
        "instance": plan.instance,
        "instance_sha256": plan.instance_sha256,
        "swap": counts["swap"],
        "recompute": counts["recompute"],
        "keep": counts["keep"],
        "prefetch_triggers": len(plan.prefetch),
        "provenance": dict(plan.provenance),
    }


def describe_result(result: Result) -> dict[str, Any]:
    """Describe a result: its numbers, and its plan in short."""
    fields = result.model_dump(
        mode="json",
        exclude={
            *("plan", "trajectory", "schema_version"),
            *("bound_certificate", "infeasibility_certificate"),
        },
    )
    return fields | {
        "moves": len(result.trajectory),
        "bound_certificate_rows": _length(result.bound_certificate),
        "infeasibility_certificate_rows": _length(result.infeasibility_certificate),
        "plan": None if result.plan is None else describe_plan(result.plan),
    }


def _length(rows: Sequence[object] | None) -> int | None:
    return None if rows is None else len(rows)


def describe_run(run: Run) -> dict[str, Any]:
    """Describe a run of a batch: task, outcome, and its result in short."""
    fields = run.model_dump(mode="json", exclude={"result", "schema_version"})
    return fields | {"result": None if run.result is None else describe_result(run.result)}
