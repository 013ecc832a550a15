"""The dynamic program over a chain: optimal on chains, in a sentence where there is no chain."""

from __future__ import annotations

import importlib
from random import Random

import pytest
from handmade import chain, checked, decided, instance, step

from slackopt import solve
from slackopt.graph import Graph, Op, Tensor
from slackopt.heuristics import NoPlanError, heuristics
from slackopt.heuristics.common.blocks import find_blocks
from slackopt.instance import Instance
from slackopt.lifetimes import ABSENT


def random_chain(rng: Random, n: int) -> Graph:
    """Make a chain whose backward ops read input, output or both, some op not to be run twice."""
    sizes = [rng.randint(1, 9) for _ in range(n)]
    ops = [
        Op(
            name=f"f{i}",
            phase="forward",
            duration_ns=rng.randint(1, 20),
            inputs=(f"a{i - 1}",) if i else ("x",),
            outputs=(f"a{i}",),
            workspace_bytes=rng.choice((0, 0, 2)),
            recomputable=rng.random() < 0.9,
        )
        for i in range(n)
    ]
    tensors = [Tensor(name="x", size_bytes=2, swappable=False)]
    tensors += [Tensor(name=f"a{i}", size_bytes=sizes[i], swappable=False) for i in range(n)]
    for i in reversed(range(n)):
        made, before = f"a{i}", f"a{i - 1}" if i else "x"
        reads = rng.choice(((made,), (before,), (before, made)))
        gradient = () if i == n - 1 else (f"g{i + 1}",)
        tensors.append(Tensor(name=f"g{i}", size_bytes=sizes[i], swappable=False))
        ops.append(
            Op(
                name=f"b{i}",
                phase="backward",
                duration_ns=rng.randint(1, 20),
                inputs=gradient
                + (reads if i < n - 1 else tuple({**dict.fromkeys(reads), made: 0})),
                outputs=(f"g{i}",),
                recomputable=False,
            )
        )
    return Graph(name="chain", ops=tuple(ops), tensors=tuple(tensors))


@pytest.mark.parametrize("seed", range(25))
def test_optimal_on_chains(seed: int) -> None:
    rng = Random(seed)
    graph = random_chain(rng, rng.randint(4, 10))
    low, high = max(graph.lifetimes.working_set_bytes), graph.unlimited_peak_bytes
    for budget in {low, (3 * low + high) // 4, (low + high) // 2, high}:
        question = instance(graph, budget)
        truth = solve(question, "enumerate", time_limit=None)
        found = solve(question, "chain")
        assert truth.status in ("optimal", "infeasible")
        assert found.makespan_ns == truth.makespan_ns


def test_agrees_with_the_schedule_model_on_a_longer_chain() -> None:
    graph = random_chain(Random(5), 16)
    question = instance(graph, 0.5)
    truth = solve(question, "milp-schedule", time_limit=None, gap=0.0)
    assert truth.status == "optimal"
    assert solve(question, "chain").makespan_ns == truth.makespan_ns


def test_unit_chain_keeps_evenly_spaced_boundaries() -> None:
    # Nine ops of one byte; b_k reads a_{k-1}, a_k and a gradient. Two boundaries cut the first
    # eight ops into segments, of which one is rebuilt at a time.
    graph = chain([1] * 9)
    plan = heuristics()["chain"](instance(graph, 7))
    assert checked(instance(graph, 7), plan).recompute_ns == 10 * len(decided(plan, "recompute"))
    assert plan.decisions
    assert not heuristics()["chain"](instance(graph, 1.0)).decisions


def test_blocks_of_a_graph_with_a_branch() -> None:
    ops = [
        ("f0", "f", 1, ["x"], ["a"]),
        ("f1", "f", 1, ["a"], ["b"]),
        ("f2", "f", 1, ["a", "b"], ["c", "mask"]),
        ("f3", "f", 1, ["c"], ["d"]),
        ("b3", "b", 1, ["c", "d"], ["g3"]),
        ("b2", "b", 1, ["g3", "b", "mask"], ["g2"]),
        ("b0", "b", 1, ["g2", "x"], ["g0"]),
    ]
    graph = step(ops, dict.fromkeys(["x", "a", "b", "c", "mask", "d", "g3", "g2", "g0"], 1))
    blocks = find_blocks(graph.lifetimes)
    names = [tensor.name for tensor in graph.tensors]
    assert blocks.begins == (0, 1, 3)
    assert [names[t] if t != ABSENT else None for t in blocks.waists] == ["a", "c", None]
    assert [[names[t] for t in tensors] for tensors in blocks.tensors] == [
        ["a"],
        ["b", "c", "mask"],
        ["d"],
    ]
    assert blocks.block_of == (0, 1, 1, 2, 2, 1, 1)


def test_two_parallel_chains_are_no_chain() -> None:
    ops = [
        ("f0", "f", 1, [], ["a", "b"]),
        ("f1", "f", 1, ["a"], ["c"]),
        ("f2", "f", 1, ["b"], ["d"]),
        ("f3", "f", 1, ["c", "d"], ["e"]),
        ("b0", "b", 1, ["a", "b", "c", "d", "e"], ["g"]),
    ]
    question: Instance = instance(step(ops, dict.fromkeys("abcdeg", 1)), 1.0)
    with pytest.raises(NoPlanError, match="at no point of the forward pass a single tensor"):
        heuristics()["chain"](question)


def test_no_set_of_boundaries_fits() -> None:
    with pytest.raises(NoPlanError, match="whatever boundaries of those looked at are kept"):
        heuristics()["chain"](instance(chain([100] * 6), 200))


def test_a_chain_too_long_for_all_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    module = importlib.import_module("slackopt.heuristics.chain")
    question = instance(random_chain(Random(3), 40), 0.4)
    best = checked(question, heuristics()["chain"](question)).makespan_ns
    monkeypatch.setattr(module, "MAX_WORK", 0)
    monkeypatch.setattr(module, "MAX_LABELS", 20)
    found = checked(question, heuristics()["chain"](question)).makespan_ns
    assert best is not None
    assert found is not None
    assert best <= found <= 1.1 * best


def test_out_of_time() -> None:
    with pytest.raises(NoPlanError, match=r"time is up|those looked at"):
        heuristics()["chain"](instance(chain([100] * 6), 400), time_limit=0.0)
