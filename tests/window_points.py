"""Plans as points of the window formulation, checks of rows, and random cases for them.

For a memory row `check_rows` checks more than the budget: the left side may not exceed the bytes
that are on the device at the instant of the row (`device_bytes_at_ends`), which is what
docs/formulations.md proves; rows of the host and of a shared link likewise. A wrong row is caught
by it even where memory has room to spare.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from itertools import product
from random import Random
from typing import Any

import numpy as np
from random_steps import (
    allowed_decisions,
    chained_instance,
    random_instance,
    random_plan,
    simulate_with_chunks,
)

from slackopt.device import Device
from slackopt.formulations.certificate import bound_from_weights
from slackopt.formulations.columns import Resident
from slackopt.formulations.host_rows import HostKey
from slackopt.formulations.linear import Row
from slackopt.formulations.shared_link_rows import LinkShare, SharedLinkKey
from slackopt.formulations.window import UNITS_PER_BYTE, MemoryKey, WindowFormulation
from slackopt.graph import Graph, Op, Tensor
from slackopt.instance import Instance
from slackopt.lifetimes import ABSENT
from slackopt.plan import Plan
from slackopt.simulation import Timeline
from slackopt.solvers.window_lp import WindowLp

# Kinds of static rows that give the least value of a column of their own, and its name.
AUXILIARY = {"rebuilt_before": "rebuilt", "stays_until": "stays", "waits_for": "waits"}


def point_of(
    window: WindowFormulation, timeline: Timeline, static: Sequence[Row] = ()
) -> list[int]:
    """Map a plan that ran to a point, from its decisions and the recorded jobs alone.

    `static`: the static rows, to save time.

    - A decision counts only where it has an *effect*: some job reads the tensor after its last
      forward use. ``swap`` and ``recompute`` are 1 for the tensors so decided; ``keep`` (tensors
      without a backward use) likewise is 1 only if a rerun reads the tensor.
    - ``rerun[j]`` is 1 if op j is rerun, ``before[j,b]`` if in a slot before b. The slot of a
      rerun is the next base op in the record.
    - ``kept_early[q,b]`` is 1 if q is kept and its only reader is rerun before b.
    - ``stall[k]`` is what is left of the slot, from the end of op k - 1 to the end of op k, after
      its reruns and the op itself.
    - The auxiliary columns of residency take the least value that their row allows.

    It asserts that an effective decision has a column, that reruns keep to their slot ranges, and
    that a column shared by an op and its only droppable output has one value.
    """
    life, slots = window.life, window.slots
    tensors = window.instance.graph.tensors
    x = [0] * len(window.columns)
    slot_of: dict[int, int] = {}
    waiting: list[int] = []
    slot_end = 0
    rerun_ns = 0
    for job in timeline.jobs:
        if job.rerun:
            waiting.append(job.op_index)
            rerun_ns += job.end_ns - job.start_ns
            continue
        slot_of.update(dict.fromkeys(waiting, job.op_index))
        duration = job.end_ns - job.start_ns
        x[window.stall[job.op_index]] = job.end_ns - slot_end - duration - rerun_ns
        waiting, rerun_ns, slot_end = [], 0, job.end_ns
    assert not waiting

    read_later: set[int] = set()
    for job in timeline.jobs:
        for t in life.inputs[job.op_index]:
            if job.rerun or job.op_index > life.last_forward_use[t]:
                read_later.add(t)
    for t in read_later:
        decision = timeline.plan.decisions.get(tensors[t].name, "keep")
        if decision == "swap":
            x[window.swap[t]] = 1
        elif decision == "recompute":
            x[window.recompute[t]] = 1
            assert life.producer[t] in slot_of
        elif t in window.keep:
            x[window.keep[t]] = 1

    shared = set(window.recompute.values())
    for j, slot in slot_of.items():
        assert slots.earliest[j] <= slot <= slots.latest[j], "a rerun outside its slot range"
        assert window.rerun[j] not in shared or x[window.rerun[j]] == 1
        x[window.rerun[j]] = 1
        assert slot >= slots.own[j] or window.before[j], "an early rerun without a column"
        for b, column in window.before.get(j, ()):
            x[column] = int(slot < b)
    for (q, b), column in window.kept_early.items():
        (reader,) = slots.readers[q]
        x[column] = int(x[window.keep[q]] == 1 and slot_of.get(reader, b) < b)
    for (q, b), column in window.swapped_early.items():
        (reader,) = slots.readers[q]
        x[column] = int(x[window.swap[q]] == 1 and slot_of.get(reader, b) < b)

    for row in static or window.static_rows():
        auxiliary = AUXILIARY.get(row.name.partition("[")[0])
        if auxiliary is not None:
            (own,) = (
                j for j in row.coefficients if window.columns[j].name.startswith(f"{auxiliary}[")
            )
            assert row.coefficients[own] == -1
            x[own] = max(0, value(row, x) - row.upper)
    return x


def device_bytes_at_ends(timeline: Timeline) -> list[tuple[int, int]]:
    """Bytes on the device at the start of each base op, and just before its end.

    The proof counts copies in as of later than the instant if they start at it, and copies out as
    done if they end at it: their bytes are left out, so that rows can be tight on both sides.
    """
    times, sizes = timeline.memory.time_ns, timeline.memory.size_bytes
    last_forward_use = timeline.instance.lifetimes.last_forward_use
    begins: Counter[int] = Counter()
    for copy in timeline.copies:
        if copy.direction == "h2d":
            begins[copy.start_ns] += copy.size_bytes
    result = []
    for job in timeline.jobs:
        if not job.rerun:
            gone = sum(
                size
                for time, t, size in timeline.record.releases
                if time == job.end_ns and last_forward_use[t] < job.op_index
            )
            at_start = sizes[bisect_right(times, job.start_ns) - 1] - begins[job.start_ns]
            result.append((at_start, sizes[bisect_left(times, job.end_ns) - 1] - gone))
    return result


def value(row: Row, x: Sequence[int]) -> int:
    return sum(a * x[j] for j, a in row.coefficients.items())


def all_keys(ops: int) -> Iterator[MemoryKey]:
    for k in range(ops):
        outs, ins = [ABSENT, *range(k + 1)], [ABSENT, *range(k + 1, ops)]
        for at_end, out_from, in_to in product((False, True), outs, ins):
            yield MemoryKey(k, at_end, out_from, in_to)


def some_thresholds(rng: Random, instance: Instance) -> list[int] | None:
    """Thresholds for early reruns: the default, none, a few, or all backward slots."""
    ops = instance.lifetimes.num_ops
    few = rng.sample(range(ops + 1), min(ops + 1, rng.randint(1, 3)))
    return rng.choice((None, [], few, list(range(instance.lifetimes.num_forward, ops))))


def some_window(rng: Random, instance: Instance) -> WindowFormulation:
    return WindowFormulation(instance, some_thresholds(rng, instance))


def resident_kind(window: WindowFormulation, resident: Resident) -> str:
    """Which part of the proof an entry of `extra_residents` belongs to."""
    first, column = resident.first, resident.column
    kind, _, arguments = window.columns[column].name.partition("[")
    if kind == "keep":
        q = int(arguments.rstrip("]"))
        return "kept source" if first == window.life.last_forward_use[q] + 1 else "source or output"
    return "rebuilt" if kind == "before" else kind


def check_rows(
    window: WindowFormulation, timelines: Sequence[Timeline], keys: Sequence[MemoryKey] = ()
) -> Counter[str]:
    """Assert all rows for all timelines; count what was checked and how often it was tight.

    Static rows count as tight only where they say more than ``0 <= 0``. `keys`: the memory rows
    to check; all of them by default.
    """
    counts: Counter[str] = Counter()
    static = window.static_rows()
    points = [point_of(window, timeline, static) for timeline in timelines]
    for timeline, x in zip(timelines, points, strict=True):
        cost = sum(c.objective * v for c, v in zip(window.columns, x, strict=True))
        assert cost == timeline.recompute_ns + timeline.stall_ns()
        assert timeline.makespan_ns == window.instance.ideal_ns + cost
        assert all(v >= 0 for v in x)
        assert all(c.upper is None or v <= c.upper for c, v in zip(window.columns, x, strict=True))
    for row in static:
        kind = row.name.partition("[")[0]
        for timeline, x in zip(timelines, points, strict=True):
            slack = row.upper - value(row, x)
            assert slack >= 0, (row.name, row, timeline.plan.decisions)
            counts[kind] += 1
            counts[f"{kind}, tight"] += slack == 0 and any(x[j] for j in row.coefficients)
    levels = [device_bytes_at_ends(timeline) for timeline in timelines]
    budget = window.instance.budget_bytes
    for key in keys or all_keys(window.life.num_ops):
        row = window.memory_row(key)
        none = (key.out_from == ABSENT) + (key.in_to == ABSENT)
        kind = f"memory, {2 - none} windows"
        here = [r for r in window.extra_residents if r[0] <= key.op < r[1]]
        for timeline, x, level in zip(timelines, points, levels, strict=True):
            bytes_here = level[key.op][key.at_end]
            slack = row.upper - value(row, x) - (budget - bytes_here) * UNITS_PER_BYTE
            assert slack >= 0, (key.name, row, timeline.plan.decisions)
            counts[kind] += 1
            counts[f"{kind}, tight"] += slack == 0
            for resident in here:
                if x[resident[3]] and none == 2:
                    counts[f"bytes of {resident_kind(window, resident)}"] += 1
                    counts[f"bytes of {resident_kind(window, resident)}, tight"] += slack == 0
    check_host_rows(window, timelines, points, levels, counts)
    check_shared_link_rows(window, timelines, points, levels, counts)
    counts["plans"] += len(timelines)
    counts["rows"] += sum(counts[f"memory, {n} windows"] for n in range(3))
    early = [pairs[-1][1] for pairs in window.before.values()]
    counts["plans with early reruns"] += sum(any(x[column] for column in early) for x in points)
    return counts


def bytes_somewhere(timeline: Timeline) -> list[int]:
    """Bytes on the device or on the host, each once, at the start of each base op.

    Those of `device_bytes_at_ends`, and what swap-outs have released and no swap-in has begun to
    bring back.
    """
    back = {
        timeline.instance.graph.tensor_index[c.tensor]: c.start_ns
        for c in timeline.copies
        if c.direction == "h2d"
    }
    result = []
    starts = [job.start_ns for job in timeline.jobs if not job.rerun]
    for start, (on_device, _) in zip(starts, device_bytes_at_ends(timeline), strict=True):
        result.append(
            on_device
            + sum(size for time, t, size in timeline.record.releases if time <= start <= back[t])
        )
    return result


def check_host_rows(
    window: WindowFormulation,
    timelines: Sequence[Timeline],
    points: Sequence[Sequence[int]],
    levels: Sequence[Sequence[tuple[int, int]]],
    counts: Counter[str],
) -> None:
    """Assert the rows of the host memory, with what is in either memory in place of both."""
    host = window.instance.device.host_memory_bytes
    if host is None:
        return
    room = window.instance.budget_bytes + host
    unions = [bytes_somewhere(timeline) for timeline in timelines]
    for k in range(window.life.num_ops):
        row = window.row(HostKey(k).name)
        for timeline, x, union in zip(timelines, points, unions, strict=True):
            assert value(row, x) <= row.upper
            slack = row.upper - value(row, x) - (room - union[k]) * UNITS_PER_BYTE
            assert slack >= 0, (row.name, row, timeline.plan.decisions)
            counts["host"] += 1
            counts["host, tight"] += slack == 0 and any(x[c] for c in window.swap.values())


def shared_link_keys(ops: int) -> Iterator[SharedLinkKey]:
    for k in range(ops):
        for h in range(k + 1):
            for i in (ABSENT, *range(h, k)):
                yield SharedLinkKey(True, k, h, i)
        for h in range(k + 1, ops):
            for i in (ABSENT, *range(k + 1, h + 1)):
                yield SharedLinkKey(False, k, h, i)


def check_shared_link_rows(
    window: WindowFormulation,
    timelines: Sequence[Timeline],
    points: Sequence[Sequence[int]],
    levels: Sequence[Sequence[tuple[int, int]]],
    counts: Counter[str],
) -> None:
    """Assert the rows of a shared link, with the bytes on the device in place of the budget."""
    if window.instance.device.independent:
        return
    budget, shares = window.instance.budget_bytes, {}
    for outwards in (True, False):
        shares[outwards] = LinkShare.of(window, outwards=outwards).share
    keys = list(shared_link_keys(window.life.num_ops))
    for key in keys[:: 1 + len(keys) // 500]:  # of long steps, some
        row = window.row(key.name)
        kind = f"shared_link, {'out' if key.outwards else 'in'}"
        share = shares[key.outwards]
        for timeline, x, level in zip(timelines, points, levels, strict=True):
            assert value(row, x) <= row.upper, (row.name, row, timeline.plan.decisions)
            room = Fraction(budget - level[key.op][0 if key.outwards else 1])
            if key.other != ABSENT:
                # Both ends of op i are in the window, but for the one at which it ends.
                here = level[key.other][: 1 if key.other == key.limit > key.op else 2]
                room += share * (budget - min(here))
            slack = row.upper - value(row, x) - room * UNITS_PER_BYTE
            assert slack >= 0, (row.name, row, timeline.plan.decisions)
            counts[kind] += 1
            counts[f"{kind}, tight"] += slack < UNITS_PER_BYTE and share > 0


def some_timelines(rng: Random, instance: Instance, tries: int) -> list[Timeline]:
    """Simulate random plans, with and without triggers and chunks; keep those that run."""
    timelines = []
    largest = max(instance.lifetimes.sizes_bytes, default=1)
    for _ in range(tries):
        plan = random_plan(rng, instance)
        if rng.random() < 0.4:
            plan = Plan.for_instance(instance, plan.decisions)
        chunk = rng.choice([0, 0, 0, 1, max(1, largest // 7), max(1, largest // 2)])
        chunk = max(chunk, largest // 1000) if chunk else 0
        timeline = simulate_with_chunks(instance, plan, chunk)
        if timeline.feasible:
            timelines.append(timeline)
    return timelines


def tangled_instance(rng: Random) -> Instance:
    """Random instance: backward ops read forward tensors in any order, nearly all recomputable.

    Reruns then pull other reruns forward, through tensors with and without a backward use; also
    outputs of backward ops are recomputed. The budget is the unlimited peak or more for most, so
    that nearly every plan runs: `check_rows` compares with the bytes on the device.
    """
    forward, backward = rng.randint(3, 7), rng.randint(2, 4)
    made = [f"batch{i}" for i in range(rng.randint(0, 2))]
    ops: list[Op] = []
    forward_made: set[str] = set()
    for k in range(forward + backward):
        is_forward = k < forward
        recent, pool = made[-3:], [name for name in made if is_forward or name in forward_made]
        inputs = rng.sample(recent, min(len(recent), rng.choice((1, 1, 2)))) if is_forward else []
        inputs += rng.sample(pool, min(len(pool), rng.choice((0, 0, 1) if is_forward else (1, 2))))
        if not is_forward and rng.random() < 0.3:
            inputs += made[-1:]
        outputs = [f"t{k}.{i}" for i in range(rng.choice((0, 1, 1, 1, 2, 2)))]
        ops.append(
            Op(
                name=f"op{k}",
                phase="forward" if is_forward else "backward",
                duration_ns=rng.randint(1, 12),
                inputs=tuple(dict.fromkeys(inputs)),
                outputs=tuple(outputs),
                workspace_bytes=rng.choice((0, 0, 3)),
                recomputable=rng.random() < 0.95,
            )
        )
        made += outputs
        forward_made |= set(outputs) if is_forward else set()
    used = {name for op in ops for name in (*op.inputs, *op.outputs)}
    tensors = tuple(
        Tensor(name=name, size_bytes=rng.randint(1, 12), swappable=rng.random() < 0.8)
        for name in made
        if name in used
    )
    graph = Graph(name="tangled", ops=tuple(ops), tensors=tensors)
    rates = (10**9, 10**9, 2 * 10**9, 5 * 10**8, 1_700_000_001, 4 * 10**9)
    device = Device(
        name="tangled",
        d2h_bytes_per_s=rng.choice(rates),
        h2d_bytes_per_s=rng.choice(rates),
        latency_ns=rng.choice((0, 0, 1, 3)),
    )
    low, high = max(graph.lifetimes.working_set_bytes), graph.unlimited_peak_bytes
    budget = rng.choice((high, high + 20, rng.randint(low, high)))
    return Instance.from_graph(graph, device=device, budget=max(1, budget))


def tangled_plan(rng: Random, instance: Instance) -> Plan:
    """Random plan with many recomputes and a few swaps, triggers from the default policy."""
    weight = {"keep": rng.choice((0, 1, 2)), "swap": rng.choice((0, 1, 1)), "recompute": 3}
    decisions: dict[str, Any] = {}
    for name, allowed in allowed_decisions(instance).items():
        weights = [weight[choice] for choice in allowed]
        decisions[name] = rng.choices(allowed, weights)[0] if any(weights) else "keep"
    return Plan.for_instance(instance, decisions)


def with_budget(instance: Instance, budget: int) -> Instance:
    return Instance.from_graph(instance.graph, device=instance.device, budget=max(1, budget))


def some_instance(rng: Random, i: int, max_ops: int = 9) -> Instance:
    """Instances of three kinds in turn."""
    if i % 3 == 0:
        return tangled_instance(rng)
    return (
        chained_instance(rng, max_layers=2) if i % 3 == 1 else random_instance(rng, max_ops=max_ops)
    )


def tight_instance(rng: Random, i: int) -> Instance:
    """Random instance with the least budget that the working set allows, below the peak."""
    while True:
        instance = some_instance(rng, i, max_ops=8)
        budget = max(instance.lifetimes.working_set_bytes)
        if budget < instance.graph.unlimited_peak_bytes and instance.lifetimes.num_ops <= 10:
            return with_budget(instance, budget)


def random_points(rng: Random, window: WindowFormulation, count: int) -> Iterator[list[float]]:
    """Points with ascending ``before``, as every LP point has: fractional, integral, sparse."""
    for _ in range(count):
        p_rerun = rng.choice((0.0, 0.5, 1.0, 1.0))
        integral = rng.random() < 0.3
        stalls = rng.choice((0.0, 0.0, 1.0, 5.0))
        x = [float(rng.random() < 0.5) if integral else rng.random() for _ in window.columns]
        for j, column in window.rerun.items():
            if rng.random() >= p_rerun:
                x[column] = 0.0
            most = x[column]
            for _, before in reversed(window.before.get(j, ())):
                most *= (rng.random() < 0.6) * (1.0 if integral else rng.random())
                x[before] = most
        for column in window.stall.values():
            x[column] = stalls * rng.random()
        yield x


def exact_violation(row: Row, x: Sequence[Fraction]) -> Fraction:
    """Bytes by which a point violates a row."""
    lhs = sum((a * x[j] for j, a in row.coefficients.items()), Fraction(0))
    return (lhs - row.upper) / UNITS_PER_BYTE


def corner_plans(instance: Instance) -> Iterator[Plan]:
    """Keep, swap and recompute wherever that is allowed."""
    allowed = allowed_decisions(instance)
    for order in ("keep", "swap", "recompute", "swap recompute", "recompute swap"):
        decisions: dict[str, Any] = {}
        for name, choices in allowed.items():
            decisions[name] = next((d for d in order.split() if d in choices), "keep")
        yield Plan.for_instance(instance, decisions)


def best_makespan(instance: Instance, plans: Sequence[Plan]) -> int | None:
    """Shortest makespan of the plans, with whole tensors and with chunks."""
    chunks = (0, 1) if max(instance.lifetimes.sizes_bytes, default=1) < 100 else (0,)
    spans = [
        simulate_with_chunks(instance, plan, chunk).makespan_ns
        for plan in plans
        for chunk in chunks
    ]
    return min((span for span in spans if span is not None), default=None)


def check_bound(
    instance: Instance, plans: Sequence[Plan], thresholds: Sequence[int] | None = None
) -> tuple[int, int] | None:
    """Assert LP bound <= the best of some plans; return both if one runs."""
    best = best_makespan(instance, plans)
    window = WindowFormulation(instance, thresholds)
    bound = WindowLp(window).solve()
    assert bound_from_weights(window, bound.weights) == bound.lower_bound_ns or not bound.weights
    assert instance.ideal_ns <= bound.lower_bound_ns
    if best is None:
        return None
    assert not bound.infeasible
    assert bound.converged
    assert bound.lower_bound_ns <= best
    return bound.lower_bound_ns, best


def _decisions(names: Iterable[str], choices: Iterable[str]) -> dict[str, Any]:
    return dict(zip(names, choices, strict=True))


def every_plan(instance: Instance, most: int) -> list[Plan]:
    """All decisions with default triggers; an empty list if there are more than `most`."""
    allowed = allowed_decisions(instance)
    if np.prod([float(len(choices)) for choices in allowed.values()]) > most:
        return []
    return [
        Plan.for_instance(instance, _decisions(allowed, choices))
        for choices in product(*allowed.values())
    ]
