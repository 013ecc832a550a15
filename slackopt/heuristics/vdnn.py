"""vDNN: swap the input of every layer.

Source: Rhu et al. 2016, "vDNN: Virtualized Deep Neural Networks for Scalable, Memory-Efficient
Neural Network Design" (MICRO 2016, arXiv 1602.08124), section 3: in the forward pass, the input
feature maps of a layer are copied out when their last reader has run (policy *all*); in the
backward pass, while one layer runs, the inputs of the nearest earlier layer that was copied out
are fetched.

Parameters: *layers*, what a layer is: every ``op``, as in the source, where each convolution,
activation and pooling is one; or the ``label`` groups of today's transformers, of which only the
inputs are swapped. *prefetch*, when a copy back may begin: at the ``next`` need before its own, as
in the source, or as ``early`` as memory allows (`slackopt.simulation.prefetch`).

Chosen here:

- swap-outs are queued when the tensor is made, not when its last reader runs, and compute doesn't
  wait for them at the end of each layer: that is what `slackopt.simulation` does for every plan;
- tensors that only backward ops read (dropout masks) are no layer inputs, and are kept;
- the policy *conv* and the dynamic choice among policies are left out;
- the budget is not looked at: the decisions are the same for every budget.
"""

from __future__ import annotations

from typing import Literal

from slackopt.heuristics.common.idle import activations
from slackopt.heuristics.common.layers import layers as find_layers
from slackopt.heuristics.common.running import priced
from slackopt.heuristics.registry import NoPlanError, heuristic
from slackopt.instance import Instance
from slackopt.plan import Plan
from slackopt.simulation.evaluator import Evaluator
from slackopt.simulation.sequence import KEEP, SWAP


@heuristic("vdnn")
def vdnn(
    instance: Instance,
    *,
    layers: Literal["op", "label"] = "op",
    prefetch: Literal["next", "early"] = "next",
) -> Plan:
    """Swap every layer input, prefetch one layer ahead (vDNN 2016, policy all).

    Parameters
    ----------
    instance
        The instance.
    layers
        ``op``: every forward op is a layer; ``label``: groups of ops with one label are.
    prefetch
        ``next``: a copy back begins at the need of the tensor before it; ``early``: as early as
        memory allows.

    Raises
    ------
    NoPlanError
        If the plan runs out of memory, or there are no labels to group by.
    """
    life = instance.lifetimes
    if layers == "op":
        read = {t for k in range(life.num_forward) for t in life.inputs[k]}
    else:
        found = find_layers(instance)
        if not found:
            raise NoPlanError("vdnn", instance, "no forward op has a layer label")
        read = {t for layer in found for t in layer.inputs}
    swapped = [t for t in activations(life) if t in read and life.swappable[t]]
    decisions = [KEEP] * life.num_tensors
    for t in swapped:
        decisions[t] = SWAP
    given = _one_ahead(instance, swapped) if prefetch == "next" else None
    return priced(Evaluator(instance), "vdnn", decisions, given, layers=layers, prefetch=prefetch)


def _one_ahead(instance: Instance, swapped: list[int]) -> dict[int, int]:
    """Trigger of each tensor: the last earlier op that needs another swapped tensor."""
    life = instance.lifetimes
    needs = sorted({life.first_backward_use[t] for t in swapped})
    before = dict(zip(needs, [life.num_forward, *needs], strict=False))
    return {
        t: max(before[life.first_backward_use[t]], life.last_forward_use[t] + 1) for t in swapped
    }
