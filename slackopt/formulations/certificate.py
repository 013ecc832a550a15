"""Bound certificates: a lower bound as a sum of rows, recomputed in exact integers, no solver.

For any weights ``y_i >= 0`` on rows ``sum_j a_ij x_j <= b_i`` and columns ``0 <= x_j <= u_j`` with
costs ``c_j``, weak duality gives, for every feasible x,

    c x  >=  - sum_i y_i b_i  +  sum_j min(0, c_j + sum_i y_i a_ij) u_j .

A solver's floating-point duals only propose ``y``: whatever they are, the sum is a bound.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil

from slackopt.formulations.linear import Row
from slackopt.formulations.window import WindowFormulation

_DENOMINATOR_BITS = 160


@dataclass(frozen=True)
class Combination:
    """Weighted rows, added up: ``costs x >= constant`` for every point of the formulation.

    Attributes
    ----------
    rows
        The rows and their weights; none is 0.
    reduced
        Column -> reduced cost ``c_j + sum_i y_i a_ij``; columns of 0 are left out. It is the
        weight of the column's bound 0 where it is above 0, and of its upper bound where below.
    constant
        What they prove: ``- sum_i y_i b_i  +  sum_j min(0, reduced_j) u_j``.
    """

    rows: tuple[tuple[Row, Fraction], ...]
    reduced: Mapping[int, Fraction]
    constant: Fraction


def read_weights(multipliers: Iterable[tuple[str, str]]) -> dict[str, Fraction]:
    """Return rows' names and weights as a file has them; each row once.

    Raises
    ------
    ValueError
        For a row that stands twice.
    """
    weights: dict[str, Fraction] = {}
    for name, text in multipliers:
        if name in weights:
            raise ValueError(f"row {name} stands twice")
        weights[name] = Fraction(text)
    return weights


def bound_from_weights(window: WindowFormulation, weights: Mapping[str, Fraction]) -> int:
    """Return the lower bound on the makespan, in ns, that weighted rows prove.

    Parameters
    ----------
    window
        The formulation that builds the rows.
    weights
        Row name -> weight, at least 0: nanoseconds per unit of the row.

    Raises
    ------
    ValueError
        As `combine`.
    """
    constant = combine(window, weights).constant
    # A makespan is a whole number of nanoseconds, and no shorter than the ideal step.
    return window.instance.ideal_ns + max(0, ceil(constant))


def proves_infeasible(window: WindowFormulation, weights: Mapping[str, Fraction]) -> bool:
    """Return whether weighted rows prove that no plan exists (Farkas' lemma).

    With all costs 0 the sum bounds 0 from below; if it is above 0, no point satisfies the rows.
    """
    return combine(window, weights, costs=[0] * len(window.columns)).constant > 0


def combine(
    window: WindowFormulation,
    weights: Mapping[str, Fraction],
    *,
    costs: Sequence[int] | None = None,
) -> Combination:
    """Add weighted rows up, exactly.

    Parameters
    ----------
    window
        The formulation that builds the rows, by name.
    weights
        Row name -> weight, at least 0.
    costs
        Of the columns; those of the objective by default.

    Raises
    ------
    ValueError
        For a name of no row, a negative weight, or weights under which an unbounded column has
        negative cost.
    """
    if costs is None:
        costs = [column.objective for column in window.columns]
    reduced = {j: Fraction(cost) for j, cost in enumerate(costs) if cost}
    constant, rows = Fraction(0), []
    for name, given in weights.items():
        weight = Fraction(given)
        if weight < 0:
            raise ValueError(f"row {_cut(name)} has a negative weight")
        row = _row(window, name)
        if weight:
            rows.append((row, weight))
        constant -= weight * row.upper
        for column, coefficient in row.coefficients.items():
            reduced[column] = reduced.get(column, Fraction(0)) + weight * coefficient
    reduced = {column: cost for column, cost in reduced.items() if cost}
    for column, cost in reduced.items():
        if cost < 0:
            variable = window.columns[column]
            if variable.upper is None:
                raise ValueError(f"column {variable.name} is unbounded and has a negative cost")
            constant += cost * variable.upper
    return Combination(tuple(rows), reduced, constant)


def _row(window: WindowFormulation, name: str) -> Row:
    """Build a row from its name, which must be the one that the row has itself."""
    try:
        row = window.row(name)
    except (KeyError, ValueError, IndexError):
        row = None
    if row is None or row.name != name:
        raise ValueError(f"there is no row {_cut(name)} in the formulation of this instance")
    return row


def _cut(name: str) -> str:
    """Write a name for a message: control characters escaped, not at any length."""
    return repr(name) if len(name) <= 80 else f"{name[:80]!r}... ({len(name)} characters)"


def weights_from_duals(
    window: WindowFormulation, duals: Mapping[str, float]
) -> dict[str, Fraction]:
    """Turn a solver's duals into weights: rounded, and scaled down until no cost is unbounded.

    Parameters
    ----------
    window
        The formulation.
    duals
        Row name -> dual in ns per unit of the exact row; negative noise is dropped.
    """
    scale = 1 << _DENOMINATOR_BITS
    weights = {
        name: int(Fraction(dual) * scale) for name, dual in duals.items() if dual > 0
    }  # numerators over `scale`
    spent: dict[int, int] = {}
    stalls = set(window.stall.values())
    for name, weight in weights.items():
        for column, coefficient in window.row(name).coefficients.items():
            if column in stalls:
                spent[column] = spent.get(column, 0) - weight * coefficient
    most = max(spent.values(), default=0)
    shrink = Fraction(1) if most <= scale else Fraction(scale, most)
    rounded = {name: int(weight * shrink) for name, weight in weights.items()}
    return {name: Fraction(weight, scale) for name, weight in rounded.items() if weight}
