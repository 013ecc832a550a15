"""Follows the storages of one step: who allocates, writes and reads each of them.

An id in an execution trace stands for an address. When memory is freed and given out again, the
same id names another storage; here every allocation starts a new one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from slackopt.profiles.traces.calls import Call, find_calls
from slackopt.profiles.traces.nodes import Node, TensorRef
from slackopt.profiles.traces.operators import is_communication, is_gradient_accumulation
from slackopt.profiles.traces.steps import BACKWARD


@dataclass(eq=False)
class Storage:
    """One allocation on the device.

    Attributes
    ----------
    address
        Its id in the trace.
    size_bytes
        Its extent, as far as the trace shows it.
    dtype
        C++ type of its elements, at the first mention.
    shapes
        Shapes of the tensors in it.
    existing
        Whether it was there before the step.
    exact
        Whether every mention so far told its extent exactly.
    parameter_gradient
        Whether it ends in a parameter's ``.grad``.
    """

    address: int
    size_bytes: int
    dtype: str
    shapes: set[tuple[int, ...]]
    existing: bool
    exact: bool
    parameter_gradient: bool = False


@dataclass(eq=False)
class Use:
    """One op and the storages it reads, makes and overwrites.

    Attributes
    ----------
    calls
        Its nodes; the first is its own.
    backward
        Whether it belongs to the backward pass.
    reads, makes, overwrites
        Each storage once. ``makes``: it is the first to write them. ``overwrites``: they had been
        written before.
    temporary
        Addresses of the storages that it allocates and does not give out, with their sizes.
    off_device
        Whether it reads more than a number from another device.
    position
        Position of its node in the step.
    """

    calls: list[Node]
    backward: bool
    position: int
    reads: dict[Storage, None] = field(default_factory=dict)
    makes: dict[Storage, None] = field(default_factory=dict)
    overwrites: dict[Storage, None] = field(default_factory=dict)
    temporary: dict[int, int] = field(default_factory=dict)
    off_device: bool = False

    @property
    def node(self) -> Node:
        """Its own call."""
        return self.calls[0]


def main_device(nodes: Sequence[Node]) -> str | None:
    """Return the device of most tensors; the CPU only if no other is mentioned."""
    mentions: dict[str, int] = {}
    for node in nodes:
        for ref in node.outputs:
            mentions[ref.device] = mentions.get(ref.device, 0) + 1
    accelerators = {name: n for name, n in mentions.items() if not name.startswith("cpu")}
    pool = accelerators or mentions
    return max(pool, key=lambda name: (pool[name], name)) if pool else None


def follow(nodes: Sequence[Node], flags: Sequence[int], device: str) -> list[Use]:
    """Return the ops of a step with what they do to storages, in the order of execution.

    Parameters
    ----------
    nodes, flags
        The nodes of the step without those of the optimizer, and what `steps.inherit` says of each.
    device
        Storages elsewhere are ignored.
    """
    follower = _Follower(nodes, flags, device)
    calls = find_calls(nodes, device)
    pending = iter([i for i, node in enumerate(nodes) if is_gradient_accumulation(node.name)])
    accumulation = next(pending, None)
    for call in calls:
        while accumulation is not None and accumulation < call.index:
            follower.accumulate(nodes[accumulation])
            accumulation = next(pending, None)
        follower.apply(call)
    while accumulation is not None:
        follower.accumulate(nodes[accumulation])
        accumulation = next(pending, None)
    return follower.finish()


class _Follower:
    def __init__(self, nodes: Sequence[Node], flags: Sequence[int], device: str) -> None:
        self.nodes, self.flags, self.device = nodes, flags, device
        self.current: dict[int, Storage] = {}
        self.written: set[Storage] = set()
        self.uses: list[Use] = []
        self._inner: list[tuple[Use, list[Storage]]] = []

    def accumulate(self, node: Node) -> None:
        """Mark the gradient that a parameter takes over."""
        for ref in node.inputs:
            if ref.device == self.device:
                self._at(ref).parameter_gradient = True

    def apply(self, call: Call) -> None:
        """Apply an op or an allocation."""
        if not call.is_op:
            for address, refs in call.allocated.items():
                self.current[address] = _storage(refs, existing=False)
            return
        below = [self.nodes[i] for i in call.calls]
        # The seed of a backward pass aside, nothing of the forward pass comes after its start.
        began = bool(self.uses) and self.uses[-1].backward
        use = Use(below, began or bool(self.flags[call.index] & BACKWARD), call.index)
        changed: dict[Storage, None] = {}
        for node in below:
            communicates = is_communication(node.name)
            for ref in node.inputs:
                if ref.device != self.device:
                    use.off_device |= ref.numel > 1
                elif ref.storage not in call.allocated:
                    storage = self._at(ref)
                    use.reads[storage] = None
                    if communicates:
                        changed[storage] = None
            for ref in node.mutated:
                if ref.device == self.device and ref.storage not in call.allocated:
                    changed[self._at(ref)] = None
        for storage in changed:
            if storage.existing or storage in self.written:
                use.overwrites[storage] = None
            else:
                use.makes[storage] = None
                use.reads.pop(storage, None)
        self._allocate(call, use)
        self.written.update(use.makes)
        self.uses.append(use)

    def finish(self) -> list[Use]:
        """Tell workspaces from results that a later op reads."""
        read = {storage for use in self.uses for storage in use.reads}
        for use, inner in self._inner:
            for storage in inner:
                if storage not in read and not storage.parameter_gradient:
                    del use.makes[storage]
                    size = max(storage.size_bytes, use.temporary.get(storage.address, 0))
                    use.temporary[storage.address] = size
        return self.uses

    def _allocate(self, call: Call, use: Use) -> None:
        given = {ref.storage for ref in call.node.outputs if ref.device == self.device}
        inner: list[Storage] = []
        for address, refs in call.allocated.items():
            storage = self.current[address] = _storage(refs, existing=False)
            use.makes[storage] = None
            if address not in given:
                inner.append(storage)
        if inner:
            self._inner.append((use, inner))

    def _at(self, ref: TensorRef) -> Storage:
        """Return the storage that a mention means now."""
        storage = self.current.get(ref.storage)
        if storage is None:
            storage = self.current[ref.storage] = _storage([ref], existing=True)
        elif storage.existing:
            storage.shapes.add(ref.shape)
            # Without strides, an expanded view looks larger than its storage: the first mention,
            # mostly the whole tensor, then stands.
            if ref.exact:
                larger = max(ref.extent_bytes, storage.size_bytes)
                storage.size_bytes = larger if storage.exact else ref.extent_bytes
                storage.exact = True
        return storage


def _storage(refs: Sequence[TensorRef], *, existing: bool) -> Storage:
    return Storage(
        address=refs[0].storage,
        size_bytes=max(ref.extent_bytes for ref in refs),
        dtype=refs[0].dtype,
        shapes={ref.shape for ref in refs},
        existing=existing,
        exact=all(ref.exact for ref in refs),
    )
