"""Any rule on any valid instance gives a plan that passes every check, or says that it has none."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from handmade import checked
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from random_steps import instances, random_instance

from slackopt.graph import Graph
from slackopt.heuristics import NoPlanError, heuristics
from slackopt.heuristics.registry import option_names
from slackopt.instance import Instance
from slackopt.plan import Plan

# Searches, which have a time limit, are tested by themselves.
RULES = sorted(n for n, rule in heuristics().items() if "time_limit" not in option_names(rule))
OPTIONS: dict[str, list[dict[str, Any]]] = {
    "layer-checkpoint": [{"num_layers": 2}],
    "sqrt-n": [{"every": 1}, {"every": 3}],
    "vdnn": [{"layers": "label"}, {"prefetch": "early"}, {"layers": "label", "prefetch": "early"}],
    "teraio": [{"recompute": False}, {"prefetch": "late"}],
    "memo": [{"keep_last": 0}],
    "knapsack": [{"max_bytes": 10}],
    "largest-first-offload": [{"min_bytes": 0}, {"max_bytes": 10, "min_bytes": 1}],
    "slackswap": [
        *({"ranking": r} for r in ("rebuild-time", "size", "idle-time", "production", "random")),
        {"ties": "last"},
        {"use_all_slack": True},
        {"over_free": 0.1, "slack": "timeline"},
    ],
}
CASES = [(name, options) for name in RULES for options in ({}, *OPTIONS.get(name, []))]


def labelled(instance: Instance, rng: Random) -> Instance:
    """Return the instance with labels on runs of forward ops and on their backward ops."""
    count = rng.randint(1, 4)
    graph = instance.graph
    forward = max(1, instance.lifetimes.num_forward)
    ops = tuple(
        op.model_copy(
            update={"layer": f"layer {min(count - 1, min(k, forward - 1) * count // forward)}"}
        )
        for k, op in enumerate(graph.ops)
    )
    return Instance.from_graph(
        Graph(name=graph.name, ops=ops, tensors=graph.tensors),
        device=instance.device,
        budget=instance.budget_bytes,
    )


def holds(rule: Callable[..., Plan], instance: Instance, options: dict[str, Any]) -> bool:
    """Check the properties of one rule on one instance; return whether it has a plan."""
    before = instance.model_dump()
    try:
        plan = rule(instance, **options)
    except NoPlanError:
        with pytest.raises(NoPlanError, match="finds no plan for instance"):
            rule(instance, **options)
        assert instance.model_dump() == before
        return False
    assert instance.model_dump() == before
    assert rule(instance, **options) == plan
    assert plan.provenance["method"]
    checked(instance, plan)
    return True


@pytest.mark.parametrize(("name", "options"), CASES, ids=lambda value: str(value))
def test_random_instances(name: str, options: dict[str, Any]) -> None:
    rule = heuristics()[name]
    found = 0
    for seed in range(60):
        rng = Random(seed)
        question = random_instance(rng, max_ops=20)
        found += holds(rule, question if seed % 3 else labelled(question, rng), options)
    if name not in ("selective", "memo"):  # random graphs hardly ever have an attention
        assert found


@given(question=instances(max_ops=8), data=st.data())
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_drawn_instances(question: Instance, data: st.DataObject) -> None:
    name, options = data.draw(st.sampled_from(CASES))
    holds(heuristics()[name], question, options)


@pytest.mark.parametrize(
    "name",
    [n for n in RULES if n in ("capuchin", "dtr", "knapsack", "mu-two", "teraio", "slackswap")],
)
def test_rules_that_look_at_the_budget_keep_everything_if_it_fits(name: str) -> None:
    for seed in range(20):
        question = random_instance(Random(seed))
        peak = question.graph.unlimited_peak_bytes
        roomy = Instance.from_graph(question.graph, device=question.device, budget=peak)
        assert not heuristics()[name](roomy).decisions
