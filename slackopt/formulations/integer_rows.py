r"""Window rows in small integers, for solvers that know integers only; still a relaxation.

A point of the window formulation has a column ``x_j`` in {0, 1} for each decision, rerun and
auxiliary column, and a stall ``e_k >= 0`` in ns per slot. CP-SAT wants integers, few and small:
its sums of coefficients must stay far below 2^31 (or-tools #5293). So the *integer point* of a
plan has the same ``x_j``, and one stall column per segment ``g`` of consecutive slots,

    y_g = ceil(E_g / V) ,      E_g = sum of e_k over the slots k of g ,      V the stall unit in ns.

**Claim.** The integer point of every plan satisfies every integer row made here. *Proof*, in the
steps that make one. Let ``sum a_j x_j + sum c_k e_k <= b`` be a row that holds for every plan.

1. *Segments.* Let ``c_g`` be the least of 0 and all ``c_k`` of the segment, absent ones being 0.
   As ``e_k >= 0``, ``E_g <= V y_g`` and ``c_g <= 0``:
   ``sum c_k e_k >= sum c_g E_g >= sum (c_g V) y_g``. So ``sum a_j x_j + sum (c_g V) y_g <= b``.
2. *Clipping.* Let ``D = (sum of the a_j > 0) - b``. If ``D <= 0`` the row says nothing. Else raise
   each coefficient below ``-D`` to ``-D``. If all those columns are 0 the row is what it was; if
   one is 1 or more, the left side is at most ``(D + b) - D = b`` for any point. The integer
   points that satisfy the row are the same.
3. *Rounding.* Divide by a unit ``u > 0``. As columns are at least 0,
   ``sum floor(a_j / u) x_j <= sum (a_j / u) x_j <= b / u``; and as the left side is an integer at
   an integer point, it is at most ``floor(b / u)``. ∎

All columns but the stalls take 0 or 1 at the point of every plan (docs/formulations.md says so of
each auxiliary column), hence they are Boolean here, though the window formulation leaves some
continuous.

**Bound.** The objective counts in units of ``U`` ns, ``V`` a multiple of ``U``:
``O = sum floor(d_j / U) x_j + sum (V / U) y_g``. Stalls are whole nanoseconds, so
``V y_g <= E_g + V - 1``, and the time that a plan adds to the ideal step is

    sum d_j x_j + sum E_g  >=  U O - G (V - 1) ,      G the number of segments,

so a lower bound on ``O`` gives one for every plan. Solvers need an upper bound on ``y_g`` too: a
plan with ``y_g > Y`` adds more than ``V Y``. What is proved with ``y_g <= Y`` therefore holds
for every plan once it is capped at ``V Y``; and a model without any point proves that plans add
more than ``V Y``, not that there are none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import gcd

from slackopt.formulations.linear import Row
from slackopt.formulations.window import UNITS_PER_BYTE, WindowFormulation, counts_bytes

SEGMENTS = 16
"""Stall columns at most."""

ROW_LIMIT = 1 << 27
OBJECTIVE_LIMIT = 1 << 31
"""Largest sum of absolute coefficients of a row; largest value of the objective, about, stalls
included: the sum over its Boolean columns is at most a sixteenth."""

STALL_LOSS = Fraction(3, 10**6)
"""What rounding the stalls of all segments up may cost, as a share of the ideal step."""

UNITS_TRIED = 500


@dataclass(frozen=True)
class IntegerColumn:
    """An integer variable between 0 and `upper`, with its cost in objective units."""

    name: str
    upper: int
    objective: int


@dataclass(frozen=True)
class IntegerRow:
    """The sum of ``coefficients[i] * z[i]`` is at most `upper`, in integers.

    Attributes
    ----------
    loss
        The row given up at most this much, in units of the exact row, by rounding the
        coefficients of Boolean columns down.
    """

    name: str
    coefficients: dict[int, int]
    upper: int
    loss: Fraction = Fraction(0)


class IntegerRows:
    """Integer columns of a window formulation, and its rows in them.

    Parameters
    ----------
    window
        The formulation. Columns keep their order; stall columns are replaced by segments.
    row_limit
        Largest sum of absolute coefficients.

    Attributes
    ----------
    columns
        The integer columns.
    boolean
        Exact column -> integer column, for all but stalls.
    segments
        Per segment: its slots.
    segment_columns
        Per segment: its integer column.
    unit_ns, stall_unit_ns
        ``U`` and ``V``.
    stall_limit
        ``Y``.
    """

    def __init__(self, window: WindowFormulation, row_limit: int = ROW_LIMIT) -> None:
        self.window = window
        self.row_limit = row_limit
        ops, ideal = window.life.num_ops, window.instance.ideal_ns
        count = min(SEGMENTS, ops)
        self.segments = [range(ops * g // count, ops * (g + 1) // count) for g in range(count)]
        costs = [c.objective for c in window.columns if c.upper is not None]
        self.unit_ns = _objective_unit(costs, ideal)
        per_segment = int(STALL_LOSS * ideal) // max(count, 1)
        self.stall_unit_ns = max(per_segment // self.unit_ns, 1) * self.unit_ns
        self.stall_limit = -(-ideal // self.stall_unit_ns)
        self.columns: list[IntegerColumn] = []
        self.boolean: dict[int, int] = {}
        stalls = set(window.stall.values())
        for j, column in enumerate(window.columns):
            if j in stalls:
                continue
            if column.upper != 1:
                raise ValueError(f"column {column.name} is neither Boolean nor a stall")
            self.boolean[j] = len(self.columns)
            self.columns.append(IntegerColumn(column.name, 1, column.objective // self.unit_ns))
        cost = self.stall_unit_ns // self.unit_ns
        self.segment_columns = [len(self.columns) + g for g in range(count)]
        self._segment_of = {
            window.stall[k]: self.segment_columns[g]
            for g, slots in enumerate(self.segments)
            for k in slots
        }
        self.columns += [
            IntegerColumn(_stall_name(slots), self.stall_limit, cost) for slots in self.segments
        ]
        sizes = [window.life.sizes_bytes[t] for t in (*window.swap, *window.recompute)]
        self._grain = max(gcd(*sizes), 1) * UNITS_PER_BYTE

    @property
    def correction_ns(self) -> int:
        """``G (V - 1)``: what a bound loses to stalls rounded up."""
        return len(self.segments) * (self.stall_unit_ns - 1)

    @property
    def cap_ns(self) -> int:
        """``V Y``: plans with longer stalls in one segment are outside of the integer points."""
        return self.stall_unit_ns * self.stall_limit

    @property
    def objective_loss_ns(self) -> int:
        """The most that a bound loses to durations rounded down."""
        columns = self.window.columns
        return sum(columns[j].objective % self.unit_ns for j in self.boolean)

    def added_bound_ns(self, objective_bound: int) -> int:
        """Lower bound on the time that any plan adds, from one on the integer objective."""
        proved = self.unit_ns * objective_bound - self.correction_ns
        return max(0, min(proved, self.cap_ns))

    def row(self, row: Row) -> IntegerRow | None:
        """Return a row in integers; None if it says nothing. The steps are those of the proof."""
        exact = self._merged(row)
        excess = sum(a for a in exact.values() if a > 0) - row.upper
        if excess <= 0:
            return None
        if not exact:
            return IntegerRow(row.name, {}, -1)  # 0 <= b < 0: no point satisfies it
        exact = {i: max(a, -excess) for i, a in exact.items()}
        unit = self._unit(exact.values(), counts_bytes(row))
        num, den = unit.numerator, unit.denominator
        rounded = {i: a * den // num for i, a in exact.items()}
        first_segment = self.segment_columns[0]
        lost = sum(a * den - num * rounded[i] for i, a in exact.items() if i < first_segment)
        coefficients = {i: a for i, a in rounded.items() if a}
        return IntegerRow(row.name, coefficients, row.upper * den // num, Fraction(lost, den))

    def _merged(self, row: Row) -> dict[int, int]:
        """Coefficients over integer columns, in exact units: the first step."""
        exact: dict[int, int] = {}
        for j, a in row.coefficients.items():
            if j in self.boolean:
                exact[self.boolean[j]] = a
            elif a < 0:
                i = self._segment_of[j]
                exact[i] = min(exact.get(i, 0), a * self.stall_unit_ns)
        return {i: a for i, a in exact.items() if a}

    def _unit(self, values: Collection[int], bytes_: bool) -> Fraction:
        """Return a row's unit: exact if it can be, else one in which sizes of tensors are whole."""
        total, common = sum(map(abs, values)), gcd(*values)
        if total <= common * self.row_limit:
            return Fraction(common)
        least = -(-total // self.row_limit)
        parts = self._grain // least if bytes_ else 0
        return Fraction(self._grain, parts) if parts else Fraction(least)

    def point(self, x: Sequence[float]) -> list[int]:
        """Integer point of an exact point with integral decisions; stalls rounded up."""
        z = [0] * len(self.columns)
        for j, i in self.boolean.items():
            z[i] = round(x[j])
        for i, slots in zip(self.segment_columns, self.segments, strict=True):
            time = sum(int(x[self.window.stall[k]]) for k in slots)
            z[i] = -(-time // self.stall_unit_ns)
        return z

    def exact_point(self, z: Sequence[int]) -> list[float]:
        """Return a point with the decisions of `z`; a segment's stall comes in its first slot."""
        x = [0.0] * len(self.window.columns)
        for j, i in self.boolean.items():
            x[j] = float(z[i])
        for i, slots in zip(self.segment_columns, self.segments, strict=True):
            x[self.window.stall[slots[0]]] = float(z[i] * self.stall_unit_ns)
        return x

    def rounding_cost_ns(self, weights: Mapping[str, Fraction]) -> int:
        """Most that rounding may take from the bound that a certificate proves, in ns.

        Points of integer rows satisfy the exact rows (with stalls merged) after each right side
        is raised by the row's `loss`; by duality the bound falls by at most
        ``sum of weight * loss``, and by what the objective loses.
        """
        lost = Fraction(0)
        for name, weight in weights.items():
            rounded = self.row(self.window.row(name))
            lost += weight * (0 if rounded is None else rounded.loss)
        return -(-lost // 1) + self.objective_loss_ns + self.correction_ns


def _stall_name(slots: range) -> str:
    return f"stall[{slots[0]}]" if len(slots) == 1 else f"stall[{slots[0]}-{slots[-1]}]"


def _objective_unit(costs: Sequence[int], ideal_ns: int) -> int:
    """Return a unit that keeps sums small enough; of the finest, the one that rounds best.

    Identical layers have identical durations, so a unit that nearly divides a few numbers does.
    """
    least = max(-(-(sum(costs) + SEGMENTS * ideal_ns) // OBJECTIVE_LIMIT), 1)
    counts = Counter(costs)
    units = range(least, 2 * least) if least > 1 else range(1, 2)
    return min(
        units[:UNITS_TRIED],
        key=lambda unit: sum(n * (cost % unit) for cost, n in counts.items()),
    )
