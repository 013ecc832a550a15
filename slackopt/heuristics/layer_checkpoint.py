"""Layer checkpointing: keep the inputs of layers, recompute everything inside them.

Sources: full activation recompute of Megatron-LM (``--recompute-granularity full
--recompute-method uniform``), described in Korthikanti et al. 2022 (arXiv 2205.05198), section 5:
``2*s*b*h`` bytes a layer in 16-bit formats. The idea is Chen et al. 2016 (arXiv 1604.06174).

Parameters: *num_layers*, how many consecutive layers share one checkpoint.

Chosen here:

- layers are the repeated groups of op labels (`slackopt.heuristics.common.layers`), so that
  embedding, head and loss are kept, as they are in Megatron-LM;
- a tensor that more than one group of layers reads is kept, so a skip connection that leaves a
  layer is a checkpoint, too;
- reruns are those of `slackopt.simulation`: only the ops that the backward pass needs, where
  Megatron-LM runs the whole layer again;
- the budget is not looked at: the plan is the same for every budget.
"""

from __future__ import annotations

from slackopt.errors import InputError
from slackopt.heuristics.common.layers import layers
from slackopt.heuristics.common.running import priced
from slackopt.heuristics.common.segments import recompute_inside
from slackopt.heuristics.registry import NoPlanError, heuristic
from slackopt.instance import Instance
from slackopt.plan import Plan
from slackopt.simulation.evaluator import Evaluator


@heuristic("layer-checkpoint")
def layer_checkpoint(instance: Instance, *, num_layers: int = 1) -> Plan:
    """Keep the input of every layer and recompute the rest of it (Megatron-LM, full).

    Parameters
    ----------
    instance
        The instance.
    num_layers
        Number of consecutive layers that share one checkpoint.

    Raises
    ------
    NoPlanError
        If no op has a layer label, or the plan runs out of memory.
    InputError
        If *num_layers* is below 1.
    """
    if num_layers < 1:
        raise InputError(f"option num_layers is {num_layers}; give a whole number from 1")
    found = layers(instance)
    if not found:
        raise NoPlanError(
            "layer-checkpoint", instance, "no forward op has a layer label, so it has no layers"
        )
    segments = [
        [k for layer in found[i : i + num_layers] for k in layer.ops]
        for i in range(0, len(found), num_layers)
    ]
    decisions = recompute_inside(instance.lifetimes, segments)
    return priced(Evaluator(instance), "layer-checkpoint", decisions, num_layers=num_layers)
