"""Bound certificates: a lower bound as a sum of rows, recomputed in exact integers, no solver.

For any weights ``y_i >= 0`` on rows ``sum_j a_ij x_j <= b_i`` and columns ``0 <= x_j <= u_j`` with
costs ``c_j``, weak duality gives, for every feasible x,

    c x  >=  - sum_i y_i b_i  +  sum_j min(0, c_j + sum_i y_i a_ij) u_j .

A solver's floating-point duals only propose ``y``: whatever they are, the sum is a bound.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from math import ceil

from slackopt.formulations.window import WindowFormulation

_DENOMINATOR_BITS = 160


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
        For a negative weight, or weights under which an unbounded column has negative cost.
    """
    constant = _weighted_sum(window, weights, [column.objective for column in window.columns])
    # A makespan is a whole number of nanoseconds, and no shorter than the ideal step.
    return window.instance.ideal_ns + max(0, ceil(constant))


def proves_infeasible(window: WindowFormulation, weights: Mapping[str, Fraction]) -> bool:
    """Return whether weighted rows prove that no plan exists (Farkas' lemma).

    With all costs 0 the sum bounds 0 from below; if it is above 0, no point satisfies the rows.
    """
    return _weighted_sum(window, weights, [0] * len(window.columns)) > 0


def _weighted_sum(
    window: WindowFormulation, weights: Mapping[str, Fraction], costs: Sequence[int]
) -> Fraction:
    """Return ``- sum_i y_i b_i + sum_j min(0, c_j + sum_i y_i a_ij) u_j``."""
    constant = Fraction(0)
    reduced = [Fraction(cost) for cost in costs]
    for name, given in weights.items():
        weight = Fraction(given)
        if weight < 0:
            raise ValueError(f"row {name} has the negative weight {given}")
        row = window.row(name)
        constant -= weight * row.upper
        for column, coefficient in row.coefficients.items():
            reduced[column] += weight * coefficient
    for variable, cost in zip(window.columns, reduced, strict=True):
        if cost < 0:
            if variable.upper is None:
                raise ValueError(f"column {variable.name} is unbounded and has the cost {cost}")
            constant += cost * variable.upper
    return constant


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
