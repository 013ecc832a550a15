"""What each recompute costs while the set of recomputed tensors grows.

The bookkeeping of Capuchin (ASPLOS 2020, section 4.4) and of µ-TWO (MLSys 2023): a tensor is
rebuilt from its *sources*, the nearest tensors that are there. When a source is dropped itself,
whatever was rebuilt from it must be rebuilt from the source's own sources, and the source is
rebuilt once more for each of them. A plan of ours runs an op again at most once, so what a
recompute adds to the step (`Sources.added_ns`) is less than that.
"""

from __future__ import annotations

from slackopt.clock import check_time
from slackopt.heuristics.rebuilding import rerun_ops
from slackopt.lifetimes import ABSENT, Lifetimes


class Sources:
    """Reruns and sources of every tensor that can be rebuilt.

    Parameters
    ----------
    life
        The step.
    tensors
        The tensors that the rule may drop. One whose rebuilding would run an op that must not
        run twice is left out.
    """

    def __init__(self, life: Lifetimes, tensors: list[int]) -> None:
        self._durations = life.durations_ns
        self._reruns: dict[int, set[int]] = {}
        self._sources: dict[int, set[int]] = {}
        self._rebuilt_from: dict[int, set[int]] = {}
        self._uses: dict[int, int] = {}
        self._rebuild_ns: dict[int, int] = {}
        self._dropped: set[int] = set()
        self._run_again: set[int] = set()
        for t in tensors:
            ops = rerun_ops(life, t)
            if ops is None:
                continue
            self._reruns[t] = set(ops)
            self._rebuild_ns[t] = sum(life.durations_ns[k] for k in ops)
            read = {q for k in ops for q in life.inputs[k]}
            made = {q for k in ops for q in life.outputs[k]}
            self._sources[t] = {q for q in read - made if life.first_backward_use[q] != ABSENT}
            for q in self._sources[t]:
                self._rebuilt_from.setdefault(q, set()).add(t)

    def __contains__(self, t: int) -> bool:
        return t in self._reruns

    def rebuild_ns(self, t: int) -> int:
        """Time of the ops that rebuild `t` once, given what is dropped already."""
        return self._rebuild_ns[t]

    def total_ns(self, t: int) -> int:
        """Time of rebuilding `t` for itself and once for each dropped tensor that reads it."""
        return self._rebuild_ns[t] * (1 + self._uses.get(t, 0))

    def added_ns(self, t: int) -> int:
        """Time that dropping `t` adds to the step, where every op is run again at most once."""
        return sum(self._durations[k] for k in self._reruns[t] - self._run_again)

    def sources(self, t: int) -> frozenset[int]:
        """Tensors from which `t` is rebuilt."""
        return frozenset(self._sources[t])

    def drop(self, t: int) -> None:
        """Drop tensor `t`: it is no source any more; minds the time limit."""
        check_time()
        self._dropped.add(t)
        self._run_again |= self._reruns[t]
        for y in self._rebuilt_from.pop(t, ()):
            extra = self._reruns[t] - self._reruns[y]
            self._reruns[y] |= extra
            self._rebuild_ns[y] += sum(self._durations[k] for k in extra)
            self._sources[y].discard(t)
            for q in self._sources[t] - self._sources[y]:
                self._sources[y].add(q)
                self._rebuilt_from.setdefault(q, set()).add(y)
                self._uses[q] = self._uses.get(q, 0) + (y in self._dropped)
        for q in self._sources[t]:
            self._uses[q] = self._uses.get(q, 0) + 1
