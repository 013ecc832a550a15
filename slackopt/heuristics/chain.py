"""Optimal checkpoints of a chain: an exact dynamic program over kept boundaries.

Sources: the chains of Beaumont et al. 2019, "Optimal checkpointing for heterogeneous chains: how to
train deep neural networks with limited memory" (arXiv 1911.13214), whose program lets an op run any
number of times; here, as in every plan of ours, an op is run again at most once, which is the class
of Kusumoto et al. 2019, "A Graph Theoretic Framework of Recomputation Algorithms for
Memory-Efficient Backpropagation" (NeurIPS 2019, arXiv 1905.11722): a set of boundaries is kept, and
what lies between two of them is rebuilt together.

The forward ops are cut into blocks (`slackopt.heuristics.common.blocks`), each of which hands one
tensor to the next. A *segment* is a run of blocks between two kept boundaries. It is either held
whole (a single block) or dropped: all of its tensors but the boundary at its end are recomputed.

For a segment, let ``need`` be the most bytes on the device during its ops, forward, backward and
reruns, beside what the segments before it hold; ``hold`` the bytes that it adds to what is held
while the segments after it run; ``time`` that of its reruns. The segments after it are over, and
what they held is freed, when its backward ops run; so a plan fits exactly if

    hold(segment 1) + ... + hold(segment m - 1) + need(segment m)  <=  budget      for every m

and takes the sum of the times more than the ideal. Labels (bytes held, time) at each boundary, of
which only those that no other one beats in both go on, give the least time over all sets of
boundaries. Need, hold and time are not modelled but read off compute sequences in which these
segments, and no others, are dropped.

*Optimal in which class*: where every block makes one tensor, which may be recomputed or not, and a
backward op reads tensors of two neighbouring blocks at most (and gradients), each plan without
swaps is a set of kept boundaries, so the plan is optimal among all plans without swaps. Elsewhere
it is optimal among those that hold or drop whole blocks, as far as the condition above is exact;
the simulator has the last word, and where it disagrees the next labels are tried.

No parameters but *time_limit*. With more than `MAX_LABELS` labels at a boundary, labels that are
nearly equal in bytes are thinned out.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace

from slackopt.clock import check_time, deadline_in
from slackopt.heuristics.common.blocks import Blocks, find_blocks
from slackopt.heuristics.registry import NoPlanError, heuristic
from slackopt.instance import Instance
from slackopt.lifetimes import ABSENT, Lifetimes
from slackopt.plan import Plan
from slackopt.simulation.evaluator import Evaluator
from slackopt.simulation.sequence import KEEP, RECOMPUTE, compute_sequence

MAX_LABELS = 2000
"""Labels at a boundary."""

_MOST_PLANS = 200
"""Labels at the end whose plans are simulated."""


@dataclass(frozen=True)
class Segment:
    """A run of blocks that is dropped, or one block that is held.

    Attributes
    ----------
    first, end
        First block, and the block after the last.
    dropped
        Tensors to recompute; none if the block is held.
    need_bytes
        Most bytes during its ops beside what the segments before it hold.
    hold_bytes
        Bytes that it holds while later segments run.
    rerun_ns
        Time of its reruns.
    """

    first: int
    end: int
    dropped: tuple[int, ...]
    need_bytes: int
    hold_bytes: int
    rerun_ns: int


@dataclass(frozen=True)
class _Label:
    """Segments up to a boundary: the last one, and the label it was added to."""

    held_bytes: int
    time_ns: int
    segment: Segment | None = None
    before: _Label | None = None


@heuristic("chain")
def chain(instance: Instance, *, time_limit: float | None = None) -> Plan:
    """Keep the boundaries that an optimal dynamic program over the chain chooses; drop the rest.

    Parameters
    ----------
    instance
        The instance.
    time_limit
        Seconds; None for no limit.

    Raises
    ------
    NoPlanError
        If the graph has no boundary that a single tensor crosses, or no set of boundaries fits.
    """
    deadline = deadline_in(time_limit)
    life, budget = instance.lifetimes, instance.budget_bytes
    blocks = find_blocks(life)
    if len(blocks.begins) < 2:
        why = "at no point of the forward pass a single tensor is left for the ops after it"
        raise NoPlanError("chain", instance, why)
    evaluator = Evaluator(instance)
    by_end: dict[int, list[Segment]] = {}
    for segment in segments(life, blocks, budget, deadline):
        by_end.setdefault(segment.end, []).append(segment)
    labels = _labels(life, blocks, budget, by_end)
    for label in labels[:_MOST_PLANS]:
        check_time()
        decisions = [KEEP] * life.num_tensors
        step: _Label | None = label
        while step is not None and step.segment is not None:
            for t in step.segment.dropped:
                decisions[t] = RECOMPUTE
            step = step.before
        if evaluator.makespan_ns(decisions) is not None:
            return evaluator.plan(decisions, provenance={"method": "chain"})
    check_time()
    raise NoPlanError("chain", instance, "whatever boundaries are kept")


def segments(
    life: Lifetimes, blocks: Blocks, budget_bytes: int, deadline: float | None = None
) -> Iterator[Segment]:
    """Yield the segments that fit if the segments before them hold nothing.

    Many of one length are read off the same compute sequence. Once none of one length fits, longer
    ones are not looked at.
    """
    number = len(blocks.begins)
    made = _made_by_block(life, blocks)
    held = [Segment(b, b + 1, (), 0, 0, 0) for b in range(number)]
    yield from (s for s in _measured(life, blocks, made, held) if s.need_bytes <= budget_bytes)
    for length in range(1, number + 1):
        fits = False
        for offset in range(min(length, number - length + 1)):
            if deadline is not None and time.monotonic() >= deadline:
                return
            tiles = held[:offset]
            for first in range(offset, number - length + 1, length):
                end = first + length
                kept = blocks.waists[end - 1]
                inside = [t for b in range(first, end) for t in made[b]]
                dropped = tuple(t for t in inside if t != kept and _may_be_dropped(life, t))
                tiles.append(Segment(first, end, dropped, 0, 0, 0))
            tiles += held[tiles[-1].end :]
            for segment in _measured(life, blocks, made, tiles):
                if segment.need_bytes <= budget_bytes and segment.end - segment.first == length:
                    fits = True
                    if segment.dropped:
                        yield segment
        if not fits:
            return


def _measured(
    life: Lifetimes, blocks: Blocks, made: list[list[int]], tiles: list[Segment]
) -> Iterator[Segment]:
    """Yield segments that partition the chain with need, hold and time of the plan they make."""
    decisions = [KEEP] * life.num_tensors
    for segment in tiles:
        for t in segment.dropped:
            decisions[t] = RECOMPUTE
    sequence = compute_sequence(life, decisions)
    tile_of = [i for i, segment in enumerate(tiles) for _ in range(segment.first, segment.end)]
    need, reruns = [0] * len(tiles), [0] * len(tiles)
    freed = [0, *sequence.freed_bytes]
    used = sequence.batch_bytes
    for i, op in enumerate(sequence.ops):
        used += sequence.allocated_bytes[i] - freed[i]
        tile = tile_of[blocks.block_of[sequence.slots[i]]]
        need[tile] = max(need[tile], used)
        if sequence.reruns[i]:
            reruns[tile_of[blocks.block_of[op]]] += life.durations_ns[op]
    turn = sequence.base_position[life.num_forward - 1]
    before = 0
    for segment, most, rerun_ns in zip(tiles, need, reruns, strict=True):
        only_reruns_read = blocks.waists[segment.end - 1]
        if only_reruns_read != ABSENT and life.first_backward_use[only_reruns_read] != ABSENT:
            only_reruns_read = ABSENT
        hold = sum(
            life.sizes_bytes[t]
            for b in range(segment.first, segment.end)
            for t in made[b]
            if decisions[t] == KEEP and t != only_reruns_read and sequence.last_use[t] > turn
        )
        before += _input_bytes(life, blocks, segment)
        yield replace(segment, need_bytes=most - before, hold_bytes=hold, rerun_ns=rerun_ns)
        before += hold


def _made_by_block(life: Lifetimes, blocks: Blocks) -> list[list[int]]:
    """Return the tensors of each block; a batch tensor is of the block that reads it first."""
    made = [list(tensors) for tensors in blocks.tensors]
    seen: set[int] = set()
    for k in range(life.num_forward):
        for t in life.inputs[k]:
            if life.producer[t] == ABSENT and t not in seen:
                seen.add(t)
                made[blocks.block_of[k]].append(t)
    return made


def _may_be_dropped(life: Lifetimes, t: int) -> bool:
    return life.can_recompute(t) and (life.is_candidate(t) or life.first_backward_use[t] == ABSENT)


def _labels(
    life: Lifetimes, blocks: Blocks, budget: int, by_end: dict[int, list[Segment]]
) -> list[_Label]:
    """Return the labels at the end of the chain, the shortest time first."""
    fronts = [[_Label(0, 0)]]
    for end in range(1, len(blocks.begins) + 1):
        check_time()
        found = []
        for segment in by_end.get(end, ()):
            extra = _input_bytes(life, blocks, segment)
            for label in fronts[segment.first]:
                if label.held_bytes + extra + segment.need_bytes > budget:
                    break
                found.append(
                    _Label(
                        label.held_bytes + extra + segment.hold_bytes,
                        label.time_ns + segment.rerun_ns,
                        segment,
                        label,
                    )
                )
        fronts.append(_best(found))
    return fronts[-1][::-1]


def _best(labels: list[_Label]) -> list[_Label]:
    """Return labels that none beats, by bytes held, so that times descend; not too many."""
    labels.sort(key=lambda label: (label.held_bytes, label.time_ns))
    front: list[_Label] = []
    for label in labels:
        if not front or label.time_ns < front[-1].time_ns:
            front.append(label)
    if len(front) > MAX_LABELS:
        front = [front[i * (len(front) - 1) // (MAX_LABELS - 1)] for i in range(MAX_LABELS)]
    return front


def _input_bytes(life: Lifetimes, blocks: Blocks, segment: Segment) -> int:
    """Bytes that only a dropped segment holds before its first op: an input only reruns read."""
    waist = blocks.waists[segment.first - 1] if segment.first else ABSENT
    if not segment.dropped or waist == ABSENT or life.first_backward_use[waist] != ABSENT:
        return 0
    return life.sizes_bytes[waist]
