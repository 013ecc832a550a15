r"""Memory rows: what must be on the device at an instant is paid for by the slack of windows.

Row ``memory[k,end,h,h']``: at an instant ``tau`` in op ``k`` (its start ``S_k`` or its end
``A_{k+1}``), with bandwidths ``b_out``, ``b_in`` and budget ``B``,

    M(k) + [ sum_{t: ready_t >= h, l_t < k} s_t W_t  -  b_out (tau - A_h) ]
         + [ sum_{t: k < u_t <= h'} s_t W_t  -  b_in (S_h' - tau) ]            <=  B ,

    M(k) = fixed(k) + sum_{t idle in k} s_t (1 - W_t - R_t) + residents(k) ,

where residents(k) are tensors kept for reruns, or rebuilt by early ones
(`slackopt.formulations.residents`). Either bracket may be left out. Bytes ready at or after
``A_h`` have left by ``tau`` at most at ``b_out``; bytes needed by ``S_h'`` come in after ``tau``
at most at ``b_in``. docs/formulations.md has the proof.
"""

from __future__ import annotations

from dataclasses import dataclass

from slackopt.formulations.columns import UNITS_PER_BYTE, WindowColumns
from slackopt.formulations.linear import Row
from slackopt.lifetimes import ABSENT

KIND = "memory"


@dataclass(frozen=True)
class MemoryKey:
    """Which memory row: op, end of the op, out window from `out_from`, in window to `in_to`.

    `ABSENT` windows are left out.
    """

    op: int
    at_end: bool
    out_from: int = ABSENT
    in_to: int = ABSENT

    @property
    def name(self) -> str:
        """Name of the row; `read_memory_key` reads it back."""
        end = "end" if self.at_end else "start"
        return f"{KIND}[{self.op},{end},{index_text(self.out_from)},{index_text(self.in_to)}]"


def index_text(index: int) -> str:
    """Write a slot or op, perhaps absent, for the name of a row."""
    return "none" if index == ABSENT else str(index)


def read_index(text: str) -> int:
    """Read what `index_text` writes; ValueError for anything else."""
    return ABSENT if text == "none" else int(text)


def read_end(text: str) -> bool:
    """Whether the text says the end of an op (or its start); ValueError for anything else."""
    if text not in ("start", "end"):
        raise ValueError(text)
    return text == "end"


def read_memory_key(window: WindowColumns, parts: list[str]) -> MemoryKey:
    """Read the arguments of a row's name; ValueError where there is no such row."""
    op, end, out_from, in_to = parts
    key = MemoryKey(int(op), read_end(end), read_index(out_from), read_index(in_to))
    last = window.life.num_ops - 1
    out_ok = key.out_from == ABSENT or 0 <= key.out_from <= key.op
    in_ok = key.in_to == ABSENT or key.op < key.in_to <= last
    if not (0 <= key.op <= last and out_ok and in_ok):
        raise ValueError(key.name)
    return key


def not_swapped(window: WindowColumns, op: int) -> tuple[int, dict[int, int]]:
    """Return ``M(k)`` as a constant and coefficients, in bytes."""
    life = window.life
    constant = window.fixed_bytes[op]
    coefficients: dict[int, int] = {}
    for t in window.idle_in(op):
        size = life.sizes_bytes[t]
        constant += size
        for decision in (window.swap, window.recompute):
            if t in decision:
                coefficients[decision[t]] = coefficients.get(decision[t], 0) - size
    for entry in window.residents(op):
        coefficients[entry.column] = coefficients.get(entry.column, 0) + entry.size_bytes
    return constant, coefficients


def memory_row(window: WindowColumns, key: MemoryKey) -> Row:
    """Build one memory row."""
    life, k = window.life, key.op
    out_rate, in_rate = window.bandwidths
    constant, byte_terms = not_swapped(window, k)
    coefficients = {column: size * UNITS_PER_BYTE for column, size in byte_terms.items()}

    def add(column: int, size: int) -> None:
        coefficients[column] = coefficients.get(column, 0) + size * UNITS_PER_BYTE

    upper = (window.instance.budget_bytes - constant) * UNITS_PER_BYTE
    tau_ns = window.starts_ns[k + 1 if key.at_end else k]
    windows: list[tuple[int, int, int]] = []
    if key.out_from != ABSENT:
        for t in window.leaving(key.out_from, k):
            add(window.swap[t], life.sizes_bytes[t])
        upper += out_rate * (tau_ns - window.starts_ns[key.out_from])
        windows.append((key.out_from, k, out_rate))
    if key.in_to != ABSENT:
        for t in window.returning(k, key.in_to):
            add(window.swap[t], life.sizes_bytes[t])
        upper += in_rate * (window.starts_ns[key.in_to] - tau_ns)
        windows.append((k + 1, key.in_to, in_rate))
    window.spend(coefficients, windows)
    return Row(key.name, {j: a for j, a in coefficients.items() if a}, upper)
