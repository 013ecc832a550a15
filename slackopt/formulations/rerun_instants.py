r"""What is on the device while an op is rerun, as an expression in the decisions.

Op j, rerun in a slot of ``[a, z]``. With Y = [it is rerun in one of them], the expression is at
most the bytes on the device

- while op j is rerun, where Y = 1,
- when base op z starts, where Y = 0,

so it is at most the budget for every plan. docs/formulations.md has the proof.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from slackopt.formulations.columns import Resident, WindowColumns
from slackopt.formulations.point_sums import Floats
from slackopt.lifetimes import ABSENT


@dataclass
class Bytes:
    """A linear expression in bytes: ``constant + sum of coefficients x columns + rerun x Y``."""

    constant: int = 0
    coefficients: dict[int, int] = field(default_factory=dict)
    rerun: int = 0

    def add(self, column: int, size: int) -> None:
        """Add ``size x column``."""
        self.coefficients[column] = self.coefficients.get(column, 0) + size

    def add_sum(self, constant: int, terms: Mapping[int, int], size: int) -> None:
        """Add ``size x (constant + sum of terms)``."""
        self.constant += size * constant
        for column, sign in terms.items():
            self.add(column, size * sign)


class RerunInstant:
    """Bytes on the device while op `op` is rerun in a slot of `first` to `last`.

    Parameters
    ----------
    window
        The formulation.
    op
        The op that is rerun; `ABSENT` for the start of base op `last` itself.
    first, last
        The slots.

    Attributes
    ----------
    bytes
        The expression; `flip`, `drop` and others change it.
    kept
        Candidates counted where they are kept, ``s_t (1 - W_t - R_t)``: idle in op `last`.
    read_here
        Candidates counted in full at op `last`, which or an op before in the slots reads them
        first, so that they may come only after the rerun of op j.
    decided
        Those of them that are counted by their decision, ``s_t (1 - W_t - R_t)``, or without R.
    flipped
        Tensors for which `flip` has been called.
    back
        Candidates counted even if swapped, like flipped ones: an in window has no part in them.
    """

    def __init__(self, window: WindowColumns, op: int, first: int, last: int) -> None:
        self.window, self.op, self.first, self.last = window, op, first, last
        life = window.life
        sizes = life.sizes_bytes
        self.bytes = Bytes(window.fixed_bytes[last])
        self._idle = frozenset(window.idle_in(last))
        self.kept = {t for t in self._idle if op == ABSENT or life.producer[t] < first}
        self.bytes.constant += sum(sizes[t] for t in self.kept)
        coefficients = self.bytes.coefficients
        for decision in (window.swap, window.recompute):
            coefficients.update((decision[t], -sizes[t]) for t in self.kept if t in decision)
        self._residents: dict[int, list[Resident]] = {}
        for entry in window.residents(last):
            if op == ABSENT or self._is_there(entry):
                self.bytes.add(entry.column, entry.size_bytes)
                for t in entry.tensors:
                    self._residents.setdefault(t, []).append(entry)
        self.read_here: set[int] = set()
        self.decided: set[int] = set()
        self.flipped: set[int] = set()
        self.back: set[int] = set()
        if op != ABSENT:
            self._add_rerun()

    def _is_there(self, entry: Resident) -> bool:
        """Whether the bytes of an entry are there when op j is rerun, not only at op `last`."""
        if entry.rebuilt_by == ABSENT or entry.first < self.first:
            return True
        return entry.first == self.first and entry.rebuilt_by < self.op

    def _decided(
        self, t: int, sign: int, *, recompute: bool = True, to: Bytes | None = None
    ) -> None:
        """Add ``sign s_t (W_t + R_t)``, or without R."""
        target = self.bytes if to is None else to
        for decision in (self.window.swap, self.window.recompute)[: 2 if recompute else 1]:
            if t in decision:
                target.add(decision[t], sign * self.window.life.sizes_bytes[t])

    def _add_rerun(self) -> None:
        window, life, j = self.window, self.window.life, self.op
        sizes, here = life.sizes_bytes, self.bytes
        here.rerun += life.output_bytes[j] + life.workspaces_bytes[j]
        here.rerun -= life.workspaces_bytes[self.last]
        for k in range(self.first, self.last + 1):
            for t in life.outputs[k]:  # not yet made, perhaps
                ends = max(life.last_forward_use[t], life.last_backward_use[t])
                if ends >= self.last and t not in self._idle:
                    here.rerun -= sizes[t]
            for t in window.first_read_in(k):
                if life.producer[t] < self.first and life.last_backward_use[t] >= self.last:
                    if self.first == self.last:
                        self.decided.add(t)
                        self._decided(t, -1, recompute=self._may_be_missing(t))
                    elif t not in life.inputs[j]:
                        here.rerun -= sizes[t]
                    else:
                        continue
                    self.read_here.add(t)
        for t in life.inputs[j]:
            if ABSENT != life.last_backward_use[t] < self.last:
                here.rerun += sizes[t]

    def _may_be_missing(self, t: int) -> bool:
        """Whether t, in `read_here` and recomputed, may be rebuilt after the rerun of op j."""
        life = self.window.life
        return life.first_backward_use[t] > self.first or life.producer[t] >= self.op

    def can_flip(self, t: int) -> bool:
        """Whether `flip` has a second way to count `t`."""
        if t in self.read_here:
            return True
        is_input = self.op != ABSENT and t in self.window.life.inputs[self.op]
        return is_input and (t in self.kept or t in self.window.keep)

    def flip(self, t: int) -> None:
        """Count `t` in its other way; see `flip_gain`."""
        self._apply(self._flip_change(t))
        if t in self.read_here:
            self.decided ^= {t}
        else:
            self._forget(t)
        self.flipped.add(t)

    def flip_gain(self, t: int, x: Floats, share: float) -> float:
        """Bytes that flipping `t` adds at a point where Y is `share`.

        An input of op j, idle in op `last` or without a backward use, counts ``s_t Y`` in place of
        what it is by its decision. Of the tensors in `read_here`, in a single slot an input of
        op j counts ``s_t`` and another ``s_t (1 - Y)``; in several slots one counts by its
        decision in place of ``s_t (1 - Y)``.
        """
        change = self._flip_change(t)
        total = sum(size * x[column] for column, size in change.coefficients.items())
        return float(change.constant + total + change.rerun * share)

    def _flip_change(self, t: int) -> Bytes:
        """Return what flipping `t` adds to the expression."""
        size = self.window.life.sizes_bytes[t]
        is_input = t in self.window.life.inputs[self.op]
        if t in self.read_here:
            decided = t in self.decided
            change = Bytes(rerun=0 if is_input else -size if decided else size)
            sign = 1 if decided else -1
            self._decided(t, sign, recompute=self._may_be_missing(t), to=change)
            return change
        change = self._without(t)
        change.rerun += size
        return change

    def _without(self, t: int) -> Bytes:
        """Return what leaving out `t`, as kept and in the entries that it shares, adds."""
        change = Bytes()
        if t in self.kept:
            change.constant -= self.window.life.sizes_bytes[t]
            self._decided(t, 1, to=change)
        for entry in self._residents.get(t, []):
            change.add(entry.column, -entry.size_bytes)
        return change

    def value(self, x: Floats, share: float) -> float:
        """Bytes at a point where Y is `share`."""
        total = sum(size * x[column] for column, size in self.bytes.coefficients.items())
        return float(self.bytes.constant + total + self.bytes.rerun * share)

    def counted(self, t: int, x: Floats) -> float:
        """Bytes that `t` counts at a point, as kept and in the entries that it shares."""
        without = self._without(t)
        total = sum(size * x[column] for column, size in without.coefficients.items())
        return -float(without.constant + total)

    def leave_out(self, t: int) -> None:
        """Leave out `t`, as kept and in the entries that it shares."""
        self._apply(self._without(t))
        self._forget(t)

    def _forget(self, t: int) -> None:
        self.kept.discard(t)
        for entry in self._residents.pop(t, []):
            for other in entry.tensors:
                if other != t:
                    self._residents[other].remove(entry)

    def _apply(self, change: Bytes) -> None:
        self.bytes.constant += change.constant
        self.bytes.rerun += change.rerun
        for column, size in change.coefficients.items():
            self.bytes.add(column, size)
