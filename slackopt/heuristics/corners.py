"""The three corners: keep everything, swap everything, recompute everything."""

from __future__ import annotations

from slackopt.heuristics.common.running import priced
from slackopt.heuristics.rebuilding import drop, rerun_ops
from slackopt.heuristics.registry import heuristic
from slackopt.instance import Instance
from slackopt.plan import Plan
from slackopt.simulation.evaluator import Evaluator
from slackopt.simulation.sequence import KEEP, RECOMPUTE, SWAP


@heuristic("keep-all")
def keep_all(instance: Instance) -> Plan:
    """Keep every tensor; fits only if the budget is at least the unlimited peak."""
    return priced(Evaluator(instance), "keep-all", [KEEP] * instance.lifetimes.num_tensors)


@heuristic("swap-all")
def swap_all(instance: Instance) -> Plan:
    """Swap every candidate that may be swapped; keep the rest."""
    life = instance.lifetimes
    decisions = [KEEP] * life.num_tensors
    for t in life.candidates:
        if life.swappable[t]:
            decisions[t] = SWAP
    return priced(Evaluator(instance), "swap-all", decisions)


@heuristic("recompute-all")
def recompute_all(instance: Instance) -> Plan:
    """Recompute every candidate that can be rebuilt; keep the rest.

    A candidate is left out if its rebuilding would run an op that must not run twice.
    """
    life = instance.lifetimes
    decisions = [KEEP] * life.num_tensors
    drop(life, decisions, [t for t in life.candidates if rerun_ops(life, t)], RECOMPUTE)
    return priced(Evaluator(instance), "recompute-all", decisions)
