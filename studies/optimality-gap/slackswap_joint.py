"""SlackSwap with reruns counted once: what one op makes is dropped together; for parts.toml.

SlackSwap ranks tensors one by one. An op that is run again makes all its outputs again, though:
a dropout's mask comes back for nothing with its output. ``slackswap-joint`` swaps as SlackSwap
does, with its *ranking*. Then it drops, op by op, everything that the op makes and that may be
dropped, in the order of rerun time per byte of all of it. With the ranking ``production`` it swaps
what is made first: that is idle longest, so its copies have the most time.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from slackopt.heuristics import heuristic
from slackopt.heuristics.common.running import Step, first_that_runs, runs
from slackopt.heuristics.rebuilding import rebuild_ns, recompute_step
from slackopt.heuristics.registry import NoPlanError

# The two steps of the rule itself, so that nothing but what is said above differs.
from slackopt.heuristics.slackswap import Ranking, Slack, _orders, _within_slack
from slackopt.instance import Instance
from slackopt.plan import Plan
from slackopt.simulation.evaluator import Evaluator
from slackopt.simulation.sequence import KEEP, RECOMPUTE, SWAP


@heuristic("slackswap-joint")
def joint(
    instance: Instance, *, slack: Slack = "aggregate", ranking: Ranking = "time-per-byte"
) -> Plan:
    """Swap as SlackSwap does, then drop all that one rerun brings back, cheapest per byte first."""
    evaluator = Evaluator(instance)
    life = evaluator.life
    decisions = [KEEP] * life.num_tensors
    if not runs(evaluator, decisions):
        order, _ = _orders(instance, ranking, "first", 0)
        swaps = _within_slack(instance, [t for t in order if life.swappable[t]], slack)
        hidden = set(swaps)
        with_all = [SWAP if t in hidden else KEEP for t in range(life.num_tensors)]
        if runs(evaluator, with_all):
            decisions = _fewest(evaluator, decisions, [{t: SWAP} for t in swaps])
        else:
            decisions = _fewest(evaluator, with_all, _drops(evaluator, with_all))
    provenance = {"method": "slackswap-joint", "slack": slack, "ranking": ranking}
    return evaluator.plan(decisions, provenance=provenance)


def _drops(evaluator: Evaluator, decisions: Sequence[int]) -> list[Step]:
    """Return, op by op, what is dropped with it; the cheapest op per byte first."""
    life = evaluator.life
    groups: dict[int, list[int]] = {}
    for t in life.candidates:
        if decisions[t] == KEEP and rebuild_ns(life, t) is not None:
            groups.setdefault(life.producer[t], []).append(t)

    def price(op: int) -> tuple[Fraction, int]:
        size = sum(life.sizes_bytes[t] for t in groups[op])
        return Fraction(rebuild_ns(life, groups[op][0]) or 0) / size, op

    steps: list[Step] = []
    for op in sorted(groups, key=price):
        step: dict[int, int] = {}
        for t in groups[op]:
            # As in SlackSwap: what the rerun reads and the backward pass doesn't goes, too.
            step |= recompute_step(life, t, RECOMPUTE)
        steps.append(step)
    return steps


def _fewest(evaluator: Evaluator, start: Sequence[int], steps: Sequence[Step]) -> list[int]:
    found = first_that_runs(evaluator, start, steps, 1)
    if found is None:
        raise NoPlanError("slackswap-joint", evaluator.instance, "even with all steps taken")
    return found
