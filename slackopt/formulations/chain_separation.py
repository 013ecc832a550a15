"""Separation of chain rows: follow the reruns that a point asks for to the slots where they run.

One descending pass finds, for each op that is rerun at the point, the first slot that asks for it
and by which chain; running sums over the ops give an estimate of the bytes on the device at each
op and each rerun, and the rows of the most promising ones are built.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slackopt.formulations.chain_memory_rows import ChainKey, chain_row, stopped
from slackopt.formulations.columns import WindowColumns
from slackopt.formulations.memory_separation import Sweeps
from slackopt.formulations.point_sums import Floats
from slackopt.formulations.rerun_instants import RerunInstant
from slackopt.formulations.rerun_separation import best_flips, best_windows, violation_bytes
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
        self.there = self._there()

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

    def _there(self) -> dict[int, list[int]]:
        """Return, per candidate, the reruns that read or make it."""
        there: dict[int, list[int]] = {}
        life = self.window.life
        for j in self.reruns:
            for t in (*life.inputs[j], *life.outputs[j]):
                if life.is_candidate(t):
                    there.setdefault(t, []).append(j)
        return there

    def estimates(self) -> list[tuple[float, int, int]]:
        """Return ``(bytes over the budget at most, op, rerun)``: roughly, and optimistically."""
        window, life, x, sweeps = self.window, self.window.life, self.x, self.sweeps
        change = np.zeros(life.num_ops + 1)
        for t, ops in self.there.items():
            first, use = min(self.reruns[j].slot for j in ops), life.first_backward_use[t]
            dropped = float(x[window.recompute[t]]) if t in window.recompute else 0.0
            gain = max(self.reruns[j].share for j in ops) + dropped - 1.0
            if first < use and gain > 0:
                change[first] += gain * life.sizes_bytes[t]
                change[use] -= gain * life.sizes_bytes[t]
        extra = np.cumsum(change[:-1])
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

    def key(self, op: int, rerun: int) -> ChainKey | None:
        """Return the row of op k, or of a rerun in its slot, that the point violates most, nearly.

        None where there is none.
        """
        window, life, x = self.window, self.window.life, self.x
        sizes = life.sizes_bytes
        links: dict[int, int] = {}
        instant = RerunInstant(window, rerun, op, op)
        avoid: set[int] = set()
        if rerun != ABSENT:
            avoid = {*life.inputs[rerun], *life.outputs[rerun]}
        there: list[tuple[int, int]] = []
        for t in sorted(instant.kept):
            shares = [
                (self.reruns[j].share, j)
                for j in self.there.get(t, ())
                if self.reruns[j].slot <= op and (rerun == ABSENT or j < rerun)
            ]
            if t in avoid or not shares:
                continue
            share, j = max(shares)
            away = float(x[window.swap[t]]) if t in window.swap else 0.0
            if sizes[t] * (share - away) > instant.counted(t, x) + 1e-6 * sizes[t]:
                instant.leave_out(t)
                there.append((t, self.reruns[j].link))
                self._note(links, j)
        windows = best_windows(self.sweeps, op, op)
        if rerun == ABSENT:
            return ChainKey(op, ABSENT, *windows, tuple(sorted(links.items())), tuple(there))
        stops = self._stops(rerun, op)
        if stops is None:
            return None
        found = self.reruns[rerun]
        self._note(links, rerun)
        share = found.share - sum(float(x[window.recompute[t]]) for t in stops)
        flipped = best_flips(instant, x, share)
        waiting: list[tuple[int, int]] = []
        y = found.follower
        while y != ABSENT:
            c = life.producer[y]
            for t in life.inputs[c]:
                waits = t in window.keep and t not in avoid and life.producer[t] < rerun < c
                away = float(x[window.swap[t]]) if t in window.swap else 0.0
                if waits and sizes[t] * (share - away) > instant.counted(t, x) + 1e-6 * sizes[t]:
                    instant.leave_out(t)
                    waiting.append((t, y))
                    avoid.add(t)
            y = self.reruns[c].follower
        return ChainKey(
            op,
            found.link,
            *windows,
            tuple(sorted(links.items())),
            tuple(there),
            tuple(waiting),
            flipped,
            tuple(sorted(stops)),
        )

    def _note(self, links: dict[int, int], j: int) -> None:
        """Add the links of op j to `links`."""
        rerun: Rerun | None = self.reruns[j]
        while rerun is not None and rerun.link not in links:
            links[rerun.link] = rerun.follower
            follower = rerun.follower
            rerun = None if follower == ABSENT else self.reruns[self.window.life.producer[follower]]

    def _stops(self, op: int, slot: int) -> set[int] | None:
        """Return outputs not recomputed at the point, where the chains before `slot` end.

        None if there is a chain that is recomputed.
        """
        window, life, slots = self.window, self.window.life, self.window.slots
        stops: set[int] = set()
        seen, pending = {op}, [op]
        while pending:
            for y in life.outputs[pending.pop()]:
                if y not in window.recompute:
                    continue
                earlier = [c for c in slots.readers[y] if slots.earliest[c] < slot]
                read = ABSENT != life.first_backward_use[y] < slot
                if not earlier and not read:
                    continue
                if self.x[window.recompute[y]] <= MOSTLY:
                    stops.add(y)
                elif read:
                    return None
                else:
                    pending += [c for c in earlier if c not in seen]
                    seen.update(earlier)
        return stops if stopped(window, op, slot, frozenset(stops)) else None


def violated_chain_keys(
    window: WindowColumns,
    x: Floats,
    sweeps: Sweeps,
    tolerance_bytes: float,
    limit: int,
    slot: int | None = None,
) -> list[tuple[float, ChainKey]]:
    """Return violation in bytes and row, one at most for each op and each rerun."""
    search = ChainSearch(window, x, sweeps)
    promising = [
        entry
        for entry in search.estimates()
        if entry[0] > tolerance_bytes and (slot is None or entry[1] == slot)
    ]
    found: list[tuple[float, ChainKey]] = []
    for _, op, rerun in sorted(promising, reverse=True)[: 2 * limit]:
        key = search.key(op, rerun)
        if key is None:
            continue
        try:
            violation = violation_bytes(chain_row(window, key), x)
        except ValueError:  # the rerun needs less than op k: there is no such row
            continue
        if violation > tolerance_bytes:
            found.append((violation, key))
    return found
