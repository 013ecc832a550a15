"""Integer rows: every plan's integer point satisfies them, and their bound is below its makespan.

Set ``SLACKOPT_ROWS_INSTANCES`` to check more random instances per seed than the default.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import product
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_steps import allowed_decisions, chained_instance, random_instance
from window_points import shared_link_keys

from slackopt.device import Device
from slackopt.formulations.host_rows import HostKey
from slackopt.formulations.integer_rows import IntegerRow, IntegerRows
from slackopt.formulations.linear import Row
from slackopt.formulations.plan_points import plan_point
from slackopt.formulations.window import MemoryKey, WindowFormulation
from slackopt.graph import Graph
from slackopt.instance import Instance
from slackopt.lifetimes import ABSENT
from slackopt.records import MAX_BYTES, MAX_DURATION_NS
from slackopt.simulation.evaluator import Evaluator
from slackopt.simulation.sequence import DECISION_CODES
from slackopt.solvers.window_lp import WindowLp

INSTANCES = int(os.environ.get("SLACKOPT_ROWS_INSTANCES", "30"))


def value(row: Row | IntegerRow, x: Sequence[int]) -> int:
    return sum(a * x[j] for j, a in row.coefficients.items())


def random_points(
    rng: Random, window: WindowFormulation, tries: int
) -> Iterator[tuple[int, list[int]]]:
    """Makespans and exact points of random plans that run."""
    instance, evaluator = window.instance, Evaluator(window.instance)
    for _ in range(tries):
        weight = {name: rng.choice((0, 1, 3)) for name in DECISION_CODES}
        decisions = []
        for allowed in allowed_decisions(instance).values():
            weights = [weight[name] for name in allowed]
            name = rng.choices(allowed, weights)[0] if any(weights) else "keep"
            decisions.append(DECISION_CODES[name])
        sequence, record = evaluator.simulate(decisions)
        if record.makespan_ns is not None:
            yield record.makespan_ns, plan_point(window, decisions, sequence, record)


def some_rows(rng: Random, window: WindowFormulation) -> list[Row]:
    ops = window.life.num_ops
    keys = [
        MemoryKey(k, at_end, h, h2)
        for k in range(ops)
        for at_end, h, h2 in product(
            (False, True), (ABSENT, *range(k + 1)), (ABSENT, *range(k + 1, ops))
        )
    ]
    names = [key.name for key in rng.sample(keys, min(len(keys), 150))]
    if window.instance.device.host_memory_bytes is not None:
        names += [HostKey(k).name for k in range(ops)]
    if not window.instance.device.independent:
        links = list(shared_link_keys(ops))
        names += [key.name for key in rng.sample(links, min(len(links), 60))]
    return [*window.static_rows(), *map(window.row, names)]


def stretched(rng: Random, instance: Instance) -> Instance:
    """The same step in other units: sizes up to petabytes, durations up to an hour."""
    graph = instance.graph
    bytes_ = max(
        [1, *(t.size_bytes for t in graph.tensors), *(o.workspace_bytes for o in graph.ops)]
    )
    size = rng.choice([f for f in (1, 7, 10**6 + 3, 10**14 + 7) if f * bytes_ <= MAX_BYTES])
    durations = max([1, instance.device.latency_ns, *(op.duration_ns for op in graph.ops)])
    time = rng.choice(
        [f for f in (1, 13, 10**6 + 7, 10**11) if f * (durations + 1) <= MAX_DURATION_NS]
    )
    ops = tuple(
        op.model_copy(
            update={
                "duration_ns": op.duration_ns * time + rng.randrange(time),
                "workspace_bytes": op.workspace_bytes * size,
            }
        )
        for op in graph.ops
    )
    tensors = tuple(
        t.model_copy(update={"size_bytes": t.size_bytes * size - rng.randrange(size)})
        for t in graph.tensors
    )
    new = Graph(name="stretched", ops=ops, tensors=tensors)
    old = instance.device
    link = {
        field: min(max(1, rate * size // time), MAX_BYTES)
        for field, rate in old.model_dump().items()
        if field.endswith("bytes_per_s") and rate is not None
    }
    host = old.host_memory_bytes
    device = Device(
        name="stretched",
        latency_ns=old.latency_ns * time,
        host_memory_bytes=None if host is None else min(host * size, MAX_BYTES),
        **link,
    )
    low, high = max(new.lifetimes.working_set_bytes), new.unlimited_peak_bytes
    return Instance.from_graph(new, device=device, budget=max(1, rng.randint(low, high)))


def check_integer_rows(rng: Random, instance: Instance, limit: int | None = None) -> Counter[str]:
    window = WindowFormulation(instance)
    integer = IntegerRows(window) if limit is None else IntegerRows(window, limit)
    exact_rows = some_rows(rng, window)
    rows = [integer.row(row) for row in exact_rows]
    counts: Counter[str] = Counter()
    for row in rows:
        if row is not None:
            # Rounding down can add 1 per column.
            largest = sum(map(abs, row.coefficients.values()))
            assert largest <= integer.row_limit + len(row.coefficients)
    for makespan, x in random_points(rng, window, 8):
        added = makespan - instance.ideal_ns
        assert added == sum(c.objective * v for c, v in zip(window.columns, x, strict=True))
        z = integer.point(x)
        if any(v > c.upper for v, c in zip(z, integer.columns, strict=True)):
            # Longer stalls than the columns hold: then the cap is the claim.
            assert added > integer.cap_ns
            assert all(z[i] <= 1 for i in integer.boolean.values())
            counts["capped"] += 1
        for row, exact in zip(rows, exact_rows, strict=True):
            assert value(exact, x) <= exact.upper, exact.name
            if row is not None:
                slack = row.upper - value(row, z)
                assert slack >= 0, (row, exact)
                counts["tight"] += slack == 0
        objective = sum(c.objective * v for c, v in zip(integer.columns, z, strict=True))
        assert integer.added_bound_ns(objective) <= added
        counts["exact"] += integer.added_bound_ns(objective) == added
        counts["plans"] += 1
        counts["stalls"] += any(z[i] for i in integer.segment_columns)
        back = integer.exact_point(z)
        assert all(back[j] == x[j] for j in integer.boolean)
    return counts


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("limit", [None, 1000, 40])
def test_integer_points_of_plans_satisfy_integer_rows(seed: int, limit: int | None) -> None:
    """Also where rows are rounded so coarsely that little is left of them."""
    rng = Random(300 + seed)
    counts: Counter[str] = Counter()
    for i in range(INSTANCES):
        instance = random_instance(rng, max_ops=12) if i % 2 else chained_instance(rng)
        counts += check_integer_rows(rng, stretched(rng, instance), limit)
    print(dict(counts))
    assert counts["plans"] > INSTANCES
    for kind in ("tight", "exact", "stalls", "capped"):
        assert counts[kind], f"no {kind} was ever seen: the check is too weak"


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_integer_row_is_a_relaxation_of_any_row(data: st.DataObject) -> None:
    """Any row with nonpositive stall coefficients, any integral point that satisfies it."""
    window = WindowFormulation(chained_instance(Random(3)))
    integer = IntegerRows(window, data.draw(st.sampled_from((5, 60, 10**4, 1 << 27))))
    stalls = set(window.stall.values())
    booleans = [j for j in range(len(window.columns)) if j not in stalls]
    big = st.integers(-(10**20), 10**20) | st.integers(-5, 5)
    coefficients: dict[int, int] = data.draw(
        st.dictionaries(st.sampled_from(booleans), big, min_size=1, max_size=6)
    )
    coefficients |= data.draw(
        st.dictionaries(st.sampled_from(sorted(stalls)), st.integers(-(10**12), 0), max_size=4)
    )
    x = [0] * len(window.columns)
    for j in coefficients:
        x[j] = data.draw(st.integers(0, 10**6) if j in stalls else st.integers(0, 1))
    at_point = sum(a * x[j] for j, a in coefficients.items())
    row = Row("any[0]", coefficients, at_point + data.draw(st.integers(0, 3) | st.just(10**9)))
    rounded = integer.row(row)
    if rounded is not None:
        assert value(rounded, integer.point(x)) <= rounded.upper
        assert rounded.loss >= 0


def test_rows_of_small_numbers_are_kept_as_they_are() -> None:
    """No rounding without need: static rows over Booleans are equal, point for point."""
    rng = Random(5)
    for _ in range(10):
        window = WindowFormulation(chained_instance(rng))
        integer = IntegerRows(window)
        stalls = set(window.stall.values())
        for row in window.static_rows():
            if stalls & set(row.coefficients) or len(row.coefficients) > 8:
                continue
            rounded = integer.row(row)
            columns = list(row.coefficients)
            for values in product((0, 1), repeat=len(columns)):
                x = [0] * len(window.columns)
                for j, v in zip(columns, values, strict=True):
                    x[j] = v
                holds = rounded is None or value(rounded, integer.point(x)) <= rounded.upper
                assert holds == (value(row, x) <= row.upper)
            assert rounded is None or rounded.loss == 0


def test_wrong_rounding_is_caught() -> None:
    """The checks have teeth: rounding up instead of down cuts plans off."""
    rng = Random(8)
    cut = 0
    for _ in range(30):
        instance = random_instance(rng, max_ops=10)
        window = WindowFormulation(instance)
        integer = IntegerRows(window, 40)
        rows = [row for row in map(integer.row, some_rows(rng, window)) if row is not None]
        for _, x in random_points(rng, window, 6):
            z = integer.point(x)
            cut += any(
                sum((a + 1) * z[i] for i, a in row.coefficients.items()) > row.upper for row in rows
            )
    assert cut > 10


def test_rounding_cost_is_small_and_grows_with_the_unit() -> None:
    rng = Random(4)
    seen = 0
    for _ in range(30):
        window = WindowFormulation(stretched(rng, random_instance(rng, max_ops=12)))
        bound = WindowLp(window).solve()
        if not bound.weights or bound.infeasible or window.instance.ideal_ns < 10**7:
            continue
        costs = [IntegerRows(window, 1 << b).rounding_cost_ns(bound.weights) for b in (27, 12, 6)]
        assert 0 <= costs[0] <= costs[1] <= costs[2]
        assert costs[0] <= 1e-5 * window.instance.ideal_ns
        seen += 1
    assert seen > 5


def test_columns_that_are_not_boolean_are_refused() -> None:
    window = WindowFormulation(chained_instance(Random(1)))
    window.add_column("count[0]", upper=3)
    with pytest.raises(ValueError, match="neither Boolean nor a stall"):
        IntegerRows(window)


def test_loss_counts_what_rounding_gives_up() -> None:
    window = WindowFormulation(chained_instance(Random(1)))
    integer = IntegerRows(window, 10)
    rounded = integer.row(Row("any[0]", {0: 7, 1: 9, 2: 8, 3: 5}, 20))
    assert rounded is not None
    # 29 in all: a unit of 3 makes it 2, 3, 2, 1, at most 6.
    assert rounded.coefficients == {0: 2, 1: 3, 2: 2, 3: 1}
    assert rounded.upper == 6
    assert rounded.loss == Fraction(1 + 0 + 2 + 2)
