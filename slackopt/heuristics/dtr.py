"""DTR: when memory is needed, evict what is cheap, large and stale.

Source: Kirisame et al. 2021, "Dynamic Tensor Rematerialization" (ICLR 2021, arXiv 2006.09616),
section 3 and its appendix. Run op by op; when an op's outputs don't fit, evict the resident
tensor with the least ``h = c / (s * staleness)``: ``c`` the time to run its producer again plus
that of the evicted tensors around it, ``s`` its size, *staleness* the time since it was last
read. An evicted tensor is rebuilt when an op needs it, and others may be evicted for that. The
evicted tensors around a tensor are counted by the source's equivalence classes: neighbouring
evicted tensors form a class whose times are added up; one that is rebuilt takes its time out.

No parameters.

Chosen here:

- a plan is fixed before the step: what the online run evicts is decided recompute, and so is
  dropped at its last forward use, which is earlier than DTR drops it;
- a plan rebuilds a tensor once: the online run evicts no tensor that the backward pass has read
  or that was rebuilt; and only activations and what they are rebuilt from can be evicted;
- tensors that nothing reads any more in the backward pass are freed at their last use and count
  as evicted, where rebuilding another needs them;
- if the simulated plan runs out of memory, the online run is repeated with less memory, in steps
  of 2 % of the budget.
"""

from __future__ import annotations

from slackopt.clock import check_time
from slackopt.heuristics.common.idle import activations
from slackopt.heuristics.common.running import priced, runs
from slackopt.heuristics.rebuilding import drop, rerun_ops
from slackopt.heuristics.registry import NoPlanError, heuristic
from slackopt.instance import Instance
from slackopt.lifetimes import ABSENT, Lifetimes
from slackopt.plan import Plan
from slackopt.simulation.evaluator import Evaluator
from slackopt.simulation.sequence import KEEP, RECOMPUTE

STEP_PERCENT = 2


@heuristic("dtr")
def dtr(instance: Instance) -> Plan:
    """Evict by rebuild time over size and staleness when memory is needed (DTR 2021).

    Parameters
    ----------
    instance
        The instance.

    Raises
    ------
    NoPlanError
        If no plan of the online run fits, with whatever share of the budget.
    """
    life = instance.lifetimes
    evaluator = Evaluator(instance)
    before: set[int] | None = None
    for percent in range(100, 0, -STEP_PERCENT):
        evicted = _Online(life, instance.budget_bytes * percent // 100).run()
        if evicted == before:
            continue
        before = evicted
        decisions = [KEEP] * life.num_tensors
        drop(life, decisions, sorted(evicted), RECOMPUTE)
        if runs(evaluator, decisions):
            return priced(evaluator, "dtr", decisions, memory_percent=percent)
    raise NoPlanError("dtr", instance, "with whatever share of it the online run is given")


class _Online:
    """One run of the step, op by op, with evictions on demand."""

    def __init__(self, life: Lifetimes, limit_bytes: int) -> None:
        self.life = life
        self.limit = limit_bytes
        self.rebuildable = {t for t in activations(life) if rerun_ops(life, t) is not None}
        n = life.num_tensors
        self.resident = [producer == ABSENT for producer in life.producer]
        self.last_access = [0] * n
        self.used = sum(life.sizes_bytes[t] for t in range(n) if self.resident[t])
        self.now = 0
        self.evictable: dict[int, None] = {}  # in the order in which they became so
        self.evicted: set[int] = set()
        self._class = list(range(n))
        self._class_ns = [0] * n
        self._is_out = [False] * n
        self._freed_after: dict[int, list[int]] = {}
        for t in range(n):
            last = max(life.last_forward_use[t], life.last_backward_use[t])
            self._freed_after.setdefault(last, []).append(t)
        self._idle_after: dict[int, list[int]] = {}
        for t in self.rebuildable:
            self._idle_after.setdefault(life.last_forward_use[t], []).append(t)
        forward_readers: list[list[int]] = [[] for _ in range(n)]
        for k in range(life.num_forward):
            for t in life.inputs[k]:
                forward_readers[t].append(k)
        self._near = [
            [
                *(life.inputs[life.producer[t]] if life.producer[t] != ABSENT else ()),
                *(y for k in forward_readers[t] for y in life.outputs[k]),
            ]
            for t in range(n)
        ]

    def run(self) -> set[int]:
        """Return the tensors evicted during the step."""
        life = self.life
        for k in range(life.num_ops):
            if k >= life.num_forward:
                for t in life.inputs[k]:
                    self.evictable.pop(t, None)
                self._rebuild_inputs(k)
            self._execute(k, list(life.outputs[k]))
            for t in self._freed_after.get(k, ()):
                self._free(t)
            for t in sorted(self._idle_after.get(k, ())):
                self.evictable[t] = None
        return self.evicted

    def _execute(self, k: int, kept: list[int]) -> None:
        """Run op `k`; of its outputs, `kept` stay."""
        life = self.life
        self._make_room(life.output_bytes[k] + life.workspaces_bytes[k])
        self.now += life.durations_ns[k]
        for t in life.inputs[k]:
            self.last_access[t] = self.now
        for t in kept:
            if not self.resident[t]:
                self.resident[t] = True
                self.used += life.sizes_bytes[t]
            self.last_access[t] = self.now

    def _rebuild_inputs(self, k: int) -> None:
        """Rebuild what op `k` needs, in ascending op order; nothing of it is evicted again."""
        life = self.life
        ops: set[int] = set()
        pending = [k]
        while pending:
            for t in life.inputs[pending.pop()]:
                if self.resident[t]:
                    self.evictable.pop(t, None)
                elif life.producer[t] != ABSENT and life.producer[t] not in ops:
                    ops.add(life.producer[t])
                    pending.append(life.producer[t])
        for op in sorted(ops):
            back = [t for t in life.outputs[op] if t in self.evicted and self._is_out[t]]
            for t in back:
                self._is_out[t] = False
                self._class_ns[self._root(t)] -= life.durations_ns[op]
            self._execute(op, back)

    def _make_room(self, need_bytes: int) -> None:
        while self.used + need_bytes > self.limit and self.evictable:
            check_time()
            t = min(self.evictable, key=self._h)
            del self.evictable[t]
            self.evicted.add(t)
            self._leave(t)
            self._join_classes(t)

    def _h(self, t: int) -> tuple[float, int]:
        cost = self.life.durations_ns[self.life.producer[t]]
        cost += sum(self._class_ns[root] for root in self._near_classes(t))
        stale = max(1, self.now - self.last_access[t])
        return cost / (self.life.sizes_bytes[t] * stale), t

    def _near_classes(self, t: int) -> set[int]:
        return {self._root(y) for y in self._near[t] if self._is_out[y]}

    def _free(self, t: int) -> None:
        """Free a tensor after its last use in the step."""
        self.evictable.pop(t, None)
        self._leave(t)
        if self.life.first_backward_use[t] == ABSENT and self.life.can_recompute(t):
            self._join_classes(t)

    def _leave(self, t: int) -> None:
        if self.resident[t]:
            self.resident[t] = False
            self.used -= self.life.sizes_bytes[t]

    def _join_classes(self, t: int) -> None:
        self._is_out[t] = True
        root = self._root(t)
        self._class_ns[root] += self.life.durations_ns[self.life.producer[t]]
        for other in self._near_classes(t) - {root}:
            self._class[other] = root
            self._class_ns[root] += self._class_ns[other]

    def _root(self, t: int) -> int:
        while self._class[t] != t:
            self._class[t] = self._class[self._class[t]]
            t = self._class[t]
        return t
