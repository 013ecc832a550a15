"""Shifted geometric means: values computed by hand, and what holds for all values."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackopt.analysis import shifted_geometric_mean
from slackopt.analysis.means import share_quantile
from slackopt.errors import InputError

VALUES = st.lists(st.floats(0, 1e6), min_size=1, max_size=20)


def test_values_computed_by_hand() -> None:
    # (1 + 1) (7 + 1) = 16, its square root 4, less the shift: 3.
    assert shifted_geometric_mean([1, 7], 1) == pytest.approx(3)
    # 2 * 8 = 16, square root 4.
    assert shifted_geometric_mean([2, 8], 0) == pytest.approx(4)
    # (0 + 10) (90 + 10) (990 + 10) = 10^6, cube root 100, less 10.
    assert shifted_geometric_mean([0, 90, 990], 10) == pytest.approx(90)
    assert shifted_geometric_mean([0, 5], 0) == 0
    assert math.isnan(shifted_geometric_mean([]))


@settings(deadline=None, max_examples=30)
@given(VALUES, st.floats(0, 100))
def test_it_lies_between_the_values_and_below_the_arithmetic_mean(
    values: list[float], shift: float
) -> None:
    mean = shifted_geometric_mean(values, shift)
    assert min(values) <= mean <= max(values)
    assert mean <= np.mean(values) * (1 + 1e-9) + 1e-9


@settings(deadline=None, max_examples=30)
@given(VALUES, st.integers(0, 19))
def test_a_larger_value_never_makes_it_smaller(values: list[float], k: int) -> None:
    before = shifted_geometric_mean(values, 1)
    values[k % len(values)] += 1
    assert shifted_geometric_mean(values, 1) >= before - 1e-9 * (1 + before)


@pytest.mark.parametrize("values", [[-1.0], [math.inf], [math.nan, 1.0]])
def test_what_is_no_time_is_refused(values: list[float]) -> None:
    with pytest.raises(InputError, match="leave failed runs out"):
        shifted_geometric_mean(values)
    with pytest.raises(InputError, match="shift"):
        shifted_geometric_mean([1.0], -1)


def test_quantiles() -> None:
    column = np.array([[4.0], [1.0], [np.inf], [2.0]])
    assert share_quantile(column, 0.25) == [1.0]
    assert share_quantile(column, 0.5) == [2.0]  # two of four; no half is within a mean of 2 and 4
    assert share_quantile(column, 0.51) == [4.0]
    assert share_quantile(column, 1) == [np.inf]
    assert share_quantile(np.array([[4.0], [np.inf]]), 0.5) == [4.0]
    ten = np.arange(1.0, 11.0)[:, np.newaxis]
    assert share_quantile(ten, 0.9) == [9.0]
    with pytest.raises(InputError, match="share"):
        share_quantile(ten, 0)


REACHED = st.one_of(st.integers(0, 9).map(float), st.just(math.inf))


@settings(deadline=None, max_examples=50)
@given(st.lists(REACHED, min_size=1, max_size=9), st.integers(1, 20).map(lambda k: k / 20))
def test_a_quantile_is_the_least_value_that_the_share_stays_within(
    values: list[float], share: float
) -> None:
    (found,) = share_quantile(np.array(values)[:, np.newaxis], share)

    def within(value: float) -> bool:
        return (
            sum(other <= value for other in values) >= round(share * 20) / 20 * len(values) - 1e-9
        )

    assert found in values
    assert within(found)
    assert not any(within(value) for value in values if value < found)
