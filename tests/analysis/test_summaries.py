"""Summaries per instance and method, computed by hand."""

import math

import pandas as pd
import pytest
from made_runs import run

from slackopt.analysis import failures, per_instance, per_method, runs_frame
from slackopt.analysis.summaries import PER_INSTANCE, PER_METHOD, run_times
from slackopt.naming import distinct_names


@pytest.fixture
def frame() -> pd.DataFrame:
    return runs_frame(
        [
            run("a", "milp", makespan=110, bound=110, status="optimal", wall_s=1),
            run("a", "slackswap", makespan=121, wall_s=0),
            run("b", "milp", makespan=125, bound=100, wall_s=7),
            run("b", "slackswap", makespan=200, wall_s=0),
            run("c", "milp", outcome="crash", detail="ended by signal 9", result=False, wall_s=2),
            run("c", "slackswap", status="no_solution", wall_s=0),
        ]
    )


def test_methods(frame: pd.DataFrame) -> None:
    table = per_method(frame).set_index("method")
    milp, rule = table.loc["milp"], table.loc["slackswap"]
    assert milp[["instances", "runs", "failed", "with_plan", "proved", "best"]].tolist() == [
        *(3, 3, 1, 2, 1, 2)
    ]
    assert rule[["failed", "with_plan", "proved", "best"]].tolist() == [0, 2, 0, 0]
    assert milp["throughput_ratio"] == pytest.approx(math.sqrt(100 / 110 * 100 / 125))
    assert milp["gap"] == pytest.approx(0.125)  # of 0 and 0.25
    assert milp["gap_to_bound_max"] == pytest.approx(0.25)
    assert rule["gap_to_bound"] == pytest.approx((0.1 + 1.0) / 2)
    assert rule["gap_to_bound_p90"] == pytest.approx(1.0)
    # Of 1, 7 and 2.5 s (the killed run has the time of its process), shifted by 1 s.
    assert milp["time_s"] == pytest.approx((2 * 8 * 3.5) ** (1 / 3) - 1)
    assert milp["time_max_s"] == 7
    assert rule["time_s"] == 0
    assert pd.isna(rule["gap"])


def test_instances(frame: pd.DataFrame) -> None:
    table = per_instance(frame)
    assert table[["instance", "method"]].to_numpy().tolist() == [
        *(["a", "milp"], ["a", "slackswap"], ["b", "milp"]),
        *(["b", "slackswap"], ["c", "milp"], ["c", "slackswap"]),
    ]
    rule = table.iloc[1]
    assert rule["gap_to_bound"] == pytest.approx(0.1)
    assert rule["best_lower_bound_ns"] == 110
    assert pd.isna(rule["lower_bound_ns"])
    crashed = table.iloc[4]
    assert (crashed["runs"], crashed["failed"], crashed["with_plan"]) == (1, 1, 0)
    assert pd.isna(crashed["makespan_ns"])
    assert crashed["time_s"] == 2.5


def test_seeds_are_summarised() -> None:
    frame = runs_frame(
        [
            run("a", makespan=makespan, bound=bound, wall_s=wall_s, task={"seed": seed})
            for seed, (makespan, bound, wall_s) in enumerate(
                [(130, 100, 1.0), (120, 90, 2.0), (110, 95, 9.0)]
            )
        ]
    )
    (row,) = per_instance(frame).to_dict("records")
    assert (row["runs"], row["with_plan"]) == (3, 3)
    assert (row["makespan_ns"], row["lower_bound_ns"], row["time_s"]) == (110, 100, 2.0)
    assert row["gap_to_bound"] == pytest.approx(0.2)
    assert row["throughput_ratio"] == pytest.approx(100 / 120)


def test_a_plan_that_is_not_trusted_is_not_counted() -> None:
    frame = runs_frame([run("a", makespan=90, status="error"), run("b", makespan=120)])
    assert per_method(frame)["throughput_ratio"].tolist() == [pytest.approx(100 / 120)]
    assert per_instance(frame)["makespan_ns"].tolist() == [pd.NA, 120]


def test_failures_are_listed_with_their_reason(frame: pd.DataFrame) -> None:
    listed = failures(frame)
    assert listed[["instance", "method", "outcome", "reason"]].to_numpy().tolist() == [
        ["c", "milp", "crash", "ended by signal 9"]
    ]
    in_error = failures(runs_frame([run("a", status="error")]))
    assert in_error["outcome"].tolist() == ["error"]


def test_no_runs_make_empty_tables_of_the_same_types() -> None:
    nothing = runs_frame([])
    for table, columns in (
        (per_method(nothing), PER_METHOD),
        (per_instance(nothing), PER_INSTANCE),
    ):
        assert table.empty
        assert {name: str(kind) for name, kind in table.dtypes.items()} == dict(columns)
    assert failures(nothing).empty
    assert run_times(nothing).empty


def test_instances_of_one_name_and_budget_are_told_apart() -> None:
    runs = [run("one", method, makespan=120, bound=100) for method in ("milp", "slackswap")]
    other = run("one", "milp", result=False, outcome="timeout", features={"budget_fraction": 0.5})
    digest = "12345678" * 8
    other = other.model_copy(
        update={"task": other.task.model_copy(update={"instance_sha256": digest})}
    )
    frame = runs_frame([*runs, other, run("one", "milp", budget=0.3), run("two", "milp")])
    table = per_instance(frame)
    assert len(table) == 5
    first = runs[0].task.instance_sha256[:8]
    names = ["one", "one [12345678]", f"one [{first}]", f"one [{first}]", "two"]
    assert sorted(table["instance"].tolist()) == sorted(names)
    assert failures(frame)["instance"].tolist() == ["one [12345678]"]
    # Where the first digits are the same, more of them stand there.
    assert distinct_names([("a", digest, 1), ("a", "12345678a" + digest[9:], 1)])[digest] == (
        "a [123456781]"
    )
