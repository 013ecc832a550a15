"""Evict under memory pressure: a plan nearly wherever one exists, and mostly the best one."""

from __future__ import annotations

from random import Random

import pytest
from handmade import chain, checked, instance, link
from random_steps import random_instance
from test_rule_chain import random_chain

from slackopt import solve
from slackopt.graph import Graph
from slackopt.heuristics import NoPlanError, heuristics
from slackopt.heuristics.common.fitting import Fitting
from slackopt.heuristics.common.pressure_pass import PressurePass, Setting
from slackopt.heuristics.pressure import passes
from slackopt.instance import Instance
from slackopt.profiles import random_graph
from slackopt.simulation.evaluator import Evaluator
from slackopt.simulation.sequence import KEEP, RECOMPUTE, SWAP

pressure = heuristics()["pressure"]


@pytest.mark.parametrize("seed", range(20))
def test_any_instance_gives_a_plan_that_runs_or_a_reason(seed: int) -> None:
    question = random_instance(Random(seed), max_ops=20)
    before = question.model_dump()
    try:
        plan = pressure(question, max_evaluations=200)
    except NoPlanError:
        with pytest.raises(NoPlanError, match="neither a pass nor the repair of one fits"):
            pressure(question, max_evaluations=200)
    else:
        checked(question, plan)
        assert pressure(question, max_evaluations=200) == plan
    assert question.model_dump() == before


def test_a_plan_wherever_one_exists_on_small_tight_steps() -> None:
    seen = optimal = 0
    rng = Random(1)
    while seen < 15:
        graph = random_chain(rng, 10)
        low, high = max(graph.lifetimes.working_set_bytes), graph.unlimited_peak_bytes
        question = instance(graph, rng.randint(low, (2 * low + high) // 3))
        truth = solve(question, "enumerate", time_limit=None)
        if truth.makespan_ns is None:
            continue
        seen += 1
        plan = pressure(question, max_evaluations=1000)
        optimal += checked(question, plan).makespan_ns == truth.makespan_ns
    assert optimal == seen


def test_the_optimum_of_longer_chains() -> None:
    for seed in range(3):
        question = instance(random_chain(Random(seed), 20), 0.45)
        best = solve(question, "chain")
        assert solve(question, "pressure").makespan_ns == best.makespan_ns


def test_swaps_where_the_link_hides_it_and_drops_where_it_does_not() -> None:
    graph = chain([100] * 8)
    fast, slow = (instance(graph, 500, link(rate)) for rate in (100.0, 0.01))
    assert set(pressure(fast).decisions.values()) == {"swap"}
    assert set(pressure(slow, max_evaluations=300).decisions.values()) == {"recompute"}


def test_keeps_everything_where_it_fits() -> None:
    assert not pressure(instance(chain([100] * 6), 1.0)).decisions


def test_a_budget_below_any_plan() -> None:
    question = instance(chain([100] * 6), 150)
    with pytest.raises(NoPlanError, match="neither a pass nor the repair of one fits"):
        pressure(question, max_evaluations=500)


def test_out_of_time_before_the_first_pass() -> None:
    with pytest.raises(NoPlanError, match="time is up"):
        pressure(instance(chain([100] * 6), 400), time_limit=0.0)


@pytest.mark.parametrize(("seed", "budget"), [(41, 0.4), (55, 0.4), (6, 0.45), (2, 0.5)])
def test_repair_finds_what_no_pass_finds(seed: int, budget: float) -> None:
    sizes = {"min_bytes": 2**23, "max_bytes": 2**25}
    drawn = random_graph("series-parallel", seed=seed, num_forward_ops=20, **sizes)
    forward = (op.model_copy(update={"recomputable": op.phase == "forward"}) for op in drawn.ops)
    stay = (tensor.model_copy(update={"swappable": False}) for tensor in drawn.tensors)
    graph = Graph(name=drawn.name, ops=tuple(forward), tensors=tuple(stay))
    question = instance(graph, budget)
    evaluator = Evaluator(question)
    assert all(evaluator.makespan_ns(decisions) is None for decisions in passes(question))
    checked(question, pressure(question, max_evaluations=1000))


def test_a_pass_drops_the_cheap_and_the_large_first() -> None:
    # a1 is as cheap to rebuild as a2 and twice as large; b1 and b2 are needed at about one time.
    graph = chain([10, 40, 20, 10, 10, 10], [50, 1, 1, 50, 50, 50])
    tight: Instance = instance(graph, 90)
    decisions = PressurePass(tight, Setting(closeness=0.0)).run()
    assert decisions is not None
    index = graph.tensor_index
    assert decisions[index["a1"]] == RECOMPUTE
    assert decisions[index["a0"]] == KEEP


def test_fit_counts_a_swapped_tensor_as_away_between_its_uses() -> None:
    question = instance(chain([100] * 6), 500)
    fitting = Fitting(Evaluator(question), 0, 100, None)
    kept = [KEEP] * question.lifetimes.num_tensors
    swapped = [SWAP if t in question.lifetimes.candidates else KEEP for t in range(len(kept))]
    assert fitting.fit(kept).over
    assert fitting.fit(kept).makespan_ns is None
    assert not fitting.fit(swapped).over
    assert fitting.fit(swapped).makespan_ns == Evaluator(question).makespan_ns(swapped)
    assert fitting.fit(swapped, below_ns=1).late_ns == fitting.fit(swapped).makespan_ns
    assert fitting.evaluations == 6
