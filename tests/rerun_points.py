"""Checks of rerun and chain rows against simulated plans.

As in `window_points`: the left side may not exceed the bytes that are on the device at the instant
of the row, which is the start of the rerun where the op is rerun in the slots of the row, and the
start of the last op of the slots where it isn't.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from random import Random

import numpy as np
from window_points import device_bytes_at_ends, point_of, random_points, value

from slackopt.formulations.chain_memory_rows import ChainKey, read_chain_key
from slackopt.formulations.chain_separation import ChainSearch
from slackopt.formulations.memory_separation import memory_violations
from slackopt.formulations.rerun_instants import RerunInstant
from slackopt.formulations.rerun_memory_rows import RerunKey, piece
from slackopt.formulations.window import UNITS_PER_BYTE, WindowFormulation
from slackopt.lifetimes import ABSENT
from slackopt.simulation import Timeline

Levels = Sequence[Sequence[tuple[int, int]]]


def check_reruns(
    rng: Random, window: WindowFormulation, timelines: Sequence[Timeline]
) -> Counter[str]:
    """Assert rerun and chain rows for plans that run; count what was checked."""
    counts: Counter[str] = Counter(plans=len(timelines))
    static = window.static_rows()
    points = [point_of(window, timeline, static) for timeline in timelines]
    levels = [device_bytes_at_ends(timeline) for timeline in timelines]
    check_rerun_rows(rng, window, timelines, points, levels, counts)
    check_chain_rows(rng, window, timelines, points, levels, counts)
    return counts


def rerun_levels(timeline: Timeline) -> dict[int, tuple[int, int]]:
    """Per op that is rerun: its slot, and bytes on the device as it starts.

    Counted as in `device_bytes_at_ends`: before copies in that begin at that instant.
    """
    times, sizes = timeline.memory.time_ns, timeline.memory.size_bytes
    result: dict[int, tuple[int, int]] = {}
    waiting: list[int] = []
    for job in timeline.jobs:
        if job.rerun:
            waiting.append(job.op_index)
            begun = sum(
                copy.size_bytes
                for copy in timeline.copies
                if copy.direction == "h2d" and copy.start_ns == job.start_ns
            )
            level = sizes[bisect_right(times, job.start_ns) - 1] - begun
            result[job.op_index] = (ABSENT, level)
        else:
            for op in waiting:
                result[op] = (job.op_index, result[op][1])
            waiting = []
    return result


def some_rerun_keys(rng: Random, window: WindowFormulation) -> Iterator[RerunKey]:
    """Rerun rows of every op and piece: as counted by decisions, and with some tensors flipped."""
    for j in window.rerun:
        for first, last, _, _ in window.pieces_of(j):
            instant = RerunInstant(window, j, first, last)
            tensors = sorted({*instant.read_here, *window.life.inputs[j]})
            can_flip = [t for t in tensors if instant.can_flip(t)]
            outs, ins = range(first + 1), range(last + 1, window.life.num_ops)
            flips = [(), tuple(can_flip)]
            flips += [tuple(t for t in can_flip if rng.random() < 0.5) for _ in range(2)]
            for flipped in dict.fromkeys(flips):
                yield RerunKey(j, first, ABSENT, ABSENT, flipped)
                out_from = rng.choice((ABSENT, *outs))
                in_to = rng.choice((ABSENT, *ins))
                yield RerunKey(j, first, out_from, in_to, flipped)


def check_rerun_rows(
    rng: Random,
    window: WindowFormulation,
    timelines: Sequence[Timeline],
    points: Sequence[Sequence[int]],
    levels: Levels,
    counts: Counter[str],
) -> None:
    """Assert rerun rows, with the bytes on the device at their instant in place of the budget."""
    budget = window.instance.budget_bytes
    reruns = [rerun_levels(timeline) for timeline in timelines]
    for key in some_rerun_keys(rng, window):
        row = window.row(key.name)
        last, _, _ = piece(window, key.op, key.first)
        kind = f"rerun_memory, {'one slot' if last == key.first else 'slots'}"
        for timeline, x, level, rerun in zip(timelines, points, levels, reruns, strict=True):
            slot, here = rerun.get(key.op, (ABSENT, 0))
            runs = key.first <= slot <= last
            here = here if runs else level[last][0]
            slack = row.upper - value(row, x) - (budget - here) * UNITS_PER_BYTE
            assert slack >= 0, (row.name, row, timeline.plan.decisions, slack, runs)
            counts[kind] += 1
            if runs:
                counts[f"{kind}, rerun"] += 1
                counts[f"{kind}, rerun, tight"] += slack == 0


def some_chain_keys(
    rng: Random, window: WindowFormulation, points: Sequence[Sequence[int]]
) -> Iterator[ChainKey]:
    """Chain rows: those that the separation makes at points, and others a little different."""
    ops = window.life.num_ops
    sources = [rng.choice(points), rng.choice(points), next(random_points(rng, window, 1))]
    for source in sources:
        x = np.array(source, dtype=float)
        search = ChainSearch(window, x, memory_violations(window, x)[2])
        for _, op, rerun in search.estimates():
            key = search.key(op, rerun)
            if key is None:
                continue
            yield replace(key, out_from=ABSENT, in_to=ABSENT)
            outs, ins = range(op + 1), range(op + 1, ops)
            windows = rng.choice((ABSENT, *outs)), rng.choice((ABSENT, *ins))
            fewer = {
                name: tuple(entry for entry in getattr(key, name) if rng.random() < 0.7)
                for name in ("there", "back", "held", "waiting", "flipped", "stops")
            }
            yield replace(key, out_from=windows[0], in_to=windows[1], **fewer)
            # The chain as it is, at another op, or in the midst of another rerun.
            yield replace(key, op=rng.choice((op, op + 1, op - 1)), out_from=ABSENT, in_to=ABSENT)
            if key.links:
                yield replace(key, rerun=rng.choice(key.links)[0], out_from=ABSENT, in_to=ABSENT)


def check_chain_rows(
    rng: Random,
    window: WindowFormulation,
    timelines: Sequence[Timeline],
    points: Sequence[Sequence[int]],
    levels: Levels,
    counts: Counter[str],
) -> None:
    """Assert chain rows, with the bytes on the device at their instant in place of the budget."""
    budget = window.instance.budget_bytes
    reruns = [rerun_levels(timeline) for timeline in timelines]
    for key in dict.fromkeys(some_chain_keys(rng, window, points)):
        try:
            row = window.row(key.name)
        except ValueError:
            counts["chain_memory, refused"] += 1
            continue
        assert read_chain_key(window, key.name.partition("[")[2][:-1].split(",")) == key
        op = ABSENT if key.rerun == ABSENT else window.life.producer[key.rerun]
        kind = f"chain_memory, {'op' if op == ABSENT else 'rerun'}"
        for timeline, x, level, rerun in zip(timelines, points, levels, reruns, strict=True):
            slot, here = rerun.get(op, (ABSENT, 0))
            here = here if slot == key.op else level[key.op][0]
            slack = row.upper - value(row, x) - (budget - here) * UNITS_PER_BYTE
            assert slack >= 0, (row.name, row, timeline.plan.decisions, slack)
            counts[kind] += 1
            counts[f"{kind}, tight"] += slack == 0
            if slot == key.op:
                counts[f"{kind} in its slot"] += 1
                counts[f"{kind} in its slot, tight"] += slack == 0
            if slack == 0:
                parts = ("there", "back", "held", "waiting")
                counts.update(f"{part}, tight" for part in parts if getattr(key, part))
