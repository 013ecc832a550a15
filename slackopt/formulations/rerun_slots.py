"""In which slots an op can be rerun: what every bound needs to know about recompute time.

A recomputed tensor is rebuilt in front of the first job that reads it. Mostly that is its own
first backward use; but the rerun of one of its readers, needed earlier, pulls its rerun forward.
"""

from __future__ import annotations

from dataclasses import dataclass

from slackopt.clock import check_time
from slackopt.lifetimes import ABSENT, Lifetimes


@dataclass(frozen=True)
class RerunSlots:
    """Slot ranges per op; all are `ABSENT` for an op that is never rerun.

    Attributes
    ----------
    earliest, latest
        Whatever the plan, a rerun of the op runs in a slot from `earliest` to `latest`.
    own
        A rerun in a slot before `own` is *early*: it happens only if an op in `pulled_by` is
        rerun as well, in a slot before `own`.
    pulled_by
        ``(output, reader)``: readers of a droppable output that may be rerun before `own`.
    readers
        Per tensor: the ops that read it and may be rerun.
    """

    earliest: list[int]
    own: list[int]
    latest: list[int]
    pulled_by: list[list[tuple[int, int]]]
    readers: list[list[int]]

    @classmethod
    def from_lifetimes(cls, life: Lifetimes, droppable: frozenset[int]) -> RerunSlots:
        """Derive the ranges, given the tensors that a plan may decide recompute.

        Readers of a tensor come after its producer, so one descending pass over the ops finds
        every range: with ``y`` an output that may be dropped, ``u`` its first backward use and
        ``c`` the readers of ``y`` that may be rerun,

            earliest = min over y of (u, earliest of c)
            own      = min over y of (u, or else the smallest own of c)
            latest   = max over y of (u, or else the largest latest of c)
        """
        n = life.num_ops
        earliest, own, latest = [ABSENT] * n, [ABSENT] * n, [ABSENT] * n
        readers: list[list[int]] = [[] for _ in range(life.num_tensors)]
        for k in range(n - 1, -1, -1):
            check_time()
            firsts: list[int] = []
            owns: list[int] = []
            lasts: list[int] = []
            for y in life.outputs[k]:
                if y not in droppable:
                    continue
                use = life.first_backward_use[y]
                firsts += [earliest[c] for c in readers[y]]
                if use != ABSENT:
                    firsts.append(use)
                    owns.append(use)
                    lasts.append(use)
                else:
                    owns += [own[c] for c in readers[y]]
                    lasts += [latest[c] for c in readers[y]]
            if firsts:
                earliest[k], own[k], latest[k] = min(firsts), min(owns), max(lasts)
                for t in life.inputs[k]:
                    readers[t].append(k)
        pulled_by: list[list[tuple[int, int]]] = [[] for _ in range(n)]
        for k in range(n):
            if own[k] != ABSENT and earliest[k] < own[k]:
                pulled_by[k] = [
                    (y, c)
                    for y in life.outputs[k]
                    if y in droppable
                    for c in readers[y]
                    if earliest[c] < own[k]
                ]
        return cls(earliest, own, latest, pulled_by, readers)

    def first_need(self, life: Lifetimes, t: int) -> int:
        """Return the first slot in which anything can read `t` after its last forward use."""
        use = life.first_backward_use[t]
        slots = [self.earliest[c] for c in self.readers[t]] + ([use] if use != ABSENT else [])
        return min(slots) if slots else ABSENT
