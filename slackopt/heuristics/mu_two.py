"""µ-TWO: weigh the tensor that is idle longest against the one that is cheapest to rebuild.

Source: Purandare et al. 2023, "µ-TWO: 3x Faster Multi-Model Training with Orchestration and Memory
Optimization" (MLSys 2023), the scheduler of section 4 and its appendix. Until memory fits: ``s*``
is the candidate idle for the longest time, ``q*`` the one with the largest *recompute ratio*, its
size over its total recompute time; whichever adds less time is swapped or recomputed. After
a recompute, the sources of the others are updated, and the number of times each is rebuilt.

No parameters.

Chosen here:

- the time a swap adds is what the queues of all chosen copies can't hide
  (`slackopt.heuristics.common.copies`); the time a recompute adds is that of the ops it runs
  again, each once, as plans do; the total recompute time, which counts an op for each tensor
  rebuilt with it, ranks only. A tie is a swap;
- the two are compared as they are, not per byte: a ``q*`` that is large and takes long (the
  log-softmax) is passed over for many small swaps that take longer together;
- candidates are the activations that are idle while memory exceeds the budget;
- copies back begin as early as memory allows, where the source has a schedule of its own;
- it stops when the memory profile fits, and goes on if the simulated step doesn't run; where reruns
  take too much memory, tensors that were recomputed are swapped instead;
- only one model is trained, so nothing of a second model hides the copies.
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


@heuristic("mu-two")
def mu_two(instance: Instance) -> Plan:
    """Swap the most idle or recompute the best ratio, whichever adds less time (µ-TWO 2023).

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
    starts = op_starts_ns(life)
    candidates = [t for t in activations(life) if profile.crowded(t)]
    sources = Sources(life, candidates)
    queues = CopyQueues(instance)
    idle_first = sorted(
        (t for t in candidates if life.swappable[t]),
        key=lambda t: (idle_ns(life, t, starts), -t),  # the last one is s*
    )
    rebuildable = {t for t in candidates if t in sources}
    taken: set[int] = set()
    steps: list[Step] = []
    enough = 0 if profile.fits else None
    while True:
        while idle_first and idle_first[-1] in taken:
            idle_first.pop()
        if not idle_first and not rebuildable:
            break
        swap_ns = queues.added_ns(idle_first[-1]) if idle_first else None
        t = max(
            rebuildable,
            key=lambda t: (life.sizes_bytes[t] / sources.total_ns(t), -t),
            default=-1,
        )
        if swap_ns is None or (t >= 0 and sources.added_ns(t) < swap_ns):
            sources.drop(t)
            steps.append(recompute_step(life, t, RECOMPUTE))
        else:
            t = idle_first[-1]
            queues.add(t)
            steps.append({t: SWAP})
        taken.add(t)
        rebuildable.discard(t)
        profile.evict(t)
        if enough is None and profile.fits:
            enough = len(steps)

    evaluator = Evaluator(instance)
    decisions = evict_until_it_runs(evaluator, "mu-two", steps, enough)
    return evaluator.plan(decisions, provenance={"method": "mu-two"})
