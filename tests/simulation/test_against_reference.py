"""The engine against the independent reference simulator, to the nanosecond and the byte."""

import random

import pytest
from hypothesis import given, settings
from random_steps import instances_with_plans, random_instance, random_plan
from reference_simulator import reference_simulate

from slackopt.instance import Instance
from slackopt.plan import Plan
from slackopt.simulation import check_timeline, simulate


def compare(instance: Instance, plan: Plan) -> bool:
    """Assert equality of everything both simulators report; return whether the plan runs."""
    expected = reference_simulate(instance, plan)
    timeline = simulate(instance, plan)
    sequence = zip(timeline.sequence.ops, timeline.sequence.reruns, strict=True)
    assert list(sequence) == list(expected.sequence)
    assert timeline.makespan_ns == expected.makespan_ns
    if expected.out_of_memory is not None:
        oom, seen = expected.out_of_memory, timeline.out_of_memory
        assert seen is not None
        assert (seen.op, seen.time_ns) == (oom.op, oom.time_ns)
        assert (seen.asked_bytes, seen.free_bytes) == (oom.asked_bytes, oom.free_bytes)
        return False
    assert timeline.recompute_ns == expected.recompute_ns
    assert timeline.stall_ns("swap-in") == expected.stall_swap_in_ns
    assert timeline.stall_ns("memory") == expected.stall_memory_ns
    curve = list(zip(timeline.memory.time_ns, timeline.memory.size_bytes, strict=True))
    assert curve == list(expected.memory_curve)
    assert timeline.peak_bytes == expected.peak_bytes
    check_timeline(timeline)
    return True


@pytest.mark.parametrize("seed", range(8))
def test_agrees_on_random_steps(seed: int) -> None:
    rng = random.Random(seed)
    ran = in_pieces = on_a_shared_link = 0
    for _ in range(500):
        instance = random_instance(rng)
        plan = random_plan(rng, instance)
        fits = compare(instance, plan)
        ran += fits
        in_pieces += fits and instance.device.chunk_bytes > 0
        on_a_shared_link += (
            fits and instance.device.chunk_bytes > 0 and not instance.device.independent
        )
    assert 200 < ran < 500, "the generator should make plans that run and plans that don't"
    assert in_pieces > on_a_shared_link > 20


@settings(max_examples=200, deadline=None)
@given(instances_with_plans())
def test_agrees_on_drawn_steps(drawn: tuple[Instance, Plan]) -> None:
    compare(*drawn)
