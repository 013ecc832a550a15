"""The knapsack solver and the rule."""

from __future__ import annotations

from itertools import combinations
from random import Random
from typing import Any

import pytest
from handmade import chain, checked, decided, instance, step
from hypothesis import given
from hypothesis import strategies as st
from ortools.algorithms.python import knapsack_solver

from slackopt.clock import time_limit
from slackopt.errors import InputError
from slackopt.heuristics import NoPlanError, heuristics
from slackopt.heuristics.knapsack import solve_knapsack

# memory, runtimes, capacity, value: PyTorch's tests of its partitioner's knapsack
# (TestActivationCheckpointingKnapsack in test/functorch/test_ac_knapsack.py).
REFERENCE: list[tuple[list[float], list[float], float, float]] = [
    ([2, 3, 2, 4, 1], [1, 2, 1, 3, 2], 5, 5),
    ([1, 1, 1], [1, 2, 3], 3, 6),
    ([10, 20, 30], [1, 2, 3], 5, 0),
    ([1, 2, 3], [10, 20, 30], 1, 10),
    ([0, 2, 3], [5, 2, 3], 5, 10),
    ([1, 2, 3], [0, 2, 3], 3, 3),
    ([0.5, 1.5, 2], [1, 2, 3], 2, 3),
    ([], [], 10, 0),
    ([0, 0, 0], [1, 2, 3], 0, 6),
    ([1, 1, 1], [2, 2, 2], 2, 4),
    ([100, 200, 300], [1000, 2000, 3000], 500, 5000),
    ([1, 2, 3], [1, 2, 3], 0, 0),
    ([1, 2, 3], [0, 0, 0], 6, 0),
]


@pytest.mark.parametrize(("memory", "runtimes", "capacity", "value"), REFERENCE)
def test_reference_values(
    memory: list[float], runtimes: list[float], capacity: float, value: float
) -> None:
    found, kept = solve_knapsack(memory, runtimes, capacity)
    assert found == value == sum(runtimes[i] for i in kept)
    assert sum(memory[i] for i in kept) <= capacity


def best_by_force(memory: list[Any], runtimes: list[Any], capacity: Any) -> Any:
    n = range(len(memory))
    return max(
        sum(runtimes[i] for i in chosen)
        for size in range(len(memory) + 1)
        for chosen in combinations(n, size)
        if sum(memory[i] for i in chosen) <= capacity
    )


small = st.integers(0, 12) | st.integers(0, 48).map(lambda x: x / 4)  # sums are exact


@given(st.lists(st.tuples(small, small), max_size=9), st.integers(0, 40))
def test_it_is_exact(items: list[tuple[float, float]], capacity: int) -> None:
    memory, runtimes = [m for m, _ in items], [r for _, r in items]
    found, kept = solve_knapsack(memory, runtimes, capacity)
    assert found == best_by_force(memory, runtimes, capacity)
    assert found == sum(runtimes[i] for i in kept)
    assert sum(memory[i] for i in kept) <= capacity
    assert kept == sorted(set(kept))


def test_equal_items_stay_cheap() -> None:
    # 600 items of three kinds, as the layers of a model give them: fast only with dominance.
    memory = [7, 11, 13] * 200
    runtimes = [10, 16, 19] * 200
    found, kept = solve_knapsack(memory, runtimes, 3001)
    assert sum(memory[i] for i in kept) <= 3001
    assert found >= 3001 * 19 // 13 - 19


def test_thousands_of_items_without_two_alike() -> None:
    # A frontier of undominated states grows without end here; a search by bounds does not.
    rng = Random(7)
    memory = [rng.randint(10**6, 10**8) for _ in range(3000)]
    runtimes = [rng.randint(10**3, 10**6) for _ in range(3000)]
    capacity = sum(memory) // 2
    found, kept = solve_knapsack(memory, runtimes, capacity)
    assert sum(memory[i] for i in kept) <= capacity
    kind = knapsack_solver.SolverType.KNAPSACK_MULTIDIMENSION_BRANCH_AND_BOUND_SOLVER
    other = knapsack_solver.KnapsackSolver(kind, "check")
    other.init(runtimes, [memory], [capacity])
    assert found == other.solve()


def test_numbers_beyond_64_bits_still_fit() -> None:
    memory = [3 * 10**20 + 1, 2 * 10**20 + 1, 2 * 10**20 - 1, 10**19]
    found, kept = solve_knapsack(
        memory, [5 * 10**30, 4 * 10**30, 4 * 10**30, 1], 4 * 10**20 + 10**6
    )
    assert kept == [1, 2]
    assert found == 8 * 10**30
    assert solve_knapsack([1, 2], [1, 1], 10**40) == (2, [0, 1])


def test_without_time_it_gives_a_filling_that_fits() -> None:
    with time_limit(0.0, now=lambda: 1.0):
        found, kept = solve_knapsack([5, 4, 4], [6, 4, 4], 8)
    assert kept == [0]
    assert found == 6


def test_it_keeps_what_is_worth_most_and_recomputes_the_rest() -> None:
    # Equal sizes, one cheap op in four.
    graph = chain([100] * 8, [40, 40, 40, 5, 40, 40, 40, 5])
    question = instance(graph, graph.unlimited_peak_bytes - 100)
    plan = heuristics()["knapsack"](question)
    assert decided(plan, "recompute") == {"a3"}
    assert checked(question, plan).recompute_ns == 5
    assert not decided(plan, "swap")


def test_a_smaller_capacity_keeps_less() -> None:
    question = instance(chain([100] * 6), 1.0)
    none = heuristics()["knapsack"](question, max_bytes=0)
    assert len(decided(none, "recompute")) == len(question.lifetimes.candidates)
    assert len(decided(heuristics()["knapsack"](question, max_bytes=200), "recompute")) < len(
        decided(none, "recompute")
    )
    with pytest.raises(InputError, match="max_bytes is -1"):
        heuristics()["knapsack"](question, max_bytes=-1)


def test_it_says_no_if_nothing_can_be_rebuilt() -> None:
    ops = [
        ("f0", "f", 1, [], ["a0"]),
        ("f1", "f", 1, ["a0"], ["a1"]),
        ("f2", "f", 1, ["a1"], ["a2"]),
        ("b1", "b", 1, ["a1", "a2"], []),
        ("b0", "b", 1, ["a0"], []),
    ]
    graph = step(ops, {"a0": 10, "a1": 10, "a2": 10}, fixed=["f0"])
    with pytest.raises(NoPlanError, match="any share of the activations"):
        heuristics()["knapsack"](instance(graph, 20))
