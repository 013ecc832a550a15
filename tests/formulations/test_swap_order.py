"""Identical layers: ordering the swaps keeps the optimum; the exchange holds row by row."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from random import Random

import numpy as np
import pytest
from random_steps import chained_instance, random_instance
from window_points import random_points

import slackopt as so
from slackopt.device import Device
from slackopt.formulations.chain_separation import violated_chain_keys
from slackopt.formulations.memory_separation import memory_violations
from slackopt.formulations.plan_points import plan_point
from slackopt.formulations.rerun_separation import violated_rerun_keys
from slackopt.formulations.separation import most_violated_keys
from slackopt.formulations.swap_order import SwapOrder, swap_chains
from slackopt.formulations.window import WindowFormulation
from slackopt.graph import Graph
from slackopt.instance import Instance
from slackopt.simulation.evaluator import Evaluator
from slackopt.simulation.sequence import KEEP, RECOMPUTE, SWAP
from slackopt.solvers.pulp_model import PulpModel


def layered_instance(rng: Random) -> Instance:
    """A few layers of a small transformer, on a link of a random kind, with a random budget."""
    graph = so.profiles.transformer(
        "bert-large",
        batch=rng.choice((1, 2)),
        num_layers=rng.choice((2, 3)),
        attention=rng.choice(("flash", "eager")),
    )
    shared = rng.random() < 0.4
    rate = rng.choice((5, 12, 25)) * 10**9
    device = Device(
        name="random",
        d2h_bytes_per_s=rate,
        h2d_bytes_per_s=rng.choice((rate, rate // 2)),
        d2h_shared_bytes_per_s=rate // 2 if shared else None,
        h2d_shared_bytes_per_s=rate // 3 if shared else None,
        latency_ns=rng.choice((0, 10_000)),
    )
    return Instance.from_graph(graph, device=device, budget=rng.choice((0.4, 0.5, 0.6, 0.8)))


def all_rows(window: WindowFormulation, x: list[float]):
    """Static rows, and the lazy rows that the point violates or comes near to."""
    yield from window.static_rows()
    for _, key in most_violated_keys(window, np.array(x), -1e18, 60):
        yield window.row(key.name)
    yield from rerun_rows(window, x)


def rerun_rows(window: WindowFormulation, x: list[float]):
    """Rerun and chain rows that the separation finds near a point."""
    point = np.array(x, dtype=float)
    sweeps = memory_violations(window, point)[2]
    for _, key in violated_rerun_keys(window, point, sweeps, -1e18, 60):
        yield window.row(key.name)
    for _, key in violated_chain_keys(window, point, sweeps, -1e18, 60):
        yield window.row(key.name)


def random_decisions(rng: Random, evaluator: Evaluator) -> list[int]:
    decisions = [KEEP] * evaluator.life.num_tensors
    recompute = rng.choice((0.0, 0.1, 0.3))
    swap = rng.choice((0.2, 0.5, 0.8))
    for t in evaluator.life.candidates:
        draw, options = rng.random(), evaluator.options(t)
        if draw < recompute and RECOMPUTE in options:
            decisions[t] = RECOMPUTE
        elif draw < recompute + swap and SWAP in options:
            decisions[t] = SWAP
    return decisions


@pytest.mark.parametrize("seed", range(6))
def test_exchanged_points_satisfy_every_row(seed: int) -> None:
    rng = Random(seed)
    exchanged = 0
    kinds: Counter[str] = Counter()
    for i in range(40):
        if i % 4 == 0:
            instance = layered_instance(rng)
        else:
            instance = (chained_instance if i % 2 else random_instance)(rng)
        # Points of plans, of a budget in which they fit.
        instance = instance.model_copy(update={"budget_bytes": instance.graph.unlimited_peak_bytes})
        instance = Instance.model_validate(instance.model_dump())
        evaluator = Evaluator(instance)
        window = WindowFormulation(instance)
        order = SwapOrder(window)
        decisions = random_decisions(rng, evaluator)
        sequence, record = evaluator.simulate(decisions)
        if record.makespan_ns is None:
            continue
        point = plan_point(window, decisions, sequence, record)
        # The least budget at which the rows hold for this very point: then they are tight.
        ordered = order.ordered(
            [
                SWAP
                if t in window.swap and point[window.swap[t]]
                else RECOMPUTE
                if t in window.recompute and point[window.recompute[t]]
                else KEEP
                for t in range(evaluator.life.num_tensors)
            ]
        )
        moved = list(point)
        for t, column in window.swap.items():
            if evaluator.life.first_backward_use[t] >= 0:
                moved[column] = int(ordered[t] == SWAP)
        exchanged += moved != point
        before = {row.name: value(row, point) - row.upper for row in all_rows(window, point)}
        for row in [*rerun_rows(window, point), *rerun_rows(window, moved)]:
            kinds[row.name.partition("[")[0]] += moved != point
            assert value(row, moved) <= value(row, point), row.name
        for row in all_rows(window, moved):
            assert value(row, moved) <= row.upper, row.name
            if row.name.startswith(("memory", "shared")) and row.name in before:
                assert value(row, moved) - row.upper <= before[row.name], row.name
        completed = order.complete(moved)
        for row in order.rows():
            assert value(row, completed) <= row.upper, row.name
    assert exchanged > 0
    assert kinds["rerun_memory"] > 20
    assert kinds["chain_memory"] > 5


def test_rerun_rows_keep_the_order() -> None:
    """In each row, swapping the first of a chain weighs no more than swapping the next.

    Rows that know of no order tell them apart: an input of a rerun must have come back for it.
    """
    rng = Random(9)
    kept, broken = 0, 0
    for i in range(60):
        instance = chained_instance(rng) if i % 3 else random_instance(rng)
        # More tensors of one size, longer chains.
        tensors = [
            tensor.model_copy(update={"size_bytes": rng.choice((1, 2)), "swappable": True})
            for tensor in instance.graph.tensors
        ]
        graph = instance.graph.model_copy(update={"tensors": tuple(tensors)})
        graph = Graph.model_validate(graph.model_dump())
        device = instance.device.model_copy(update={"host_memory_bytes": None})
        instance = Instance.from_graph(graph, device=device, budget=graph.unlimited_peak_bytes)
        window = WindowFormulation(instance)
        chains = SwapOrder(window).chains
        pairs = [
            (window.swap[t], window.swap[other]) for chain in chains for t, other in pairwise(chain)
        ]
        ordered = window.ordered
        for x in random_points(rng, window, 6):
            for guarded in (True, False):
                window.ordered = ordered if guarded else frozenset()
                for row in rerun_rows(window, x):
                    weights = row.coefficients
                    fine = all(weights.get(a, 0) <= weights.get(b, 0) for a, b in pairs)
                    assert fine or not guarded, (row, chains)
                    kept += guarded and bool(pairs)
                    broken += not fine
    assert kept > 500
    assert broken > 10


def value(row, x) -> int:
    return sum(a * x[j] for j, a in row.coefficients.items())


def model_optimum(instance: Instance, *, identical_layers: bool) -> tuple[float | None, int]:
    """Least added time over all points of the relaxed integer model, all rows separated."""
    window = WindowFormulation(instance)
    order = SwapOrder(window) if identical_layers else None
    with PulpModel(window, np.zeros(len(window.columns))) as model:
        model.add_rows(window.static_rows())
        if order is not None:
            model.add_rows(order.rows())
        names: set[str] = set()
        while True:
            found = model.solve(time_limit=60.0, gap_ns=0.0, threads=1, seed=0)
            if found.status == "infeasible":
                return None, 0
            assert found.status == "optimal"
            assert found.x is not None
            keys = most_violated_keys(window, found.x, 1e-6 * instance.budget_bytes, 40)
            new = [key.name for _, key in keys if key.name not in names]
            if not new:
                return found.objective_ns, len(order.rows()) if order else 0
            names.update(new)
            model.add_rows([window.row(name) for name in new])


@pytest.mark.parametrize("seed", range(4))
def test_both_ways_give_the_same_optimum(seed: int) -> None:
    rng = Random(100 + seed)
    instance = layered_instance(rng)
    with_order, rows = model_optimum(instance, identical_layers=True)
    without, _ = model_optimum(instance, identical_layers=False)
    assert (with_order is None) == (without is None)
    if with_order is not None and without is not None:
        assert rows > 0
        assert abs(with_order - without) <= 1e-6 * without + 1.0


def test_a_host_cap_switches_the_order_off() -> None:
    instance = layered_instance(Random(0))
    assert swap_chains(WindowFormulation(instance))
    device = instance.device.model_copy(update={"host_memory_bytes": 10**9})
    capped = Instance(
        name="capped", budget_bytes=instance.budget_bytes, device=device, graph=instance.graph
    )
    assert swap_chains(WindowFormulation(capped)) == []


@pytest.mark.parametrize("method", ["milp", "cpsat", "exact"])
def test_the_switch_reaches_the_model(method: str) -> None:
    instance = layered_instance(Random(3))
    results = {
        switch: so.solve(instance, method, time_limit=4, gap=0.0, identical_layers=switch)
        for switch in (True, False)
    }
    for switch, result in results.items():
        assert result.options["identical_layers"] is switch
        assert result.status in ("optimal", "feasible")
        so.verify(instance, result)
    on, off = results[True], results[False]
    assert on.lower_bound_ns <= off.makespan_ns
    assert off.lower_bound_ns <= on.makespan_ns
