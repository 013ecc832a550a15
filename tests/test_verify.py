"""`verify` notices every claim that doesn't hold."""

from typing import Any

import pytest
from pydantic import ValidationError

import slackopt as so
from slackopt.result import WindowMultiplier


@pytest.fixture(scope="module")
def solved() -> tuple[so.Instance, so.Result]:
    graph = so.profiles.transformer("bert-large", batch=8, num_layers=2, attention="eager")
    instance = so.Instance.from_graph(graph, device="a100-pcie4", budget=0.6)
    return instance, so.solve(instance, "milp", time_limit=5, gap=1e-3)


def test_a_true_result_passes_and_says_what_was_checked(
    solved: tuple[so.Instance, so.Result],
) -> None:
    instance, result = solved
    checked = so.verify(instance, result)
    assert any("plan simulated" in line for line in checked)
    assert any("proved without a solver" in line for line in checked)


@pytest.mark.parametrize(
    "field",
    [
        "makespan_ns",
        "recompute_ns",
        "stall_ns",
        "swapped_bytes",
        "recomputed_bytes",
        "peak_bytes",
        "budget_bytes",
        "ideal_ns",
    ],
)
def test_a_number_off_by_one_is_found(solved: tuple[so.Instance, so.Result], field: str) -> None:
    instance, result = solved
    wrong = result.model_copy(update={field: getattr(result, field) + 1})
    with pytest.raises(so.CheckError, match=field):
        so.verify(instance, wrong)


@pytest.mark.parametrize(
    "change",
    [
        {"gap": 0.0},
        {"throughput_ratio": 1.0},
        {"plan": None},
        {"status": "optimal", "options": {"gap": -1.0}},
    ],
)
def test_a_false_claim_is_found(
    solved: tuple[so.Instance, so.Result], change: dict[str, Any]
) -> None:
    instance, result = solved
    with pytest.raises(so.CheckError):
        so.verify(instance, result.model_copy(update=change))


def test_a_bound_above_the_plan_is_found(solved: tuple[so.Instance, so.Result]) -> None:
    instance, result = solved
    assert result.makespan_ns is not None
    wrong = result.model_copy(update={"lower_bound_ns": result.makespan_ns + 1})
    with pytest.raises(so.CheckError, match="above makespan"):
        so.verify(instance, wrong)


def test_a_bound_beyond_its_certificate_is_said(solved: tuple[so.Instance, so.Result]) -> None:
    instance, result = solved
    bare = result.model_copy(update={"bound_certificate": None})
    assert bare.lower_bound_ns is not None
    lines = so.verify(instance, bare)
    if bare.lower_bound_ns > instance.ideal_ns:
        assert any("solver's word" in line for line in lines)


def test_a_certificate_with_an_unknown_row_is_found(
    solved: tuple[so.Instance, so.Result],
) -> None:
    instance, result = solved
    bad = so.result.WindowMultiplier(row="memory[999999,start,none,none]", weight="1/2")
    with pytest.raises(so.CheckError, match="certificate"):
        so.verify(instance, result.model_copy(update={"bound_certificate": (bad,)}))


def test_a_result_of_another_instance_is_refused(solved: tuple[so.Instance, so.Result]) -> None:
    instance, result = solved
    other = so.Instance.from_graph(instance.graph, device="a100-pcie4", budget=0.7)
    with pytest.raises(so.InputError, match="give the instance it was made from"):
        so.verify(other, result)


def test_a_weight_over_zero_is_refused_at_the_door() -> None:
    with pytest.raises(ValidationError):
        WindowMultiplier(row="choice[1]", weight="1/0")
    assert WindowMultiplier(row="choice[1]", weight="1/10").weight == "1/10"
