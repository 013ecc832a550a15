"""Selective recompute: rebuild the insides of attention, keep the rest.

Source: Korthikanti et al. 2022, "Reducing Activation Recomputation in Large Transformer Models"
(arXiv 2205.05198), section 5: scores, softmax, softmax dropout and the product with the values are
run again from the saved queries, keys and values, because they hold most bytes (``5*a*s*s*b`` a
layer in 16-bit formats) for few FLOPs. What stays is ``34*s*b*h`` a layer.

No parameters.

Chosen here:

- attention is found by structure (`slackopt.heuristics.common.attention`), not by names;
- the input of the output projection is kept, as in the source's ``34*s*b*h``, so that the product
  with the values, which nothing else needs, is not run again;
- queries, keys and values are kept, also where the backward pass doesn't read them;
- the budget is not looked at: the plan is the same for every budget. With fused attention, which
  rebuilds its insides itself, it is to keep everything.
"""

from __future__ import annotations

from slackopt.heuristics.common.attention import attentions
from slackopt.heuristics.common.idle import activations
from slackopt.heuristics.common.running import priced
from slackopt.heuristics.rebuilding import drop, rerun_ops
from slackopt.heuristics.registry import NoPlanError, heuristic
from slackopt.instance import Instance
from slackopt.plan import Plan
from slackopt.simulation.evaluator import Evaluator
from slackopt.simulation.sequence import KEEP, RECOMPUTE


@heuristic("selective")
def selective(instance: Instance) -> Plan:
    """Recompute scores, softmax and dropout of attention (Korthikanti et al. 2022).

    Parameters
    ----------
    instance
        The instance.

    Raises
    ------
    NoPlanError
        If the model has no attention, or the plan runs out of memory.
    """
    found = attentions(instance)
    if not found:
        raise NoPlanError("selective", instance, "no attention is found in its graph")
    life = instance.lifetimes
    inner_ops = {k for attention in found for k in attention.inner_ops}
    kept = {t for k in inner_ops for t in life.inputs[k] if life.producer[t] not in inner_ops}
    decisions = [KEEP] * life.num_tensors
    dropped = [
        t
        for t in activations(life)
        if life.producer[t] in inner_ops and rerun_ops(life, t, kept) is not None
    ]
    drop(life, decisions, dropped, RECOMPUTE, kept)
    return priced(Evaluator(instance), "selective", decisions)
