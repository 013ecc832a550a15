"""MEMO: in every layer, swap the input, the attention output and as much else as compute hides.

Source: Zhao et al. 2025, "MEMO: Fine-grained Tensor Management for Ultra-long Context LLM
Training" (SIGMOD 2025, arXiv 2407.12117), section 4.1. Of the activations a layer keeps for its
backward pass, its input and the output of attention are always swapped; of each of the others, a
share alpha of the tokens is swapped and the rest is recomputed. Alpha is the largest with which a
layer's copies fit into the time of a layer's forward pass and all copies fit into host memory. The
last two layers are not swapped: their backward pass follows at once.

Parameters: *keep_last*, how many layers at the end are kept whole.

Chosen here:

- no tensor is split: the share is made of whole tensors, those that take longest to rebuild per
  byte first, and the ones that fit after one that doesn't;
- a layer's copies back must also fit into the time of its own backward pass;
- layers are the repeated groups of op labels (`slackopt.heuristics.common.layers`), attention is
  found by structure (`slackopt.heuristics.common.attention`); what is outside the layers is kept;
- a tensor that can't be swapped is recomputed, one that can't be rebuilt is swapped, and one that
  can't be either is kept;
- the budget is not looked at: the plan is the same for every budget.
"""

from __future__ import annotations

from fractions import Fraction

from slackopt.errors import InputError
from slackopt.heuristics.common.attention import attentions
from slackopt.heuristics.common.idle import activations
from slackopt.heuristics.common.layers import Layer, layers
from slackopt.heuristics.common.running import priced
from slackopt.heuristics.rebuilding import drop, rebuild_ns
from slackopt.heuristics.registry import NoPlanError, heuristic
from slackopt.instance import Instance
from slackopt.plan import Plan
from slackopt.simulation.evaluator import Evaluator
from slackopt.simulation.sequence import KEEP, RECOMPUTE, SWAP


@heuristic("memo")
def memo(instance: Instance, *, keep_last: int = 2) -> Plan:
    """Swap layer inputs, attention outputs and what the layer hides; recompute the rest (MEMO).

    Parameters
    ----------
    instance
        The instance.
    keep_last
        Number of layers at the end whose activations are kept.

    Raises
    ------
    NoPlanError
        If the model has no labelled layers or no attention, or the plan runs out of memory.
    InputError
        If *keep_last* is below 0.
    """
    if keep_last < 0:
        raise InputError(f"option keep_last is {keep_last}; give a whole number from 0")
    life = instance.lifetimes
    found = layers(instance)
    if not found:
        raise NoPlanError("memo", instance, "no forward op has a layer label")
    outputs = {t for a in attentions(instance) for t in life.outputs[a.output_op]}
    if not outputs:
        raise NoPlanError("memo", instance, "no attention is found in its graph")
    swapped_layers = found[: max(0, len(found) - keep_last)]
    host = instance.device.host_memory_bytes
    host_share = None if host is None else host // max(1, len(swapped_layers))

    candidates = set(activations(life))
    decisions = [KEEP] * life.num_tensors
    recomputed: list[int] = []
    for layer in swapped_layers:
        swaps, rest = _split(instance, layer, candidates, outputs, host_share)
        for t in swaps:
            decisions[t] = SWAP
        recomputed += rest
    drop(life, decisions, recomputed, RECOMPUTE)
    return priced(Evaluator(instance), "memo", decisions, keep_last=keep_last)


def _split(
    instance: Instance,
    layer: Layer,
    candidates: set[int],
    attention_outputs: set[int],
    host_share: int | None,
) -> tuple[list[int], list[int]]:
    """Tensors of a layer to swap, and to recompute."""
    life, device = instance.lifetimes, instance.device
    mine = [t for t in (*layer.inputs, *layer.inner) if t in candidates]
    always = [t for t in mine if t in layer.inputs or t in attention_outputs]
    costs = {t: rebuild_ns(life, t) for t in mine if t not in always}
    swaps = [t for t in always if life.swappable[t]]
    out_left = layer.forward_ns - sum(device.swap_out_ns(life.sizes_bytes[t]) for t in swaps)
    in_left = layer.backward_ns - sum(device.swap_in_ns(life.sizes_bytes[t]) for t in swaps)
    bytes_left = None if host_share is None else host_share
    if bytes_left is not None:
        bytes_left -= sum(life.sizes_bytes[t] for t in swaps)

    rest: list[int] = []
    for t in sorted(costs, key=lambda t: (*_dearest_first(life.sizes_bytes[t], costs[t]), t)):
        size = life.sizes_bytes[t]
        out_ns, in_ns = device.swap_out_ns(size), device.swap_in_ns(size)
        hidden = out_ns <= out_left and in_ns <= in_left
        hidden = hidden and (bytes_left is None or size <= bytes_left)
        if life.swappable[t] and (hidden or costs[t] is None):
            out_left, in_left = out_left - out_ns, in_left - in_ns
            bytes_left = None if bytes_left is None else bytes_left - size
            swaps.append(t)
        elif costs[t] is not None:
            rest.append(t)
    return swaps, rest


def _dearest_first(size: int, cost: int | None) -> tuple[bool, Fraction]:
    """Sort key: what can't be rebuilt, then by rebuild time per byte, highest first."""
    return (cost is not None, Fraction(-(cost or 0), size))
