"""A solver's point is rounded and checked, whatever the solver says of it."""

import numpy as np
import pytest
from small_models import covering, model

from slackopt.solvers.linear_model import LinearModel


def check(lines: LinearModel, x: list[float]) -> tuple[list[float] | None, str]:
    settled, fault = lines.settle(np.array(x))
    return (None if settled is None else settled.tolist()), fault


def test_a_point_is_rounded() -> None:
    assert check(covering(), [0, 1 - 5e-7, 0, 0, 1, -3e-7]) == ([0, 1, 0, 0, 1, 0], "")


@pytest.mark.parametrize(
    ("x", "fault"),
    [
        ([0, 1, 0, 0, 0.999, 0], "an integral column is 0.001 from an integer"),
        ([0, 1, 0, 0, 0, 0], "row 0 is exceeded by 7"),
        ([0, 2, 0, 0, 1, 0], "a column is outside its bounds"),
        ([0, 1, 0, 0, 1, -1], "a column is outside its bounds"),
        ([0, 1, 0, 0, 1, float("nan")], "it lacks values"),
        ([0, 1, 0, 0, 1], "it lacks values"),
    ],
)
def test_a_wrong_point_is_refused(x: list[float], fault: str) -> None:
    assert check(covering(), x) == (None, fault)


def test_rows_may_be_off_by_rounding_only() -> None:
    lines = model([1.0], [({0: -1.0}, -1000.0)], integer=False, upper=float("inf"))
    assert check(lines, [1000 - 1e-3])[0] is not None
    assert check(lines, [1000 - 1e-2])[0] is None


def test_no_rows_and_no_columns() -> None:
    assert check(model([1.0, 2.0], []), [0, 1]) == ([0, 1], "")
    assert check(model([], []), []) == ([], "")


@pytest.mark.parametrize("wrong", [float("nan"), float("inf")])
def test_numbers_are_finite(wrong: float) -> None:
    for costs, value, right in ((wrong, 1.0, 1.0), (1.0, wrong, 1.0), (1.0, 1.0, wrong)):
        with pytest.raises(ValueError, match="must be finite"):
            model([costs], [({0: value}, right)])
