"""The table of runs: every column, every type, and what is best over all runs."""

import numpy as np
import pandas as pd
import pytest
from made_runs import run

from slackopt.analysis import runs_frame
from slackopt.analysis.frame import COLUMNS


def test_columns_and_types_are_always_the_same() -> None:
    full = runs_frame([run(makespan=120, bound=110), run("two", "slackswap", result=False)])
    for frame in (full, full.iloc[:1], runs_frame([])):
        assert list(frame.columns) == list(COLUMNS)
        assert {name: str(kind) for name, kind in frame.dtypes.items()} == dict(COLUMNS)


def test_tags_are_columns_by_name() -> None:
    frame = runs_frame(
        [run(task={"tags": {"b": "x", "a": "y"}}), run("two", task={"tags": {"c": "z"}})]
    )
    assert list(frame.columns)[len(COLUMNS) :] == ["tag_a", "tag_b", "tag_c"]
    assert frame["tag_a"].tolist() == ["y", pd.NA]


def test_the_best_of_an_instance_is_over_all_its_runs() -> None:
    frame = runs_frame(
        [
            run("a", "bound", bound=110),
            run("a", "slackswap", makespan=132),
            run("a", "milp", makespan=121, bound=105),
            run("b", "slackswap", makespan=200),
        ]
    )
    assert frame["best_lower_bound_ns"].tolist() == [110, 110, 110, pd.NA]
    assert frame["best_makespan_ns"].tolist() == [121, 121, 121, 200]
    assert frame["gap_to_bound"].tolist()[1:3] == [(132 - 110) / 110, (121 - 110) / 110]
    assert frame["gap_to_best"].tolist()[1:3] == [(132 - 121) / 121, 0]
    assert np.isnan(frame["gap_to_bound"][0])
    assert np.isnan(frame["gap_to_bound"][3])
    assert frame["gap"].tolist()[2] == (121 - 105) / 105
    assert frame["conflict"].isna().all()


def test_the_same_name_with_another_budget_is_another_instance() -> None:
    frame = runs_frame([run("a", bound=110, budget=0.5), run("a", bound=105, budget=0.7)])
    assert frame["best_lower_bound_ns"].tolist() == [110, 105]
    assert frame["budget_share"].tolist() == [0.5, 0.7]


def test_a_bound_above_a_plan_is_a_conflict_of_that_instance_only() -> None:
    frame = runs_frame(
        [
            run("a", "liar", bound=130),
            run("a", "slackswap", makespan=120),
            run("b", makespan=120, bound=120),
        ]
    )
    assert frame["conflict"].notna().tolist() == [True, True, False]
    text = frame["conflict"][0]
    assert all(part in text for part in ("liar", "130 ns", "slackswap", "120 ns"))
    assert frame["best_lower_bound_ns"].tolist() == [pd.NA, pd.NA, 120]
    assert frame["gap_to_best"].isna().tolist() == [True, True, False]


def test_a_proof_of_infeasibility_beside_a_plan_is_a_conflict() -> None:
    frame = runs_frame(
        [run("a", "bound", status="infeasible"), run("a", "slackswap", makespan=120)]
    )
    assert "no plan exists" in frame["conflict"][0]


def test_results_in_error_count_for_nothing() -> None:
    frame = runs_frame([run("a", "liar", bound=130, status="error"), run("a", makespan=120)])
    assert frame["conflict"].isna().all()
    assert frame["best_lower_bound_ns"].isna().all()
    assert frame["has_plan"].tolist() == [False, True]


def test_a_run_without_a_result_has_what_its_task_and_features_say() -> None:
    frame = runs_frame(
        [run(result=False, outcome="crash", detail="ended by signal 9", signal="SIGKILL")]
    )
    row = frame.iloc[0]
    assert row["outcome"] == "crash"
    assert row["reason"] == "ended by signal 9"
    assert row["ideal_ns"] == 100
    assert row["device"] == "a100-pcie4"
    assert not row["has_plan"]
    assert pd.isna(row["status"])
    assert row["trajectory"] == ()


@pytest.mark.parametrize(
    ("given", "share"), [("0.4", 0.4), ("40%", 0.4), ("2/5", 0.4), (0.4, 0.4), ("12GiB", None)]
)
def test_budget_fractions_are_read_as_users_write_them(given: object, share: float | None) -> None:
    frame = runs_frame([run(result=False, features={"budget_fraction": given})])
    if share is None:
        assert np.isnan(frame["budget_fraction"][0])
    else:
        assert frame["budget_fraction"][0] == frame["budget_share"][0] == share


def test_features_of_a_wrong_type_are_unknown() -> None:
    frame = runs_frame([run(features={"num_ops": "many", "device": 3, "num_tensors": True})])
    assert frame[["num_ops", "device", "num_tensors"]].isna().all(axis=None)


def test_large_counts_stay_exact() -> None:
    big = 2**53 + 1
    frame = runs_frame([run(makespan=big, bound=big)])
    assert frame["makespan_ns"][0] == big
    assert frame["best_lower_bound_ns"][0] == big


def test_labels_name_what_differs() -> None:
    runs = [
        run("a", "milp", task={"solver": "highs", "seed": 1}),
        run("a", "milp", task={"solver": "cbc", "seed": 2}),
        run("a", "milp", task={"solver": "cbc", "seed": 3}),
        run("a", "bound", task={"seed": 3}),
        run("a", "knapsack", task={"options": {"cap": 3}}),
        run("b", "knapsack"),
    ]
    assert runs_frame(runs)["label"].tolist() == [
        "milp (solver=highs)",
        "milp (solver=cbc)",
        "milp (solver=cbc)",
        "bound",
        "knapsack (cap=3)",
        "knapsack",
    ]


def test_a_label_of_the_study_file_stands_for_the_method() -> None:
    tight = {"options": {"cap": 3, "threads": 4}, "tags": {"label": "tight"}}
    runs = [
        run("a", "knapsack", task=tight),
        run("b", "knapsack", task=tight),
        run("b", "knapsack"),
        run("c", "milp", task={"options": {"threads": 4}}),
        run("c", "milp"),
    ]
    assert runs_frame(runs)["label"].tolist() == [
        "tight",
        "tight",
        "knapsack",
        "milp (option threads=4)",
        "milp",
    ]


def test_another_version_is_another_label() -> None:
    runs = [run("a", "milp"), run("b", "milp", slackopt_version="0.2.0")]
    assert runs_frame(runs)["label"].tolist() == ["milp (slackopt=0.1.0)", "milp (slackopt=0.2.0)"]
