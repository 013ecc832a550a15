r"""Chain rows: what a chain of reruns in front of an op, or in the midst of it, has put in memory.

A *link* ``y`` is a tensor with ``X_y <= [y is recomputed, and its producer rerun by slot k]``:

    X_y = R_y                  where ``u_y <= k``,
    X_y = R_y + X_y' - 1       where the producer of a link ``y'`` reads ``y`` .

Whatever a rerun by slot k reads or makes, and a later op reads as well, is on the device from then
on: ``s_t (X_y - W_t)``, for inputs and outputs t of the producer of ``y``. Row
``chain_memory[k,y,h,h',links,there,waiting,F,stops]`` counts that

- at the start of op k, where ``y`` is ``none``;
- else while the producer j of ``y`` is rerun in slot k, where ``Y = X_y - sum of R_i over stops``
  is at most [j is rerun in slot k, and not before]: ``stops`` are outputs recomputed wherever
  a rerun of j is pulled to an earlier slot.

The rest is as in `slackopt.formulations.rerun_memory_rows`. docs/formulations.md has the proof.
"""

from __future__ import annotations

from dataclasses import dataclass

from slackopt.formulations.columns import WindowColumns
from slackopt.formulations.linear import Row
from slackopt.formulations.memory_rows import index_text, read_index
from slackopt.formulations.rerun_instants import RerunInstant
from slackopt.formulations.rerun_memory_rows import (
    check_windows,
    flip_all,
    instant_row,
    list_text,
    read_list,
)
from slackopt.lifetimes import ABSENT

KIND = "chain_memory"


@dataclass(frozen=True)
class ChainKey:
    """Which chain row.

    Attributes
    ----------
    op
        The slot k, and the op that ends it.
    rerun
        The link y whose producer is rerun; `ABSENT` for the start of op k.
    links
        ``(y, y')``: each link and the one it is pulled by, `ABSENT` for none.
    there
        ``(t, y)``: tensors on the device because the producer of y has been rerun.
    waiting
        ``(t, y)``: tensors without a backward use that the producer of y reads only later.
    flipped
        See `slackopt.formulations.rerun_instants`.
    stops
        Outputs without whose recomputation op j is not rerun before slot k.
    """

    op: int
    rerun: int = ABSENT
    out_from: int = ABSENT
    in_to: int = ABSENT
    links: tuple[tuple[int, int], ...] = ()
    there: tuple[tuple[int, int], ...] = ()
    waiting: tuple[tuple[int, int], ...] = ()
    flipped: tuple[int, ...] = ()
    stops: tuple[int, ...] = ()

    @property
    def name(self) -> str:
        """Name of the row; `read_chain_key` reads it back."""
        head = ",".join(map(index_text, (self.rerun, self.out_from, self.in_to)))
        lists = ",".join(map(_pairs_text, (self.links, self.there, self.waiting)))
        tail = f"{list_text(self.flipped)},{list_text(self.stops)}"
        return f"{KIND}[{self.op},{head},{lists},{tail}]"


def _pairs_text(pairs: tuple[tuple[int, int], ...]) -> str:
    return list_text(f"{t}:{index_text(y)}" for t, y in pairs)


def _read_pairs(text: str) -> tuple[tuple[int, int], ...]:
    pairs = [entry.split(":") for entry in read_list(text)]
    return tuple((int(t), read_index(y)) for t, y in pairs)


def read_chain_key(window: WindowColumns, parts: list[str]) -> ChainKey:
    """Read the arguments of a row's name; ValueError where that is no key."""
    op, rerun, out_from, in_to, links, there, waiting, flipped, stops = parts
    key = ChainKey(
        int(op),
        read_index(rerun),
        read_index(out_from),
        read_index(in_to),
        _read_pairs(links),
        _read_pairs(there),
        _read_pairs(waiting),
        tuple(map(int, read_list(flipped))),
        tuple(map(int, read_list(stops))),
    )
    if not window.life.num_forward <= key.op < window.life.num_ops:
        raise ValueError(key.name)
    check_windows(window, key.op, key.op, key.out_from, key.in_to, key.name)
    return key


def chain_row(window: WindowColumns, key: ChainKey) -> Row:
    """Build one chain row.

    Raises
    ------
    ValueError
        If a part of the key says what does not hold for every plan.
    """
    life, k = window.life, key.op
    sizes = life.sizes_bytes
    links = Links(window, k, key.links)
    j = ABSENT if key.rerun == ABSENT else life.producer[key.rerun]
    instant = RerunInstant(window, j, k, k)
    here = instant.bytes
    if j == ABSENT and (key.flipped or key.waiting or key.stops):
        raise ValueError(key.name)
    for t, y in key.there:
        op = links.producer(y)
        linked = t in life.inputs[op] or t in life.outputs[op]
        read_or_made = j != ABSENT and (t in life.inputs[j] or t in life.outputs[j])
        if t not in instant.kept or not linked or read_or_made or (j != ABSENT and op >= j):
            raise ValueError(key.name)
        instant.leave_out(t)
        here.add_sum(*links.expression(y), sizes[t])
        if t in window.swap:
            here.add(window.swap[t], -sizes[t])
    if j == ABSENT:
        return instant_row(instant, key.name, key.out_from, key.in_to)
    flip_all(instant, key.flipped, key.name)
    if not stopped(window, j, k, frozenset(key.stops)):
        raise ValueError(key.name)
    # Y stands below for [op j is rerun in slot k], and what replaces it is at most that.
    if here.rerun < 0:
        raise ValueError(key.name)
    seen: set[int] = set()
    for t, y in key.waiting:
        op = links.producer(y)
        on_path = y in links.path(key.rerun)
        waits = t in window.keep and t in life.inputs[op] and t not in life.inputs[j]
        if not (on_path and waits and life.producer[t] < j < op) or t in seen:
            raise ValueError(key.name)
        seen.add(t)
        instant.leave_out(t)
        here.rerun += sizes[t]
        if t in window.swap:
            here.add(window.swap[t], -sizes[t])
    constant, terms = links.expression(key.rerun)
    for t in key.stops:
        column = window.recompute[t]
        terms[column] = terms.get(column, 0) - 1
    here.add_sum(constant, terms, here.rerun)
    return instant_row(instant, key.name, key.out_from, key.in_to)


class Links:
    """The links of a key: tensors rebuilt by a slot, each because of the next.

    Parameters
    ----------
    window
        The formulation.
    slot
        The slot k.
    pairs
        ``(y, y')``, as in `ChainKey`.
    """

    def __init__(
        self, window: WindowColumns, slot: int, pairs: tuple[tuple[int, int], ...]
    ) -> None:
        self.window = window
        self.next = dict(pairs)
        life = window.life
        for y, follower in pairs:
            if y not in window.recompute or len(self.next) != len(pairs):
                raise ValueError(f"tensor {y} is no link")
            if follower == ABSENT:
                is_link = ABSENT != life.first_backward_use[y] <= slot
            else:
                is_link = follower in self.next and y in life.inputs[life.producer[follower]]
            if not is_link:
                raise ValueError(f"tensor {y} is no link")

    def producer(self, y: int) -> int:
        """Op that makes a link; ValueError for another tensor."""
        if y not in self.next:
            raise ValueError(f"tensor {y} is no link")
        return self.window.life.producer[y]

    def path(self, y: int) -> list[int]:
        """Return a link and those it is pulled by."""
        found: list[int] = []
        while y != ABSENT:
            self.producer(y)
            found.append(y)
            y = self.next[y]
        return found

    def expression(self, y: int) -> tuple[int, dict[int, int]]:
        """Return ``X_y`` as constant and coefficients."""
        path = self.path(y)
        return 1 - len(path), {self.window.recompute[link]: 1 for link in path}


def stopped(window: WindowColumns, op: int, slot: int, stops: frozenset[int]) -> bool:
    """Whether `op` is not rerun before `slot` in any plan that recomputes none of `stops`."""
    life, slots = window.life, window.slots
    seen, pending = {op}, [op]
    while pending:
        for y in life.outputs[pending.pop()]:
            if y not in window.recompute or y in stops:
                continue
            if ABSENT != life.first_backward_use[y] < slot:
                return False
            for c in slots.readers[y]:
                if c not in seen and slots.earliest[c] < slot:
                    seen.add(c)
                    pending.append(c)
    return True
