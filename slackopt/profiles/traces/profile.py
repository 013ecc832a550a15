"""Makes a graph of a profiler trace alone, which names no tensors.

The trace must have been recorded with shapes and memory. Then every allocation and release is
known: what is live when, exactly. Which op reads which allocation is *inferred*: an input matches a
live allocation of its size, in the forward pass the one used last, in the backward pass the one
released first; and an allocation is in use until its release.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

from slackopt.errors import InputError
from slackopt.graph import Graph
from slackopt.profiles.traces.device_events import DeviceLedger
from slackopt.profiles.traces.fields import shown
from slackopt.profiles.traces.from_nodes import graph_of_nodes
from slackopt.profiles.traces.kineto import HostCall, KinetoTrace, MemoryEvent
from slackopt.profiles.traces.nodes import Node, TensorRef
from slackopt.profiles.traces.operators import (
    ANNOTATION_SCOPE,
    BACKWARD_SCOPE,
    is_allocation,
    is_random,
    short_name,
    writes_bytes,
)
from slackopt.profiles.traces.storages import Use

_ITEM_BYTES = {
    "float": 4,
    "double": 8,
    "c10::Half": 2,
    "c10::BFloat16": 2,
    "int": 4,
    "long": 8,
    "long int": 8,
    "bool": 1,
    "unsigned char": 1,
    "signed char": 1,
    "short": 2,
}
_BLOCK_BYTES = 512
"""PyTorch's allocator for GPUs rounds sizes up to this."""

_BACKWARD_NAME = re.compile(r"Backward\d*$")
_FIRST_ID = 2


@dataclass(eq=False)
class _Block:
    """One allocation, from when to when it lives, and the call that made it."""

    number: int
    size_bytes: int
    device: str
    begin_ns: int
    end_ns: int | None = None
    touched_ns: int = 0

    def ref(self, shape: tuple[int, ...] = (), dtype: str = "float") -> TensorRef:
        size = _ITEM_BYTES.get(dtype, 1)
        return TensorRef(
            self.number,
            self.number,
            self.size_bytes,
            True,
            max(1, self.size_bytes // size),
            size,
            self.device,
            dtype,
            shape,
        )


@dataclass(eq=False)
class _Frame:
    """A call with its place in the tree."""

    call: HostCall
    above: _Frame | None
    id: int
    backward: bool
    made: list[_Block] = field(default_factory=list)
    reads: dict[_Block, TensorRef] = field(default_factory=dict)

    @property
    def is_operator(self) -> bool:
        name = self.call.name
        foreign = name.startswith(("autograd::", "torch::autograd"))
        return not self.call.annotation and "::" in name and not foreign


def graph_of_profile(
    path: str,
    trace: KinetoTrace,
    *,
    name: str,
    step: int | str | None,
    restore_random_state: bool,
    provenance: dict[str, Any],
) -> Graph:
    """Make the graph of one step of a profiler trace.

    Parameters
    ----------
    path
        Named in errors.
    trace
        What the profiler saw.
    name, step, restore_random_state
        As in `read_trace`.
    provenance
        Added to.

    Raises
    ------
    InputError
        If shapes or memory were not recorded.
    """
    device = _device(path, trace)
    frames = _frames(trace.calls)
    blocks = _allocate(frames, [event for event in trace.memory if event.device == device])
    _match(frames, blocks)
    _hold_until_release(frames, blocks, trace)
    nodes = [_node(frame) for frame in frames]
    where = "device" if trace.device_ns else "host"
    return graph_of_nodes(
        path,
        nodes,
        durations=lambda _: _Durations(path, frames, trace),
        name=name,
        step=step,
        restore_random_state=restore_random_state,
        provenance={
            **provenance,
            "times": f"measured by the profiler on the {where}",
            "dataflow": "inferred: allocations are recorded, reads are matched by size",
            **({"device_events": trace.device_counts} if trace.device_counts else {}),
        },
    )


def _device(path: str, trace: KinetoTrace) -> str:
    """Return the device of most allocated bytes; the CPU only if no other is there."""
    allocated: dict[str, int] = {}
    for event in trace.memory:
        if event.size_bytes > 0:
            allocated[event.device] = allocated.get(event.device, 0) + event.size_bytes
    missing = [] if allocated else ["profile_memory=True"]
    if not any(call.shapes for call in trace.calls):
        missing.append("record_shapes=True")
    if missing:
        raise InputError(
            f"{path}: a profiler trace alone must show allocations and shapes; record it with "
            f"{' and '.join(missing)}, or give the execution trace of the same run beside it"
        )
    accelerators = {name: size for name, size in allocated.items() if name != "cpu"}
    pool = accelerators or allocated
    return max(pool, key=lambda name: (pool[name], name))


def _frames(calls: Sequence[HostCall]) -> list[_Frame]:
    """Nest the calls of each thread by their times."""
    stacks: dict[tuple[str, str], list[_Frame]] = {}
    frames: list[_Frame] = []
    for call in calls:
        stack = stacks.setdefault(call.thread, [])
        while stack and stack[-1].call.end_ns <= call.begin_ns:
            stack.pop()
        above = stack[-1] if stack else None
        backward = bool(_BACKWARD_NAME.search(call.name)) or call.name.startswith("autograd::")
        inherited = above is not None and above.backward
        frames.append(_Frame(call, above, len(frames) + _FIRST_ID, backward or inherited))
        stack.append(frames[-1])
    return frames


def _allocate(frames: Sequence[_Frame], memory: Sequence[MemoryEvent]) -> list[_Block]:
    """Attribute each allocation to the innermost call around it, and find its release."""
    blocks: list[_Block] = []
    makers: dict[_Block, _Frame] = {}
    live: dict[int, _Block] = {}
    stacks: dict[tuple[str, str], list[_Frame]] = {}
    at = 0
    for event in sorted(memory, key=lambda event: (event.time_ns, event.event)):
        while at < len(frames) and frames[at].call.begin_ns <= event.time_ns:
            stacks.setdefault(frames[at].call.thread, []).append(frames[at])
            at += 1
        if event.size_bytes <= 0:
            released = live.pop(event.address, None)
            if released is not None:
                released.end_ns = event.time_ns
            continue
        block = _Block(len(blocks), event.size_bytes, event.device, event.time_ns)
        block.touched_ns = event.time_ns
        live[event.address] = block
        blocks.append(block)
        stack = stacks.get(event.thread, [])
        while stack and stack[-1].call.end_ns < event.time_ns:
            stack.pop()
        if stack:
            makers[block] = stack[-1]
    for block, maker in makers.items():
        _give_out(block, maker)
    return blocks


def _give_out(block: _Block, maker: _Frame) -> None:
    """Note an allocation with its call, and with all calls above that leave it alive."""
    frame: _Frame | None = maker
    while frame is not None:
        alive = block.end_ns is None or block.end_ns > frame.call.end_ns
        if frame is not maker and not (alive and frame.is_operator):
            return
        frame.made.append(block)
        frame = frame.above


def _match(frames: Sequence[_Frame], blocks: Sequence[_Block]) -> None:
    """Match the inputs of operators to live allocations of their size."""
    by_size: dict[int, list[_Block]] = {}
    pending = iter(blocks)
    upcoming = next(pending, None)
    for frame in frames:
        now = frame.call.begin_ns
        while upcoming is not None and upcoming.begin_ns <= now:
            by_size.setdefault(upcoming.size_bytes, []).append(upcoming)
            upcoming = next(pending, None)
        for shape, dtype in zip(frame.call.shapes, frame.call.dtypes, strict=False):
            item = _ITEM_BYTES.get(dtype)
            if item is None:
                continue
            size = prod(shape) * item
            rounded = -(-size // _BLOCK_BYTES) * _BLOCK_BYTES
            block = _best(by_size, {size, rounded}, now, frame)
            if block is not None:
                block.touched_ns = now
                frame.reads[block] = block.ref(shape, dtype)


def _best(
    by_size: dict[int, list[_Block]], sizes: set[int], now: int, frame: _Frame
) -> _Block | None:
    candidates: list[_Block] = []
    for size in sorted(sizes):
        if size in by_size:
            alive = [block for block in by_size[size] if block.end_ns is None or block.end_ns > now]
            by_size[size] = alive
            candidates += [block for block in alive if block not in frame.reads]
    if not candidates:
        return None
    if frame.backward:
        forever = max(block.begin_ns for block in candidates) + 2**62
        return min(candidates, key=lambda block: (block.end_ns or forever, -block.touched_ns))
    return max(candidates, key=lambda block: (block.touched_ns, block.number))


def _hold_until_release(
    frames: Sequence[_Frame], blocks: Sequence[_Block], trace: KinetoTrace
) -> None:
    """Let the last op before an allocation's release read it: until then it takes memory."""
    workers = [frame for frame in frames if frame.is_operator and _works(frame, trace)]
    begins = [frame.call.begin_ns for frame in workers]
    for block in blocks:
        if block.end_ns is None:
            continue
        at = bisect_right(begins, block.end_ns) - 1
        if at >= 0 and begins[at] > block.begin_ns:
            workers[at].reads.setdefault(block, block.ref())


def _works(frame: _Frame, trace: KinetoTrace) -> bool:
    if is_allocation(frame.call.name):
        return False
    if trace.device_ns:
        return frame.call.external_id in trace.device_ns
    return bool(frame.made) or _in_place(frame)


def _in_place(frame: _Frame) -> bool:
    name = short_name(frame.call.name)
    return name.endswith("_") and not name.endswith("__") and writes_bytes(name)


def _node(frame: _Frame) -> Node:
    reads = tuple(frame.reads.values())
    outputs = tuple(block.ref() for block in frame.made)
    mutated = reads[:1] if _in_place(frame) and not is_allocation(frame.call.name) else ()
    scope = 0
    if frame.call.annotation:
        scope = ANNOTATION_SCOPE
    elif _BACKWARD_NAME.search(frame.call.name) and not frame.is_operator:
        scope = BACKWARD_SCOPE
    return Node(
        id=frame.id,
        parent=1 if frame.above is None else frame.above.id,
        name=frame.call.name,
        inputs=reads,
        # What makes nothing and writes nothing is a view: it gives back what it took.
        outputs=outputs or (() if mutated else reads),
        mutated=mutated,
        scope=scope,
        sequence=frame.call.sequence,
        record_id=frame.call.record_id,
        has_schema=frame.is_operator,
        random=is_random(frame.call.name),
    )


class _Durations:
    """Times of ops, by the external ids of their calls or by the calls' own times."""

    def __init__(self, path: str, frames: Sequence[_Frame], trace: KinetoTrace) -> None:
        self._calls = {frame.id: frame.call for frame in frames}
        self._on_device = bool(trace.device_ns)
        self._ledger = DeviceLedger(path, trace.device_ns)

    def __call__(self, use: Use) -> int:
        own = self._calls[use.node.id]
        if not self._on_device:
            return max(1, own.end_ns - own.begin_ns)
        externals = (self._calls[node.id].external_id for node in use.calls)
        return max(1, self._ledger.take(externals, f"traceEvents[{own.event}] ({shown(own.name)})"))

    def left(self, nodes: Sequence[Node]) -> dict[int, int]:
        """Return the time on the device that belongs to these calls and was given to no op."""
        return self._ledger.left(self._calls[node.id].external_id for node in nodes)
