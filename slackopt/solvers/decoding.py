"""From a model's point to decisions, and from a simulated stall to the rows that avoid it."""

from __future__ import annotations

from collections.abc import Sequence

from slackopt.formulations.window import WindowFormulation
from slackopt.simulation.engine import RunRecord
from slackopt.simulation.sequence import KEEP, RECOMPUTE, SWAP, ComputeSequence


def decisions_of(window: WindowFormulation, x: Sequence[float]) -> list[int]:
    """Read the decision vector off a point whose decision columns are integral."""
    decisions = [KEEP] * window.life.num_tensors
    for code, columns in ((SWAP, window.swap), (RECOMPUTE, window.recompute)):
        for t, column in columns.items():
            if x[column] > 0.5:
                decisions[t] = code
    return decisions


def earliest_swaps(window: WindowFormulation, decisions: Sequence[int]) -> list[int]:
    """Among tensors alike, swap those that are made first.

    Tensors of one size and one rebuild cost weigh the same wherever memory is short; the ones
    made first have the longest idle time for their copies. Only keep and swap change places.
    """
    life = window.life
    alike: dict[tuple[int, int], list[int]] = {}
    for t in sorted(window.swap, key=lambda t: (life.producer[t], t)):
        if life.first_backward_use[t] >= 0 and decisions[t] in (KEEP, SWAP):
            cost = life.durations_ns[life.producer[t]] if life.producer[t] >= 0 else 0
            alike.setdefault((life.sizes_bytes[t], cost), []).append(t)
    moved = list(decisions)
    for tensors in alike.values():
        swaps = sum(decisions[t] == SWAP for t in tensors)
        for i, t in enumerate(tensors):
            moved[t] = SWAP if i < swaps else KEEP
    return moved


def memory_stalls(sequence: ComputeSequence, record: RunRecord) -> list[tuple[int, int]]:
    """Return ``(slot, ns)`` of each wait for memory in a simulated plan, in order of time."""
    arrival = {t: end for t, _, end in record.swap_ins if end is not None}
    stalls: list[tuple[int, int]] = []
    previous = 0
    for position, (start, end) in enumerate(
        zip(record.job_starts_ns, record.job_ends_ns, strict=False)
    ):
        ready = max([previous, *(arrival.get(t, 0) for t in sequence.needs.get(position, ()))])
        if start > ready:
            stalls.append((sequence.slots[position], start - ready))
        previous = end
    return stalls
