"""Separation of chain rows: follow the reruns that a point asks for to the slots where they run.

One descending pass finds, for each op that is rerun at the point, the first slot that asks for it
and by which chain; running sums over the ops give an estimate of the bytes on the device at each
op and each rerun, and the rows of the most promising ones are built.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from slackopt.formulations.chain_memory_rows import ChainKey, chain_row, stops_of
from slackopt.formulations.columns import WindowColumns
from slackopt.formulations.memory_separation import Sweeps
from slackopt.formulations.point_sums import Floats
from slackopt.formulations.rerun_instants import RerunInstant
from slackopt.formulations.rerun_separation import (
    MOST_MISSES,
    best_flips,
    best_windows,
    may_be_violated,
    violation_bytes,
)
from slackopt.lifetimes import ABSENT

MOSTLY = 0.5
"""A tensor is followed where its recompute column is above this."""


@dataclass(frozen=True)
class Rerun:
    """How an op comes to be rerun at a point: for output `link`, in `slot` or before.

    Attributes
    ----------
    link, follower
        The output, and the link that pulls it, `ABSENT` for none.
    slot
        The first slot that asks for it.
    share
        ``X``.
    waiting_bytes
        Inputs without a backward use of the ops that pull it: at most these wait meanwhile.
    """

    link: int
    follower: int
    slot: int
    share: float
    waiting_bytes: int


class ChainSearch:
    """Chain rows that a point violates.

    Parameters
    ----------
    window
        The formulation.
    x
        A point: one value per column.
    sweeps
        From `slackopt.formulations.memory_separation.memory_violations`.
    """

    def __init__(self, window: WindowColumns, x: Floats, sweeps: Sweeps) -> None:
        self.window, self.x, self.sweeps = window, x, sweeps
        self.reruns: dict[int, Rerun] = {}
        for j in reversed(window.rerun):
            found = self._rerun_of(j)
            if found is not None:
                self.reruns[j] = found
        self.there = self._reruns_at(lambda t: self.window.life.is_candidate(t), outputs=True)
        self.readers = self._reruns_at(lambda t: t in self.window.keep, outputs=False)
        self.not_dropped = {t for t, j in window.recompute.items() if x[j] <= MOSTLY}

    def _rerun_of(self, j: int) -> Rerun | None:
        """Return how op j is rerun; its readers must have been done."""
        window, life, x = self.window, self.window.life, self.x
        ways: list[tuple[int, float, int, int]] = []
        for y in life.outputs[j]:
            share = float(x[window.recompute[y]]) if y in window.recompute else 0.0
            if share <= MOSTLY:
                continue
            use = life.first_backward_use[y]
            if use != ABSENT:
                ways.append((use, -share, y, ABSENT))
            for c in window.slots.readers[y]:
                if c in self.reruns:
                    pulled = share + self.reruns[c].share - 1.0
                    ways.append((self.reruns[c].slot, -pulled, y, c))
        if not ways:
            return None
        slot, less, y, c = min(ways)
        if -less <= 1e-6:
            return None
        if c == ABSENT:
            return Rerun(y, ABSENT, slot, -less, 0)
        sources = sum(life.sizes_bytes[q] for q in life.inputs[c] if q in window.keep)
        pulls = self.reruns[c]
        return Rerun(y, pulls.link, slot, -less, pulls.waiting_bytes + sources)

    def _reruns_at(self, which: Callable[[int], bool], *, outputs: bool) -> dict[int, list[int]]:
        """Return, per tensor, the reruns that read it (or make it)."""
        found: dict[int, list[int]] = {}
        life = self.window.life
        for j in self.reruns:
            for t in (*life.inputs[j], *(life.outputs[j] if outputs else ())):
                if which(t):
                    found.setdefault(t, []).append(j)
        return found

    def estimates(self) -> list[tuple[float, int, int]]:
        """Return ``(bytes over the budget at most, op, rerun)``: roughly, and optimistically."""
        window, life, sweeps = self.window, self.window.life, self.sweeps
        extra = self._extra_bytes()
        level = sweeps.resident + extra + np.maximum(sweeps.backlog, 0.0)
        level = level - float(window.instance.budget_bytes)
        found: list[tuple[float, int, int]] = []
        for k in np.nonzero(extra > 0)[0].tolist():
            over = float(level[k]) + max(0.0, sweeps.prefetched(k, k))
            found.append((over, k, ABSENT))
        for j, rerun in self.reruns.items():
            k = rerun.slot
            asked = life.output_bytes[j] + life.workspaces_bytes[j] + rerun.waiting_bytes
            asked += sum(life.sizes_bytes[t] for t in life.inputs[j])
            asked -= life.output_bytes[k] + life.workspaces_bytes[k]
            over = float(level[k]) + max(0.0, sweeps.prefetched(k, k))
            found.append((over + rerun.share * max(asked, 0), k, j))
        return found

    def _extra_bytes(self) -> Floats:
        """Bytes per op that chain rows count, and memory rows may not; at most."""
        window, life = self.window, self.window.life
        change = np.zeros(life.num_ops + 1)

        def add(first: int, last: int, size: float) -> None:
            if first < last and size > 0:
                change[first] += size
                change[last] -= size

        for t, ops in self.there.items():
            share = max(self.reruns[j].share for j in ops) - 1.0
            gain = share + self.at(window.recompute, t) + self.at(window.swap, t)
            first = min(self.reruns[j].slot for j in ops)
            add(first, life.first_backward_use[t], gain * life.sizes_bytes[t])
        for q, ops in self.readers.items():
            # Before the first need of q memory rows count it.
            first = window.slots.first_need(life, q)
            add(first, max(self.reruns[c].slot for c in ops), float(life.sizes_bytes[q]))
        extra: Floats = np.cumsum(change[:-1])
        return extra

    def at(self, columns: dict[int, int], t: int) -> float:
        """Value of a decision on `t`; 0 if the instance does not allow it."""
        return float(self.x[columns[t]]) if t in columns else 0.0

    def key(self, op: int, rerun: int, tolerance_bytes: float | None = None) -> ChainKey | None:
        """Return the row of op k, or of a rerun in its slot, that the point violates most, nearly.

        None where there is none, or none that is violated by more than the tolerance.
        """
        return _KeyMaker(self, op, rerun).key(tolerance_bytes)

    def stops(self, op: int, slot: int) -> set[int] | None:
        """Return outputs not recomputed at the point, where the chains before `slot` end.

        None if there is a chain that is recomputed.
        """
        return stops_of(self.window, op, slot, self.not_dropped)


class _KeyMaker:
    """Chooses what the row of an op, or of a rerun, counts."""

    def __init__(self, search: ChainSearch, op: int, rerun: int) -> None:
        self.search, self.op, self.rerun = search, op, rerun
        self.window, self.x = search.window, search.x
        self.instant = RerunInstant(search.window, rerun, op, op)
        self.links: dict[int, int] = {}
        self.stops: set[int] = set()
        self.anew = 0.0
        self.there: list[tuple[int, int]] = []
        self.back: list[tuple[int, int]] = []
        self.held: list[tuple[int, int, int]] = []
        self.waiting: list[tuple[int, int]] = []
        life = search.window.life
        self.avoid = {*life.inputs[rerun], *life.outputs[rerun]} if rerun != ABSENT else set()

    def key(self, tolerance_bytes: float | None) -> ChainKey | None:
        """Make the key; see `ChainSearch.key`."""
        search, op, rerun = self.search, self.op, self.rerun
        share = 0.0
        flipped: tuple[int, ...] = ()
        if rerun != ABSENT:
            stops = search.stops(rerun, op)
            if stops is None:
                return None
            self.stops |= stops
            self._note(rerun)
            share = search.reruns[rerun].share - self._sum(stops)
        for t in sorted(self.instant.kept & search.there.keys() - self.avoid):
            self._choose_candidate(t)
        if rerun != ABSENT:
            self._choose_waiting(share)
        for q in sorted(search.readers.keys() - self.avoid):
            self._choose_held(q)
        if rerun != ABSENT:
            flipped = best_flips(self.instant, self.x, share)
        if tolerance_bytes is not None and not may_be_violated(
            self.instant, self.x, share, search.sweeps, tolerance_bytes - self.anew
        ):
            return None
        return ChainKey(
            op,
            ABSENT if rerun == ABSENT else search.reruns[rerun].link,
            *best_windows(self.window, search.sweeps, op, op),
            tuple(sorted(self.links.items())),
            tuple(self.there),
            tuple(self.back),
            tuple(self.held),
            tuple(self.waiting),
            flipped,
            tuple(sorted(self.stops)),
        )

    def _sum(self, tensors: Iterable[int]) -> float:
        return sum(self.search.at(self.window.recompute, t) for t in tensors)

    def _done(self, ops: Iterable[int]) -> tuple[float, int]:
        """Return the share and the op of the likeliest of `ops` to have been rerun by now."""
        reruns = self.search.reruns
        done = [
            (reruns[c].share, c)
            for c in ops
            if reruns[c].slot <= self.op and (self.rerun == ABSENT or c < self.rerun)
        ]
        return max(done, default=(0.0, ABSENT))

    def _gains(self, t: int, share: float) -> bool:
        """Whether counting ``share s_t`` beats what `t` counts now."""
        size = self.window.life.sizes_bytes[t]
        return size * share > self.instant.counted(t, self.x) + 1e-6 * size

    def _count(self, t: int, share: float) -> None:
        """Count ``share s_t`` in place of what `t` counts now."""
        self.instant.leave_out(t)
        self.anew += share * self.window.life.sizes_bytes[t]

    def _choose_candidate(self, t: int) -> None:
        share, c = self._done(self.search.there[t])
        if c == ABSENT:
            return
        link, swapped = self.search.reruns[c].link, self.search.at(self.window.swap, t)
        back = swapped > 0 and t not in self.window.ordered
        back = back and t in self.window.life.inputs[c]
        share -= 0.0 if back else swapped
        if self._gains(t, share):
            (self.back if back else self.there).append((t, link))
            self._count(t, share)
            self._note(c)

    def _choose_waiting(self, share: float) -> None:
        life, reruns = self.window.life, self.search.reruns
        y = reruns[self.rerun].follower
        while y != ABSENT:
            c = life.producer[y]
            for q in life.inputs[c]:
                waits = q in self.window.keep and life.producer[q] < self.rerun < c
                away = self.search.at(self.window.swap, q)
                if waits and q not in self.avoid and self._gains(q, share - away):
                    self._count(q, share - away)
                    self.waiting.append((q, y))
                    self.avoid.add(q)
            y = reruns[c].follower

    def _choose_held(self, q: int) -> None:
        """Count q for a reader rerun later: kept for it, or read by a rerun before."""
        search, window = self.search, self.window
        later = [(search.reruns[c].slot, c) for c in search.readers[q]]
        slot, c = max(later)
        if slot <= self.op or self.op <= window.life.last_forward_use[q]:
            return
        stops = search.stops(c, self.op + 1)
        if stops is None:
            return
        value = float(self.x[window.rerun[c]]) - self._sum(stops)
        kept = value - search.at(window.swap, q) - search.at(window.recompute, q)
        share, reader = self._done(search.readers[q])
        if reader != ABSENT and value + share - 1.0 > kept:
            kept, y = value + share - 1.0, search.reruns[reader].link
        else:
            reader = y = ABSENT
        if self._gains(q, kept):
            self._count(q, kept)
            self.held.append((q, c, y))
            self.stops |= stops
            if reader != ABSENT:
                self._note(reader)

    def _note(self, j: int) -> None:
        """Add the links of op j."""
        reruns = self.search.reruns
        while reruns[j].link not in self.links:
            self.links[reruns[j].link] = reruns[j].follower
            if reruns[j].follower == ABSENT:
                return
            j = self.window.life.producer[reruns[j].follower]


def violated_chain_keys(
    window: WindowColumns,
    x: Floats,
    sweeps: Sweeps,
    tolerance_bytes: float,
    limit: int,
    slot: int | None = None,
    most_misses: int = MOST_MISSES,
) -> list[tuple[float, ChainKey]]:
    """Return violation in bytes and row, one at most for each op and each rerun.

    `slot`: only rows of this one. `most_misses`: rows built in vain, one after the other, after
    which the search ends.
    """
    search = ChainSearch(window, x, sweeps)
    promising = [
        entry
        for entry in search.estimates()
        if entry[0] > tolerance_bytes and (slot is None or entry[1] == slot)
    ]
    found: list[tuple[float, ChainKey]] = []
    misses = 0
    for _, op, rerun in sorted(promising, reverse=True):
        if len(found) == limit or misses == most_misses:
            break
        key = search.key(op, rerun, tolerance_bytes)
        violation = None if key is None else _violation(window, key, x)
        if key is None or violation is None or violation <= tolerance_bytes:
            misses += 1
        else:
            misses = 0
            found.append((violation, key))
    return found


def _violation(window: WindowColumns, key: ChainKey, x: Floats) -> float | None:
    """Bytes by which a point violates a row; None if there is no such row."""
    try:
        return violation_bytes(chain_row(window, key), x)
    except ValueError:  # the rerun needs less than op k
        return None
