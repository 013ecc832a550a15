"""SlackSwap: swap what transfers can hide, recompute until the rest fits.

Source: SlackSwap, arXiv 2610.13003. Only its summary is known: the transfer time that compute can
hide is a budget, the *slack*; within it, activations that are costly to rebuild are swapped; the
others are recomputed. Everything the summary leaves open is an option here; the defaults are

- *slack* ``aggregate``: one number a direction, forward time for swap-outs, backward time for
  swap-ins; ``timeline``: in every stretch of ops that ends (begins) at the peak, the copies of
  the tensors made (needed) in it must fit into its time;
- *ranking* ``time-per-byte``: time to rebuild a tensor per byte, its inputs without a backward
  use included, all others taken as there; tensors that can't be rebuilt come first;
- ties in rank go to the tensor made first;
- it stops to swap, and to recompute, as soon as the simulated step fits (*over_free* False).
"""

from __future__ import annotations

from fractions import Fraction
from itertools import accumulate
from typing import Literal

from slackopt.heuristics.rebuilding import drop, rebuild_ns
from slackopt.heuristics.registry import NoPlanError, heuristic
from slackopt.instance import Instance
from slackopt.plan import Plan
from slackopt.simulation.evaluator import Evaluator
from slackopt.simulation.sequence import KEEP, RECOMPUTE, SWAP

Slack = Literal["aggregate", "timeline"]


@heuristic("slackswap")
@heuristic("slackswap-timeline", slack="timeline")
def slackswap(instance: Instance, *, slack: Slack = "aggregate") -> Plan:
    """Return SlackSwap's plan; see the module docstring.

    Parameters
    ----------
    instance
        The instance.
    slack
        How the slack is counted: ``aggregate`` or ``timeline``.

    Raises
    ------
    NoPlanError
        If the step doesn't fit even with everything swapped or recomputed that the rule can.
    """
    life = instance.lifetimes
    evaluator = Evaluator(instance)
    cost = {t: rebuild_ns(life, t) for t in life.candidates}
    rank = {t: None if ns is None else Fraction(ns, life.sizes_bytes[t]) for t, ns in cost.items()}
    costly_first = sorted(
        life.candidates, key=lambda t: (rank[t] is not None, -(rank[t] or 0), life.producer[t], t)
    )
    decisions = [KEEP] * life.num_tensors
    if _fits(evaluator, decisions):
        return evaluator.plan(decisions, provenance={"method": "slackswap", "slack": slack})

    swaps = _within_slack(instance, [t for t in costly_first if life.swappable[t]], slack)
    needed = _fewest_that_fit(evaluator, decisions, swaps, SWAP)
    if needed is not None:
        return evaluator.plan(needed, provenance={"method": "slackswap", "slack": slack})
    for t in swaps:
        decisions[t] = SWAP

    cheap_first = sorted(
        (t for t in life.candidates if rank[t] is not None and decisions[t] == KEEP),
        key=lambda t: (rank[t], life.producer[t], t),
    )
    needed = _fewest_that_fit(evaluator, decisions, cheap_first, RECOMPUTE)
    if needed is None:
        raise NoPlanError("slackswap", instance, "even with every other tensor recomputed")
    return evaluator.plan(needed, provenance={"method": "slackswap", "slack": slack})


def _fits(evaluator: Evaluator, decisions: list[int]) -> bool:
    return evaluator.makespan_ns(decisions) is not None


def _fewest_that_fit(
    evaluator: Evaluator, decisions: list[int], order: list[int], code: int
) -> list[int] | None:
    """Give `code` to the shortest prefix of `order` with which the step runs.

    Found by bisection, which takes the fit as monotone in the prefix; None if the whole order
    doesn't fit.
    """

    def prefix(length: int) -> list[int]:
        trial = list(decisions)
        if code == RECOMPUTE:
            drop(evaluator.life, trial, order[:length], code)
        else:
            for t in order[:length]:
                trial[t] = code
        return trial

    low, high = 0, len(order)
    if not _fits(evaluator, prefix(high)):
        return None
    while low < high:
        middle = (low + high) // 2
        if _fits(evaluator, prefix(middle)):
            high = middle
        else:
            low = middle + 1
    return prefix(high)


def _within_slack(instance: Instance, order: list[int], slack: Slack) -> list[int]:
    """Return the tensors of `order` whose copies compute hides, taken greedily."""
    life, device = instance.lifetimes, instance.device
    starts = [0, *accumulate(life.durations_ns)]
    out_ns = {t: device.swap_out_ns(life.sizes_bytes[t]) for t in order}
    in_ns = {t: device.swap_in_ns(life.sizes_bytes[t]) for t in order}
    if slack == "aggregate":
        forward = starts[life.num_forward]
        out_left, in_left = forward, starts[-1] - forward
        chosen = []
        for t in order:
            if out_ns[t] <= out_left and in_ns[t] <= in_left:
                out_left -= out_ns[t]
                in_left -= in_ns[t]
                chosen.append(t)
        return chosen

    live = life.live_bytes
    peak = max(range(life.num_ops), key=live.__getitem__)
    # Slack of the stretch from op h to the peak (swap-outs), from the peak to op h (swap-ins).
    out_slack = [starts[peak] - starts[h] for h in range(peak + 1)]
    in_slack = [starts[h] - starts[peak] for h in range(peak, life.num_ops)]
    chosen = []
    for t in order:
        ready, need = life.producer[t] + 1, life.first_backward_use[t]
        if ready > peak or need <= peak:
            continue
        # A copy made at `ready` counts in every stretch that begins at or before it.
        fits_out = all(out_ns[t] <= left for left in out_slack[: ready + 1])
        fits_in = all(in_ns[t] <= left for left in in_slack[need - peak :])
        if fits_out and fits_in:
            for h in range(ready + 1):
                out_slack[h] -= out_ns[t]
            for i in range(need - peak, len(in_slack)):
                in_slack[i] -= in_ns[t]
            chosen.append(t)
    return chosen
