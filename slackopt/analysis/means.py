"""Means of times and ratios over instances of very different size."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from slackopt.errors import InputError


def shifted_geometric_mean(values: Iterable[float], shift: float = 1.0) -> float:
    """Return the shifted geometric mean of non-negative values.

    With n values v_i and the shift s it is

        exp( (1 / n) * sum_i log(v_i + s) ) - s .

    The arithmetic mean follows the largest values, the geometric mean the smallest; the shift
    keeps differences between tiny values, which nobody notices, from counting.

    Parameters
    ----------
    values
        In any unit, at least 0. A value that is not a number is refused: leave failed runs out,
        or give them the time limit, and say which.
    shift
        In the unit of the values, at least 0. With 0 it is the geometric mean.

    Returns
    -------
    float
        In the unit of the values; NaN if there is none.

    Raises
    ------
    InputError
        For a value or a shift that is below 0, infinite or no number.

    References
    ----------
    T. Achterberg, Constraint Integer Programming, PhD thesis, TU Berlin 2007, section A.3.

    Examples
    --------
    >>> shifted_geometric_mean([1.0, 7.0], shift=1.0)
    3.0
    """
    array = np.fromiter((float(value) for value in values), dtype=float)
    if not (np.isfinite(shift) and shift >= 0):
        raise InputError(f"the shift of a geometric mean is {shift}; it must be at least 0")
    if not bool(np.all(np.isfinite(array) & (array >= 0))):
        bad = array[~(np.isfinite(array) & (array >= 0))][0]
        raise InputError(
            f"a shifted geometric mean is of finite values of at least 0, and one is {bad}; "
            "leave failed runs out, or give them their time limit"
        )
    if len(array) == 0:
        return float("nan")
    with np.errstate(divide="ignore"):  # log(0) with shift 0: the mean is 0, rightly
        mean = float(np.exp(np.mean(np.log(array + shift))) - shift)
    # Rounding must not carry the mean outside of the values.
    return min(max(mean, float(array.min())), float(array.max()))


def share_quantile(values: npt.NDArray[np.float64], share: float) -> npt.NDArray[np.float64]:
    """Return, per column, the least value that at least a share of the rows stays within.

    It is the inverse of the empirical distribution, for every share: 0.5 of an even number of rows
    gives the lower of the two in the middle, not their mean, which no half of the rows need have
    reached and which rises when the upper one turns from infinite to finite. So a column that is
    nowhere above another has a quantile that is not above the other's either. A value that is
    infinite (a run that has found nothing) counts as the worst one.

    Parameters
    ----------
    values
        Shape (rows, columns); at least one row, infinite for "nothing found".
    share
        Above 0, at most 1.

    Returns
    -------
    array
        Shape (columns,).

    Raises
    ------
    InputError
        For a share outside of its range.
    """
    if not 0 < share <= 1:
        raise InputError(f"the share of a quantile is {share}; it must be above 0 and at most 1")
    # A share such as 0.9 is not exact: 0.9 * 10 must give the ninth value, not the tenth.
    rank = max(int(np.ceil(share * len(values) - 1e-9)), 1)
    found: npt.NDArray[np.float64] = np.sort(values, axis=0)[rank - 1]
    return found
