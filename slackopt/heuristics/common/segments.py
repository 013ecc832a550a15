"""Checkpointing: keep what crosses the borders of segments, recompute what is inside."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from slackopt.heuristics.common.idle import activations
from slackopt.heuristics.rebuilding import drop, rerun_ops
from slackopt.lifetimes import Lifetimes
from slackopt.simulation.sequence import KEEP, RECOMPUTE


def crossing(life: Lifetimes, segments: Iterable[Sequence[int]]) -> set[int]:
    """Return the tensors that a forward op reads in another segment than they are made in.

    Parameters
    ----------
    life
        The step.
    segments
        Forward ops of each segment. Ops in no segment are a segment of their own together.
    """
    segment_of = {k: i for i, ops in enumerate(segments) for k in ops}
    return {
        t
        for k in range(life.num_forward)
        for t in life.inputs[k]
        if life.producer[t] < 0 or segment_of.get(life.producer[t]) != segment_of.get(k)
    }


def recompute_inside(life: Lifetimes, segments: Sequence[Sequence[int]]) -> list[int]:
    """Return the decisions that recompute every activation made inside the segments.

    What crosses a border is kept, with or without a backward use, so that a segment is rebuilt
    from its own inputs alone. An activation whose rebuilding would run an op that must not run
    twice is kept.
    """
    kept = crossing(life, segments)
    inside = {k for ops in segments for k in ops}
    decisions = [KEEP] * life.num_tensors
    dropped = [
        t
        for t in activations(life)
        if life.producer[t] in inside and t not in kept and rerun_ops(life, t, kept) is not None
    ]
    drop(life, decisions, dropped, RECOMPUTE, kept)
    return decisions
