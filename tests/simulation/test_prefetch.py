"""The default prefetch triggers: examples worked out by hand, and the policy in its plainest form.

The hand-made step has three forward ops (0, 1, 2) and three backward ops (3, 4, 5) of 10 ns each.
Op ``i`` makes activation ``a<i>`` of 10 bytes; ``a0`` is read by ops 1 and 5, ``a1`` by ops 2 and
4, ``a2`` by op 3. Without evictions ops 0 to 5 hold 10, 20, 30, 30, 20 and 10 bytes. The
link moves one byte a nanosecond and has no latency, unless a test says otherwise.
"""

import random
from collections.abc import Mapping
from itertools import accumulate, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_steps import instances_with_plans, random_instance, random_plan

from slackopt.device import Device
from slackopt.graph import Graph, Op, Tensor
from slackopt.instance import Instance
from slackopt.lifetimes import ABSENT
from slackopt.plan import Plan
from slackopt.simulation import check_timeline, simulate
from slackopt.simulation.prefetch import default_triggers
from slackopt.simulation.sequence import DECISION_CODES, ComputeSequence, compute_sequence


def step(
    budget: int, *, bytes_per_ns: float = 1, latency: int = 0, workspace: Mapping[int, int] = {}
) -> Instance:
    """Return the step of the module's docstring."""
    reads = [(), ("a0",), ("a1",), ("a2",), ("a1",), ("a0",)]
    ops = tuple(
        Op(
            name=f"op{k}",
            phase="forward" if k < 3 else "backward",
            duration_ns=10,
            inputs=reads[k],
            outputs=(f"a{k}",) if k < 3 else (),
            workspace_bytes=workspace.get(k, 0),
        )
        for k in range(6)
    )
    tensors = tuple(Tensor(name=f"a{i}", size_bytes=10) for i in range(3))
    rate = int(bytes_per_ns * 10**9)
    device = Device(name="link", d2h_bytes_per_s=rate, h2d_bytes_per_s=rate, latency_ns=latency)
    graph = Graph(name="mirror", ops=ops, tensors=tensors)
    return Instance.from_graph(graph, device=device, budget=budget)


def triggers(
    instance: Instance, decisions: Mapping[str, str], prefetch: Mapping[str, int] | None = None
) -> dict[str, int]:
    """Return the triggers that the simulator works with."""
    plan = Plan.for_instance(instance, decisions, prefetch)
    return dict(simulate(instance, plan).plan.prefetch)


def test_comes_back_at_once_when_there_is_room() -> None:
    # Out from 10 to 20, when op 1, its last forward use, ends as well: released for op 2. The
    # other tensors leave 10 of 30 bytes during ops 2 and 3 and 20 during op 4.
    assert triggers(step(30), {"a0": "swap"}) == {"a0": 2}


def test_waits_until_there_is_room_up_to_the_need() -> None:
    # Of 20 bytes nothing is free during ops 2 and 3, and 10 during op 4.
    assert triggers(step(20), {"a0": "swap"}) == {"a0": 4}


def test_waits_for_the_need_itself_when_there_is_no_room_before() -> None:
    # The workspace of op 4 takes the 10 bytes that would be free.
    assert triggers(step(20, workspace={4: 10}), {"a0": "swap"}) == {"a0": 5}


@pytest.mark.parametrize(
    ("bytes_per_ns", "latency", "trigger"),
    [
        (0.5, 0, 3),  # out from 10 to 30: op 3 begins at 30
        (1, 10, 3),  # the same with latency
        (0.5, 1, 4),  # released at 31, in the middle of op 3
        (0.3, 0, 5),  # released at 44, after op 4 has begun: with the need
        (0.25, 0, 5),  # released at 50, as the need begins
        (0.1, 0, 5),  # released at 110, after the last job has begun
    ],
)
def test_never_before_the_release(bytes_per_ns: float, latency: int, trigger: int) -> None:
    instance = step(30, bytes_per_ns=bytes_per_ns, latency=latency)
    assert triggers(instance, {"a0": "swap"}) == {"a0": trigger}


def test_tensors_needed_earlier_have_their_memory_reserved() -> None:
    both = {"a0": "swap", "a1": "swap"}
    # a1 goes out from 20 to 30, so it is released for op 3, and is needed first, by op 4. Of 30
    # bytes ops 3 and 4 leave 20: both fit from op 3 on. a0 could not come before a1.
    assert triggers(step(30), both) == {"a1": 3, "a0": 3}
    # Of 20 bytes op 3 leaves 10, which a1 takes; during op 4 a1 is counted anyway and 10 are left.
    assert triggers(step(20), both) == {"a1": 3, "a0": 4}


def test_given_triggers_are_kept_and_the_others_respect_them() -> None:
    both = {"a0": "swap", "a1": "swap"}
    assert triggers(step(30), {"a0": "swap"}, {"a0": 5}) == {"a0": 5}
    assert triggers(step(20), {"a0": "swap"}, {"a0": 2}) == {"a0": 2}, "even if there is no room"
    # Swap-ins are served in order of need: a0 can't come before a1.
    assert triggers(step(30), both, {"a1": 4}) == {"a1": 4, "a0": 4}
    # A trigger after its own need counts as reached at the need, op 4.
    assert triggers(step(30), both, {"a1": 5}) == {"a1": 5, "a0": 4}
    # A trigger before the release has no effect on the others.
    assert triggers(step(30), both, {"a0": 2}) == {"a1": 3, "a0": 2}


def test_a_rerun_can_be_the_need() -> None:
    # b0 = op 3 reads x1, which is dropped; its rerun, in slot 3, reads x0, which is swapped.
    ops = (
        Op(name="f0", phase="forward", duration_ns=10, outputs=("x0",)),
        Op(name="f1", phase="forward", duration_ns=10, inputs=("x0",), outputs=("x1",)),
        Op(name="f2", phase="forward", duration_ns=10, inputs=("x1",), outputs=("x2",)),
        Op(name="b0", phase="backward", duration_ns=10, inputs=("x2",)),
        Op(name="b1", phase="backward", duration_ns=10, inputs=("x1",)),
        Op(name="b2", phase="backward", duration_ns=10, inputs=("x0",)),
    )
    tensors = tuple(Tensor(name=f"x{i}", size_bytes=10) for i in range(3))
    device = Device(name="link", d2h_bytes_per_s=10**9, h2d_bytes_per_s=10**9)
    graph = Graph(name="rerun", ops=ops, tensors=tensors)
    instance = Instance.from_graph(graph, device=device, budget=20)
    plan = Plan.for_instance(instance, {"x0": "swap", "x1": "recompute"})
    timeline = simulate(instance, plan)
    # Ops 2 and 3 leave 0 and 10 of 20 bytes: it fits from op 3 on, one op before the rerun.
    assert timeline.plan.prefetch == {"x0": 3}
    assert [(job.op, job.rerun) for job in timeline.jobs[4:]] == [
        ("f1", True),
        ("b1", False),
        ("b2", False),
    ]
    check_timeline(timeline)


def plain_policy(
    instance: Instance, sequence: ComputeSequence, given: Mapping[int, int]
) -> dict[int, int] | None:
    """Return the triggers, found slot by slot and job by job: quadratic, and easy to read.

    None if a swap-out ends after the last job has begun, a case of its own.
    """
    life, device = instance.lifetimes, instance.device
    num_jobs = len(sequence.ops)
    ends = list(accumulate(life.durations_ns[op] for op in sequence.ops))
    begins = [0, *ends[:-1]]
    swapped = [t for position in sorted(sequence.needs) for t in sequence.needs[position]]
    queue = [(0, t) for t in swapped if life.producer[t] == ABSENT]
    queue.sort(key=lambda entry: entry[1])
    for op in range(life.num_ops):
        queue += [
            (ends[sequence.base_position[op]], t) for t in life.outputs[op] if t in set(swapped)
        ]
    released_ns: dict[int, int] = {}
    idle_from = 0
    for ready, t in queue:
        idle_from = max(idle_from, ready) + device.swap_out_ns(life.sizes_bytes[t])
        last = life.last_forward_use[t]
        forward_end = ends[sequence.base_position[last]] if last >= 0 else 0
        released_ns[t] = max(idle_from, forward_end)

    if any(time > begins[-1] for time in released_ns.values()):
        return None
    level = sequence.batch_bytes
    free = []
    for position in range(num_jobs):
        level += sequence.allocated_bytes[position]
        away = sum(
            life.sizes_bytes[t]
            for t in swapped
            if released_ns[t] <= begins[position] and position < sequence.next_need[t]
        )
        free.append(instance.budget_bytes - level + away)
        level -= sequence.freed_bytes[position]

    chosen: dict[int, int] = {}
    earliest = 0  # swap-ins are served in order
    for t in swapped:
        size, need = life.sizes_bytes[t], sequence.next_need[t]
        need_slot = sequence.slots[need]

        def jobs_from(slot: int, need: int = need) -> list[int]:
            return [i for i in range(need) if sequence.slots[i] >= slot]

        slot = max(earliest, life.last_forward_use[t] + 1)
        while slot < need_slot and any(
            free[i] < size or released_ns[t] > begins[i] for i in jobs_from(slot)
        ):
            slot += 1
        chosen[t] = given.get(t, min(slot, need_slot))
        earliest = min(need_slot, max(earliest, chosen[t]))
        for i in jobs_from(earliest):
            free[i] -= size
    return chosen


def agree_with_plain_policy(instance: Instance, plan: Plan, given_names: set[str]) -> bool:
    """Assert equality where the plain policy speaks; return whether it did."""
    names = [tensor.name for tensor in instance.graph.tensors]
    decisions = [DECISION_CODES[plan.decisions.get(name, "keep")] for name in names]
    life = instance.lifetimes
    sequence = compute_sequence(life, decisions)
    fixed = {t: plan.prefetch[name] for t, name in enumerate(names) if name in given_names}
    found = default_triggers(life, instance.device, instance.budget_bytes, sequence, fixed)
    swapped = [t for position in sorted(sequence.needs) for t in sequence.needs[position]]
    expected = plain_policy(instance, sequence, fixed)
    if expected is None:
        return False
    assert {t: found[t] for t in swapped} == expected
    assert all(found[t] == fixed[t] for t in swapped if t in fixed)
    if not fixed:
        assert all(found[a] <= found[b] for a, b in pairwise(swapped)), "they ascend"
    return bool(swapped)


@pytest.mark.parametrize("seed", range(4))
def test_agrees_with_the_plain_policy(seed: int) -> None:
    rng = random.Random(seed)
    tested = 0
    for _ in range(300):
        instance = random_instance(rng)
        plan = random_plan(rng, instance)
        share = rng.choice((0, 0, 0.3, 1))
        given_names = {name for name in plan.prefetch if rng.random() < share}
        tested += agree_with_plain_policy(instance, plan, given_names)
    assert tested > 50


@settings(max_examples=150, deadline=None)
@given(instances_with_plans(), st.booleans())
def test_agrees_with_the_plain_policy_on_drawn_steps(
    drawn: tuple[Instance, Plan], keep: bool
) -> None:
    agree_with_plain_policy(*drawn, set(drawn[1].prefetch) if keep else set())
