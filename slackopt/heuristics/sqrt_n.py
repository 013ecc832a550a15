"""Square-root checkpointing: keep every sqrt(n)-th boundary, recompute the segments between.

Source: Chen et al. 2016, "Training Deep Nets with Sublinear Memory Cost" (arXiv 1604.06174),
section 4: a chain of n layers is cut into sqrt(n) segments; the outputs of segments are kept and
each segment is run again in the backward pass, so that O(sqrt(n)) activations are live.

Parameters: *every*, keep every so many boundaries; the rounded square root of their number by
default.

Chosen here, for graphs that are no chains:

- a *boundary* is a point between two forward ops where as few tensors as anywhere wait for a
  later forward op; in a chain and in a transformer's residual stream that is one. It needs no
  labels;
- everything that crosses a kept boundary is kept, also without a backward use;
- the last segment is not dropped, as in PyTorch's ``checkpoint_sequential``: it would be rebuilt
  at once, at the same peak;
- the budget is not looked at: the plan is the same for every budget.
"""

from __future__ import annotations

from itertools import pairwise
from math import isqrt

from slackopt.errors import InputError
from slackopt.heuristics.common.running import priced
from slackopt.heuristics.common.segments import recompute_inside
from slackopt.heuristics.registry import heuristic
from slackopt.instance import Instance
from slackopt.lifetimes import Lifetimes
from slackopt.plan import Plan
from slackopt.simulation.evaluator import Evaluator


@heuristic("sqrt-n")
def sqrt_n(instance: Instance, *, every: int | None = None) -> Plan:
    """Keep every sqrt(n)-th boundary and recompute the segments between (Chen et al. 2016).

    Parameters
    ----------
    instance
        The instance.
    every
        Keep every so many boundaries; the rounded square root of their number by default.

    Raises
    ------
    NoPlanError
        If the plan runs out of memory.
    InputError
        If *every* is below 1.
    """
    if every is not None and every < 1:
        raise InputError(f"option every is {every}; give a whole number from 1")
    life = instance.lifetimes
    cuts = boundaries(life)
    step = every if every is not None else max(1, _rounded_sqrt(len(cuts)))
    kept = [0, *cuts[step - 1 :: step]]
    segments = [range(a, b) for a, b in pairwise(kept)]
    decisions = recompute_inside(life, segments)
    return priced(Evaluator(instance), "sqrt-n", decisions, every=step)


def boundaries(life: Lifetimes) -> list[int]:
    """Return the ops in front of which fewest tensors wait for a forward op, ascending."""
    last_read = [-1] * life.num_tensors
    for k in range(life.num_forward):
        for t in life.inputs[k]:
            last_read[t] = k
    delta = [0] * (life.num_forward + 1)
    for t, last in enumerate(last_read):
        if 0 <= life.producer[t] < last:
            delta[life.producer[t] + 1] += 1
            delta[last + 1] -= 1
    waiting, widths = 0, {}
    for k in range(1, life.num_forward):
        waiting += delta[k]
        widths[k] = max(1, waiting)
    narrowest = min(widths.values(), default=0)
    return [k for k, width in widths.items() if width == narrowest]


def _rounded_sqrt(n: int) -> int:
    root = isqrt(n)
    return root + (n - root * root > root)
