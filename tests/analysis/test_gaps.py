"""Gaps over time and budget: step functions computed by hand."""

from typing import Literal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_runs import run

from slackopt.analysis import gap_over_budget, gap_over_time, runs_frame
from slackopt.analysis.gap_over_time import step_values
from slackopt.errors import InputError

PATH = ((1.0, 200, None), (2.0, 200, 100), (4.0, 150, 100), (8.0, 110, 100))


def test_ends_are_steps_that_hold_from_their_time_on() -> None:
    makespan, bound = step_values(PATH, np.array([0.5, 1.0, 1.9, 4.0, 100.0]))
    np.testing.assert_array_equal(makespan, [np.nan, 200, 200, 150, 110])
    np.testing.assert_array_equal(bound, [np.nan, np.nan, np.nan, 100, 100])


def test_the_gap_of_one_run() -> None:
    frame = runs_frame([run(makespan=110, bound=100, trajectory=PATH)])
    own = gap_over_time(frame, grid=[1, 2, 3, 4, 8, 99])
    assert own.index.name == "seconds"
    np.testing.assert_allclose(own["milp"], [np.nan, 1.0, 1.0, 0.5, 0.1, 0.1])
    best = gap_over_time(frame, reference="best", grid=[0.5, 1, 4])
    np.testing.assert_allclose(best["milp"], [np.nan, 1.0, 0.5])


def test_a_share_of_the_runs_has_to_be_within_the_gap() -> None:
    slow = tuple((10 * seconds, plan, bound) for seconds, plan, bound in PATH)
    runs = [
        run("a", makespan=110, bound=100, trajectory=PATH),
        run("b", makespan=110, bound=100, trajectory=slow),
        run("c", result=False, outcome="crash"),
    ]
    frame = runs_frame(runs)
    grid = [8.0, 80.0]
    np.testing.assert_allclose(gap_over_time(frame, share=1 / 3, grid=grid)["milp"], [0.1, 0.1])
    np.testing.assert_allclose(gap_over_time(frame, share=0.5, grid=grid)["milp"], [np.nan, 0.1])
    # The crashed run never has a gap, so all three never do, and the method is left out.
    assert gap_over_time(frame, share=1, grid=grid).empty


def test_rules_have_a_gap_to_the_best_bound_only() -> None:
    frame = runs_frame(
        [
            run("a", "slackswap", makespan=120, trajectory=((0.1, 120, None),)),
            run("a", "bound", bound=100, trajectory=((0.5, None, 100),)),
        ]
    )
    assert gap_over_time(frame).empty
    assert gap_over_time(frame, reference="best", grid=[1])["slackswap"].tolist() == [0.2]


def test_the_grid_reaches_from_the_first_event_to_the_last() -> None:
    frame = runs_frame([run(makespan=110, bound=100, trajectory=PATH)])
    found = gap_over_time(frame)
    assert found.index[0] == pytest.approx(1.0)
    assert found.index[-1] == 8.0
    assert found["milp"].iloc[-1] == 0.1
    assert gap_over_time(runs_frame([])).empty
    for grid in ([2, 1], [1, 1], [0, np.inf]):
        with pytest.raises(InputError, match="rising"):
            gap_over_time(frame, grid=grid)


@settings(deadline=None, max_examples=30)
@given(st.lists(st.tuples(st.floats(0.001, 100), st.integers(100, 200)), min_size=1, max_size=8))
def test_a_gap_never_rises_while_plans_only_improve(points: list[tuple[float, int]]) -> None:
    best, path = 10**9, []
    for seconds, plan in sorted(points):
        best = min(best, plan)
        path.append((seconds, best, 90))
    frame = runs_frame([run(makespan=best, bound=90, trajectory=tuple(path))])
    values = gap_over_time(frame)["milp"].to_numpy()
    assert np.all(np.diff(values) <= 0)
    assert values[-1] == (best - 90) / 90


def test_a_second_run_that_finds_a_bad_plan_late_does_not_raise_the_curve() -> None:
    # The case that was seen: half of two runs are within 0.1 from the first second on.
    frame = runs_frame(
        [
            run("a", makespan=110, bound=100, trajectory=((1.0, 110, 100),)),
            run("b", makespan=300, bound=100, trajectory=((5.0, 300, 100),)),
        ]
    )
    assert gap_over_time(frame, grid=[1, 5])["milp"].tolist() == [0.1, 0.1]


ENDS = st.one_of(st.none(), st.integers(1, 300))
POINTS = st.lists(st.tuples(st.integers(0, 20).map(float), ENDS, ENDS), max_size=6)
RUNS = st.lists(st.tuples(st.sampled_from(["a", "b"]), POINTS), min_size=1, max_size=6)


@settings(deadline=None, max_examples=60)
@given(RUNS, st.sampled_from(["own", "best"]), st.sampled_from([0.1, 0.5, 0.9, 1.0]))
def test_no_curve_rises_whatever_the_runs(
    runs: list[tuple[str, list[tuple[float, int | None, int | None]]]],
    reference: Literal["own", "best"],
    share: float,
) -> None:
    """Also of files whose points stand in no order, get worse or have bounds above plans."""
    made = []
    for k, (name, points) in enumerate(runs):
        bounds = [bound for _, _, bound in points if bound]
        plans = [plan for _, plan, _ in points if plan is not None]
        made.append(
            run(
                name,
                makespan=min(plans, default=None),
                bound=max(bounds, default=None),
                trajectory=tuple(points),
                task={"seed": k},
            )
        )
    found = gap_over_time(runs_frame(made), reference=reference, share=share, grid=range(22))
    for name in found:
        values = found[name].fillna(np.inf).to_numpy()
        assert not np.any(values[1:] > values[:-1])


def test_gap_over_budget_computed_by_hand() -> None:
    runs = [
        run(name, method, makespan=makespan, bound=bound, budget=budget)
        for name, budget, method, makespan, bound in (
            ("a", 0.3, "milp", 101, 100),
            ("a", 0.3, "slackswap", 110, None),
            ("b", 0.3, "milp", 102, 100),
            ("b", 0.3, "slackswap", None, None),
            ("a", 0.5, "milp", 100, 100),
            ("a", 0.5, "slackswap", 105, None),
            ("a", 0.5, "bound", None, 99),
        )
    ]
    frame = runs_frame(runs)
    found = gap_over_budget(frame)
    assert found.index.tolist() == [0.3, 0.5]
    assert list(found.columns) == ["milp", "slackswap"]  # `bound` has no plan, so no gap
    np.testing.assert_allclose(found["milp"], [0.01, 0.0])  # the lower one of two: half of them
    np.testing.assert_allclose(found["slackswap"], [0.1, 0.05])
    worst = gap_over_budget(frame, share=1)
    np.testing.assert_allclose(worst["milp"], [0.02, 0.0])
    np.testing.assert_allclose(worst["slackswap"], [np.nan, 0.05])
    with pytest.raises(InputError, match="no column 'none'"):
        gap_over_budget(frame, column="none")


def test_budgets_as_asked_are_one_budget_whatever_the_bytes() -> None:
    runs = [
        run(name, makespan=110, bound=100, budget=share, features={"budget_fraction": "0.5"})
        for name, share in (("a", 0.499), ("b", 0.5))
    ]
    assert gap_over_budget(runs_frame(runs)).index.tolist() == [0.5]
