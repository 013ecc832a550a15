"""`solve` on the exact and heuristic side: statuses, ends that never cross, verification."""

import random

import pytest
from random_steps import chained_instance, random_instance

import slackopt as so
from slackopt.simulation.evaluator import Evaluator

SEEDS = ("bert-large", "gpt2-xl", "llama-7b")


def small_transformer(budget: float, attention: str = "eager") -> so.Instance:
    graph = so.profiles.transformer("bert-large", batch=8, num_layers=3, attention=attention)
    return so.Instance.from_graph(graph, device="a100-pcie4", budget=budget)


@pytest.mark.parametrize("budget", [0.45, 0.6, 0.8])
def test_milp_certifies_a_small_transformer(budget: float) -> None:
    instance = small_transformer(budget)
    result = so.solve(instance, "milp", time_limit=20, gap=1e-3)
    assert result.status in ("optimal", "feasible")
    assert result.lower_bound_ns is not None
    assert result.makespan_ns is not None
    assert instance.ideal_ns <= result.lower_bound_ns <= result.makespan_ns
    assert result.gap is not None
    assert result.gap <= 0.02
    so.verify(instance, result)
    for rule in ("slackswap", "slackswap-timeline", "swap-all"):
        other = so.solve(instance, rule)
        if other.makespan_ns is not None:
            assert result.makespan_ns <= other.makespan_ns
            assert result.lower_bound_ns <= other.makespan_ns


def test_milp_on_random_steps_never_contradicts_a_plan() -> None:
    rng = random.Random(5)
    solved = 0
    for i in range(30):
        instance = random_instance(rng) if i % 2 else chained_instance(rng)
        result = so.solve(instance, "milp", time_limit=1.0, gap=1e-6)
        if result.status == "infeasible":
            assert result.makespan_ns is None
            continue
        evaluator = Evaluator(instance)
        for _ in range(40):
            decisions = [
                rng.choice(evaluator.options(t)) for t in range(instance.lifetimes.num_tensors)
            ]
            makespan = evaluator.makespan_ns(decisions)
            if makespan is not None and result.lower_bound_ns is not None:
                assert result.lower_bound_ns <= makespan
        if result.plan is not None:
            so.verify(instance, result)
            solved += 1
    assert solved > 10


def test_trajectory_moves_inwards_and_is_complete() -> None:
    result = so.solve(small_transformer(0.5), "milp", time_limit=10)
    makespans = [m for _, m, _ in result.trajectory if m is not None]
    bounds = [b for _, _, b in result.trajectory if b is not None]
    seconds = [s for s, _, _ in result.trajectory]
    assert makespans == sorted(makespans, reverse=True)
    assert bounds == sorted(bounds)
    assert seconds == sorted(seconds)
    assert (makespans[-1], bounds[-1]) == (result.makespan_ns, result.lower_bound_ns)
    assert len(result.notes) >= len(result.trajectory)


def test_budget_of_the_peak_is_proved_optimal() -> None:
    result = so.solve(small_transformer(1.0), "milp", time_limit=10)
    assert (result.status, result.stopped_by) == ("optimal", "proof")
    assert result.makespan_ns == result.ideal_ns == result.lower_bound_ns


def test_budget_below_the_working_set_is_infeasible_for_every_method() -> None:
    instance = small_transformer(0.05)
    for method in ("milp", "slackswap"):
        result = so.solve(instance, method)
        assert (result.status, result.stopped_by) == ("infeasible", "proof")
        assert result.plan is None
        assert result.lower_bound_ns is None
        assert "needs" in result.notes[-1]
        so.verify(instance, result)


@pytest.mark.parametrize("limit", [0.001, 0.05])
def test_tiny_time_limits_leave_a_valid_result(limit: float) -> None:
    instance = small_transformer(0.5)
    result = so.solve(instance, "milp", time_limit=limit)
    assert result.wall_s is not None
    assert result.status in ("feasible", "no_solution", "optimal")
    if result.plan is not None:
        so.verify(instance, result)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"method": "nope"}, "method 'nope' is unknown"),
        ({"time_limit": -1.0}, "time limit -1.0"),
        ({"time_limit": float("nan")}, "time limit nan"),
        ({"gap": 2.0}, "gap 2.0"),
        ({"threads": 0}, "threads 0"),
        ({"solver": "nope"}, "solver 'nope'"),
        ({"method": "milp", "no_such": 1}, "no_such"),
    ],
)
def test_wrong_options_are_named(options: dict[str, object], words: str) -> None:
    with pytest.raises(so.InputError, match=words):
        so.solve(small_transformer(0.5), **options)  # type: ignore[arg-type]


@pytest.mark.slow
@pytest.mark.parametrize("model", SEEDS)
@pytest.mark.parametrize("attention", ["flash", "eager"])
def test_milp_does_not_lose_to_slackswap_on_the_seed_instances(model: str, attention: str) -> None:
    instance = so.read_instance(f"instances/slackswap/{model}-{attention}.json")
    result = so.solve(instance, "milp", time_limit=5)
    best = min(
        r.makespan_ns
        for r in (so.solve(instance, rule) for rule in ("slackswap", "slackswap-timeline"))
        if r.makespan_ns is not None
    )
    assert result.makespan_ns is not None
    assert result.makespan_ns <= best
    so.verify(instance, result)
