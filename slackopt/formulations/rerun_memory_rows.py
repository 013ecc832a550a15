r"""Rerun rows: while an op is rerun, what it needs and what every plan keeps fit together.

Row ``rerun_memory[j,a,h,h',F]``: op j is rerun in the slots ``a`` to ``z``, a piece of its range
(`WindowColumns.pieces_of`), where Y, a difference of two columns, is 1. With M the expression of
`slackopt.formulations.rerun_instants`, the tensors F flipped,

    M + [ sum_{t: ready_t >= h, l_t < a} s_t W_t  -  b_out (S_z - A_h) ]
      + [ sum_{t: z < u_t <= h', t not in F} s_t W_t  -  b_in (S_h' - A_a) ]            <=  B ,

where the last sum has those t as well that are first read in the slots and counted by their
decision, and slots ``a`` to ``z``, in both windows, cost the higher bandwidth once. Either bracket
may be left out. docs/formulations.md has the proof.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from slackopt.formulations.columns import UNITS_PER_BYTE, WindowColumns
from slackopt.formulations.linear import Row
from slackopt.formulations.memory_rows import index_text, read_index
from slackopt.formulations.rerun_instants import RerunInstant
from slackopt.lifetimes import ABSENT

KIND = "rerun_memory"


@dataclass(frozen=True)
class RerunKey:
    """Which rerun row: op, first slot of the piece, out and in windows, flipped tensors."""

    op: int
    first: int
    out_from: int = ABSENT
    in_to: int = ABSENT
    flipped: tuple[int, ...] = ()

    @property
    def name(self) -> str:
        """Name of the row; `read_rerun_key` reads it back."""
        windows = f"{index_text(self.out_from)},{index_text(self.in_to)}"
        return f"{KIND}[{self.op},{self.first},{windows},{list_text(self.flipped)}]"


def list_text(items: Iterable[object]) -> str:
    """Write a list for the name of a row."""
    return "+".join(map(str, items)) or "none"


def read_list(text: str) -> list[str]:
    """Read what `list_text` writes."""
    return [] if text == "none" else text.split("+")


def piece(window: WindowColumns, op: int, first: int) -> tuple[int, int, int | None]:
    """Return last slot, plus and minus of a piece; ValueError where there is none."""
    if op in window.rerun:
        for begin, last, plus, minus in window.pieces_of(op):
            if begin == first:
                return last, plus, minus
    raise ValueError(f"op {op} has no reruns from slot {first} on")


def read_rerun_key(window: WindowColumns, parts: list[str]) -> RerunKey:
    """Read the arguments of a row's name; ValueError where there is no such row."""
    op, first, out_from, in_to, flipped = parts
    tensors = tuple(int(t) for t in read_list(flipped))
    key = RerunKey(int(op), int(first), read_index(out_from), read_index(in_to), tensors)
    last, _, _ = piece(window, key.op, key.first)
    check_windows(window, key.first, last, key.out_from, key.in_to, key.name)
    return key


def check_windows(
    window: WindowColumns, first: int, last: int, out_from: int, in_to: int, name: str
) -> None:
    """Raise ValueError for windows that no row of these slots has."""
    out_ok = out_from == ABSENT or 0 <= out_from <= first
    in_ok = in_to == ABSENT or last < in_to < window.life.num_ops
    if not (out_ok and in_ok):
        raise ValueError(name)


def rerun_row(window: WindowColumns, key: RerunKey) -> Row:
    """Build one rerun row."""
    last, plus, minus = piece(window, key.op, key.first)
    instant = RerunInstant(window, key.op, key.first, last)
    flip_all(instant, key.flipped, key.name)
    share = {plus: 1} | ({} if minus is None else {minus: -1})
    instant.bytes.add_sum(0, share, instant.bytes.rerun)
    return instant_row(instant, key.name, key.out_from, key.in_to)


def flip_all(instant: RerunInstant, tensors: Iterable[int], name: str) -> None:
    """Flip tensors; ValueError for one that can't be flipped, or twice."""
    for t in tensors:
        if t in instant.flipped or not instant.can_flip(t):
            raise ValueError(name)
        instant.flip(t)


def instant_row(instant: RerunInstant, name: str, out_from: int, in_to: int) -> Row:
    """Turn the bytes of an instant, and windows before and after it, into a row.

    Column Y must have been replaced.
    """
    window, here, first, last = instant.window, instant.bytes, instant.first, instant.last
    life, starts = window.life, window.starts_ns
    out_rate, in_rate = window.bandwidths
    coefficients = {column: size * UNITS_PER_BYTE for column, size in here.coefficients.items()}
    upper = (window.instance.budget_bytes - here.constant) * UNITS_PER_BYTE
    rates: list[int] = []
    windows: list[tuple[int, int, int]] = []

    def add(t: int) -> None:
        column = window.swap[t]
        size = life.sizes_bytes[t] * UNITS_PER_BYTE
        coefficients[column] = coefficients.get(column, 0) + size

    if out_from != ABSENT:
        for t in window.leaving(out_from, first):
            add(t)
        rates.append(out_rate)
        windows.append((out_from, first - 1, out_rate))
        upper += out_rate * (starts[first] - starts[out_from])
    if in_to != ABSENT:
        for t in sorted({*window.returning(last, in_to), *instant.decided}):
            if t in window.swap and (t in instant.decided or _comes_in(instant, t, in_to)):
                add(t)
        if instant.op != ABSENT:  # else the instant is the start of op `last`
            rates.append(in_rate)
        windows.append((last + 1, in_to, in_rate))
        upper += in_rate * (starts[in_to] - starts[last])
    if windows:
        rate = max(rates, default=0)
        windows.append((first, last, rate))
        upper += rate * (starts[last] - starts[first])
        window.spend(coefficients, windows)
    return Row(name, {j: a for j, a in coefficients.items() if a}, upper)


def _comes_in(instant: RerunInstant, t: int, in_to: int) -> bool:
    """Whether `t`, if swapped, is needed after the slots by the start of op `in_to`.

    Not if it is counted as on the device already. (In several slots, not if it is made in them:
    `slackopt.formulations.swap_order` needs that.)
    """
    life = instant.window.life
    needed = instant.last < life.first_backward_use[t] <= in_to
    made = instant.first == instant.last or life.producer[t] < instant.first
    return needed and made and t not in instant.flipped and t not in instant.back
