"""When each tensor of a step is made, read and freed, as integers: what every algorithm reads."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

ABSENT = -1
"""Marks an op index that does not exist: no producer, no backward use."""

Ints = tuple[int, ...]


@dataclass(frozen=True)
class Lifetimes:
    """Integer-indexed view of a graph: op ``k`` and tensor ``t`` are positions in its lists.

    Attributes
    ----------
    sizes_bytes, swappable
        Per tensor.
    durations_ns, workspaces_bytes, recomputable, inputs, outputs
        Per op; inputs and outputs hold tensor indices in the order of the file.
    num_forward
        Number of forward ops; ops from this index on are backward ops.
    producer
        Per tensor: the op that makes it, or `ABSENT` (the batch: there from the start).
    last_forward_use
        Per tensor: its last forward reader, at least its producer; -1 for a batch tensor that no
        forward op reads.
    first_backward_use, last_backward_use
        Per tensor: its backward readers, or `ABSENT`.
    """

    sizes_bytes: Ints
    swappable: tuple[bool, ...]
    durations_ns: Ints
    workspaces_bytes: Ints
    recomputable: tuple[bool, ...]
    inputs: tuple[Ints, ...]
    outputs: tuple[Ints, ...]
    num_forward: int
    producer: Ints
    last_forward_use: Ints
    first_backward_use: Ints
    last_backward_use: Ints

    @classmethod
    def from_ops(
        cls,
        *,
        sizes_bytes: Ints,
        swappable: tuple[bool, ...],
        durations_ns: Ints,
        workspaces_bytes: Ints,
        recomputable: tuple[bool, ...],
        inputs: tuple[Ints, ...],
        outputs: tuple[Ints, ...],
        num_forward: int,
    ) -> Lifetimes:
        """Derive producers and uses from the op list."""
        n = len(sizes_bytes)
        producer, last_forward = [ABSENT] * n, [-1] * n
        first_backward, last_backward = [ABSENT] * n, [ABSENT] * n
        for k, outs in enumerate(outputs):
            for t in outs:
                producer[t] = last_forward[t] = k
        for k, ins in enumerate(inputs):
            for t in ins:
                if k < num_forward:
                    last_forward[t] = k
                else:
                    if first_backward[t] == ABSENT:
                        first_backward[t] = k
                    last_backward[t] = k
        return cls(
            sizes_bytes=sizes_bytes,
            swappable=swappable,
            durations_ns=durations_ns,
            workspaces_bytes=workspaces_bytes,
            recomputable=recomputable,
            inputs=inputs,
            outputs=outputs,
            num_forward=num_forward,
            producer=tuple(producer),
            last_forward_use=tuple(last_forward),
            first_backward_use=tuple(first_backward),
            last_backward_use=tuple(last_backward),
        )

    @property
    def num_ops(self) -> int:
        """Number of base ops."""
        return len(self.durations_ns)

    @property
    def num_tensors(self) -> int:
        """Number of tensors."""
        return len(self.sizes_bytes)

    @cached_property
    def output_bytes(self) -> Ints:
        """Per op: bytes of all its outputs."""
        return tuple(sum(self.sizes_bytes[t] for t in outputs) for outputs in self.outputs)

    @cached_property
    def batch_bytes(self) -> int:
        """Bytes of the tensors without a producer, on the device from the start."""
        return sum(
            size
            for size, producer in zip(self.sizes_bytes, self.producer, strict=True)
            if producer == ABSENT
        )

    def is_candidate(self, t: int) -> bool:
        """Whether tensor `t` is idle for at least one op between its forward and backward uses."""
        first = self.first_backward_use[t]
        return first != ABSENT and first - self.last_forward_use[t] >= 2

    @cached_property
    def candidates(self) -> Ints:
        """Tensors that every plan decides on, in index order."""
        return tuple(t for t in range(self.num_tensors) if self.is_candidate(t))

    def can_recompute(self, t: int) -> bool:
        """Whether tensor `t` has a producer that may run twice."""
        return self.producer[t] != ABSENT and self.recomputable[self.producer[t]]

    @cached_property
    def closure(self) -> Ints:
        """Tensors without a backward use that a recompute of some candidate may need as input.

        A decision on any other tensor has no effect.
        """
        found: set[int] = set()
        pending = [t for t in self.candidates if self.can_recompute(t)]
        seen = set(pending)
        while pending:
            for q in self.inputs[self.producer[pending.pop()]]:
                if q in seen:
                    continue
                seen.add(q)
                if self.first_backward_use[q] == ABSENT:
                    found.add(q)
                    if self.can_recompute(q):
                        pending.append(q)
        return tuple(sorted(found))

    @cached_property
    def live_bytes(self) -> Ints:
        """Bytes live during each op, workspace included, when nothing is evicted."""
        return self._live([True] * self.num_tensors)

    @cached_property
    def working_set_bytes(self) -> Ints:
        """Bytes that no decision can keep off the device during each op.

        A candidate that may be swapped or recomputed can be absent strictly between its last
        forward and first backward use; every other byte of `live_bytes` is there in every plan.
        """
        kept = [
            not (self.is_candidate(t) and (self.swappable[t] or self.can_recompute(t)))
            for t in range(self.num_tensors)
        ]
        return self._live(kept)

    def _live(self, kept: list[bool]) -> Ints:
        delta = [0] * (self.num_ops + 1)
        for t, size in enumerate(self.sizes_bytes):
            start, idle_from = max(self.producer[t], 0), self.last_forward_use[t] + 1
            first, last = self.first_backward_use[t], self.last_backward_use[t]
            spans = [(start, idle_from)]
            if first != ABSENT and (kept[t] or first <= idle_from):
                spans = [(start, last + 1)]
            elif first != ABSENT:
                spans.append((first, last + 1))
            for begin, end in spans:
                delta[begin] += size
                delta[end] -= size
        live = accumulate(delta[: self.num_ops])
        return tuple(map(sum, zip(live, self.workspaces_bytes, strict=True)))

    @cached_property
    def unlimited_peak_bytes(self) -> int:
        """Largest of `live_bytes`."""
        return max(self.live_bytes)
