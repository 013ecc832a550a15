"""How much of the copies of a set of swaps compute can't hide: an estimate without simulation."""

from __future__ import annotations

from bisect import insort

from slackopt.clock import check_time
from slackopt.heuristics.common.idle import op_starts_ns
from slackopt.instance import Instance


class CopyQueues:
    """The swap-out and swap-in queues of a growing set of swaps, on a timeline without stalls.

    Swap-outs are served in the order of production, each as early as it can be; swap-ins in the
    order of need, each as late as it may be. A tensor that is idle during the peak frees memory
    in time if its swap-out ends before the peak begins, and comes back in time if its swap-in
    need not begin before the peak ends; for another tensor, the two copies must not overlap. The
    *exposed* time is by how much the latest swap-out and the earliest swap-in miss that.

    Parameters
    ----------
    instance
        The instance.
    """

    def __init__(self, instance: Instance) -> None:
        self._life = life = instance.lifetimes
        self._device = instance.device
        self._starts = op_starts_ns(life)
        self._peak = max(range(life.num_ops), key=life.live_bytes.__getitem__)
        self._outs: list[tuple[int, int]] = []  # (time at which the copy may begin, tensor)
        self._ins: list[tuple[int, int]] = []  # (time at which the tensor is needed, tensor)
        self.exposed_ns = 0

    def added_ns(self, t: int) -> int:
        """Exposed time that swapping `t` as well would add; minds the time limit."""
        check_time()
        outs, ins = self._with(t)
        return self._exposed(outs, ins) - self.exposed_ns

    def add(self, t: int) -> None:
        """Swap `t` as well."""
        self._outs, self._ins = self._with(t)
        self.exposed_ns = self._exposed(self._outs, self._ins)

    def _with(self, t: int) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
        life, starts = self._life, self._starts
        outs, ins = list(self._outs), list(self._ins)
        insort(outs, (starts[life.producer[t] + 1], t))
        insort(ins, (starts[life.first_backward_use[t]], t))
        return outs, ins

    def _exposed(self, outs: list[tuple[int, int]], ins: list[tuple[int, int]]) -> int:
        life, sizes = self._life, self._life.sizes_bytes
        peak_begin, peak_end = self._starts[self._peak], self._starts[self._peak + 1]
        end_of: dict[int, int] = {}
        now = late_out = late_in = 0
        for ready, t in outs:
            now = max(now, ready) + self._device.swap_out_ns(sizes[t])
            end_of[t] = now
            if life.last_forward_use[t] < self._peak < life.first_backward_use[t]:
                late_out = max(late_out, now - peak_begin)
        if not ins:
            return 0
        limit = ins[-1][0]
        for need, t in reversed(ins):
            limit = min(limit, need) - self._device.swap_in_ns(sizes[t])
            earliest = end_of[t]
            if life.last_forward_use[t] < self._peak < life.first_backward_use[t]:
                # A late swap-out is counted once, above.
                earliest = peak_end
            late_in = max(late_in, earliest - limit)
        return late_out + late_in
