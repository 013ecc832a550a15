"""The timeline of one simulated step: jobs, copies, stalls, memory, and the sums over them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple

from slackopt.instance import Instance
from slackopt.plan import Plan
from slackopt.simulation.engine import OutOfMemory, RunRecord
from slackopt.simulation.sequence import ComputeSequence

StallCause = Literal["swap-in", "memory"]


Direction = Literal["d2h", "h2d"]


class Job(NamedTuple):
    """One finished run of an op on the compute stream."""

    op: str
    op_index: int
    rerun: bool
    start_ns: int
    end_ns: int


class Copy(NamedTuple):
    """One copy over the link; `end_ns` is None if it was in flight when the step ended."""

    tensor: str
    direction: Direction
    size_bytes: int
    start_ns: int
    end_ns: int | None


class Stall(NamedTuple):
    """An idle stretch of the compute stream in front of a job.

    The cause is ``swap-in`` (an input is not resident) or ``memory`` (outputs and workspace
    don't fit yet).
    """

    cause: StallCause
    op: str
    start_ns: int
    end_ns: int

    @property
    def duration_ns(self) -> int:
        """Length of the stall."""
        return self.end_ns - self.start_ns


class MemoryCurve(NamedTuple):
    """Bytes on the device, piecewise constant: `size_bytes[i]` holds from `time_ns[i]` on."""

    time_ns: tuple[int, ...]
    size_bytes: tuple[int, ...]

    @property
    def peak_bytes(self) -> int:
        """Largest value."""
        return max(self.size_bytes)


@dataclass(frozen=True, repr=False)
class Timeline:
    """One simulated step.

    Attributes
    ----------
    instance, plan
        What was simulated; every swapped tensor of the plan has its trigger.
    sequence, record
        The compute sequence, and what the engine recorded; everything else is derived from them.
    """

    instance: Instance
    plan: Plan
    sequence: ComputeSequence
    record: RunRecord

    @property
    def out_of_memory(self) -> OutOfMemory | None:
        """None if the step ended; otherwise why it can't run. Jobs and copies then end there."""
        return self.record.out_of_memory

    @property
    def _stop_ns(self) -> int:
        oom = self.record.out_of_memory
        return self.record.job_ends_ns[-1] if oom is None else oom.time_ns

    @cached_property
    def jobs(self) -> tuple[Job, ...]:
        """Finished jobs of the compute stream, in order."""
        ops, sequence, record = self.instance.graph.ops, self.sequence, self.record
        return tuple(
            Job(ops[k].name, k, rerun, start, end)
            for k, rerun, start, end in zip(
                sequence.ops,
                sequence.reruns,
                record.job_starts_ns,
                record.job_ends_ns,
                strict=False,  # a plan that can't run has no times for its last jobs
            )
        )

    @cached_property
    def copies(self) -> tuple[Copy, ...]:
        """Copies over the link: swap-outs in order, then swap-ins in order."""
        tensors = self.instance.graph.tensors
        directions: tuple[tuple[Direction, list[tuple[int, int, int | None]]], ...] = (
            ("d2h", self.record.swap_outs),
            ("h2d", self.record.swap_ins),
        )
        return tuple(
            Copy(tensors[t].name, direction, tensors[t].size_bytes, start, end)
            for direction, log in directions
            for t, start, end in log
        )

    @cached_property
    def stalls(self) -> tuple[Stall, ...]:
        """Idle stretches of the compute stream, in order."""
        return _stalls(self.instance, self.sequence, self.record, self._stop_ns)

    @cached_property
    def memory(self) -> MemoryCurve:
        """Bytes on the device over time."""
        return _memory_curve(self.instance, self.sequence, self.record, self._stop_ns)

    @property
    def feasible(self) -> bool:
        """Whether the step ended."""
        return self.out_of_memory is None

    @property
    def makespan_ns(self) -> int | None:
        """End of the last base op; None if the plan can't run."""
        return self.record.makespan_ns

    @property
    def ideal_ns(self) -> int:
        """Step time with unlimited memory."""
        return self.instance.ideal_ns

    @property
    def throughput_ratio(self) -> float | None:
        """Ideal step time / makespan; None if the plan can't run."""
        return None if self.makespan_ns is None else self.ideal_ns / self.makespan_ns

    @cached_property
    def recompute_ns(self) -> int:
        """Time of all reruns."""
        return sum(job.end_ns - job.start_ns for job in self.jobs if job.rerun)

    def stall_ns(self, cause: StallCause | None = None) -> int:
        """Idle time of the compute stream, for one cause or in all."""
        return sum(s.duration_ns for s in self.stalls if cause in (None, s.cause))

    @property
    def peak_bytes(self) -> int:
        """Largest number of bytes on the device at any time."""
        return self.memory.peak_bytes

    @property
    def swapped_bytes(self) -> int:
        """Bytes copied to the host."""
        return sum(copy.size_bytes for copy in self.copies if copy.direction == "d2h")

    @property
    def recomputed_bytes(self) -> int:
        """Bytes of the tensors decided recompute that were rebuilt."""
        graph = self.instance.graph
        sizes, index = self.instance.lifetimes.sizes_bytes, graph.tensor_index
        return sum(
            sizes[index[name]]
            for job in self.jobs
            if job.rerun
            for name in graph.ops[job.op_index].outputs
            if self.plan.decisions.get(name) == "recompute"
        )

    def explain(self) -> str:
        """Say in one sentence how the step ended."""
        if self.out_of_memory is not None:
            oom = self.out_of_memory
            return (
                f"out of memory at {oom.time_ns / 1e6:.3f} ms: op "
                f"{self.instance.graph.ops[oom.op].name!r} (ops[{oom.op}]) waits for "
                f"{oom.asked_bytes} bytes, {oom.free_bytes} of {self.instance.budget_bytes} bytes "
                "are free, and nothing is on its way out"
            )
        return (
            f"makespan {_ms(self.makespan_ns)} = ideal {_ms(self.ideal_ns)} + recompute "
            f"{_ms(self.recompute_ns)} + waiting for swap-in {_ms(self.stall_ns('swap-in'))} + "
            f"waiting for memory {_ms(self.stall_ns('memory'))}; throughput ratio "
            f"{100 * (self.throughput_ratio or 0):.3f} %, "
            f"peak {self.peak_bytes / 2**30:.3f} GiB of "
            f"{self.instance.budget_bytes / 2**30:.3f} GiB"
        )

    def summary(self) -> dict[str, Any]:
        """Return the numbers of this timeline as JSON values; unknown is None."""
        oom = self.out_of_memory
        return {
            "instance": self.instance.name,
            "instance_sha256": self.instance.sha256,
            "feasible": self.feasible,
            "ideal_ns": self.ideal_ns,
            "makespan_ns": self.makespan_ns,
            "throughput_ratio": self.throughput_ratio,
            "recompute_ns": self.recompute_ns if self.feasible else None,
            "stall_ns": self.stall_ns() if self.feasible else None,
            "stall_swap_in_ns": self.stall_ns("swap-in") if self.feasible else None,
            "stall_memory_ns": self.stall_ns("memory") if self.feasible else None,
            "swapped_bytes": self.swapped_bytes,
            "recomputed_bytes": self.recomputed_bytes,
            "peak_bytes": self.peak_bytes,
            "budget_bytes": self.instance.budget_bytes,
            "out_of_memory": None
            if oom is None
            else {
                "op": self.instance.graph.ops[oom.op].name,
                "time_ns": oom.time_ns,
                "asked_bytes": oom.asked_bytes,
                "free_bytes": oom.free_bytes,
            },
        }

    def __repr__(self) -> str:
        return f"Timeline({self.instance.name!r}: {self.explain()})"


def _ms(duration_ns: int | None) -> str:
    return "unknown" if duration_ns is None else f"{duration_ns / 1e6:.3f} ms"


def _stalls(
    instance: Instance, sequence: ComputeSequence, record: RunRecord, stop: int
) -> tuple[Stall, ...]:
    arrival = {t: end for t, _, end in record.swap_ins if end is not None}
    stalls: list[Stall] = []
    idle_from = [0, *record.job_ends_ns]
    for position, begin in enumerate(idle_from):
        if position == len(sequence.ops):
            break
        started = position < len(record.job_starts_ns)
        start = record.job_starts_ns[position] if started else stop
        if start == begin:
            continue
        ready = max(
            (arrival.get(t, start) for t in sequence.needs.get(position, ())), default=begin
        )
        ready = min(max(ready, begin), start)
        name = instance.graph.ops[sequence.ops[position]].name
        if ready > begin:
            stalls.append(Stall("swap-in", name, begin, ready))
        if start > ready:
            stalls.append(Stall("memory", name, ready, start))
    return tuple(stalls)


def _memory_curve(
    instance: Instance, sequence: ComputeSequence, record: RunRecord, stop: int
) -> MemoryCurve:
    deltas: dict[int, int] = {0: sequence.batch_bytes}

    def add(time: int, size: int) -> None:
        deltas[time] = deltas.get(time, 0) + size

    for position, start in enumerate(record.job_starts_ns):
        add(start, sequence.allocated_bytes[position])
    for position, end in enumerate(record.job_ends_ns):
        add(end, -sequence.freed_bytes[position])
    for time, _, size in record.releases:
        add(time, -size)
    sizes = instance.lifetimes.sizes_bytes
    for t, start, _ in record.swap_ins:
        add(start, sizes[t])
    times, values, level = [], [], 0
    for time in sorted(deltas):
        if time > stop:
            break
        if deltas[time] or time == 0:
            level += deltas[time]
            times.append(time)
            values.append(level)
    return MemoryCurve(tuple(times), tuple(values))
