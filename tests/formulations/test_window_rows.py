"""Every row of the window formulation holds for every plan that the simulator accepts.

The first part maps simulated plans to points and evaluates rows in exact integers
(`window_points.check_rows`).

Set ``SLACKOPT_ROWS_INSTANCES`` to check more random instances per seed than the default, and
``SLACKOPT_ROWS_SEED`` to move the seeds.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from itertools import product
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from random_steps import (
    chained_instance,
    instances_with_plans,
    random_instance,
    random_plan,
    simulate_with_chunks,
)
from window_points import (
    all_keys,
    best_makespan,
    check_bound,
    check_rows,
    corner_plans,
    device_bytes_at_ends,
    every_plan,
    exact_violation,
    point_of,
    random_points,
    resident_kind,
    some_instance,
    some_thresholds,
    some_timelines,
    some_window,
    tangled_instance,
    tangled_plan,
    tight_instance,
    value,
    with_budget,
)

from slackopt.device import Device
from slackopt.formulations.certificate import bound_from_weights, weights_from_duals
from slackopt.formulations.separation import most_violated_keys, violations
from slackopt.formulations.window import UNITS_PER_BYTE, MemoryKey, WindowFormulation
from slackopt.graph import Graph, Op, Tensor
from slackopt.instance import Instance
from slackopt.lifetimes import ABSENT
from slackopt.plan import Plan
from slackopt.simulation import Timeline, simulate
from slackopt.solvers.window_lp import WindowLp

INSTANCES = int(os.environ.get("SLACKOPT_ROWS_INSTANCES", "36"))
FIRST_SEED = int(os.environ.get("SLACKOPT_ROWS_SEED", "0"))
SEEDS = range(FIRST_SEED, FIRST_SEED + 4)
NS_PER_S = 10**9


# ---------------------------------------------------------------------------------------------
# From a simulated plan to a point


@pytest.mark.parametrize("seed", SEEDS)
def test_every_row_holds_for_every_plan(seed: int) -> None:
    rng = Random(seed)
    counts: Counter[str] = Counter()
    for _ in range(INSTANCES):
        instance = random_instance(rng, max_ops=rng.choice((6, 9, 9, 12)))
        timelines = some_timelines(rng, instance, 12)
        if timelines:
            counts += check_rows(some_window(rng, instance), timelines)
    print(dict(counts))
    assert counts["plans"] > 5 * INSTANCES
    for kind in ("choice", "rerun_of", "memory, 0 windows", "memory, 1 windows"):
        assert counts[f"{kind}, tight"], f"no row {kind} was ever tight: the check is too weak"


@settings(max_examples=60, deadline=None)
@given(instances_with_plans())
def test_every_row_holds_for_drawn_plans(drawn: tuple[Instance, Plan]) -> None:
    instance, plan = drawn
    runs = [simulate_with_chunks(instance, plan, chunk) for chunk in (0, 1, 3)]
    feasible = [timeline for timeline in runs if timeline.feasible]
    if feasible:
        check_rows(WindowFormulation(instance), feasible)
        check_rows(WindowFormulation(instance, range(instance.lifetimes.num_ops)), feasible)


def check_pulled_reruns(rng: Random, instance: Instance, tries: int) -> Counter[str]:
    """Check all rows (of long steps, some) for tangled plans that run."""
    plans = [tangled_plan(rng, instance) for _ in range(tries)]
    chunks = [rng.choice((0, 0, 1, 4)) for _ in plans]
    runs = [simulate_with_chunks(instance, p, c) for p, c in zip(plans, chunks, strict=True)]
    feasible = [timeline for timeline in runs if timeline.feasible]
    if not feasible:
        return Counter()
    keys = list(all_keys(instance.lifetimes.num_ops))
    if len(keys) > 800:
        plain = [key for key in keys if key.out_from == key.in_to == ABSENT]
        keys = plain + rng.sample(keys, 400)
    return check_rows(some_window(rng, instance), feasible, keys)


@pytest.mark.parametrize("seed", SEEDS)
def test_every_row_holds_where_reruns_pull_reruns(seed: int) -> None:
    rng = Random(1000 + seed)
    counts: Counter[str] = Counter()
    for _ in range(INSTANCES):
        counts += check_pulled_reruns(rng, tangled_instance(rng), 10)
    print(dict(counts))
    assert counts["plans with early reruns"] > INSTANCES // 5
    for kind in ("input", "ascending", "pulled", "pulls", "kept_for"):
        assert counts[f"{kind}, tight"], f"no row {kind} was ever tight: the check is too weak"


@pytest.mark.parametrize("seed", SEEDS)
def test_every_row_holds_on_residual_chains(seed: int) -> None:
    rng = Random(6000 + seed)
    counts: Counter[str] = Counter()
    for _ in range(2 * INSTANCES):
        counts += check_pulled_reruns(
            rng, chained_instance(rng, max_layers=rng.choice((2, 3, 4))), 8
        )
    print(dict(counts))
    assert counts["plans with early reruns"] > INSTANCES
    kinds = (
        *("input", "ascending", "pulled", "pulls", "kept_for"),
        *("kept_early_keep", "kept_early_before", "kept_early_else"),
        *("rebuilt_before", "stays_until", "waits_for"),
        *(f"bytes of {kind}" for kind in ("kept source", "source or output", "rebuilt", "stays")),
    )
    for kind in kinds:
        assert counts[f"{kind}, tight"], f"no row {kind} was ever tight: the check is too weak"


def plain_instance(
    ops: Sequence[tuple[str, Any, Sequence[str], Sequence[str]]], names: str, budget: int
) -> Instance:
    """Ops ``(name, phase, inputs, outputs)`` of 1 ns, tensors of 1 byte that can't be swapped."""
    graph = Graph(
        name="plain",
        ops=tuple(
            Op(name=name, phase=phase, duration_ns=1, inputs=tuple(ins), outputs=tuple(outs))
            for name, phase, ins, outs in ops
        ),
        tensors=tuple(Tensor(name=name, size_bytes=1, swappable=False) for name in names.split()),
    )
    device = Device(name="plain", d2h_bytes_per_s=NS_PER_S, h2d_bytes_per_s=NS_PER_S)
    return Instance.from_graph(graph, device=device, budget=budget)


def check_with_any_thresholds(instance: Instance, timeline: Timeline) -> None:
    choices: tuple[Sequence[int] | None, ...] = (None, [], range(instance.lifetimes.num_ops))
    for thresholds in choices:
        counts = check_rows(WindowFormulation(instance, thresholds), [timeline])
        assert counts["plans with early reruns"]


def test_reader_of_two_outputs_pulls_for_either() -> None:
    """Op c reads y1 and y2 of op j. Kept y2 or not: for y1 it pulls j forward."""
    ops = (
        ("j", "forward", (), ("y1", "y2")),
        ("c", "forward", ("y1", "y2"), ("t",)),
        ("d", "forward", ("t",), ("z",)),
        ("loss", "forward", (), ()),
        ("b1", "backward", ("z",), ()),
        ("b2", "backward", ("t",), ()),
    )
    instance = plain_instance(ops, "y1 y2 t z", budget=4)
    plan = Plan.for_instance(instance, dict.fromkeys(("y1", "t", "z"), "recompute"))
    timeline = simulate(instance, plan)
    assert [job.op for job in timeline.jobs if job.rerun] == ["j", "c", "d"]
    check_with_any_thresholds(instance, timeline)


def test_kept_outputs_leave_another_reader_to_pull() -> None:
    """Op c reads y1 and y2, both kept; op f reads y3, and pulls op j forward for that."""
    ops = (
        ("j", "forward", (), ("y1", "y2", "y3")),
        ("c", "forward", ("y1", "y2"), ("t",)),
        ("f", "forward", ("y3",), ("w",)),
        ("g", "forward", ("t", "w"), ("z",)),
        ("loss", "forward", (), ()),
        ("b1", "backward", ("z",), ()),
        ("b2", "backward", ("t",), ()),
        ("b3", "backward", ("w",), ()),
    )
    instance = plain_instance(ops, "y1 y2 y3 t w z", budget=8)
    plan = Plan.for_instance(instance, dict.fromkeys(("y3", "t", "w", "z"), "recompute"))
    timeline = simulate(instance, plan)
    assert [job.op for job in timeline.jobs if job.rerun] == ["j", "c", "f", "g"]
    check_with_any_thresholds(instance, timeline)


def test_two_instants_may_not_be_mixed() -> None:
    """One op, two tensors of 4 bytes: ``a`` leaves while it runs, then ``b`` takes its place.

    ``a`` is there at the start of op 3 and ``b`` at its end. A row with the out window of the one
    instant and the in window of the other would ask for 8 bytes; the plan runs in 4.
    """
    ops: tuple[tuple[str, Any, int, tuple[str, ...], tuple[str, ...]], ...] = (
        ("op0", "forward", 1, (), ("b",)),
        ("op1", "forward", 4, (), ()),
        ("op2", "forward", 1, (), ("a",)),
        ("op3", "forward", 8, (), ()),
        ("op4", "backward", 1, ("b",), ()),
        ("op5", "backward", 4, (), ()),
        ("op6", "backward", 1, ("a",), ()),
    )
    graph = Graph(
        name="exchange",
        ops=tuple(
            Op(name=name, phase=phase, duration_ns=duration, inputs=inputs, outputs=outputs)
            for name, phase, duration, inputs, outputs in ops
        ),
        tensors=(Tensor(name="a", size_bytes=4), Tensor(name="b", size_bytes=4)),
    )
    device = Device(name="plain", d2h_bytes_per_s=NS_PER_S, h2d_bytes_per_s=NS_PER_S)
    instance = Instance.from_graph(graph, device=device, budget=4)
    plan = Plan.for_instance(instance, {"a": "swap", "b": "swap"}, {"a": 5, "b": 3})
    timeline = simulate(instance, plan)
    assert timeline.makespan_ns == instance.ideal_ns
    window = WindowFormulation(instance)
    check_rows(window, [timeline])
    x = point_of(window, timeline)
    out_at_start = window.memory_row(MemoryKey(3, False, out_from=3))
    in_at_end = window.memory_row(MemoryKey(3, True, in_to=4))
    neither = window.memory_row(MemoryKey(3, False))
    mixed = value(out_at_start, x) + value(in_at_end, x) - value(neither, x)
    upper = out_at_start.upper + in_at_end.upper - neither.upper
    assert mixed - upper == 4 * UNITS_PER_BYTE


def test_wrong_rows_are_caught() -> None:
    """The comparison with the bytes on the device has teeth: rows a little too strong fail it."""
    rng = Random(7)
    caught: Counter[str] = Counter()
    for _ in range(40):
        instance = random_instance(rng, max_ops=8)
        timelines = some_timelines(rng, instance, 6)
        window = WindowFormulation(instance)
        ops, (out_rate, in_rate) = window.life.num_ops, window.bandwidths
        for timeline in timelines:
            x, levels = point_of(window, timeline), device_bytes_at_ends(timeline)
            for key in all_keys(ops):
                row = window.memory_row(key)
                room = (instance.budget_bytes - levels[key.op][key.at_end]) * UNITS_PER_BYTE
                slack = row.upper - value(row, x) - room
                # Each window one nanosecond shorter; all rows half a byte stronger.
                caught["out"] += key.out_from != ABSENT and slack < out_rate
                caught["in"] += key.in_to != ABSENT and slack < in_rate
                caught["byte"] += 2 * slack < UNITS_PER_BYTE
    assert min(caught["out"], caught["in"], caught["byte"]) > 50


def test_wrong_residents_are_caught() -> None:
    """Bytes that reruns put on the device: one op longer, or one byte more, and rows fail."""
    rng = Random(11)
    caught: Counter[str] = Counter()
    for _ in range(150):
        instance = chained_instance(rng)
        window = some_window(rng, instance)
        for _ in range(8):
            timeline = simulate(instance, tangled_plan(rng, instance))
            if not timeline.feasible:
                continue
            x, levels = point_of(window, timeline), device_bytes_at_ends(timeline)
            rooms = []
            for k, level in enumerate(levels):
                row = window.memory_row(MemoryKey(k, False))
                rooms.append((row.upper - value(row, x)) // UNITS_PER_BYTE)
                rooms[k] -= instance.budget_bytes - level[0]
            for resident in window.extra_residents:
                first, last, size, column = resident[:4]
                if first < last and x[column]:
                    kind = resident_kind(window, resident)
                    caught[f"{kind}, sooner"] += rooms[first - 1] < size
                    caught[f"{kind}, longer"] += last < len(rooms) and rooms[last] < size
                    caught[f"{kind}, larger"] += min(rooms[first:last]) < 1
    print(dict(caught))
    assert caught["rebuilt, sooner"]
    assert caught["stays, longer"]
    for kind in ("kept source", "source or output", "rebuilt", "stays", "waits"):
        assert caught[f"{kind}, larger"]


# ---------------------------------------------------------------------------------------------
# Separation


def counted_twice(window: WindowFormulation, key: MemoryKey, x: Sequence[Fraction]) -> Fraction:
    """Bytes of rerun time that the separation subtracts for both windows, the row only for one."""
    if ABSENT in (key.out_from, key.in_to):
        return Fraction(0)
    lower = min(window.bandwidths)
    total = Fraction(0)
    for first, last, duration, plus, minus in window.rerun_pieces:
        if first <= key.op < last and last >= key.out_from and first <= key.in_to:
            part = x[plus] - (Fraction(0) if minus is None else x[minus])
            total += part * lower * duration
    return total / UNITS_PER_BYTE


@pytest.mark.parametrize("seed", SEEDS)
def test_separation_finds_the_most_violated_rows(seed: int) -> None:
    """Against all rows, in exact arithmetic.

    For each op and end the claim is the largest of *violation less what is counted twice*; so it
    never claims too much, and it misses a violated row only if that is violated by less than the
    rerun time (in bytes) that two windows share.
    """
    rng = Random(2000 + seed)
    found = overlaps = 0
    for i in range(max(8, INSTANCES // 4)):
        instance = tight_instance(rng, i)
        window = some_window(rng, instance)
        ops = window.life.num_ops
        nothing = [0.0] * len(window.columns)
        swap_all = list(nothing)
        for column in window.swap.values():
            swap_all[column] = 1.0
        points = [nothing, swap_all, *random_points(rng, window, 3)]
        points.append(list(WindowLp(window).solve().x))
        keys = list(all_keys(ops))
        rows = [window.memory_row(key) for key in keys]
        for x in points:
            exact_x = [Fraction(v) for v in x]
            exact = dict(zip(keys, (exact_violation(row, exact_x) for row in rows), strict=True))
            twice = {key: counted_twice(window, key, exact_x) for key in keys}
            best: dict[tuple[int, bool], Fraction] = {}
            for key in keys:
                place = key.op, key.at_end
                claim = exact[key] - twice[key]
                best[place] = max(claim, best.get(place, claim))
            claims, claimed = violations(window, np.array(x))
            assert [(key.op, key.at_end) for key in claimed] == list(product(range(ops), (0, 1)))
            scale = instance.budget_bytes + float(max(abs(v) for v in exact.values()))
            slip = 1e-9 * scale
            for claimed_bytes, key in zip(claims, claimed, strict=True):
                assert claimed_bytes <= float(exact[key]) + slip
                assert claimed_bytes == pytest.approx(float(exact[key] - twice[key]), abs=slip)
                assert claimed_bytes == pytest.approx(float(best[key.op, key.at_end]), abs=slip)
            top = max(exact, key=lambda key: exact[key])
            overlaps += any(twice.values())
            listed = most_violated_keys(window, x, 10 * slip, limit=9 * ops)
            assert listed == sorted(listed, key=lambda entry: -entry[0])
            memory = [(v, key) for v, key in listed if isinstance(key, MemoryKey)]
            pairs = [(key.out_from, key.in_to) for _, key in memory]
            assert len(set(pairs)) == len(pairs)
            if exact[top] - twice[top] > 20 * slip:
                found += 1
                assert memory
                assert memory[0][0] == pytest.approx(float(max(best.values())), abs=slip)
            assert all(exact[key] > 0 for _, key in memory)
    assert found > 10
    assert overlaps > 0
    print("points with violated rows", found, "with rows that count a rerun twice", overlaps)


# ---------------------------------------------------------------------------------------------
# The bound


@pytest.mark.parametrize("seed", SEEDS)
def test_bound_is_below_every_plan(seed: int) -> None:
    rng = Random(3000 + seed)
    compared = above_ideal = met = 0
    for i in range(INSTANCES):
        instance = some_instance(rng, i)
        plans = every_plan(instance, 81) or [random_plan(rng, instance) for _ in range(10)]
        plans += corner_plans(instance)
        result = check_bound(instance, plans, some_thresholds(rng, instance))
        if result is not None:
            compared += 1
            above_ideal += result[0] > instance.ideal_ns
            met += instance.ideal_ns < result[0] == result[1]
    print("compared", compared, "above ideal", above_ideal, "optimal and above ideal", met)
    assert compared > INSTANCES // 2
    assert above_ideal > 3


@pytest.mark.parametrize("seed", SEEDS)
def test_bound_is_below_a_plan_that_just_fits(seed: int) -> None:
    """The budget lowered to the peak of a plan that ran: with its triggers, it runs as before.

    So a feasible plan is known for a budget as low as that plan allows.
    """
    rng = Random(5000 + seed)
    compared = above_ideal = 0
    for i in range(INSTANCES):
        wide = some_instance(rng, i)
        swappy = wide.model_copy(update={"budget_bytes": wide.graph.unlimited_peak_bytes})
        timelines = some_timelines(rng, swappy, 6)
        if not timelines:
            continue
        timeline = min(timelines, key=lambda run: (run.peak_bytes, run.makespan_ns))
        instance = with_budget(wide, timeline.peak_bytes)
        plan = Plan.for_instance(instance, timeline.plan.decisions, timeline.plan.prefetch)
        thresholds = some_thresholds(rng, instance)
        bound = WindowLp(WindowFormulation(instance, thresholds)).solve()
        assert not bound.infeasible
        assert bound.converged
        assert timeline.makespan_ns is not None
        assert bound.lower_bound_ns <= timeline.makespan_ns
        result = check_bound(instance, [plan, *corner_plans(instance)])
        compared += 1
        above_ideal += result is not None and result[0] > instance.ideal_ns
    print("compared", compared, "above ideal", above_ideal)
    assert compared > INSTANCES // 2
    assert above_ideal > INSTANCES // 5


@settings(max_examples=80, deadline=None)
@given(instances_with_plans())
def test_bound_is_below_drawn_plans(drawn: tuple[Instance, Plan]) -> None:
    instance, plan = drawn
    check_bound(instance, [plan, *corner_plans(instance)])


# ---------------------------------------------------------------------------------------------
# Certificates


def random_row_names(rng: Random, window: WindowFormulation) -> list[str]:
    keys = list(all_keys(window.life.num_ops))
    names = [key.name for key in rng.sample(keys, min(len(keys), rng.randint(1, 12)))]
    static = [row.name for row in window.static_rows()]
    return names + rng.sample(static, rng.randint(0, len(static)))


@pytest.mark.parametrize("seed", SEEDS)
def test_any_weights_prove_a_bound(seed: int) -> None:
    """Random weights, and the solver's, disturbed: each is scaled to a bound, and that holds."""
    rng = Random(4000 + seed)
    compared = above_ideal = 0
    for i in range(INSTANCES):
        instance = some_instance(rng, i) if i % 2 else random_instance(rng, max_ops=9)
        plans = [*corner_plans(instance), *(random_plan(rng, instance) for _ in range(8))]
        best = best_makespan(instance, plans)
        if best is None:
            continue
        window = some_window(rng, instance)
        optimal = WindowLp(window).solve().weights
        proposals: list[dict[str, float]] = []
        for _ in range(5):
            names = random_row_names(rng, window)
            proposals.append({name: 10 ** rng.uniform(-20, 2) for name in names})
            near = {
                name: float(y) * rng.choice((0.0, 0.9, 1.0, 1.5)) for name, y in optimal.items()
            }
            near[rng.choice(names)] = 10 ** rng.uniform(-20, -8)
            proposals.append(near)
        for duals in proposals:
            weights = weights_from_duals(window, duals)
            assert all(y > 0 for y in weights.values())
            bound = bound_from_weights(window, weights)
            assert instance.ideal_ns <= bound <= best
            compared += 1
            above_ideal += bound > instance.ideal_ns
    assert compared > 3 * INSTANCES
    assert above_ideal > 5


STATIC_KINDS = {
    *("choice", "rerun_of", "input", "kept_for", "ascending", "pulls", "pulled"),
    *("kept_early_keep", "kept_early_before", "kept_early_else"),
    *("rebuilt_before", "stays_until", "waits_for"),
}


def small_window() -> WindowFormulation:
    rng = Random(5)
    while True:
        window = WindowFormulation(chained_instance(rng, max_layers=2))
        kinds = {row.name.partition("[")[0] for row in window.static_rows()}
        if window.swap and window.life.num_ops >= 6 and kinds >= STATIC_KINDS:
            return window


def test_tampered_weights_are_refused() -> None:
    window = small_window()
    name = MemoryKey(3, True, 2, 4).name
    with pytest.raises(ValueError, match="negative weight"):
        bound_from_weights(window, {name: Fraction(-1, 10**30)})
    with pytest.raises(ValueError, match="unbounded"):
        bound_from_weights(window, {name: Fraction(1)})
    weights = weights_from_duals(window, {name: 1.0, MemoryKey(2, False).name: -3.0})
    assert list(weights) == [name]
    assert bound_from_weights(window, weights) >= window.instance.ideal_ns
    assert bound_from_weights(window, {}) == window.instance.ideal_ns
    with pytest.raises((KeyError, ValueError)):
        bound_from_weights(window, {"memory[3,end,4,none]": Fraction(1)})


def test_row_reads_back_every_name() -> None:
    window = small_window()
    for key in all_keys(window.life.num_ops):
        row = window.row(key.name)
        assert row == window.memory_row(key)
        assert row.name == key.name
    static = window.static_rows()
    assert len({row.name for row in static}) == len(static)
    kinds = {row.name.partition("[")[0] for row in static}
    assert kinds >= STATIC_KINDS
    for row in static:
        assert window.row(row.name) == row


def test_row_refuses_what_is_no_row() -> None:
    window = small_window()
    last = window.life.num_ops - 1
    bad = [
        f"memory[{last + 1},start,none,none]",
        "memory[-1,start,none,none]",
        "memory[2,start,3,none]",  # the out window begins after the op
        "memory[2,start,-2,none]",
        "memory[2,start,none,2]",  # the in window ends at the op
        "memory[2,start,none,0]",
        f"memory[2,start,none,{last + 1}]",
        "memory[2,middle,none,none]",
        "memory[2,start,none]",
        "memory[2,start,none,none,none]",
        "memory[x,start,none,none]",
        "choice[9999]",
        "nothing[0]",
        "",
    ]
    for name in bad:
        with pytest.raises((KeyError, ValueError)):
            window.row(name)
