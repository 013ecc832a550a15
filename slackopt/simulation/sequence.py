"""The compute sequence of a plan: which jobs run in which order, and what each allocates and frees.

All of it follows from the decisions alone, before anything is timed (docs/problem.md, "The
compute sequence").
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from slackopt.lifetimes import ABSENT, Lifetimes

KEEP, SWAP, RECOMPUTE = 0, 1, 2
"""Decision codes, indexed by tensor in a *decision vector*."""

DECISION_CODES = {"keep": KEEP, "swap": SWAP, "recompute": RECOMPUTE}


@dataclass(frozen=True)
class ComputeSequence:
    """Jobs of the compute stream; a position is an index into the per-job lists.

    Attributes
    ----------
    ops, reruns
        Per job: the op it runs, and whether it is a rerun.
    slots
        Per job: the base op in front of which it runs, or which it is.
    allocated_bytes
        Per job: outputs and workspace, allocated at its start.
    freed_bytes
        Per job: bytes freed at its end, whatever the copies do.
    base_position
        Per op: position of its base job.
    next_need
        Per tensor: position of the first job that reads it after its last forward use, or
        `ABSENT`. Only kept up for tensors decided swap.
    last_use
        Per tensor: position of the last job that reads it, or of its producer.
    swap_outs
        Per job: swapped tensors whose swap-out is queued at its end, in output order.
    forward_ends
        Per job: swapped tensors whose last forward use it is.
    needs
        Per job: swapped tensors of which it is the next need, in input order.
    batch_swaps
        Swapped tensors without a producer: queued at time 0.
    batch_bytes
        Bytes on the device at time 0.
    """

    ops: list[int]
    reruns: list[bool]
    slots: list[int]
    allocated_bytes: list[int]
    freed_bytes: list[int]
    base_position: list[int]
    next_need: list[int]
    last_use: list[int]
    swap_outs: dict[int, list[int]]
    forward_ends: dict[int, list[int]]
    needs: dict[int, list[int]]
    batch_swaps: list[int]
    batch_bytes: int


def compute_sequence(life: Lifetimes, decisions: Sequence[int]) -> ComputeSequence:
    """Derive the compute sequence of a decision vector.

    Parameters
    ----------
    life
        The step.
    decisions
        Per tensor: `KEEP`, `SWAP` or `RECOMPUTE`. Must be allowed by `slackopt.plan.Plan.check`.
    """
    ops: list[int] = []
    reruns: list[bool] = []
    slots: list[int] = []
    base_position: list[int] = []
    n = life.num_tensors
    next_need, last_use, rebuilt_at = [ABSENT] * n, [ABSENT] * n, [ABSENT] * n
    inputs, outputs, producer = life.inputs, life.outputs, life.producer
    num_forward, last_forward = life.num_forward, life.last_forward_use
    needs: dict[int, list[int]] = {}
    dropped = {t for t, decision in enumerate(decisions) if decision == RECOMPUTE}  # not rebuilt
    away = {t for t, decision in enumerate(decisions) if decision == SWAP}  # no next need found

    def append(op: int, slot: int, rerun: bool) -> None:
        position = len(ops)
        ops.append(op)
        reruns.append(rerun)
        slots.append(slot)
        for t in inputs[op]:
            last_use[t] = position
            if t in away and (rerun or op > last_forward[t]):
                away.remove(t)
                next_need[t] = position
                needs.setdefault(position, []).append(t)
        if rerun:
            for t in outputs[op]:
                if t in dropped:
                    dropped.remove(t)
                    rebuilt_at[t] = position
        else:
            base_position.append(position)
            for t in outputs[op]:
                last_use[t] = position

    for k in range(life.num_ops):
        # Tensors are missing only after their last forward use, so never in the forward pass.
        if k >= num_forward and not dropped.isdisjoint(inputs[k]):
            missing: set[int] = set()
            pending = [k]
            while pending:
                for t in inputs[pending.pop()]:
                    if t in dropped and producer[t] not in missing:
                        missing.add(producer[t])
                        pending.append(producer[t])
            for j in sorted(missing):
                append(j, k, True)
        append(k, k, False)

    allocated, freed = _accounting(
        life, decisions, ops, reruns, base_position, last_use, rebuilt_at
    )
    swap_outs: dict[int, list[int]] = {}
    forward_ends: dict[int, list[int]] = {}
    batch_swaps: list[int] = []
    swapped = sorted(t for tensors in needs.values() for t in tensors)
    for t in swapped:
        if producer[t] == ABSENT:
            batch_swaps.append(t)
        if last_forward[t] >= 0:
            forward_ends.setdefault(base_position[last_forward[t]], []).append(t)
    for k in sorted({producer[t] for t in swapped} - {ABSENT}):
        swap_outs[base_position[k]] = [t for t in outputs[k] if next_need[t] != ABSENT]
    return ComputeSequence(
        ops=ops,
        reruns=reruns,
        slots=slots,
        allocated_bytes=allocated,
        freed_bytes=freed,
        base_position=base_position,
        next_need=next_need,
        last_use=last_use,
        swap_outs=swap_outs,
        forward_ends=forward_ends,
        needs=needs,
        batch_swaps=batch_swaps,
        batch_bytes=life.batch_bytes,
    )


def _accounting(
    life: Lifetimes,
    decisions: Sequence[int],
    ops: list[int],
    reruns: list[bool],
    base_position: list[int],
    last_use: list[int],
    rebuilt_at: list[int],
) -> tuple[list[int], list[int]]:
    """Return bytes allocated at the start and freed at the end of each job.

    The release of a swapped tensor after its swap-out is not in here: its time depends on the copy.
    """
    sizes, workspaces, produced = life.sizes_bytes, life.workspaces_bytes, life.output_bytes
    allocated = [produced[op] + workspaces[op] for op in ops]
    freed = [workspaces[op] for op in ops]
    for t, size in enumerate(sizes):
        if decisions[t] == RECOMPUTE and rebuilt_at[t] != ABSENT and last_use[t] > rebuilt_at[t]:
            freed[base_position[life.last_forward_use[t]]] += size
        freed[last_use[t]] += size
    for position, op in enumerate(ops):
        if reruns[position]:
            for t in life.outputs[op]:
                if decisions[t] != RECOMPUTE or last_use[t] < position:
                    freed[position] += sizes[t]
    return allocated, freed
