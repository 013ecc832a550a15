"""The three corners: keep everything, swap everything, recompute everything."""

from __future__ import annotations

from slackopt.heuristics.rebuilding import drop, rerun_ops
from slackopt.heuristics.registry import NoPlanError, heuristic
from slackopt.instance import Instance
from slackopt.plan import Plan
from slackopt.simulation.evaluator import Evaluator
from slackopt.simulation.sequence import KEEP, RECOMPUTE, SWAP


def _priced(instance: Instance, rule: str, decisions: list[int]) -> Plan:
    evaluator = Evaluator(instance)
    record = evaluator.run(decisions)
    if record.out_of_memory is not None:
        oom = record.out_of_memory
        op = instance.graph.ops[oom.op].name
        raise NoPlanError(
            rule,
            instance,
            f"op {op!r} waits for {oom.asked_bytes} bytes and {oom.free_bytes} are free",
        )
    return evaluator.plan(decisions, provenance={"method": rule})


@heuristic("keep-all")
def keep_all(instance: Instance) -> Plan:
    """Keep every tensor; fits only if the budget is at least the unlimited peak."""
    return _priced(instance, "keep-all", [KEEP] * instance.lifetimes.num_tensors)


@heuristic("swap-all")
def swap_all(instance: Instance) -> Plan:
    """Swap every candidate that may be swapped; keep the rest."""
    life = instance.lifetimes
    decisions = [KEEP] * life.num_tensors
    for t in life.candidates:
        if life.swappable[t]:
            decisions[t] = SWAP
    return _priced(instance, "swap-all", decisions)


@heuristic("recompute-all")
def recompute_all(instance: Instance) -> Plan:
    """Recompute every candidate that can be rebuilt; keep the rest.

    A candidate is left out if its rebuilding would run an op that must not run twice.
    """
    life = instance.lifetimes
    decisions = [KEEP] * life.num_tensors
    drop(life, decisions, [t for t in life.candidates if rerun_ops(life, t)], RECOMPUTE)
    return _priced(instance, "recompute-all", decisions)
