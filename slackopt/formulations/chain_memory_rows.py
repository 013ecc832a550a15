r"""Chain rows: what reruns, in chains, have put and keep in memory at an op, or in their midst.

A *link* ``y`` is a tensor with ``X_y <= [y is recomputed, and its producer rerun by slot k]``:

    X_y = R_y                  where ``u_y <= k``,
    X_y = R_y + X_y' - 1       where the producer of a link ``y'`` reads ``y`` .

Row ``chain_memory[k,y,h,h',links,there,back,held,waiting,F,stops]`` counts, at the start of op k
(``y`` is ``none``), or while the producer j of ``y`` is rerun in slot k, what `ChainKey` lists.
That an op c is not rerun before a slot follows from ``stops``, outputs none of which may be
recomputed; with the sum of their R for U, ``Y = X_y - U`` is at most [j is rerun in slot k].

The rest is as in `slackopt.formulations.rerun_memory_rows`. docs/formulations.md has the proof.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
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

Pairs = tuple[tuple[int, int], ...]


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
        ``(t, y)``: ``s_t (X_y - W_t)`` for a candidate idle in k that the producer of y reads or
        makes: it has been on the device then, and stays.
    back
        ``(t, y)``: ``s_t X_y`` for one that it reads: if swapped it is back.
    held
        ``(q, c, y)``: ``s_q (X_y + P_c - 1 - U)`` for a tensor q without a backward use that the
        producer of y reads by slot k, and op c in a later slot; ``s_q (P_c - W_q - R_q - U)``
        where y is `ABSENT`: it is kept for op c.
    waiting
        ``(q, y)``: ``s_q (Y - W_q)`` for a tensor without a backward use that the producer of y
        reads in the same slot as op j is rerun in, but later.
    flipped
        See `slackopt.formulations.rerun_instants`.
    stops
        Outputs that end the chains by which reruns might be pulled forward.
    """

    op: int
    rerun: int = ABSENT
    out_from: int = ABSENT
    in_to: int = ABSENT
    links: Pairs = ()
    there: Pairs = ()
    back: Pairs = ()
    held: tuple[tuple[int, int, int], ...] = ()
    waiting: Pairs = ()
    flipped: tuple[int, ...] = ()
    stops: tuple[int, ...] = ()

    @property
    def name(self) -> str:
        """Name of the row; `read_chain_key` reads it back."""
        head = map(index_text, (self.op, self.rerun, self.out_from, self.in_to))
        lists = map(_tuples_text, (self.links, self.there, self.back, self.held, self.waiting))
        tail = map(list_text, (self.flipped, self.stops))
        return f"{KIND}[{','.join((*head, *lists, *tail))}]"


def _tuples_text(tuples: Iterable[tuple[int, ...]]) -> str:
    return list_text(":".join(map(index_text, entry)) for entry in tuples)


def _read_tuples(text: str, length: int) -> list[tuple[int, ...]]:
    found = [tuple(map(read_index, entry.split(":"))) for entry in read_list(text)]
    if any(len(entry) != length for entry in found):
        raise ValueError(text)
    return found


def _read_pairs(text: str) -> Pairs:
    return tuple((t, y) for t, y in _read_tuples(text, 2))


def read_chain_key(window: WindowColumns, parts: list[str]) -> ChainKey:
    """Read the arguments of a row's name; ValueError where that is no key."""
    op, rerun, out_from, in_to, links, there, back, held, waiting, flipped, stops = parts
    key = ChainKey(
        int(op),
        read_index(rerun),
        read_index(out_from),
        read_index(in_to),
        _read_pairs(links),
        _read_pairs(there),
        _read_pairs(back),
        tuple((q, c, y) for q, c, y in _read_tuples(held, 3)),
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
    KeyError, ValueError
        If a part of the key says what does not hold for every plan.
    """
    return _ChainRow(window, key).build()


class _ChainRow:
    """Builds one chain row, part by part."""

    def __init__(self, window: WindowColumns, key: ChainKey) -> None:
        self.window, self.key = window, key
        self.links = Links(window, key.op, key.links)
        self.op = ABSENT if key.rerun == ABSENT else self.links.producer(key.rerun)
        self.instant = RerunInstant(window, self.op, key.op, key.op)
        self.counted: set[int] = set()

    def build(self) -> Row:
        key, here = self.key, self.instant.bytes
        for t, y in key.there:
            self._count_candidate(t, y, swapped_too=False)
        for t, y in key.back:
            self._count_candidate(t, y, swapped_too=True)
        for q, c, y in key.held:
            self._count_held(q, c, y)
        if self.op == ABSENT:
            self._require(not (key.flipped or key.waiting))
            return instant_row(self.instant, key.name, key.out_from, key.in_to)
        flip_all(self.instant, key.flipped, key.name)
        # Y stands here for [op j is rerun in slot k]; what replaces it is at most that.
        self._require(here.rerun >= 0)
        for q, y in key.waiting:
            self._count_waiting(q, y)
        constant, terms = self.links.expression(key.rerun)
        self._subtract_stops(terms, self.op, key.op)
        here.add_sum(constant, terms, here.rerun)
        return instant_row(self.instant, key.name, key.out_from, key.in_to)

    def _require(self, condition: bool) -> None:
        if not condition:
            raise ValueError(self.key.name)

    def _rerun_before(self, y: int) -> int:
        """Return the producer of a link, which must have been rerun at the instant of the row."""
        c = self.links.producer(y)
        self._require(self.op == ABSENT or c < self.op)
        return c

    def _leave_out(self, t: int) -> None:
        """Take `t` out, to count it anew; it may not be counted with op j."""
        inputs = () if self.op == ABSENT else self.window.life.inputs[self.op]
        self._require(t not in inputs and t not in self.counted)
        self.counted.add(t)
        self.instant.leave_out(t)

    def _count_candidate(self, t: int, y: int, *, swapped_too: bool) -> None:
        life, c = self.window.life, self._rerun_before(y)
        linked = t in life.inputs[c] or (t in life.outputs[c] and not swapped_too)
        self._require(linked and t in self.instant.kept)
        self._leave_out(t)
        constant, terms = self.links.expression(y)
        if swapped_too:
            self.instant.back.add(t)
        elif t in self.window.swap:
            terms[self.window.swap[t]] = -1
        self.instant.bytes.add_sum(constant, terms, life.sizes_bytes[t])

    def _count_held(self, q: int, c: int, y: int) -> None:
        window, life = self.window, self.window.life
        self._require(q in window.keep and c in window.rerun and q in life.inputs[c])
        self._leave_out(q)
        if y == ABSENT:
            constant, terms = 0, {d[q]: -1 for d in (window.swap, window.recompute) if q in d}
        else:
            self._require(q in life.inputs[self._rerun_before(y)])
            constant, terms = self.links.expression(y)
            constant -= 1
        terms[window.rerun[c]] = terms.get(window.rerun[c], 0) + 1
        self._subtract_stops(terms, c, self.key.op + 1)
        self.instant.bytes.add_sum(constant, terms, life.sizes_bytes[q])

    def _count_waiting(self, q: int, y: int) -> None:
        window, life, c = self.window, self.window.life, self.links.producer(y)
        self._require(q in window.keep and q in life.inputs[c])
        self._require(y in self.links.path(self.key.rerun) and life.producer[q] < self.op < c)
        self._leave_out(q)
        self.instant.bytes.rerun += life.sizes_bytes[q]
        if q in window.swap:
            self.instant.bytes.add(window.swap[q], -life.sizes_bytes[q])

    def _subtract_stops(self, terms: dict[int, int], op: int, slot: int) -> None:
        """Subtract U, which is at least [`op` is rerun before `slot`]."""
        stops = stops_of(self.window, op, slot, frozenset(self.key.stops))
        if stops is None:
            raise ValueError(self.key.name)
        for y in stops:
            column = self.window.recompute[y]
            terms[column] = terms.get(column, 0) - 1


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

    def __init__(self, window: WindowColumns, slot: int, pairs: Pairs) -> None:
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


def stops_of(window: WindowColumns, op: int, slot: int, stops: Collection[int]) -> set[int] | None:
    """Return those of `stops` without which `op` is not rerun before `slot`, whatever the plan.

    None if it might be even so.
    """
    life, slots = window.life, window.slots
    met: set[int] = set()
    seen, pending = {op}, [op] if slots.earliest[op] < slot else []
    while pending:
        for y in life.outputs[pending.pop()]:
            if y not in window.recompute:
                continue
            earlier = [c for c in slots.readers[y] if slots.earliest[c] < slot]
            read = ABSENT != life.first_backward_use[y] < slot
            if y in stops and (earlier or read):
                met.add(y)
            elif read:
                return None
            else:
                pending += [c for c in earlier if c not in seen]
                seen.update(earlier)
    return met
