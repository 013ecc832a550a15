"""Offload the largest activations first, up to a number of bytes.

Source: the CPU offload pass of torchtitan's graph trainer (github.com/pytorch/torchtitan, pull
request 3015 and its successors): activations are offloaded up to a cap in bytes, taken here by
size, largest first; tensors below 4 KiB stay. Known to us from its description, not from a paper.

Parameters: *max_bytes*, the cap; by default the smallest with which the step runs. *min_bytes*,
the smallest tensor that is offloaded.

Chosen here:

- ties go to the tensor made first, which is idle longest;
- a tensor above what is left of the cap is passed over, and smaller ones are tried;
- what "runs" means: the simulator has no out-of-memory error; it may well have stalls.
"""

from __future__ import annotations

from slackopt.errors import InputError
from slackopt.heuristics.common.idle import activations
from slackopt.heuristics.common.running import first_that_runs, priced
from slackopt.heuristics.registry import NoPlanError, heuristic
from slackopt.instance import Instance
from slackopt.plan import Plan
from slackopt.simulation.evaluator import Evaluator
from slackopt.simulation.sequence import KEEP, SWAP


@heuristic("largest-first-offload")
def largest_first_offload(
    instance: Instance, *, max_bytes: int | None = None, min_bytes: int = 4096
) -> Plan:
    """Swap the largest activations first, up to a cap in bytes (torchtitan).

    Parameters
    ----------
    instance
        The instance.
    max_bytes
        Most bytes swapped; by default the fewest with which the step runs.
    min_bytes
        Smallest tensor that is swapped.

    Raises
    ------
    NoPlanError
        If the step doesn't run within the cap.
    InputError
        If *max_bytes* or *min_bytes* is below 0.
    """
    for option, value in (("max_bytes", max_bytes), ("min_bytes", min_bytes)):
        if value is not None and value < 0:
            raise InputError(f"option {option} is {value}; give a number of bytes from 0")
    life = instance.lifetimes
    sizes = life.sizes_bytes
    order = sorted(
        (t for t in activations(life) if life.swappable[t] and sizes[t] >= min_bytes),
        key=lambda t: (-sizes[t], life.producer[t], t),
    )
    evaluator = Evaluator(instance)
    decisions: list[int] | None = [KEEP] * life.num_tensors
    if max_bytes is None:
        decisions = first_that_runs(
            evaluator, [KEEP] * life.num_tensors, [{t: SWAP} for t in order], 0
        )
        if decisions is None:
            raise NoPlanError(
                "largest-first-offload", instance, "whatever number of activations is swapped"
            )
    else:
        decisions, left = [KEEP] * life.num_tensors, max_bytes
        for t in order:
            if sizes[t] <= left:
                left -= sizes[t]
                decisions[t] = SWAP
    return priced(
        evaluator, "largest-first-offload", decisions, max_bytes=max_bytes, min_bytes=min_bytes
    )
