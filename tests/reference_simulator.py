"""A second simulator, plain rather than fast, written from docs/problem.md alone with SimPy.

It shares no code with `slackopt.simulation` and none with `slackopt.lifetimes`: it works on the
ops and tensors of the graph by name. The headings quoted in the comments are those of
docs/problem.md. All arithmetic is in Python integers.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import simpy

from slackopt.graph import Graph
from slackopt.instance import Instance
from slackopt.plan import Plan

UNITS_PER_BYTE = 10**9
"""Bytes are counted in units of 1e-9 byte: a bandwidth in bytes/s is in units per ns."""


@dataclass(frozen=True)
class ReferenceOutOfMemory:
    """Why a plan cannot run.

    Attributes
    ----------
    op
        Index of the op of the blocked job (the op that is rerun, if the job is a rerun).
    time_ns, asked_bytes, free_bytes
        When, what it asked for, and what was free.
    """

    op: int
    time_ns: int
    asked_bytes: int
    free_bytes: int


@dataclass(frozen=True)
class ReferenceRun:
    """What happened.

    Attributes
    ----------
    makespan_ns
        End of the last base op, None if the plan ran out of memory.
    recompute_ns, stall_swap_in_ns, stall_memory_ns
        The accounting, over the jobs that started.
    memory_curve
        (time, bytes) at time 0 and after every instant that changed the bytes on the device.
    peak_bytes
        Highest value of the curve.
    sequence
        (op index, whether it is a rerun) for every job, as fixed before the simulation.
    out_of_memory
        None if the plan ran.
    """

    makespan_ns: int | None
    recompute_ns: int
    stall_swap_in_ns: int
    stall_memory_ns: int
    memory_curve: tuple[tuple[int, int], ...]
    peak_bytes: int
    sequence: tuple[tuple[int, bool], ...]
    out_of_memory: ReferenceOutOfMemory | None


def reference_simulate(instance: Instance, plan: Plan) -> ReferenceRun:
    """Simulate `plan`; every swapped tensor read after its last forward use has a trigger."""
    return _Simulation(instance, plan).run()


# ---------------------------------------------------------------------------------------------
# "Instance" and "The compute sequence": everything that is fixed before time starts.


@dataclass(frozen=True)
class Job:
    """One compute job: `op` run in slot `slot`, as its base op or as a rerun."""

    op: int
    is_rerun: bool
    slot: int


def last_forward_uses(graph: Graph) -> dict[str, int]:
    """Return l_t of every tensor."""
    result: dict[str, int] = {}
    for tensor in graph.tensors:
        producers = [k for k, op in enumerate(graph.ops) if tensor.name in op.outputs]
        readers = [
            k
            for k, op in enumerate(graph.ops)
            if op.phase == "forward" and tensor.name in op.inputs
        ]
        result[tensor.name] = max(readers or producers or [-1])
    return result


def compute_sequence(graph: Graph, decisions: dict[str, str]) -> list[Job]:
    """Return the base ops in order, each with its reruns in front."""
    last_forward = last_forward_uses(graph)
    producer = {name: k for k, op in enumerate(graph.ops) for name in op.outputs}
    rebuilt: set[str] = set()
    jobs: list[Job] = []
    for k in range(len(graph.ops)):

        def is_missing(name: str, slot: int = k) -> bool:
            dropped = decisions[name] == "recompute" and last_forward[name] < slot
            return dropped and name not in rebuilt

        collected: set[int] = set()
        to_visit = [k]
        while to_visit:
            for name in graph.ops[to_visit.pop()].inputs:
                if is_missing(name) and producer[name] not in collected:
                    collected.add(producer[name])
                    to_visit.append(producer[name])
        for j in sorted(collected):
            jobs.append(Job(op=j, is_rerun=True, slot=k))
            rebuilt.update(name for name in graph.ops[j].outputs if decisions[name] == "recompute")
        jobs.append(Job(op=k, is_rerun=False, slot=k))
    reruns = [job.op for job in jobs if job.is_rerun]
    assert len(reruns) == len(set(reruns)), "an op is rerun at most once in a step"
    return jobs


# ---------------------------------------------------------------------------------------------
# "Simulator"


class _Simulation:
    """State of one run; three stream processes, and a coordinator that starts their jobs.

    A stream process waits for a job in its store, lets its time pass, and does what the end of
    the job does. Whatever *ends* something calls `something_ended`; the coordinator then waits
    until nothing else is scheduled at the present time, so that all ends of this instant are
    behind it, and tries the starts: compute, d2h, h2d.
    """

    def __init__(self, instance: Instance, plan: Plan) -> None:
        graph = instance.graph
        self.ops = graph.ops
        self.device = instance.device
        self.budget = instance.budget_bytes
        self.size = {tensor.name: tensor.size_bytes for tensor in graph.tensors}
        self.decision: dict[str, str] = {
            tensor.name: plan.decisions.get(tensor.name, "keep") for tensor in graph.tensors
        }
        self.jobs = compute_sequence(graph, self.decision)
        self.last_forward = last_forward_uses(graph)

        produced = {name for op in graph.ops for name in op.outputs}
        self.batch = [tensor.name for tensor in graph.tensors if tensor.name not in produced]
        # Positions in `jobs`: of each base op, of all readers of each tensor.
        self.base = {job.op: i for i, job in enumerate(self.jobs) if not job.is_rerun}
        self.readers = {
            name: [i for i, job in enumerate(self.jobs) if name in self.ops[job.op].inputs]
            for name in self.size
        }
        self.drop_at = {  # position of the job that ends l_t; -1 before all jobs
            name: self.base[k] if k >= 0 else -1 for name, k in self.last_forward.items()
        }
        self.later_readers = {
            name: [i for i in self.readers[name] if i > self.drop_at[name]] for name in self.size
        }
        self.freed_by: list[list[str]] = [[] for _ in self.jobs]
        for name in self.size:
            # Last use: the last job that reads it, or its producer if none does.
            last_use = max(self.readers[name], default=self.drop_at[name])
            self.freed_by[last_use].append(name)
            if self.decision[name] == "recompute" and self.later_readers[name]:
                self.freed_by[self.drop_at[name]].append(name)

        # Swapped tensors, those on which the decision has an effect, in order of next need.
        swapped = [n for n in self.size if self.decision[n] == "swap" and self.later_readers[n]]
        self.swapped = set(swapped)

        def next_need(name: str) -> tuple[int, int]:
            need = self.later_readers[name][0]
            return need, self.ops[self.jobs[need].op].inputs.index(name)

        self.swap_in_queue = sorted(swapped, key=next_need)
        self.trigger = {  # if the next need's slot begins before, that is when it is reached
            name: min(plan.prefetch[name], self.jobs[self.later_readers[name][0]].slot)
            for name in swapped
        }

        # What changes while time passes.
        self.env = simpy.Environment()
        self.held: dict[tuple[str, str], int] = {}  # (what, name) -> bytes on the device
        self.resident: set[str] = set()  # tensors that a compute job may read
        self.base_ops_ended = 0
        self.position = 0  # of the running or next compute job
        self.compute_busy = False
        self.swap_out_queue: list[str] = []
        self.out_in_flight: str | None = None
        self.in_in_flight: str | None = None
        self.copied = dict.fromkeys(swapped, 0)  # bytes copied out, in whole pieces
        self.host_free = self.device.host_memory_bytes
        self.compute_idle_since = 0
        self.inputs_resident_since: int | None = None

        self.recompute_ns = self.stall_swap_in_ns = self.stall_memory_ns = 0
        self.curve: list[tuple[int, int]] = []
        self.out_of_memory: ReferenceOutOfMemory | None = None
        self.makespan: int | None = None

        self.compute_store = simpy.Store(self.env)
        self.out_store = simpy.Store(self.env)
        self.in_store = simpy.Store(self.env)
        self.ended = self.env.event()
        self.link_changed = self.env.event()
        self.finished = self.env.event()

    def run(self) -> ReferenceRun:
        """Run to the end of the last base op, or to the moment when the plan is infeasible."""
        for name in self.batch:
            self.held["tensor", name] = self.size[name]
            self.resident.add(name)
            if name in self.swapped:
                self.swap_out_queue.append(name)
                if self.last_forward[name] == -1:
                    self.resident.discard(name)
        if self.used() > self.budget:
            self.record_memory()
            self.out_of_memory = ReferenceOutOfMemory(
                op=0, time_ns=0, asked_bytes=self.used(), free_bytes=self.budget
            )
        else:
            self.env.process(self.compute_stream())
            self.env.process(self.d2h_stream())
            self.env.process(self.h2d_stream())
            self.env.process(self.coordinator())
            self.something_ended()  # time 0 is an instant as well
            self.env.run(until=self.finished)
        if self.makespan is not None:
            ideal = sum(op.duration_ns for op in self.ops)
            stalls = self.stall_swap_in_ns + self.stall_memory_ns
            assert self.makespan == ideal + self.recompute_ns + stalls
            assert not self.held, "everything has been freed"
        return ReferenceRun(
            makespan_ns=self.makespan,
            recompute_ns=self.recompute_ns,
            stall_swap_in_ns=self.stall_swap_in_ns,
            stall_memory_ns=self.stall_memory_ns,
            memory_curve=tuple(self.curve),
            peak_bytes=max(value for _, value in self.curve),
            sequence=tuple((job.op, job.is_rerun) for job in self.jobs),
            out_of_memory=self.out_of_memory,
        )

    # -- memory ------------------------------------------------------------------------------

    def used(self) -> int:
        """Bytes on the device."""
        return sum(self.held.values())

    def free(self) -> int:
        """Bytes of the budget that are not used."""
        return self.budget - self.used()

    def record_memory(self) -> None:
        """Note the bytes on the device after an instant, where they differ."""
        if not self.curve or self.curve[-1][1] != self.used():
            self.curve.append((self.env.now, self.used()))

    # -- one instant -------------------------------------------------------------------------

    def something_ended(self) -> None:
        """Tell the coordinator that memory, an input or a stream became free now."""
        if not self.ended.triggered:
            self.ended.succeed()

    def coordinator(self) -> Generator[simpy.Event, Any, None]:
        """Handle the starts of every instant, after its ends."""
        while True:
            yield self.ended
            while self.env.peek() <= self.env.now:  # something else happens at this instant
                yield self.env.timeout(0)
            self.ended = self.env.event()
            if self.position == len(self.jobs):
                self.makespan = self.env.now
            else:
                self.try_compute()
                self.try_swap_out()
                self.try_swap_in()
                self.check_out_of_memory()
            self.record_memory()
            if self.makespan is not None or self.out_of_memory is not None:
                self.finished.succeed()
                return

    def next_op_inputs_resident(self) -> bool:
        """Whether all inputs of the next compute job are resident."""
        inputs = self.ops[self.jobs[self.position].op].inputs
        return all(name in self.resident for name in inputs)

    def next_op_asks(self) -> int:
        """Bytes that the next compute job allocates."""
        op = self.ops[self.jobs[self.position].op]
        return sum(self.size[name] for name in op.outputs) + op.workspace_bytes

    def compute_waits_for_memory(self) -> bool:
        """Whether a compute job has all its inputs and does not run."""
        return not self.compute_busy and self.next_op_inputs_resident()

    def try_compute(self) -> None:
        """Start the next compute job if it can start now."""
        if self.compute_busy or not self.next_op_inputs_resident():
            return
        if self.inputs_resident_since is None:
            self.inputs_resident_since = self.env.now
        if self.next_op_asks() > self.free():
            return
        job = self.jobs[self.position]
        op = self.ops[job.op]
        self.stall_swap_in_ns += self.inputs_resident_since - self.compute_idle_since
        self.stall_memory_ns += self.env.now - self.inputs_resident_since
        self.inputs_resident_since = None
        for name in op.outputs:
            # A rerun makes second copies; which of them stay is settled at its end.
            label = ("rerun", name) if job.is_rerun else ("tensor", name)
            assert label not in self.held
            self.held[label] = self.size[name]
        if op.workspace_bytes:
            self.held["workspace", ""] = op.workspace_bytes
        if job.is_rerun:
            self.recompute_ns += op.duration_ns
        self.compute_busy = True
        self.compute_store.put(job)

    def try_swap_out(self) -> None:
        """Start the first swap-out of the queue if the host has room for it."""
        if self.out_in_flight is not None or not self.swap_out_queue:
            return
        name = self.swap_out_queue[0]
        if self.host_free is not None:
            if self.size[name] > self.host_free:
                return
            self.host_free -= self.size[name]
        self.swap_out_queue.pop(0)
        self.out_in_flight = name
        self.link_change()
        self.out_store.put(name)

    def try_swap_in(self) -> None:
        """Start the first swap-in of the queue if it can start now."""
        if self.in_in_flight is not None or not self.swap_in_queue:
            return
        name = self.swap_in_queue[0]
        ready = (
            self.base_ops_ended >= self.trigger[name]  # base op g - 1 has ended
            and self.copied[name] == self.size[name]
            and ("tensor", name) not in self.held  # the swap-out has released it, all of it
            and self.size[name] <= self.free()
        )
        if not ready or self.compute_waits_for_memory():
            return
        self.swap_in_queue.pop(0)
        self.held["tensor", name] = self.size[name]
        self.in_in_flight = name
        self.link_change()
        self.in_store.put(name)

    def check_out_of_memory(self) -> None:
        """Find out whether the compute stream is blocked for good."""
        if self.compute_busy:
            return
        no_copy = self.out_in_flight is None and self.in_in_flight is None
        no_swap_out = self.out_in_flight is None and not self.swap_out_queue
        if no_copy or (self.compute_waits_for_memory() and no_swap_out):
            if self.next_op_inputs_resident():
                asked = self.next_op_asks()
            else:
                asked = self.size[self.swap_in_queue[0]]
            self.out_of_memory = ReferenceOutOfMemory(
                op=self.jobs[self.position].op,
                time_ns=self.env.now,
                asked_bytes=asked,
                free_bytes=self.free(),
            )

    # -- the streams -------------------------------------------------------------------------

    def compute_stream(self) -> Generator[simpy.Event, Any, None]:
        """Run the compute jobs that the coordinator starts."""
        while True:
            job: Job = yield self.compute_store.get()
            yield self.env.timeout(self.ops[job.op].duration_ns)
            self.end_compute(job)
            self.something_ended()

    def end_compute(self, job: Job) -> None:
        """Free what ends with a compute job and queue its swap-outs."""
        op = self.ops[job.op]
        self.held.pop(("workspace", ""), None)
        for name in op.outputs:
            if not job.is_rerun:
                self.resident.add(name)
                continue
            size = self.held.pop(("rerun", name))
            still_read = any(i > self.position for i in self.readers[name])
            if self.decision[name] == "recompute" and still_read:
                assert ("tensor", name) not in self.held
                self.held["tensor", name] = size
                self.resident.add(name)
        for name in self.freed_by[self.position]:
            del self.held["tensor", name]
            self.resident.discard(name)
        if not job.is_rerun:
            self.base_ops_ended += 1
            self.swap_out_queue.extend(name for name in op.outputs if name in self.swapped)
            for name in self.swapped:
                if self.last_forward[name] == job.op:
                    self.resident.discard(name)  # from here on it is read after its swap-in
                    self.release_copied(name)
        self.position += 1
        self.compute_busy = False
        self.compute_idle_since = self.env.now

    def release_copied(self, name: str) -> None:
        """Free the device memory of the pieces of a tensor copied out so far."""
        left = self.size[name] - self.copied[name]
        if left:
            self.held["tensor", name] = left
        else:
            del self.held["tensor", name]

    def d2h_stream(self) -> Generator[simpy.Event, Any, None]:
        """Copy out the tensors that the coordinator starts."""
        while True:
            name: str = yield self.out_store.get()
            size, device = self.size[name], self.device
            piece = device.chunk_bytes if device.chunk_bytes > 0 else size
            yield self.env.timeout(device.latency_ns)
            moved = 0  # in units of 1e-9 byte
            while self.copied[name] < size:
                alone, shared = device.d2h_bytes_per_s, device.d2h_shared_bytes_per_s
                rate = alone if self.in_in_flight is None or shared is None else shared
                goal = min(size, self.copied[name] + piece) * UNITS_PER_BYTE
                moved += yield from self.move(rate, goal - moved)
                pieces = moved // (piece * UNITS_PER_BYTE)
                done = size if moved >= size * UNITS_PER_BYTE else pieces * piece
                if done > self.copied[name]:
                    self.copied[name] = done
                    if self.base_ops_ended > self.last_forward[name]:  # l_t has ended
                        self.release_copied(name)
                        self.something_ended()
            self.out_in_flight = None
            self.link_change()
            self.something_ended()

    def h2d_stream(self) -> Generator[simpy.Event, Any, None]:
        """Copy in the tensors that the coordinator starts."""
        while True:
            name: str = yield self.in_store.get()
            device = self.device
            yield self.env.timeout(device.latency_ns)
            left = self.size[name] * UNITS_PER_BYTE
            while left > 0:
                alone, shared = device.h2d_bytes_per_s, device.h2d_shared_bytes_per_s
                rate = alone if self.out_in_flight is None or shared is None else shared
                left -= yield from self.move(rate, left)
            self.in_in_flight = None
            self.resident.add(name)
            if self.host_free is not None:
                self.host_free += self.size[name]
            self.link_change()
            self.something_ended()

    def move(self, rate: int, units: int) -> Generator[simpy.Event, Any, int]:
        """Move `units`, or fewer until the other direction changes; return those moved."""
        begin = self.env.now
        duration = (units + rate - 1) // rate
        yield self.env.timeout(duration) | self.link_changed
        return rate * (self.env.now - begin)

    def link_change(self) -> None:
        """Tell the copies in flight that the number of busy directions changed."""
        self.link_changed.succeed()
        self.link_changed = self.env.event()
