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

No parameters but *time_limit*. Two limits keep long chains quick, and give up the optimum there: of
more than `MAX_LABELS` labels at a boundary, those that are nearly equal in bytes are thinned out;
and where reading off all segments is more than `MAX_WORK` (70 blocks of 14 ops each, say), of the
longer segments only some lengths and places are looked at. Half of a time limit ends this as well.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

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

MAX_WORK = 2_500_000
"""Compute sequences looked at, times the number of ops: some seconds."""

_PLACES = 8
"""Places at which longer segments of one length begin, where there is too much work for all."""

_MOST_PLANS = 200
"""Labels at the end whose plans are simulated."""

_MOST_BYTES = 2**62
"""Sums below it fit into 64 bits."""

_Ints = npt.NDArray[np.int64]


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
class _Front:
    """Labels at a boundary, none beaten by another: bytes ascend, times descend.

    Attributes
    ----------
    held_bytes, time_ns
        Of each label.
    segment, before
        Its last segment, and the position of the label at the begin of that segment.
    """

    held_bytes: _Ints
    time_ns: _Ints
    segment: _Ints
    before: _Ints


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
    life, budget = instance.lifetimes, instance.budget_bytes
    if sum(life.sizes_bytes) + sum(life.workspaces_bytes) >= _MOST_BYTES:
        raise NoPlanError("chain", instance, f"its tensors have more than {_MOST_BYTES} bytes")
    blocks = find_blocks(life)
    if len(blocks.begins) < 2:
        why = "at no point of the forward pass a single tensor is left for the ops after it"
        raise NoPlanError("chain", instance, why)
    end = deadline_in(time_limit)
    half = None if end is None else (end + time.monotonic()) / 2
    found = list(segments(life, blocks, budget, half))
    evaluator = Evaluator(instance)
    for dropped in _sets(blocks, found, _fronts(life, blocks, budget, found, end)):
        if end is not None and time.monotonic() >= end:
            check_time()
            raise NoPlanError("chain", instance, "time is up")
        decisions = [KEEP] * life.num_tensors
        for t in dropped:
            decisions[t] = RECOMPUTE
        if evaluator.makespan_ns(decisions) is not None:
            return evaluator.plan(decisions, provenance={"method": "chain"})
    check_time()
    raise NoPlanError("chain", instance, "whatever boundaries of those looked at are kept")


def segments(
    life: Lifetimes, blocks: Blocks, budget_bytes: int, deadline: float | None = None
) -> Iterator[Segment]:
    """Yield the segments that fit if the segments before them hold nothing.

    Many of one length are read off the same compute sequence, the shortest first. Once none of one
    length fits, longer ones are not looked at.
    """
    number = len(blocks.begins)
    made = _made_by_block(life, blocks)
    held = [Segment(b, b + 1, (), 0, 0, 0) for b in range(number)]
    yield from (s for s in _measured(life, blocks, made, held) if s.need_bytes <= budget_bytes)
    for length, stride in _lengths(number, life.num_ops):
        fits = False
        for offset in range(0, min(length, number - length + 1), stride):
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


def _lengths(number: int, num_ops: int) -> Iterator[tuple[int, int]]:
    """Yield the lengths of segments to look at, and how far apart they begin."""
    length = 1
    if number * (number + 1) // 2 * num_ops <= MAX_WORK:
        yield from ((length, 1) for length in range(1, number + 1))
        return
    while length <= number:
        yield length, max(1, length // _PLACES)
        length += max(1, length // 4)


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


def _fronts(
    life: Lifetimes, blocks: Blocks, budget: int, found: list[Segment], deadline: float | None
) -> list[_Front]:
    """Return the labels at each boundary; none at the end if time is up before."""
    budget = min(budget, _MOST_BYTES)
    by_end: list[list[int]] = [[] for _ in range(len(blocks.begins) + 1)]
    for i, segment in enumerate(found):
        by_end[segment.end].append(i)
    nothing = np.zeros(1, dtype=np.int64)
    fronts = [_Front(nothing, nothing, nothing - 1, nothing)]
    for end in range(1, len(by_end)):
        late = deadline is not None and time.monotonic() >= deadline
        parts = []
        for i in [] if late else by_end[end]:
            segment, front = found[i], fronts[found[i].first]
            extra = _input_bytes(life, blocks, segment)
            most = budget - segment.need_bytes - extra
            fitting = int(np.searchsorted(front.held_bytes, most, side="right"))
            parts.append(
                _Front(
                    front.held_bytes[:fitting] + (extra + segment.hold_bytes),
                    front.time_ns[:fitting] + segment.rerun_ns,
                    np.full(fitting, i, dtype=np.int64),
                    np.arange(fitting, dtype=np.int64),
                )
            )
        fronts.append(_best(parts))
    return fronts


def _best(parts: list[_Front]) -> _Front:
    """Return labels that none beats, and not too many."""
    empty = np.zeros(0, dtype=np.int64)
    columns = [[p.held_bytes, p.time_ns, p.segment, p.before] for p in parts]
    held, took, segment, before = (
        (np.concatenate(column) for column in zip(*columns, strict=True)) if parts else [empty] * 4
    )
    order = np.lexsort((took, held))
    sooner = np.minimum.accumulate(took[order])
    kept = order[np.flatnonzero(np.diff(sooner, prepend=_MOST_BYTES) < 0)]
    if len(kept) > MAX_LABELS:
        kept = kept[np.linspace(0, len(kept) - 1, MAX_LABELS).astype(np.int64)]
    return _Front(held[kept], took[kept], segment[kept], before[kept])


def _sets(blocks: Blocks, found: list[Segment], fronts: list[_Front]) -> Iterator[list[int]]:
    """Yield what the labels at the end drop, the shortest time first."""
    labels = len(fronts[-1].held_bytes)
    for label in range(labels - 1, max(-1, labels - 1 - _MOST_PLANS), -1):
        dropped: list[int] = []
        at, end = label, len(blocks.begins)
        while end:
            front = fronts[end]
            segment = found[int(front.segment[at])]
            dropped += segment.dropped
            at, end = int(front.before[at]), segment.first
        yield dropped


def _input_bytes(life: Lifetimes, blocks: Blocks, segment: Segment) -> int:
    """Bytes that only a dropped segment holds before its first op: an input only reruns read."""
    waist = blocks.waists[segment.first - 1] if segment.first else ABSENT
    if not segment.dropped or waist == ABSENT or life.first_backward_use[waist] != ABSENT:
        return 0
    return life.sizes_bytes[waist]
