"""A piece of ``benchmarks/attack.py``, and that it notices what it is there for."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from random import Random

import pytest

import slackopt as so
from slackopt.simulation import simulate

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent / "benchmarks"))
import attack


@pytest.fixture(scope="module")
def instances() -> list[so.Instance]:
    rng = Random(5)
    return [attack.tiny_instance(rng, 300) for _ in range(12)]


def found_at(instance: so.Instance, result: so.Result, gap: float = 0.0) -> str:
    best, _, _ = attack.brute_force(instance)
    return "; ".join(attack.contradictions(instance, result, best, gap))


def test_no_method_contradicts_the_brute_force(tmp_path: Path) -> None:
    found = attack.Findings()
    for number in range(4):
        found.add(attack.attack(number, seed=7, time_limit=5.0, save=tmp_path, max_plans=200))
    assert found.contradictions == []
    assert found.statuses.total() == 4 * attack.SOLVES
    assert not list(tmp_path.iterdir())


def test_every_plan_that_can_be_written_down_is_simulated(instances: list[so.Instance]) -> None:
    instance = instances[0]
    count = 1
    for tensor, options in attack.choices(instance).items():
        decisions = [decision for decision, _ in options]
        assert decisions.count("keep") == 1, tensor
        count *= len(options)
    best, plan, simulated = attack.brute_force(instance)
    assert simulated == count > 1
    assert plan is not None
    assert simulate(instance, plan).makespan_ns == best


def forgeries(instance: so.Instance, result: so.Result) -> Iterator[tuple[str, so.Result]]:
    """Yield false claims, and what is said of each."""
    best = result.makespan_ns or 0
    wider = {"gap": float(Fraction(-1, best + 1)), "lower_bound_ns": best + 1}
    yield "above an accepted plan", result.model_copy(update=wider)
    yield "infeasible, and a plan", result.model_copy(update={"status": "infeasible"})
    yield "the best of all plans", result.model_copy(update={"makespan_ns": best - 1})
    yield "second simulator", result.model_copy(update={"makespan_ns": best + 1})
    yield "refused by verify", result.model_copy(update={"stall_ns": 10**9})
    yield "error: ", result.model_copy(update={"status": "error"})


def test_false_claims_are_noticed(instances: list[so.Instance]) -> None:
    forged = 0
    for instance in instances:
        result = so.solve(instance, "enumerate", gap=0.0)
        assert found_at(instance, result) == ""
        if result.plan is None:
            continue
        for words, false in forgeries(instance, result):
            assert words in found_at(instance, false)
            forged += 1
        slow = so.solve(instance, "swap-all")
        if slow.makespan_ns is not None and slow.makespan_ns > (result.makespan_ns or 0):
            false = slow.model_copy(update={"status": "optimal"})
            assert "optimal at" in found_at(instance, false)
            assert "optimal at" not in found_at(instance, false, gap=100.0)
            forged += 1
    assert forged > 40
