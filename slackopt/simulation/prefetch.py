"""The default prefetch triggers: as early as memory allows, in order of next need."""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Mapping, Sequence
from itertools import accumulate

from slackopt.device import Device
from slackopt.lifetimes import Lifetimes
from slackopt.simulation.sequence import ComputeSequence


def default_triggers(
    life: Lifetimes,
    device: Device,
    budget_bytes: int,
    sequence: ComputeSequence,
    given: Mapping[int, int] | None = None,
) -> list[int]:
    """Choose the trigger of each swapped tensor.

    On a timeline without stalls, with swap-outs first in, first out: in order of next need, a
    tensor gets the earliest slot after its release from which it fits, beside everything else
    and the tensors needed earlier, up to its need; at the latest the slot of the need itself. So
    a prefetch never takes memory that an op in between needs, as long as the swap-outs keep up.

    Parameters
    ----------
    life, device, budget_bytes
        The instance.
    sequence
        The compute sequence of the plan.
    given
        Triggers to keep: tensor -> op index.

    Returns
    -------
    list of int
        Per tensor: op index of the trigger; 0 for tensors without a swap-in.
    """
    given = given or {}
    num_jobs = len(sequence.ops)
    ends = list(accumulate(life.durations_ns[op] for op in sequence.ops))
    released_at = _released_at(life, device, sequence, ends)
    free = _free_during_jobs(life, budget_bytes, sequence, released_at)
    slots = sequence.slots
    first_job = [0] * life.num_ops
    for position in range(num_jobs - 1, -1, -1):
        first_job[slots[position]] = position

    # Swap-ins are served in order of need, so a trigger before its predecessor's has no effect:
    # the triggers ascend. Every job between the last trigger and the next need has therefore lost
    # the same bytes to reservations (`reserved`), and the suffix minima of `free` between the
    # two, kept in `tight` with ascending values, tell the last job in which a tensor doesn't fit.
    # Each job enters and leaves once: linear time.
    triggers = [0] * life.num_tensors
    tight: deque[tuple[int, int]] = deque()  # (free bytes + reserved at entry, job)
    reserved = entered = last_slot = 0
    for need in sorted(sequence.needs):
        need_slot = slots[need]
        for job in range(entered, need):
            value = free[job] + reserved
            while tight and tight[-1][0] >= value:
                tight.pop()
            tight.append((value, job))
        entered = need
        for t in sequence.needs[need]:
            size = life.sizes_bytes[t]
            if t in given:
                triggers[t] = given[t]
            else:
                slot = max(last_slot, life.last_forward_use[t] + 1)
                if released_at[t] < num_jobs:
                    slot = max(slot, _slot_from(slots, first_job, released_at[t]))
                else:
                    slot = need_slot
                misfits = bisect_left(tight, (size + reserved, -1))
                if misfits:
                    slot = max(slot, slots[tight[misfits - 1][1]] + 1)
                triggers[t] = min(slot, need_slot)
            last_slot = min(max(last_slot, triggers[t]), need_slot)
            while tight and tight[0][1] < first_job[last_slot]:
                tight.popleft()
            reserved += size
    return triggers


def _slot_from(slots: Sequence[int], first_job: Sequence[int], job: int) -> int:
    """Return the first slot that begins with `job` or later."""
    return slots[job] if first_job[slots[job]] == job else slots[job] + 1


def _released_at(
    life: Lifetimes, device: Device, sequence: ComputeSequence, ends: Sequence[int]
) -> dict[int, int]:
    """Per swapped tensor: the first job that starts after its swap-out has released its memory."""
    queue = [(0, t) for t in sequence.batch_swaps]
    queue += [(ends[i], t) for i in sorted(sequence.swap_outs) for t in sequence.swap_outs[i]]
    released: dict[int, int] = {}
    idle_from, job = 0, 0
    for ready, t in queue:
        idle_from = max(idle_from, ready) + device.swap_out_ns(life.sizes_bytes[t])
        while job < len(ends) and (ends[job - 1] if job else 0) < idle_from:
            job += 1
        last = life.last_forward_use[t]
        released[t] = max(job, sequence.base_position[last] + 1 if last >= 0 else 0)
    return released


def free_during_jobs(
    life: Lifetimes, device: Device, budget_bytes: int, sequence: ComputeSequence
) -> list[int]:
    """Return the bytes free during each job on a timeline without stalls.

    Swapped tensors are absent from the end of their swap-out to their next need. Below zero where
    the swap-outs don't keep up.
    """
    ends = list(accumulate(life.durations_ns[op] for op in sequence.ops))
    released_at = _released_at(life, device, sequence, ends)
    return _free_during_jobs(life, budget_bytes, sequence, released_at)


def _free_during_jobs(
    life: Lifetimes, budget_bytes: int, sequence: ComputeSequence, released_at: Mapping[int, int]
) -> list[int]:
    """Bytes free during each job, without the swapped tensors between release and next need."""
    change = [0] * (len(sequence.ops) + 1)
    change[0] = sequence.batch_bytes
    for i, allocated in enumerate(sequence.allocated_bytes):
        change[i] += allocated
        change[i + 1] -= sequence.freed_bytes[i]
    for t, job in released_at.items():
        need = sequence.next_need[t]
        if job < need:
            change[job] -= life.sizes_bytes[t]
            change[need] += life.sizes_bytes[t]
    return [budget_bytes - used for used in accumulate(change[:-1])]
