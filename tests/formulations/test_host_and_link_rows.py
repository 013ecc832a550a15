"""Rows of the host memory and of a shared link hold for every plan; their separation is exact.

`window_points.check_rows` compares them with what is in the memories, on every instance with a
host limit or a shared link; here are instances on which they matter.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import product
from random import Random

import numpy as np
import pytest
from random_steps import chained_instance, random_instance, random_plan
from window_points import (
    check_bound,
    check_rows,
    corner_plans,
    device_bytes_at_ends,
    every_plan,
    exact_violation,
    point_of,
    random_points,
    shared_link_keys,
    some_instance,
    some_timelines,
    some_window,
    tangled_plan,
    tight_instance,
    value,
)

from slackopt.device import Device
from slackopt.formulations.certificate import proves_infeasible
from slackopt.formulations.host_rows import HostKey, host_violations, most_violated_host_room
from slackopt.formulations.shared_link_rows import LinkShare, SharedLinkKey
from slackopt.formulations.shared_link_separation import violated_shared_link_keys
from slackopt.formulations.window import UNITS_PER_BYTE, MemoryKey, WindowFormulation
from slackopt.graph import Graph, Op, Tensor
from slackopt.instance import Instance
from slackopt.lifetimes import ABSENT
from slackopt.simulation import Timeline, simulate
from slackopt.solve import solve
from slackopt.solvers.window_lp import WindowLp

INSTANCES = int(os.environ.get("SLACKOPT_ROWS_INSTANCES", "24"))
FIRST_SEED = int(os.environ.get("SLACKOPT_ROWS_SEED", "0"))
SEEDS = range(FIRST_SEED, FIRST_SEED + 4)
GB = 10**9


def busy_instance(rng: Random, *, layers: int | None = None) -> Instance:
    """Nested tensors on a slow shared link: copies of both directions are under way at once.

    Forward ops are short, so swap-outs pile up and go on in the backward pass, where swap-ins
    begin at once. The budget is wide, so that nearly every plan runs.
    """
    layers = rng.randint(2, 5) if layers is None else layers
    largest = rng.choice((4, 12, 12))
    same = rng.random() < 0.3
    size = rng.randint(1, largest)
    tensors = [
        Tensor(name=f"t{k}", size_bytes=size if same else rng.randint(1, largest))
        for k in range(layers)
    ]
    order = list(range(layers))
    if rng.random() < 0.5:
        rng.shuffle(order)
    ops = [
        Op(
            name=f"f{k}",
            phase="forward",
            duration_ns=rng.randint(1, 4),
            outputs=(f"t{k}",),
            recomputable=rng.random() < 0.3,
        )
        for k in range(layers)
    ]
    ops += [Op(name="loss", phase="forward", duration_ns=rng.randint(1, 30))] * (rng.random() < 0.5)
    ops += [
        Op(name=f"b{i}", phase="backward", duration_ns=rng.randint(1, 15), inputs=(f"t{k}",))
        for i, k in enumerate(reversed(order))
    ]
    graph = Graph(name="busy", ops=tuple(ops), tensors=tuple(tensors))
    rates = (GB, GB, 2 * GB, GB // 2, 1_700_000_001, 4 * GB)
    alone = [rng.choice(rates) for _ in range(2)]
    factors = [rng.choice((0.1, 0.3, 0.5, 0.5, 0.8, 1.0)) for _ in range(2)]
    device = Device(
        name="busy",
        d2h_bytes_per_s=alone[0],
        h2d_bytes_per_s=alone[1],
        d2h_shared_bytes_per_s=max(1, int(alone[0] * factors[0])),
        h2d_shared_bytes_per_s=max(1, int(alone[1] * factors[1])),
        latency_ns=rng.choice((0, 0, 1, 2, 5)),
    )
    low, high = max(graph.lifetimes.working_set_bytes), graph.unlimited_peak_bytes
    budget = rng.choice((high, 2 * high, rng.randint(low, high)))
    return Instance.from_graph(graph, device=device, budget=max(1, budget))


def with_host(rng: Random, instance: Instance, host: int | None = None) -> Instance:
    """Limit the host memory: hardly at all, so that most plans run, or to less than all bytes."""
    if host is None:
        total = max(1, sum(instance.lifetimes.sizes_bytes))
        host = max(1, rng.choice((total, total, rng.randint(1, total), rng.randint(1, total) // 2)))
    device = instance.device.model_copy(update={"host_memory_bytes": host})
    return instance.model_copy(update={"device": device})


@pytest.mark.parametrize("seed", SEEDS)
def test_link_rows_hold_on_busy_links(seed: int) -> None:
    rng = Random(10_000 + seed)
    counts: Counter[str] = Counter()
    for _ in range(INSTANCES):
        instance = busy_instance(rng)
        timelines = some_timelines(rng, instance, 10)
        if timelines:
            counts += check_rows(some_window(rng, instance), timelines)
    print(dict(counts))
    assert counts["plans"] > 4 * INSTANCES
    for kind in ("shared_link, out", "shared_link, in"):
        assert counts[f"{kind}, tight"] > INSTANCES


@pytest.mark.parametrize("seed", SEEDS)
def test_host_rows_hold_where_the_host_is_limited(seed: int) -> None:
    rng = Random(21_000 + seed)
    counts: Counter[str] = Counter()
    for i in range(2 * INSTANCES):
        if i % 3:
            instance = with_host(rng, chained_instance(rng, max_layers=rng.choice((2, 3, 4))))
        else:
            instance = with_host(rng, some_instance(rng, i // 3))
        plans = [tangled_plan(rng, instance) for _ in range(8)]
        timelines = [t for t in (simulate(instance, plan) for plan in plans) if t.feasible]
        timelines += some_timelines(rng, instance, 3)
        if timelines:
            keys = [MemoryKey(k, False) for k in range(instance.lifetimes.num_ops)]
            window = some_window(rng, instance)
            counts += check_rows(window, timelines, keys)
            counts += terms_seen(window, timelines)
    print(dict(counts))
    assert counts["plans"] > 4 * INSTANCES
    assert counts["host, tight"] > INSTANCES
    for kind in ("swap", "else", "before"):
        assert counts[f"swapped_early_{kind}, tight"]
    kinds = ["candidate", "before the first need", "not yet read"]
    if INSTANCES >= 100:  # a rare one
        kinds.append("source or output")
    for kind in kinds:
        assert counts[f"away, {kind}"], f"no plan has bytes of the kind: {kind}"
    assert counts["too_large_for_host"]


def terms_seen(window: WindowFormulation, timelines: Sequence[Timeline]) -> Counter[str]:
    """Count the terms of `WindowColumns.away` that plans bring about, by their kind."""
    counts: Counter[str] = Counter()
    points = [point_of(window, timeline) for timeline in timelines]
    for term in window.away:
        kind = {(1,): "before the first need", (1, -1): "not yet read"}
        swap = window.swap[term.tensor]
        name = kind[tuple(term.signs.values())] if swap in term.signs else "source or output"
        if window.life.first_backward_use[term.tensor] != ABSENT:
            name = "candidate"
        for x in points:
            total = sum(sign * x[column] for column, sign in term.signs.items())
            assert total in (0, 1)
            counts[f"away, {name}"] += total
    return counts


def busy_cases(rng: Random, count: int) -> Iterator[tuple[WindowFormulation, Timeline]]:
    for _ in range(count):
        instance = busy_instance(rng)
        window = WindowFormulation(instance)
        for timeline in some_timelines(rng, instance, 6):
            yield window, timeline


def test_wrong_link_rows_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The checks have teeth.

    A share a tenth too large fails them; and so does a rate that credits latencies as if the
    other direction stood still meanwhile: `WindowColumns.bandwidths`, with the same share.
    """
    right = LinkShare.of
    caught: Counter[str] = Counter()

    def larger_share(window: WindowFormulation, *, outwards: bool) -> LinkShare:
        link = right(window, outwards=outwards)
        return LinkShare(link.rate, link.share * Fraction(11, 10))

    def latency_alone(window: WindowFormulation, *, outwards: bool) -> LinkShare:
        link = right(window, outwards=outwards)
        return LinkShare(window.bandwidths[0 if outwards else 1], link.share)

    for name, wrong in (("share", larger_share), ("latency", latency_alone)):
        monkeypatch.setattr(LinkShare, "of", staticmethod(wrong))
        for window, timeline in busy_cases(Random(12), 20):
            x, level = point_of(window, timeline), device_bytes_at_ends(timeline)
            budget = window.instance.budget_bytes
            if window.instance.device.independent:
                continue
            for key in shared_link_keys(window.life.num_ops):
                row = window.row(key.name)
                share = wrong(window, outwards=key.outwards).share
                room = Fraction(budget - level[key.op][0 if key.outwards else 1])
                if key.other != ABSENT:
                    room += share * (budget - level[key.other][0])
                slack = row.upper - value(row, x) - room * UNITS_PER_BYTE
                caught[f"{name}, {'out' if key.outwards else 'in'}"] += (
                    slack < -UNITS_PER_BYTE // 100
                )
    print(dict(caught))
    assert len(caught) == 4
    assert min(caught.values()) > 3


# ---------------------------------------------------------------------------------------------
# Separation


@pytest.mark.parametrize("seed", SEEDS)
def test_separation_of_host_rows_is_exact(seed: int) -> None:
    rng = Random(14_000 + seed)
    found = 0
    for i in range(max(10, INSTANCES // 2)):
        instance = with_host(rng, tight_instance(rng, i), rng.randint(1, 4))
        window = some_window(rng, instance)
        for x in random_points(rng, window, 4):
            exact_x = [Fraction(v) for v in x]
            claims = host_violations(window, np.array(x))
            for k, claim in enumerate(claims):
                exact = float(exact_violation(window.row(HostKey(k).name), exact_x))
                assert claim == pytest.approx(exact, abs=1e-6)
                found += exact > 0
    assert found


@pytest.mark.parametrize("seed", SEEDS)
def test_separation_of_link_rows_never_claims_too_much(seed: int) -> None:
    """For each op and way, it finds the most violated row of all whose other direction moves."""
    rng = Random(15_000 + seed)
    found = 0
    for i in range(max(8, INSTANCES // 3)):
        instance = busy_instance(rng) if i % 2 else random_instance(rng, max_ops=9)
        if instance.device.independent:
            continue
        budget = max(instance.lifetimes.working_set_bytes)
        instance = instance.model_copy(update={"budget_bytes": max(1, budget)})
        window = some_window(rng, instance)
        keys = list(shared_link_keys(window.life.num_ops))
        rows = [window.row(key.name) for key in keys]
        for x in random_points(rng, window, 3):
            exact_x = [Fraction(v) for v in x]
            best: dict[tuple[bool, int], float] = {}
            exact = {}
            for key, row in zip(keys, rows, strict=True):
                exact[key] = violation = float(exact_violation(row, exact_x))
                place = (key.outwards, key.op)
                best[place] = max(violation, best.get(place, violation))
            slip = 1e-6 * (1 + max(map(abs, exact.values())))
            claims = violated_shared_link_keys(window, np.array(x), -np.inf)
            for claimed, key in claims:
                assert claimed == pytest.approx(exact[key], abs=slip)
                assert claimed == pytest.approx(best[key.outwards, key.op], abs=slip)
                found += claimed > slip
    assert found > 10


# ---------------------------------------------------------------------------------------------
# What they are for


@pytest.mark.parametrize("seed", SEEDS)
def test_bound_with_these_rows_is_below_every_plan(seed: int) -> None:
    rng = Random(16_000 + seed)
    compared = used = 0
    for i in range(INSTANCES):
        tight = busy_instance(rng)
        low = max(tight.lifetimes.working_set_bytes)
        budget = rng.randint(low, tight.graph.unlimited_peak_bytes)
        instance = tight.model_copy(update={"budget_bytes": budget})
        if i % 2:
            instance = with_host(rng, instance)
        plans = every_plan(instance, 250) or [random_plan(rng, instance) for _ in range(30)]
        plans += [random_plan(rng, instance) for _ in range(10)]
        result = check_bound(instance, [*plans, *corner_plans(instance)])
        compared += result is not None
        used += result is not None and result[0] > instance.ideal_ns
    print("compared", compared, "above ideal", used)
    assert compared > INSTANCES // 3
    assert used > INSTANCES // 8


def nested(device: Device, *, budget: int, forward_ns: int = 10, backward_ns: int = 10) -> Instance:
    """Three tensors of 10 bytes, made one after the other and needed in reverse."""
    ops = [
        Op(name=f"f{k}", phase="forward", duration_ns=forward_ns, outputs=(f"t{k}",))
        for k in range(3)
    ]
    ops.append(Op(name="loss", phase="forward", duration_ns=1, workspace_bytes=10))
    ops += [
        Op(name=f"b{k}", phase="backward", duration_ns=backward_ns, inputs=(f"t{k}",))
        for k in (2, 1, 0)
    ]
    graph = Graph(
        name="nested",
        ops=tuple(op.model_copy(update={"recomputable": False}) for op in ops),
        tensors=tuple(Tensor(name=f"t{k}", size_bytes=10) for k in range(3)),
    )
    return Instance.from_graph(graph, device=device, budget=budget)


def test_host_limit_makes_an_instance_infeasible() -> None:
    """Two of three tensors have to be away during the loss, and the host holds one."""
    for host, possible in ((20, True), (19, False), (9, False)):
        device = Device(
            name="small host", d2h_bytes_per_s=GB, h2d_bytes_per_s=GB, host_memory_bytes=host
        )
        instance = nested(device, budget=20)
        window = WindowFormulation(instance)
        bound = WindowLp(window).solve()
        plans = [simulate(instance, plan) for plan in every_plan(instance, 100)]
        assert any(timeline.feasible for timeline in plans) == possible
        assert bound.infeasible == (not possible)
        if not possible:
            assert proves_infeasible(window, bound.contradiction)
            names = " ".join(bound.contradiction)
            assert "host[" in names or "too_large_for_host[" in names


def test_host_room_row_keeps_swap_outs_from_waiting() -> None:
    device = Device(name="host", d2h_bytes_per_s=GB, h2d_bytes_per_s=GB, host_memory_bytes=20)
    window = WindowFormulation(nested(device, budget=30))
    x = np.zeros(len(window.columns))
    x[list(window.swap.values())] = 1.0
    row = most_violated_host_room(window, x)
    assert row is not None
    assert row.name.startswith("host_room[")
    assert value(row, [int(v) for v in x]) == 30 * UNITS_PER_BYTE > row.upper
    x[window.swap[0]] = 0.0
    assert most_violated_host_room(window, x) is None


def test_names_are_read_back_and_others_refused() -> None:
    rng = Random(17)
    instance = with_host(rng, busy_instance(rng, layers=3))
    window = WindowFormulation(instance)
    last = window.life.num_ops - 1
    for key in (*shared_link_keys(window.life.num_ops), *map(HostKey, range(last + 1))):
        assert window.row(key.name).name == key.name
    bad = [
        f"host[{last + 1}]",
        "host[-1]",
        "host[0,1]",
        "shared_link[out,2,3,none]",
        "shared_link[out,2,0,2]",
        "shared_link[out,2,1,0]",
        "shared_link[in,2,2,none]",
        "shared_link[in,2,3,2]",
        "shared_link[in,2,3,4]",
        f"shared_link[in,2,{last + 1},none]",
        "shared_link[both,2,1,none]",
        "shared_link[out,2,-1,none]",
    ]
    device = instance.device.model_copy(
        update={
            "host_memory_bytes": None,
            "d2h_shared_bytes_per_s": None,
            "h2d_shared_bytes_per_s": None,
        }
    )
    plain = WindowFormulation(instance.model_copy(update={"device": device}))
    cases = [*product([window], bad), *product([plain], ["host[2]", "shared_link[out,2,1,none]"])]
    for formulation, name in cases:
        with pytest.raises((KeyError, ValueError)):
            formulation.row(name)


def test_link_row_by_hand() -> None:
    """Each direction at half speed while both are busy: a byte in costs a byte out."""
    device = Device(
        name="half",
        d2h_bytes_per_s=GB,
        h2d_bytes_per_s=GB,
        d2h_shared_bytes_per_s=GB // 2,
        h2d_shared_bytes_per_s=GB // 2,
    )
    instance = nested(device, budget=100)
    window = WindowFormulation(instance)
    for outwards in (True, False):
        link = LinkShare.of(window, outwards=outwards)
        assert (link.rate, link.share) == (GB, Fraction(1))
    row = window.row(SharedLinkKey(True, 5, 2).name)
    # In op 5 (b1), t0 is idle; t1 and t2 leave and come back between A_2 and S_5, in 21 ns.
    expected = {0: -10, 1: 20, 2: 20}
    assert {t: row.coefficients[window.swap[t]] for t in expected} == {
        t: size * UNITS_PER_BYTE for t, size in expected.items()
    }
    fixed, idle = 10, 10
    assert row.upper == (instance.budget_bytes - fixed - idle + 21) * UNITS_PER_BYTE


def test_exact_solves_a_step_that_fills_the_host() -> None:
    """Plans that overfill the host run out of memory, and `host_room` rows mend them."""
    device = Device(name="host", d2h_bytes_per_s=GB, h2d_bytes_per_s=GB, host_memory_bytes=20)
    result = solve(nested(device, budget=20), "exact", time_limit=30)
    assert result.status == "optimal"
