"""Capuchin: swap what has free time, then the cheaper of exposed swap and recompute.

Source: Peng et al. 2020, "Capuchin: Tensor-based GPU Memory Management for Deep Learning" (ASPLOS
2020), sections 4.3 and 4.4. For a tensor idle from ``l`` to ``u``, the *free time* is when its
copy back must begin, less when its copy out has ended: ``FT = (u - l) - (out + in)``. Tensors are
swapped by FT, largest first, while the copies are hidden. Beyond that, each next tensor is given
the cheaper of a swap, by the time compute can't hide, and a recompute. Recomputes are ranked by
*memory saved per second*, size over rebuild time; whenever a tensor is dropped, those rebuilt from
it are rebuilt from its sources, and the time of a source counts once for each tensor that needs it.

No parameters.

Chosen here:

- only tensors that are idle while memory exceeds the budget are eligible;
- hidden: the source shifts a copy by run-time feedback if the link is busy; here the copies of all
  chosen swaps queue on each direction (`slackopt.heuristics.common.copies`), and FT must be
  positive and the queues must not expose more time;
- a recompute costs the time of the ops it runs again, each once, as plans do; the bookkeeping of
  sources, which counts an op for each tensor rebuilt with it, ranks only;
- beyond the hidden swaps, the next tensor is the one that saves most memory per second of rebuild
  time; tensors that can't be rebuilt come last;
- copies back begin as early as memory allows; the source adjusts them by feedback;
- it stops when the memory profile fits, and goes on if the simulated step doesn't run; where reruns
  take too much memory, tensors that were recomputed are swapped instead.
"""

from __future__ import annotations

from slackopt.heuristics.common.copies import CopyQueues
from slackopt.heuristics.common.idle import MemoryProfile, activations, idle_ns, op_starts_ns
from slackopt.heuristics.common.running import Step, evict_until_it_runs
from slackopt.heuristics.common.sources import Sources
from slackopt.heuristics.rebuilding import recompute_step
from slackopt.heuristics.registry import heuristic
from slackopt.instance import Instance
from slackopt.plan import Plan
from slackopt.simulation.evaluator import Evaluator
from slackopt.simulation.sequence import RECOMPUTE, SWAP


@heuristic("capuchin")
def capuchin(instance: Instance) -> Plan:
    """Swap by free time, then the cheaper of exposed swap and recompute (Capuchin 2020).

    Parameters
    ----------
    instance
        The instance.

    Raises
    ------
    NoPlanError
        If the step doesn't run with all evicted that the rule can evict.
    """
    life = instance.lifetimes
    profile = MemoryProfile(instance)
    eligible = [t for t in activations(life) if profile.crowded(t)]
    steps: list[Step] = []
    enough: int | None = 0 if profile.fits else None

    def take(t: int, step: Step) -> None:
        nonlocal enough
        steps.append(step)
        profile.evict(t)
        if enough is None and profile.fits:
            enough = len(steps)

    queues = CopyQueues(instance)
    free = _free_ns(instance, [t for t in eligible if life.swappable[t]])
    for t in sorted(free, key=lambda t: (-free[t], t)):
        if enough is not None:
            break
        if free[t] > 0 and queues.added_ns(t) <= 0:
            queues.add(t)
            take(t, {t: SWAP})

    chosen = {t for step in steps for t in step}
    left = [t for t in eligible if t not in chosen]
    sources = Sources(life, left)
    while left:
        t = max(left, key=lambda t: (t in sources, _saved_per_ns(instance, sources, t), -t))
        left.remove(t)
        swap_ns = queues.added_ns(t) if life.swappable[t] else None
        if t in sources and (swap_ns is None or sources.added_ns(t) < swap_ns):
            sources.drop(t)
            take(t, recompute_step(life, t, RECOMPUTE))
        elif swap_ns is not None:
            queues.add(t)
            take(t, {t: SWAP})

    evaluator = Evaluator(instance)
    decisions = evict_until_it_runs(evaluator, "capuchin", steps, enough)
    return evaluator.plan(decisions, provenance={"method": "capuchin"})


def _free_ns(instance: Instance, tensors: list[int]) -> dict[int, int]:
    """Free time of each tensor; negative if its two copies don't fit into its idle time."""
    life, device = instance.lifetimes, instance.device
    starts = op_starts_ns(life)
    return {
        t: idle_ns(life, t, starts)
        - device.swap_out_ns(life.sizes_bytes[t])
        - device.swap_in_ns(life.sizes_bytes[t])
        for t in tensors
    }


def _saved_per_ns(instance: Instance, sources: Sources, t: int) -> float:
    size = instance.lifetimes.sizes_bytes[t]
    return size / sources.total_ns(t) if t in sources else float(size)
