"""Where the bytes of a step are over time: on the device, on the host, or not there at all."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from itertools import accumulate

from slackopt.lifetimes import ABSENT
from slackopt.simulation.timeline import Timeline

Ints = tuple[int, ...]


@dataclass(frozen=True)
class Residency:
    """Bytes over the time of a simulated step, piecewise constant.

    At every time, ``needed + freed_by_swap + freed_by_recompute = unlimited`` and
    ``needed + for_reruns`` is what is on the device, exactly.

    Attributes
    ----------
    time_ns
        The value with the same index holds from this time until the next, the last one until
        `end_ns`.
    end_ns
        When the step ended or ran out of memory.
    needed_bytes
        On the device, and it would be there without a limit as well: what is kept, what is not
        yet gone or already back, and workspaces.
    for_reruns_bytes
        On the device for the sake of reruns only: their workspaces and by-products, and inputs
        that would have been freed before.
    freed_by_swap_bytes, freed_by_recompute_bytes
        Would be on the device without a limit; the decision keeps it away.
    unlimited_bytes
        Without a limit, at the same point of the step. During a rerun or a stall it is what lives
        between the two base ops.
    """

    time_ns: Ints
    end_ns: int
    needed_bytes: Ints
    for_reruns_bytes: Ints
    freed_by_swap_bytes: Ints
    freed_by_recompute_bytes: Ints
    unlimited_bytes: Ints


def residency(timeline: Timeline) -> Residency:
    """Derive where the bytes are from a timeline, tensor by tensor.

    A timeline that ran out of memory is followed until then.
    """
    curves = {
        "device": _on_the_device(timeline),
        "swap": _freed_by_swap(timeline),
        "recompute": _freed_by_recompute(timeline),
        "unlimited": _unlimited(timeline),
    }
    stop = stop_ns(timeline)
    # What is freed at the very end is no value that lasts.
    times = sorted(time for time in {0}.union(*curves.values()) if time == 0 or time < stop)
    level = {
        name: tuple(accumulate(deltas.get(time, 0) for time in times))
        for name, deltas in curves.items()
    }
    needed = tuple(
        unlimited - swapped - dropped
        for unlimited, swapped, dropped in zip(
            level["unlimited"], level["swap"], level["recompute"], strict=True
        )
    )
    extra = tuple(held - base for held, base in zip(level["device"], needed, strict=True))
    return Residency(
        time_ns=tuple(times),
        end_ns=stop,
        needed_bytes=needed,
        for_reruns_bytes=extra,
        freed_by_swap_bytes=level["swap"],
        freed_by_recompute_bytes=level["recompute"],
        unlimited_bytes=level["unlimited"],
    )


def stop_ns(timeline: Timeline) -> int:
    """Return the time at which the step ended or ran out of memory."""
    oom = timeline.out_of_memory
    return timeline.record.job_ends_ns[-1] if oom is None else oom.time_ns


def _on_the_device(timeline: Timeline) -> dict[int, int]:
    memory = timeline.memory
    before = (0, *memory.size_bytes)
    return {
        time: size - last
        for time, size, last in zip(memory.time_ns, memory.size_bytes, before, strict=False)
    }


def _freed_by_swap(timeline: Timeline) -> dict[int, int]:
    """From the release of a tensor, or of a piece of it, to the start of its swap-in.

    A tensor without a backward use is left out: without a limit it would be gone by then.
    """
    life, record = timeline.instance.lifetimes, timeline.record
    deltas: dict[int, int] = defaultdict(int)
    for time, t, size in record.releases:
        if life.first_backward_use[t] != ABSENT:
            deltas[time] += size
    for t, start, _ in record.swap_ins:
        if life.first_backward_use[t] != ABSENT:
            deltas[start] -= life.sizes_bytes[t]
    return deltas


def _freed_by_recompute(timeline: Timeline) -> dict[int, int]:
    """From the last forward use of a tensor to the start of the rerun that rebuilds it."""
    instance, sequence, record = timeline.instance, timeline.sequence, timeline.record
    life, tensors = instance.lifetimes, instance.graph.tensors
    rerun = {op: i for i, op in enumerate(sequence.ops) if sequence.reruns[i]}
    deltas: dict[int, int] = defaultdict(int)
    for t, size in enumerate(life.sizes_bytes):
        decision = timeline.plan.decisions.get(tensors[t].name)
        if decision != "recompute" or life.first_backward_use[t] == ABSENT:
            continue
        dropped = sequence.base_position[life.last_forward_use[t]]
        rebuilt = rerun[life.producer[t]]
        if dropped < len(record.job_ends_ns):
            deltas[record.job_ends_ns[dropped]] += size
        if rebuilt < len(record.job_starts_ns):
            deltas[record.job_starts_ns[rebuilt]] -= size
    return deltas


def _unlimited(timeline: Timeline) -> dict[int, int]:
    """Every tensor from its producer to its last use by a base op, at the times of this step."""
    life, sequence, record = timeline.instance.lifetimes, timeline.sequence, timeline.record
    starts, ends = record.job_starts_ns, record.job_ends_ns
    deltas: dict[int, int] = defaultdict(int, {0: life.batch_bytes})
    freed = list(life.workspaces_bytes)
    for t, size in enumerate(life.sizes_bytes):
        freed[max(life.last_forward_use[t], life.last_backward_use[t])] += size
    for op, position in enumerate(sequence.base_position):
        if position < len(starts):
            deltas[starts[position]] += life.output_bytes[op] + life.workspaces_bytes[op]
        if position < len(ends):
            deltas[ends[position]] -= freed[op]
    return deltas
