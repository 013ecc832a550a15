"""Coarser units for solvers that want small integers: rows stay relaxations.

A row over binaries, ``sum a_j x_j <= b`` in bytes, implies ``sum floor(a_j / c) x_j <= floor(b /
c)``: the left side is an integer and at most the other's c-th part.

A row over time says ``T_1 - T_2 <= b - sum a_j x_j`` (either of T_1, T_2 may be missing). With
``floor(T / c)`` for times in units of c ns, ``floor(T_1 / c) - floor(T_2 / c) <= ceil((T_1 - T_2) /
c)``, and the ceiling of a sum is at most the sum of the ceilings: ``ceil(b / c) + sum
ceil(-a_j / c) x_j``. So coefficients of binaries are rounded down, and the right side up.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import gcd

from slackopt.formulations.linear import Row


def time_unit(rows: Iterable[Row], times: frozenset[int], largest_ns: int, limit: int) -> int:
    """Return a unit in ns that makes `largest_ns` at most `limit` units; exact if it can be."""
    divisor = 0
    for row in rows:
        if not times.isdisjoint(row.coefficients):
            divisor = gcd(divisor, row.upper)
            for column, a in row.coefficients.items():
                if column not in times:
                    divisor = gcd(divisor, a)
    exact = max(1, divisor)
    return exact * max(1, -(-largest_ns // (exact * limit)))


def coarsen(row: Row, times: frozenset[int], unit_ns: int, limit: int) -> Row:
    """Return the row with times in units of `unit_ns`, or with coefficients up to `limit`."""
    if any(column in times for column in row.coefficients):
        coefficients = {
            column: a if column in times else a // unit_ns for column, a in row.coefficients.items()
        }
        return Row(row.name, coefficients, -(-row.upper // unit_ns))
    values = list(row.coefficients.values())
    exact = gcd(*values) or 1
    unit = exact * max(1, -(-sum(map(abs, values)) // (exact * limit)))
    return Row(
        row.name,
        {column: a // unit for column, a in row.coefficients.items()},
        row.upper // unit,
    )
