"""TERAIO: swap what lowers the excess most per time on the link, and reserve the link for it.

Sources: Yuan et al. 2025, "Cost-Efficient LLM Training with Lifetime-Aware Tensor Offloading via
GPUDirect Storage" (arXiv 2506.06472), section 3, and its forerunner G10 (Zhang et al., MICRO 2023,
arXiv 2310.09443). The *benefit* of a swap is the integral over the tensor's idle time of
``min(size, memory above the budget)``, its *cost* the time of its two copies. The tensor with the
largest benefit per cost is swapped: its swap-out is reserved on the link from its production on,
its swap-in up to its need, op by op; the memory profile is lowered while it is away, and the rest
is ranked again, until the profile fits. A tensor whose copies find no room on the link stays.

Parameters: *recompute*, an extension of ours: with it, once no more swaps find room, tensors are
recomputed by benefit per rebuild time, ranked again after each (default); without it, as in the
source, tensors are swapped that compute can't hide, by benefit per cost.
*prefetch*: ``early``, as early as memory allows (G10's eager prefetch; default), or ``late``, at
the op at which the reservation begins.

Chosen here:

- the link is reserved by its time, not by bytes, and each direction on its own; what two busy
  directions cost each other (`slackopt.device.Device`) is left to the simulator;
- rebuild time counts once for each tensor that needs the rebuild (`.common.sources`);
- with recompute, swaps that compute can't hide come last, for tensors that can't be rebuilt;
- it stops when the profile fits, and goes on if the simulated step doesn't run; where reruns take
  too much memory, tensors that were recomputed are swapped instead.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from typing import Literal

from slackopt.clock import check_time
from slackopt.heuristics.common.idle import MemoryProfile, activations
from slackopt.heuristics.common.running import Step, evict_until_it_runs, priced
from slackopt.heuristics.common.sources import Sources
from slackopt.heuristics.rebuilding import recompute_step
from slackopt.heuristics.registry import heuristic
from slackopt.instance import Instance
from slackopt.plan import Plan
from slackopt.simulation.evaluator import Evaluator
from slackopt.simulation.sequence import RECOMPUTE, SWAP


@heuristic("teraio")
def teraio(
    instance: Instance, *, recompute: bool = True, prefetch: Literal["early", "late"] = "early"
) -> Plan:
    """Swap by benefit per link time, reserving the link; then recompute (TERAIO 2025, G10 2023).

    Parameters
    ----------
    instance
        The instance.
    recompute
        Whether to recompute once no more swaps can be hidden.
    prefetch
        ``early``: copies back begin as early as memory allows; ``late``: as late as reserved.

    Raises
    ------
    NoPlanError
        If the step doesn't run with all evicted that the rule can evict.
    """
    life = instance.lifetimes
    profile = MemoryProfile(instance)
    eligible = [t for t in activations(life) if profile.crowded(t)]
    link = _Reservations(instance)
    late: dict[int, int] = {}
    steps: list[Step] = []
    taken: set[int] = set()
    enough = 0 if profile.fits else None

    def take(t: int, step: Step, first: int | None = None, last: int | None = None) -> None:
        nonlocal enough
        steps.append(step)
        taken.add(t)
        profile.evict(t, first, last)
        if enough is None and profile.fits:
            enough = len(steps)

    def per_cost(t: int) -> float:
        return profile.benefit(t) / link.copies_ns(t)

    swappable = [t for t in eligible if life.swappable[t]]
    for t in _by_falling_rank(swappable, per_cost):
        away = link.reserve(t)
        if away is not None:
            late[t] = away[1] + 1
            take(t, {t: SWAP}, *away)
    if recompute:
        sources = Sources(life, [t for t in eligible if t not in taken])

        def per_rebuild(t: int) -> float:
            return profile.benefit(t) / sources.total_ns(t)

        left = [t for t in eligible if t in sources]
        for t in _by_falling_rank(left, per_rebuild):
            sources.drop(t)
            take(t, recompute_step(life, t, RECOMPUTE))
    for t in _by_falling_rank([t for t in swappable if t not in taken], per_cost):
        take(t, {t: SWAP})

    evaluator = Evaluator(instance)
    decisions = evict_until_it_runs(evaluator, "teraio", steps, enough)
    given = {t: g for t, g in late.items() if decisions[t] == SWAP} if prefetch == "late" else None
    return priced(evaluator, "teraio", decisions, given, recompute=recompute, prefetch=prefetch)


def _by_falling_rank(tensors: Iterable[int], rank: Callable[[int], float]) -> Iterable[int]:
    """Yield tensors by rank, highest first, ranked again before each.

    Ranks only fall while tensors are evicted, so one that is still at the top after it was
    ranked again is the highest of all.
    """
    heap = [(-rank(t), t) for t in tensors]
    heapq.heapify(heap)
    while heap:
        check_time()
        _, t = heapq.heappop(heap)
        now = (-rank(t), t)
        if heap and now > heap[0]:
            heapq.heappush(heap, now)
        else:
            yield t


class _Reservations:
    """Time of each direction of the link that is still free, op by op."""

    def __init__(self, instance: Instance) -> None:
        self._life = instance.lifetimes
        self._device = instance.device
        self._out_free = list(self._life.durations_ns)
        self._in_free = list(self._life.durations_ns)

    def copies_ns(self, t: int) -> int:
        """Time of both copies of tensor `t`."""
        size = self._life.sizes_bytes[t]
        return self._device.swap_out_ns(size) + self._device.swap_in_ns(size)

    def reserve(self, t: int) -> tuple[int, int] | None:
        """Reserve both copies of `t`; return the first and the last op during which it is away.

        None, and nothing is reserved, if there is no op between them.
        """
        life, size = self._life, self._life.sizes_bytes[t]
        need = life.first_backward_use[t]
        outs = _fill(
            self._out_free, range(life.producer[t] + 1, need), self._device.swap_out_ns(size)
        )
        earliest = life.last_forward_use[t] + 1
        ins = _fill(self._in_free, range(need - 1, earliest - 1, -1), self._device.swap_in_ns(size))
        if outs is None or ins is None:
            return None
        first, last = max(earliest, outs[-1][0] + 1), ins[-1][0] - 1
        if first > last:
            return None
        for free, taken in ((self._out_free, outs), (self._in_free, ins)):
            for k, ns in taken:
                free[k] -= ns
        return first, last


def _fill(free: list[int], ops: range, need_ns: int) -> list[tuple[int, int]] | None:
    """Return the ops, and the time in each, that serve a copy of `need_ns`; None if too few."""
    taken: list[tuple[int, int]] = []
    for k in ops:
        if free[k]:
            taken.append((k, min(free[k], need_ns)))
            need_ns -= taken[-1][1]
            if need_ns == 0:
                return taken
    return None
