"""The event loop: three streams, one memory, plain integers (docs/problem.md, "Simulator").

It records when each job and copy ran and nothing else; `slackopt.simulation.timeline` derives
all accounting from that record, and `slackopt.simulation.checks` re-derives it independently.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from slackopt.device import Device
from slackopt.lifetimes import Lifetimes
from slackopt.simulation.sequence import ComputeSequence

_NEVER = 1 << 200
"""Later than any event."""

_NS = 10**9


@dataclass(frozen=True)
class OutOfMemory:
    """Why a plan can't run.

    Attributes
    ----------
    op
        Index of the op that is blocked.
    time_ns
        When the compute stream could go no further.
    asked_bytes, free_bytes
        What the job, or the swap-in of its missing input, asked for, and what was free.
    """

    op: int
    time_ns: int
    asked_bytes: int
    free_bytes: int


@dataclass
class RunRecord:
    """What happened, in plain lists.

    Attributes
    ----------
    job_starts_ns, job_ends_ns
        Per job of the sequence that ran.
    swap_outs, swap_ins
        ``(tensor, start, end)`` per copy, in the order in which they were served; the end is
        None for a copy still in flight when the step ended.
    releases
        ``(time, tensor, bytes)``: device memory released by swap-outs.
    out_of_memory
        None if the step ended.
    """

    job_starts_ns: list[int] = field(default_factory=list)
    job_ends_ns: list[int] = field(default_factory=list)
    swap_outs: list[tuple[int, int, int | None]] = field(default_factory=list)
    swap_ins: list[tuple[int, int, int | None]] = field(default_factory=list)
    releases: list[tuple[int, int, int]] = field(default_factory=list)
    out_of_memory: OutOfMemory | None = None

    @property
    def makespan_ns(self) -> int | None:
        """End of the last job, or None if the plan can't run."""
        return None if self.out_of_memory else self.job_ends_ns[-1]


class _Copy:
    """The copy in flight on one direction of the link.

    Work is counted in units of 1e-9 byte, so that a bandwidth in bytes/s is work per ns.
    """

    __slots__ = ("chunk", "done", "milestone", "rate", "since", "size", "start", "target", "tensor")

    def __init__(self, tensor: int, size: int, start: int, latency: int, chunk: int) -> None:
        self.tensor = tensor
        self.size = size
        self.start = start
        self.chunk = chunk or size
        self.since = start + latency
        self.done = 0
        self.rate = 0
        self.target = min(self.chunk, size)
        self.milestone = _NEVER

    def set_rate(self, now: int, rate: int) -> None:
        """From `now` on, move at `rate`; update the time of the next milestone."""
        if rate != self.rate:
            if now > self.since:
                self.done += (now - self.since) * self.rate
                self.since = now
            self.rate = rate
        self.milestone = self.since - (-(self.target * _NS - self.done) // rate)

    def finished_pieces(self, now: int) -> int:
        """At a milestone: bytes of all whole pieces copied by `now`; aim at the next piece."""
        moved = (self.done + (now - self.since) * self.rate) // _NS
        copied = self.size if moved >= self.size else moved // self.chunk * self.chunk
        self.target = min(self.size, copied + self.chunk)
        self.set_rate(now, self.rate)
        return copied


def run(
    life: Lifetimes,
    device: Device,
    budget_bytes: int,
    sequence: ComputeSequence,
    triggers: Sequence[int],
) -> RunRecord:
    """Run a compute sequence.

    Parameters
    ----------
    life, device, budget_bytes
        The instance.
    sequence
        From `slackopt.simulation.sequence.compute_sequence`.
    triggers
        Per tensor: op index of the prefetch trigger; read for swapped tensors only.
    """
    record = RunRecord()
    sizes, durations = life.sizes_bytes, life.durations_ns
    ops, allocated, freed = sequence.ops, sequence.allocated_bytes, sequence.freed_bytes
    base_position, needs = sequence.base_position, sequence.needs
    num_jobs = len(ops)
    latency = device.latency_ns
    out_alone, in_alone = device.d2h_bytes_per_s, device.h2d_bytes_per_s
    shared = not device.independent
    out_shared = device.d2h_shared_bytes_per_s or out_alone
    in_shared = device.h2d_shared_bytes_per_s or in_alone
    job_starts, job_ends = record.job_starts_ns, record.job_ends_ns

    out_queue = list(sequence.batch_swaps)
    in_queue = [t for position in sorted(needs) for t in needs[position]]
    # A trigger after the slot of the need counts as reached when that slot begins.
    trigger = {t: min(triggers[t], sequence.slots[sequence.next_need[t]]) for t in in_queue}
    resident = bytearray(life.num_tensors)
    copied = [0] * life.num_tensors  # bytes whose swap-out has finished, by pieces
    released = [0] * life.num_tensors  # bytes of device memory released by swap-outs
    forward_over = bytearray(life.num_tensors)
    for t in out_queue:
        if life.last_forward_use[t] < 0:
            forward_over[t] = 1

    host_free = _NEVER if device.host_memory_bytes is None else device.host_memory_bytes
    free = budget_bytes - sequence.batch_bytes
    if free < 0:
        record.out_of_memory = OutOfMemory(0, 0, sequence.batch_bytes, budget_bytes)
        return record

    now = position = out_head = in_head = reached = 0
    compute_end = _NEVER
    out_copy: _Copy | None = None
    in_copy: _Copy | None = None
    waits_for_memory = False

    while True:
        # Starts, in the order compute, d2h, h2d.
        if compute_end == _NEVER:
            if position == num_jobs:
                break
            waits_for_memory = False
            if position not in needs or all(resident[t] for t in needs[position]):
                if allocated[position] <= free:
                    free -= allocated[position]
                    job_starts.append(now)
                    compute_end = now + durations[ops[position]]
                else:
                    waits_for_memory = True
        changed = False
        if out_copy is None and out_head < len(out_queue):
            t = out_queue[out_head]
            if sizes[t] <= host_free:
                host_free -= sizes[t]
                out_head += 1
                out_copy = _Copy(t, sizes[t], now, latency, device.chunk_bytes)
                changed = True
        if in_copy is None and in_head < len(in_queue) and not waits_for_memory:
            t = in_queue[in_head]
            if released[t] == sizes[t] and reached >= trigger[t] and sizes[t] <= free:
                free -= sizes[t]
                in_head += 1
                in_copy = _Copy(t, sizes[t], now, latency, 0)
                changed = True
        if changed or shared:  # independent directions never change the rate of a copy
            if out_copy is not None:
                out_copy.set_rate(now, out_alone if in_copy is None else out_shared)
            if in_copy is not None:
                in_copy.set_rate(now, in_alone if out_copy is None else in_shared)

        if compute_end == _NEVER and out_copy is None:
            nothing_leaves = waits_for_memory and out_head == len(out_queue)
            if in_copy is None or nothing_leaves:
                asked = allocated[position] if waits_for_memory else sizes[in_queue[in_head]]
                record.out_of_memory = OutOfMemory(ops[position], now, asked, free)
                break

        # The next instant, and everything that ends at it.
        now = compute_end
        if out_copy is not None and out_copy.milestone < now:
            now = out_copy.milestone
        if in_copy is not None and in_copy.milestone < now:
            now = in_copy.milestone
        if compute_end == now:
            job_ends.append(now)
            compute_end = _NEVER
            free += freed[position]
            for t in sequence.forward_ends.get(position, ()):
                forward_over[t] = 1
                if copied[t]:
                    free += copied[t]
                    released[t] = copied[t]
                    record.releases.append((now, t, copied[t]))
            if position in sequence.swap_outs:
                out_queue += sequence.swap_outs[position]
            op = ops[position]
            if base_position[op] == position:
                reached = op + 1
            position += 1
        if out_copy is not None and out_copy.milestone == now:
            t = out_copy.tensor
            copied[t] = out_copy.finished_pieces(now)
            if forward_over[t]:
                free += copied[t] - released[t]
                record.releases.append((now, t, copied[t] - released[t]))
                released[t] = copied[t]
            if copied[t] == sizes[t]:
                record.swap_outs.append((t, out_copy.start, now))
                out_copy = None
        if in_copy is not None and in_copy.milestone == now:
            t = in_copy.tensor
            resident[t] = 1
            host_free += sizes[t]
            record.swap_ins.append((t, in_copy.start, now))
            in_copy = None

    for copy, log in ((out_copy, record.swap_outs), (in_copy, record.swap_ins)):
        if copy is not None:
            log.append((copy.tensor, copy.start, None))
    return record
