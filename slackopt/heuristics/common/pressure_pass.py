"""One pass over the step that drops or swaps whatever does not fit."""

from __future__ import annotations

import time
from collections.abc import Collection
from dataclasses import dataclass
from heapq import heappop, heappush

from slackopt.heuristics.common.idle import op_starts_ns
from slackopt.instance import Instance
from slackopt.lifetimes import ABSENT
from slackopt.simulation.sequence import KEEP, RECOMPUTE, SWAP

_MOST_ANCESTORS = 64
"""So many missing ancestors at most count in the rebuild time of a tensor."""

_DEPTH = 4
"""The next need of a tensor is looked for through so many missing outputs."""


@dataclass(frozen=True)
class Setting:
    """How a pass scores what it may evict; the least score goes first.

    Attributes
    ----------
    time_power, closeness
        Exponents p and q of the score ``cost^p / (size * (ops to the next need)^q)``.
    swap
        Whether it may swap. The cost of a tensor is then the smaller of its rebuild time and the
        time of its copies that compute can't hide.
    sources_stay
        Whether a tensor that only reruns read stays after its last forward use until it is
        dropped under pressure; otherwise it leaves at once.
    """

    time_power: float = 1.0
    closeness: float = 1.0
    swap: bool = False
    sources_stay: bool = False


class PressurePass:
    """Holds everything; where a slot does not fit at its worst job, evicts tensors.

    The memory of a slot is followed without copies: a swapped tensor is away from its last forward
    use to its next need. A tensor can be evicted from its last forward use until something reads it
    (from then on, a plan that brings a tensor back once holds it to the end).

    The copies of the tensors swapped so far, and one more, take all of the link's time up to this
    slot at best; what exceeds it is not hidden. So for the copies back, after this slot.

    Parameters
    ----------
    instance
        The instance.
    setting
        The score.
    swaps
        Tensors to swap in any case.
    """

    def __init__(self, instance: Instance, setting: Setting, swaps: Collection[int] = ()) -> None:
        self.life, self.setting = instance.lifetimes, setting
        self._budget, self._device = instance.budget_bytes, instance.device
        life, n = self.life, self.life.num_tensors
        self._starts = op_starts_ns(life)
        self._out_ns = self._in_ns = 0  # copies of the tensors swapped so far
        self._decisions = [KEEP] * n
        for t in swaps:
            self._decisions[t] = SWAP
        sources = set(life.closure)
        matters = [
            self._decisions[t] == KEEP and (life.is_candidate(t) or t in sources) for t in range(n)
        ]
        self._free = [matters[t] and life.can_recompute(t) for t in range(n)]
        self._may_swap = [
            setting.swap and matters[t] and life.is_candidate(t) and life.swappable[t]
            for t in range(n)
        ]
        self._made_from: list[list[int]] = [[] for _ in range(n)]  # droppable outputs of readers
        for k, outputs in enumerate(life.outputs):
            made = [y for y in outputs if self._free[y]]
            for t in life.inputs[k] if made else ():
                self._made_from[t] += made
        self._dead = self._deaths(sources)
        self._present = {t for t in range(n) if life.producer[t] == ABSENT}
        self._used = life.batch_bytes
        self._missing: set[int] = set()
        self._idle: set[int] = set()
        self._queue: list[tuple[float, int]] = []  # score when it was looked at, idle tensor
        self._ends_at: dict[int, list[int]] = {}  # last forward use -> what may leave then
        for t in range(n):
            if self._free[t] or self._may_swap[t] or self._decisions[t] == SWAP:
                self._ends_at.setdefault(life.last_forward_use[t], []).append(t)

    def run(self, deadline: float | None = None) -> list[int] | None:
        """Return the decisions, also where something does not fit; None past the deadline."""
        life = self.life
        for k in range(life.num_ops):
            if deadline is not None and time.monotonic() >= deadline:
                return None
            self._slot(k)
            for t in self._ends_at.get(k, ()):
                if t not in self._present:
                    continue
                if self._decisions[t] == SWAP:
                    self._leave(t)
                elif life.first_backward_use[t] == ABSENT and not self.setting.sources_stay:
                    self._drop(t)
                else:
                    self._idle.add(t)
                    heappush(self._queue, (self._scored(t, k)[0], t))
        return self._decisions

    def _slot(self, k: int) -> None:
        life, sizes = self.life, self.life.sizes_bytes
        jobs = [*self._reruns(k), k]
        last_read: dict[int, int] = {}
        for i, op in enumerate(jobs):
            for t in life.inputs[op]:
                last_read[t] = i
        used, worst = self._used, 0
        freed_after: dict[int, list[int]] = {}
        for i, op in enumerate(jobs):
            for t in life.inputs[op]:  # swapped in, or a source that a late drop needs again
                if t not in self._present:
                    self._present.add(t)
                    used += sizes[t]
            stay = [t for t in life.outputs[op] if op == k or t in self._missing]
            worst = max(worst, used + life.output_bytes[op] + life.workspaces_bytes[op])
            for t in stay:
                self._present.add(t)
                self._missing.discard(t)
                used += sizes[t]
            for t in {*stay, *life.inputs[op]}:
                if self._dead[t] <= k and last_read.get(t, i) == i:
                    freed_after.setdefault(i, []).append(t)
            for t in freed_after.get(i, ()):
                if t in self._present:
                    self._present.discard(t)
                    used -= sizes[t]
        self._used = used
        self._idle -= last_read.keys()
        excess = worst - self._budget
        if excess > 0:
            self._evict(excess, k)

    def _evict(self, excess: int, k: int) -> None:
        """Evict idle tensors until `excess` bytes have left, or none is idle."""
        # Scores only grow as needs come closer and more is missing (but for what was rebuilt), so
        # a stored one is a lower bound: the first that is up to date and still least is the least.
        while excess > 0 and self._idle:
            _, t = heappop(self._queue)
            if t not in self._idle:
                continue
            score, swap = self._scored(t, k)
            if self._queue and score > self._queue[0][0]:
                heappush(self._queue, (score, t))
                continue
            if swap:
                self._swap(t)
            else:
                self._drop(t)
            excess -= self.life.sizes_bytes[t]

    def _reruns(self, k: int) -> list[int]:
        """Ops that rebuild what op `k` misses, ascending."""
        life, found = self.life, set[int]()
        pending = [k]
        while pending:
            for t in life.inputs[pending.pop()]:
                if t in self._missing and life.producer[t] not in found:
                    found.add(life.producer[t])
                    pending.append(life.producer[t])
        return sorted(found)

    def _leave(self, t: int) -> None:
        self._present.discard(t)
        self._used -= self.life.sizes_bytes[t]

    def _drop(self, t: int) -> None:
        self._idle.discard(t)
        self._leave(t)
        self._missing.add(t)
        self._decisions[t] = RECOMPUTE

    def _swap(self, t: int) -> None:
        size = self.life.sizes_bytes[t]
        self._out_ns += self._device.swap_out_ns(size)
        self._in_ns += self._device.swap_in_ns(size)
        self._idle.discard(t)
        self._leave(t)
        self._decisions[t] = SWAP

    def _scored(self, t: int, k: int) -> tuple[float, bool]:
        """Return the score, and whether it is rather swapped than dropped."""
        p, q = self.setting.time_power, self.setting.closeness
        ahead = max(1, self._next_need(t, k, _DEPTH) - k)
        size = self.life.sizes_bytes[t]
        rebuild = self._rebuild_ns(t) if self._free[t] and (p or self._may_swap[t]) else 1
        exposed = self._exposed_ns(t, k) if self._may_swap[t] else 0
        swap = self._may_swap[t] and (not self._free[t] or exposed < rebuild)
        return (exposed if swap else rebuild) ** p / (size * ahead**q), swap

    def _exposed_ns(self, t: int, k: int) -> int:
        """Time of copies that compute can't hide if `t` is swapped as well, at least 1."""
        size, starts = self.life.sizes_bytes[t], self._starts
        out = self._out_ns + self._device.swap_out_ns(size) - starts[k]
        back = self._in_ns + self._device.swap_in_ns(size) - (starts[-1] - starts[k])
        return max(out, 0) + max(back, 0) + 1

    def _rebuild_ns(self, t: int) -> int:
        """Time of the producer and of its missing ancestors."""
        life = self.life
        found = {life.producer[t]}
        pending = [life.producer[t]]
        while pending and len(found) <= _MOST_ANCESTORS:
            for q in life.inputs[pending.pop()]:
                if q in self._missing and life.producer[q] not in found:
                    found.add(life.producer[q])
                    pending.append(life.producer[q])
        return sum(life.durations_ns[op] for op in found)

    def _next_need(self, t: int, k: int, depth: int) -> int:
        """First backward op after op `k` that reads `t`, or what is rebuilt from it."""
        life = self.life
        own = life.first_backward_use[t]
        need = own if own > k else life.num_ops
        if depth:
            for y in self._made_from[t]:
                if y in self._missing:
                    need = min(need, self._next_need(y, k, depth - 1))
        return need

    def _deaths(self, sources: set[int]) -> list[int]:
        """Per tensor: the op after which nothing reads it any more.

        A source that can't be rebuilt, or that stays, is there for as long as anything made from it
        may have to be rebuilt.
        """
        life = self.life
        dead = [
            max(life.last_forward_use[t], life.last_backward_use[t])
            for t in range(life.num_tensors)
        ]
        for t in sorted(range(life.num_tensors), key=lambda t: -life.producer[t]):
            if t in sources and (self.setting.sources_stay or not self._free[t]):
                dead[t] = max([dead[t], *(dead[y] for y in self._made_from[t])])
        return dead
