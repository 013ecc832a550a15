"""Every job that any plan's compute sequence may hold, in the one order that all plans share.

Within a slot the reruns run in ascending op order and then the base op (docs/problem.md, "The
compute sequence"), so the sequence of any plan is a subsequence of this list. A *position* is an
index into it.
"""

from __future__ import annotations

from dataclasses import dataclass

from slackopt.lifetimes import ABSENT, Lifetimes


@dataclass(frozen=True)
class Job:
    """A base op, which always runs, or the rerun of `op` in front of base op `slot`."""

    op: int
    slot: int
    is_rerun: bool


@dataclass(frozen=True)
class ScheduleJobs:
    """The jobs and where tensors are read.

    Attributes
    ----------
    jobs
        In order.
    base_position
        Per op.
    rerun_positions
        Per op: positions of its reruns, ascending; empty where it is never rerun.
    reads
        Per tensor: positions after its last forward use of the jobs that read it, ascending.
    decidable, droppable
        Tensors that plans decide on with effect, and those of them that may be recomputed.
    """

    jobs: tuple[Job, ...]
    base_position: tuple[int, ...]
    rerun_positions: tuple[tuple[int, ...], ...]
    reads: tuple[tuple[int, ...], ...]
    decidable: tuple[int, ...]
    droppable: frozenset[int]

    @classmethod
    def from_lifetimes(cls, life: Lifetimes) -> ScheduleJobs:
        """List the jobs of a step."""
        decidable = (*life.candidates, *life.closure)
        droppable = frozenset(t for t in decidable if life.can_recompute(t))
        slots = rerun_slots(life, droppable)
        jobs: list[Job] = []
        base: list[int] = []
        for k in range(life.num_ops):
            jobs += [Job(j, k, True) for j in range(k) if k in slots[j]]
            base.append(len(jobs))
            jobs.append(Job(k, k, False))
        reruns: list[list[int]] = [[] for _ in range(life.num_ops)]
        reads: list[list[int]] = [[] for _ in range(life.num_tensors)]
        for i, job in enumerate(jobs):
            if job.is_rerun:
                reruns[job.op].append(i)
            for t in life.inputs[job.op]:
                if job.is_rerun or job.slot > life.last_forward_use[t]:
                    reads[t].append(i)
        return cls(
            jobs=tuple(jobs),
            base_position=tuple(base),
            rerun_positions=tuple(map(tuple, reruns)),
            reads=tuple(map(tuple, reads)),
            decidable=decidable,
            droppable=droppable,
        )


def rerun_slots(life: Lifetimes, droppable: frozenset[int]) -> list[set[int]]:
    """Per op: the slots in which some plan may rerun it.

    An output y that is missing is rebuilt in front of its first reader: op ``u_y``, or the rerun
    of a reader, in a slot up to ``u_y`` where there is one. Readers come after the producer, so
    one descending pass finds all.
    """
    slots: list[set[int]] = [set() for _ in range(life.num_ops)]
    for j in range(life.num_ops - 1, -1, -1):
        for y in life.outputs[j]:
            if y not in droppable:
                continue
            use = life.first_backward_use[y]
            if use != ABSENT:
                slots[j].add(use)
            for c in range(j + 1, life.num_ops):
                if y in life.inputs[c]:
                    slots[j] |= {k for k in slots[c] if use == ABSENT or k <= use}
    return slots
