"""A bound from single rows, without a solver: valid at once, however large the instance is.

Any weights on rows prove a bound (`slackopt.formulations.certificate`). With weight y on one row
``a x <= b`` alone it is

    g(y)  =  - y b  +  sum over bounded columns j of min(0, c_j + y a_j) u_j ,

as long as ``c_j + y a_j >= 0`` for stalls: concave and piecewise linear in y, so its largest value
is found among its kinks, as a fractional knapsack is solved. The rows tried are the memory rows
that swapping everything violates most: what the link can't carry must be recomputed or waited for.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from slackopt.clock import check_time
from slackopt.formulations.certificate import bound_from_weights
from slackopt.formulations.linear import Row
from slackopt.formulations.separation import most_violated_keys
from slackopt.formulations.window import WindowFormulation

ROWS = 8
"""How many rows are tried."""


def single_row_bound(window: WindowFormulation) -> tuple[int, dict[str, Fraction]]:
    """Return the best bound that one memory row proves, and the weights that prove it.

    Returns
    -------
    bound_ns
        The ideal step if no row proves more.
    weights
        The certificate; empty if no row proves more.
    """
    x = np.zeros(len(window.columns))
    x[list(window.swap.values())] = 1.0
    best: tuple[int, dict[str, Fraction]] = (window.instance.ideal_ns, {})
    for _, key in most_violated_keys(window, x, 0.0, ROWS):
        check_time()
        weights = best_weights(window, window.row(key.name))
        if weights:
            bound = bound_from_weights(window, weights)
            best = max(best, (bound, weights), key=lambda found: found[0])
    return best


def best_weights(window: WindowFormulation, row: Row) -> dict[str, Fraction]:
    """Return the best weight of a row, and with it the weights of the rows that it needs.

    An op with several outputs that can be dropped pays once for all of them: ``rerun_of[t]``, with
    weights that add up to at most its duration, take its cost to its outputs.
    """
    outputs: dict[int, list[int]] = {}  # rerun column -> outputs with another column
    for t, column in window.recompute.items():
        rerun = window.rerun[window.life.producer[t]]
        if column != rerun and row.coefficients.get(column, 0) < 0:
            outputs.setdefault(rerun, []).append(t)
    paid = {window.recompute[t]: rerun for rerun, tensors in outputs.items() for t in tensors}

    # Per cost paid: what g gains per unit of y once y is so large that the cost is used up.
    gains: dict[int, int] = {}
    most: Fraction | None = None
    for column, a in row.coefficients.items():
        variable = window.columns[column]
        if a >= 0:
            continue
        if variable.upper is None:
            limit = Fraction(variable.objective, -a)
            most = limit if most is None else min(most, limit)
        else:
            payer = paid.get(column, column)
            gains[payer] = gains.get(payer, 0) - a * variable.upper
    slope = -row.upper
    kinks = []
    for column, gain in gains.items():
        cost = window.columns[column].objective
        if cost:
            kinks.append((Fraction(cost, gain), gain))
        else:
            slope -= gain
    y = Fraction(0)
    for kink, gain in sorted(kinks):
        if slope <= 0 or (most is not None and kink >= most):
            break
        y, slope = kink, slope - gain
    if slope > 0:
        if most is None:
            return {}  # no weight is too large: the instance is infeasible, which the LP will say
        y = most
    if y == 0:
        return {}
    weights = {row.name: y}
    for rerun, tensors in outputs.items():
        cost = window.columns[rerun].objective
        share = min(Fraction(1), Fraction(cost) / (y * gains[rerun]))
        for t in tensors:
            weights[f"rerun_of[{t}]"] = share * y * -row.coefficients[window.recompute[t]]
    return weights
