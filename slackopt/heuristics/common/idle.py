"""The memory profile of a step, and how evictions lower it, on a timeline without stalls."""

from __future__ import annotations

from itertools import accumulate

import numpy as np
import numpy.typing as npt

from slackopt.instance import Instance
from slackopt.lifetimes import Lifetimes


def activations(life: Lifetimes) -> list[int]:
    """Candidates that the forward pass makes, or that are there from the start, in index order.

    The rules of the field decide on these; gradients that wait in the backward pass are kept.
    """
    return [t for t in life.candidates if life.producer[t] < life.num_forward]


def op_starts_ns(life: Lifetimes) -> list[int]:
    """Start of each op on a timeline without stalls, and the end of the last one."""
    return [0, *accumulate(life.durations_ns)]


def idle_ns(life: Lifetimes, t: int, starts: list[int]) -> int:
    """Time from the end of the last forward use to the start of the first backward use."""
    return starts[life.first_backward_use[t]] - starts[life.last_forward_use[t] + 1]


class MemoryProfile:
    """Bytes live during each op, lowered by evictions.

    It knows neither copies that are late nor the memory of reruns: a rule that stops when this
    profile fits must still ask the simulator.

    Parameters
    ----------
    instance
        The instance.
    """

    def __init__(self, instance: Instance) -> None:
        life = instance.lifetimes
        self._life = life
        self._excess: npt.NDArray[np.float64] = (
            np.array(life.live_bytes, dtype=np.float64) - instance.budget_bytes
        )
        self._durations = np.array(life.durations_ns, dtype=np.float64)

    @property
    def fits(self) -> bool:
        """Whether no op exceeds the budget."""
        return self.excess_bytes <= 0

    @property
    def excess_bytes(self) -> int:
        """Most bytes above the budget during an op; below 0 if there is room."""
        return int(self._excess.max())

    def crowded(self, t: int) -> bool:
        """Whether the budget is exceeded somewhere while tensor `t` is idle."""
        window = self._idle(t)
        return bool(window.size and window.max() > 0)

    def evict(self, t: int, first: int | None = None, last: int | None = None) -> None:
        """Take tensor `t` off the device from op `first` to `last`; its idle ops by default."""
        self._idle(t, first, last)[:] -= self._life.sizes_bytes[t]

    def benefit(self, t: int, first: int | None = None, last: int | None = None) -> float:
        """Bytes above the budget that evicting `t` removes, times how long, in byte-ns."""
        window = self._idle(t, first, last)
        first = self._life.last_forward_use[t] + 1 if first is None else first
        durations = self._durations[first : first + window.size]
        return float(np.clip(window, 0, self._life.sizes_bytes[t]) @ durations)

    def _idle(
        self, t: int, first: int | None = None, last: int | None = None
    ) -> npt.NDArray[np.float64]:
        first = self._life.last_forward_use[t] + 1 if first is None else first
        last = self._life.first_backward_use[t] - 1 if last is None else last
        return self._excess[first : max(first, last + 1)]
