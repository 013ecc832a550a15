"""SlackSwap: swap what transfers can hide, recompute until the rest fits.

Source: SlackSwap, arXiv 2610.13003. Only its summary is known: the transfer time that compute can
hide is a budget, the *slack*; within it, activations that are costly to rebuild are swapped; the
others are recomputed. Everything the summary leaves open is an option here; the defaults are

- *slack* ``aggregate``: one number a direction, forward time for swap-outs, backward time for
  swap-ins; ``timeline``: in every stretch of ops that ends (begins) at the peak, the copies of
  the tensors made (needed) in it must fit into its time;
- *ranking* ``time-per-byte``: time to rebuild a tensor per byte, its inputs without a backward
  use included, all others taken as there; tensors that can't be rebuilt come first;
- *ties* in rank go to the tensor made first;
- it stops to swap, and to recompute, as soon as the simulated step fits (*use_all_slack* False,
  *over_free* 0).

Which part of the rule loses how much is asked by changing one of them:

=================== ======================== ==============================
ranking             swapped first            recomputed first
=================== ======================== ==============================
``time-per-byte``   longest to rebuild/byte  shortest to rebuild/byte
``rebuild-time``    longest to rebuild       shortest to rebuild
``size``            largest                  largest
``idle-time``       idle longest             idle longest
``production``      made first               made first
``random``          drawn from *seed*        drawn from *seed*
=================== ======================== ==============================

With every ranking, what can't be rebuilt is swapped first.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from random import Random
from typing import Literal

import numpy as np

from slackopt.clock import check_time
from slackopt.errors import InputError
from slackopt.heuristics.common.idle import idle_ns, op_starts_ns
from slackopt.heuristics.common.running import Step, first_that_runs, runs
from slackopt.heuristics.rebuilding import rebuild_ns, recompute_step
from slackopt.heuristics.registry import NoPlanError, heuristic
from slackopt.instance import Instance
from slackopt.plan import Plan
from slackopt.simulation.evaluator import Evaluator
from slackopt.simulation.sequence import KEEP, RECOMPUTE, SWAP

Slack = Literal["aggregate", "timeline"]
Ranking = Literal["time-per-byte", "rebuild-time", "size", "idle-time", "production", "random"]
Ties = Literal["first", "last"]


@heuristic("slackswap")
@heuristic(
    "slackswap-timeline",
    summary="SlackSwap with the slack counted along the step: a swap must fit before the peak.",
    slack="timeline",
)
def slackswap(
    instance: Instance,
    *,
    slack: Slack = "aggregate",
    ranking: Ranking = "time-per-byte",
    ties: Ties = "first",
    use_all_slack: bool = False,
    over_free: float = 0.0,
    seed: int = 0,
) -> Plan:
    """Swap what is costly to rebuild within the slack, recompute the cheap (SlackSwap).

    Parameters
    ----------
    instance
        The instance.
    slack
        How the slack is counted: ``aggregate`` or ``timeline``.
    ranking
        What is swapped first, and what is recomputed first; see the module's table.
    ties
        Whether the tensor made ``first`` or ``last`` wins a tie.
    use_all_slack
        Whether to swap all that the slack hides, even if fewer swaps would do.
    over_free
        Share of the budget that is freed beyond need, at least 0 and below 1.
    seed
        For the ranking ``random``.

    Raises
    ------
    NoPlanError
        If the step runs with no number of drops, taken in the rule's order.
    InputError
        If *over_free* is out of range.
    """
    if not 0 <= over_free < 1:
        raise InputError(f"option over_free is {over_free}; give a share from 0 to below 1")
    settings = {
        "slack": slack,
        "ranking": ranking,
        "ties": ties,
        "use_all_slack": use_all_slack,
        "over_free": over_free,
    }
    if ranking == "random":
        settings["seed"] = seed
    life = instance.lifetimes
    evaluator = Evaluator(_with_less_memory(instance, over_free))

    def finished(decisions: list[int]) -> Plan:
        provenance = {"method": "slackswap", **settings}
        final = Evaluator(instance)
        if over_free and not runs(final, decisions):
            raise NoPlanError("slackswap", instance, "the plan for less memory runs out of more")
        return final.plan(decisions, provenance=provenance)

    decisions = [KEEP] * life.num_tensors
    if runs(evaluator, decisions):
        return finished(decisions)

    swap_order, recompute_order = _orders(instance, ranking, ties, seed)
    swaps = _within_slack(instance, [t for t in swap_order if life.swappable[t]], slack)
    with_all = list(decisions)
    for t in swaps:
        with_all[t] = SWAP
    if runs(evaluator, with_all):
        one_more: list[Step] = [{t: SWAP} for t in swaps]
        fewest = None if use_all_slack else first_that_runs(evaluator, decisions, one_more, 1)
        return finished(fewest or with_all)

    rest = [t for t in recompute_order if with_all[t] == KEEP]
    drops = [recompute_step(life, t, RECOMPUTE) for t in rest]
    needed = first_that_runs(evaluator, with_all, drops, 1)
    if needed is None:
        raise NoPlanError("slackswap", instance, "however many other tensors are recomputed")
    return finished(needed)


def _with_less_memory(instance: Instance, share: float) -> Instance:
    if not share:
        return instance
    less = max(1, instance.budget_bytes - int(Fraction(share) * instance.budget_bytes))
    return instance.model_copy(update={"budget_bytes": less})


def _orders(
    instance: Instance, ranking: Ranking, ties: Ties, seed: int
) -> tuple[list[int], list[int]]:
    """Return the order in which tensors are swapped, and that in which they are recomputed."""
    life = instance.lifetimes
    starts = op_starts_ns(life)
    rng = Random(seed)  # noqa: S311 - no secret: it draws an order
    cost = {t: rebuild_ns(life, t) for t in life.candidates}
    drawn = {t: rng.random() for t in life.candidates}
    # Each key ascends in the order of swaps; whether the recomputes take them the other way round.
    keys: dict[Ranking, tuple[Callable[[int], Fraction | float], bool]] = {
        "time-per-byte": (lambda t: -Fraction(cost[t] or 0, life.sizes_bytes[t]), True),
        "rebuild-time": (lambda t: -(cost[t] or 0), True),
        "size": (lambda t: -life.sizes_bytes[t], False),
        "idle-time": (lambda t: -idle_ns(life, t, starts), False),
        "production": (lambda _: 0, False),
        "random": (lambda t: drawn[t], False),
    }
    key, reverse = keys[ranking]
    way = 1 if ties == "first" else -1
    rank = {t: key(t) for t in life.candidates}
    swap_order = sorted(
        life.candidates,
        key=lambda t: (cost[t] is not None, rank[t], way * life.producer[t], way * t),
    )
    recompute_order = sorted(
        (t for t in life.candidates if cost[t] is not None),
        key=lambda t: (
            -rank[t] if reverse else rank[t],
            way * life.producer[t],
            way * t,
        ),
    )
    return swap_order, recompute_order


def _within_slack(instance: Instance, order: list[int], slack: Slack) -> list[int]:
    """Return the tensors of `order` whose copies compute hides, taken greedily."""
    life, device = instance.lifetimes, instance.device
    starts = op_starts_ns(life)
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
    kind = np.int64 if starts[-1] < 2**62 else object  # times of copies come on top
    when = np.array(starts[:-1], dtype=kind)
    out_slack, in_slack = when[peak] - when[: peak + 1], when[peak:] - when[peak]
    chosen = []
    for t in order:
        check_time()
        ready, need = life.producer[t] + 1, life.first_backward_use[t]
        if ready > peak or need <= peak:
            continue
        # A copy made at `ready` counts in every stretch that begins at or before it.
        outs, ins = out_slack[: ready + 1], in_slack[need - peak :]
        if out_ns[t] <= outs.min() and in_ns[t] <= ins.min():
            outs -= out_ns[t]
            ins -= in_ns[t]
            chosen.append(t)
    return chosen
