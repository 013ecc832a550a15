"""Two rules that show which part of SlackSwap loses what; imported by parts.toml.

SlackSwap makes two choices: which tensors to swap, and which to recompute. Each of these rules
keeps one of them as SlackSwap made it, and leaves the other to the exact method:

- ``slackswap-fixed-swaps``: no tensor may be swapped but those that SlackSwap swaps;
- ``slackswap-fixed-recomputes``: no op may be run again but those that SlackSwap runs again.

The plan of SlackSwap keeps to both, so neither is slower than it. What such a plan gains over
SlackSwap is lost by the choice that was freed; what it still loses to the exact plan is lost by
the choice that was fixed. The lower bound of a restricted step holds for such plans only; it
stands in the plan's provenance, as ``restricted_lower_bound_ns``, and never in a result.
"""

from __future__ import annotations

from slackopt import solve
from slackopt.graph import Graph
from slackopt.heuristics import heuristic
from slackopt.heuristics.slackswap import Slack, slackswap
from slackopt.instance import Instance
from slackopt.plan import Plan
from slackopt.simulation.evaluator import Evaluator

GAP = 5e-4
"""Certified gap at which the search of a restricted step stops."""


@heuristic("slackswap-fixed-swaps")
def fixed_swaps(
    instance: Instance, *, slack: Slack = "aggregate", time_limit: float | None = 20.0
) -> Plan:
    """Swap at most what SlackSwap swaps; recompute and keep as the exact method does."""
    base = slackswap(instance, slack=slack)
    swapped = _decided(base, "swap")
    graph = instance.graph
    tensors = tuple(
        tensor.model_copy(update={"swappable": tensor.swappable and tensor.name in swapped})
        for tensor in graph.tensors
    )
    changed = Graph(name=graph.name, ops=graph.ops, tensors=tensors, provenance=graph.provenance)
    return _best(instance, changed, base, time_limit, {"fixed": "swaps", "slack": slack})


@heuristic("slackswap-fixed-recomputes")
def fixed_recomputes(
    instance: Instance, *, slack: Slack = "aggregate", time_limit: float | None = 20.0
) -> Plan:
    """Run again at most what SlackSwap runs again; swap and keep as the exact method does."""
    base = slackswap(instance, slack=slack)
    dropped = _decided(base, "recompute")
    graph = instance.graph
    ops = tuple(
        op.model_copy(
            update={"recomputable": op.recomputable and not dropped.isdisjoint(op.outputs)}
        )
        for op in graph.ops
    )
    changed = Graph(name=graph.name, ops=ops, tensors=graph.tensors, provenance=graph.provenance)
    return _best(instance, changed, base, time_limit, {"fixed": "recomputes", "slack": slack})


def _decided(plan: Plan, decision: str) -> set[str]:
    return {name for name, value in plan.decisions.items() if value == decision}


def _best(
    instance: Instance,
    changed: Graph,
    base: Plan,
    time_limit: float | None,
    provenance: dict[str, object],
) -> Plan:
    """Return the fastest plan found for the restricted step, as a plan of the instance."""
    restricted = Instance(
        name=f"{instance.name} (SlackSwap's {provenance['fixed']})",
        budget_bytes=instance.budget_bytes,
        budget_fraction=instance.budget_fraction,
        device=instance.device,
        graph=changed,
        provenance=instance.provenance,
    )
    result = solve(restricted, "exact", time_limit=time_limit, gap=GAP)
    if result.lower_bound_ns is not None:
        provenance["restricted_lower_bound_ns"] = result.lower_bound_ns
    evaluator = Evaluator(instance)
    before = evaluator.makespan_ns(evaluator.decisions(base))
    found = result.plan
    if found is None or (before is not None and before <= (result.makespan_ns or 0)):
        return base.model_copy(update={"provenance": {**base.provenance, **provenance}})
    return Plan.for_instance(
        instance, found.decisions, found.prefetch, {"method": "exact", **provenance}
    )
