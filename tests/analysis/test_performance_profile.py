"""Performance profiles: small ones computed by hand, and what Dolan and Moré prove of all."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_runs import run

from slackopt.analysis import performance_profile, runs_frame
from slackopt.errors import InputError

TABLE = st.integers(1, 4).flatmap(
    lambda methods: st.lists(
        st.lists(st.none() | st.integers(1, 50), min_size=methods, max_size=methods),
        min_size=1,
        max_size=6,
    )
)


def frame(table: list[list[int | None]]) -> pd.DataFrame:
    """One row an instance, one column a method; None is a failed run."""
    rows = [
        {"instance_sha256": f"i{i}", "method": f"m{j}", "value": value}
        for i, values in enumerate(table)
        for j, value in enumerate(values)
    ]
    return pd.DataFrame(rows)


def test_ratios_computed_by_hand() -> None:
    # Best: 10, 20, 30. Ratios of m0: 1, 2, 1; of m1: 3, 1, failed.
    profile = performance_profile(frame([[10, 30], [40, 20], [30, None]]), "value")
    assert profile.index.tolist() == [1, 2, 3]
    assert profile.index.name == "tau"
    assert profile["m0"].tolist() == pytest.approx([2 / 3, 1, 1])
    assert profile["m1"].tolist() == pytest.approx([1 / 3, 1 / 3, 2 / 3])


def test_differences_computed_by_hand() -> None:
    table = frame([[0, 3], [5, 5], [None, 1]])
    profile = performance_profile(table, "value", "difference")
    assert profile.index.tolist() == [0, 3]
    assert profile["m0"].tolist() == pytest.approx([2 / 3, 2 / 3])
    assert profile["m1"].tolist() == pytest.approx([2 / 3, 1])
    with pytest.raises(InputError, match="'difference'"):
        performance_profile(table, "value")


def test_an_instance_that_nobody_solves_counts_for_nobody() -> None:
    for kind in ("ratio", "difference"):
        profile = performance_profile(frame([[1, 2], [None, None]]), "value", kind)
        assert profile.iloc[-1].tolist() == [0.5, 0.5]
    nothing = performance_profile(frame([[None, None]]), "value")
    assert nothing.index.tolist() == [1]
    assert nothing.iloc[0].tolist() == [0, 0]


def test_runs_of_one_method_share_the_weight_of_the_instance() -> None:
    table = pd.concat([frame([[1, 2]]), frame([[4, 2]])])  # m0 twice: 1 and 4; m1 twice: 2
    profile = performance_profile(table, "value")
    assert profile["m0"].tolist() == [0.5, 0.5, 1.0]
    assert profile["m1"].tolist() == [0.0, 1.0, 1.0]


def test_instances_that_a_method_was_not_run_on_are_left_out() -> None:
    table = frame([[1, 2], [1, 2]]).iloc[:-1]
    profile = performance_profile(table, "value")
    assert profile["m1"].tolist() == [0, 1]
    with pytest.raises(InputError, match="no instance was run by all methods"):
        performance_profile(table.iloc[[0, 1, 2]].iloc[[1, 2]], "value")


def test_runs_that_do_not_count_have_failed() -> None:
    runs = runs_frame(
        [
            run("a", "milp", makespan=10, wall_s=2, status="optimal", bound=10),
            run("a", "cpsat", makespan=10, wall_s=1),
        ]
    )
    profile = performance_profile(runs, "wall_s", counts="proved")
    assert profile.columns.tolist() == ["cpsat", "milp"]
    assert profile.iloc[-1].tolist() == [0, 1]


@settings(deadline=None, max_examples=30)
@given(TABLE)
def test_profiles_are_distributions(table: list[list[int | None]]) -> None:
    profile = performance_profile(frame(table), "value")
    steps = profile.to_numpy()
    assert profile.index.is_monotonic_increasing
    assert profile.index[0] == 1
    assert np.all((steps >= 0) & (steps <= 1))
    assert np.all(np.diff(steps, axis=0) >= 0)
    # On every instance that is solved at all some method is best.
    solved = sum(any(value is not None for value in values) for values in table)
    assert profile.iloc[0].sum() >= solved / len(table) - 1e-9
    for j, name in enumerate(profile):
        share = sum(values[j] is not None for values in table) / len(table)
        assert profile[name].iloc[-1] == pytest.approx(share)


@settings(deadline=None, max_examples=30)
@given(TABLE, st.randoms(use_true_random=False))
def test_neither_order_nor_unit_matter(table: list[list[int | None]], random: object) -> None:
    given_frame = frame(table)
    shuffled = given_frame.sample(frac=1, random_state=random.randrange(1000))  # type: ignore[attr-defined]
    scaled = given_frame.assign(value=given_frame["value"].astype(float) * 4)  # exact in binary
    expected = performance_profile(given_frame, "value")
    for other in (shuffled, scaled):
        pd.testing.assert_frame_equal(performance_profile(other, "value"), expected)


def test_what_makes_no_profile_is_refused() -> None:
    with pytest.raises(InputError, match="no column 'time'"):
        performance_profile(frame([[1]]), "time")
    with pytest.raises(InputError, match="below 0"):
        performance_profile(frame([[-1]]), "value", "difference")
