"""`exact`, `bound` and the exported models."""

import random
from pathlib import Path

import highspy
import pytest
from random_steps import chained_instance, random_instance

import slackopt as so
from slackopt.solvers.export import export_model


@pytest.fixture(scope="module")
def instance() -> so.Instance:
    graph = so.profiles.transformer("bert-large", batch=8, num_layers=3, attention="eager")
    return so.Instance.from_graph(graph, device="a100-pcie4", budget=0.5)


def test_exact_is_at_least_as_good_as_its_parts(instance: so.Instance) -> None:
    exact = so.solve(instance, "exact", time_limit=12)
    bound = so.solve(instance, "bound")
    rounded = so.solve(instance, "round")
    assert exact.lower_bound_ns is not None
    assert exact.makespan_ns is not None
    assert bound.lower_bound_ns is not None
    assert exact.lower_bound_ns >= bound.lower_bound_ns
    assert rounded.makespan_ns is None or exact.lower_bound_ns <= rounded.makespan_ns
    so.verify(instance, exact)
    so.verify(instance, bound)


def test_bound_has_a_certificate_and_no_plan(instance: so.Instance) -> None:
    result = so.solve(instance, "bound")
    assert (result.status, result.stopped_by) == ("bounded", "proof")
    assert result.plan is None
    assert result.bound_certificate
    assert any("proved without a solver" in line for line in so.verify(instance, result))


@pytest.mark.parametrize("suffix", [".mps", ".lp"])
def test_an_exported_model_has_the_same_optimum(
    instance: so.Instance, suffix: str, tmp_path: Path
) -> None:
    path = tmp_path / f"model{suffix}"
    assert export_model(instance, path) > 0
    highs = highspy.Highs()
    highs.setOptionValue("output_flag", False)
    highs.readModel(str(path))
    highs.setOptionValue("time_limit", 10.0)
    highs.run()
    info = highs.getInfo()
    result = so.solve(instance, "exact", time_limit=12)
    assert result.makespan_ns is not None
    # The exported model is the relaxation: its bound, in units of 1e-5 of the ideal step, is at
    # most what the best plan adds, and above what the LP alone proves it may not fall.
    unit = instance.ideal_ns / 1e5
    bound = so.solve(instance, "bound").lower_bound_ns
    assert bound is not None
    assert info.mip_dual_bound * unit <= result.makespan_ns - instance.ideal_ns + unit
    assert info.mip_dual_bound * unit >= bound - instance.ideal_ns - unit


def test_export_refuses_other_endings(instance: so.Instance, tmp_path: Path) -> None:
    with pytest.raises(so.InputError, match=r"\.mps"):
        export_model(instance, tmp_path / "model.txt")


def test_contradicting_rows_prove_infeasibility_as_enumeration_does() -> None:
    rng = random.Random(1)
    found = 0
    for i in range(500):
        instance = random_instance(rng) if i % 2 else chained_instance(rng)
        result = so.solve(instance, "bound")
        if result.status != "infeasible" or result.infeasibility_certificate is None:
            continue  # the working-set check, which needs no rows, is tested elsewhere
        found += 1
        lines = so.verify(instance, result)
        assert any("contradict each other" in line for line in lines)
        assert so.solve(instance, "enumerate", time_limit=20).plan is None
        wrong = result.model_copy(update={"infeasibility_certificate": ()})
        with pytest.raises(so.CheckError, match="don't contradict"):
            so.verify(instance, wrong)
    assert found >= 2


def test_exact_proves_small_instances_optimal() -> None:
    path = Path(__file__).parents[2] / "instances" / "tiny" / "activations.json.gz"
    instance = so.read_instance(path)
    result = so.solve(instance, "exact", time_limit=20)
    truth = so.solve(instance, "enumerate", time_limit=60)
    assert result.status == truth.status == "optimal"
    assert result.makespan_ns == truth.makespan_ns
