"""`check_timeline` notices every way in which a recorded timeline can be wrong."""

import random
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import replace

import pytest
from random_steps import random_instance, random_plan

from slackopt.device import Device
from slackopt.errors import CheckError
from slackopt.graph import Graph, Op, Tensor
from slackopt.instance import Instance
from slackopt.plan import Plan
from slackopt.simulation import Timeline, check_timeline, simulate
from slackopt.simulation.engine import RunRecord
from slackopt.simulation.timeline import MemoryCurve

Mutation = Callable[[random.Random, RunRecord], bool]
"""Changes a record; returns whether it found something to change."""


def mutated(timeline: Timeline, record: RunRecord) -> Timeline:
    """Return the timeline with another record; all that is derived is derived again."""
    return Timeline(timeline.instance, timeline.plan, timeline.sequence, record)


def notices(timeline: Timeline) -> str:
    """Return what `check_timeline` says; empty if it finds nothing wrong."""
    try:
        check_timeline(timeline)
    except CheckError as error:
        return str(error)
    return ""


def timelines() -> Iterator[tuple[random.Random, Timeline]]:
    """Yield timelines of random plans that run, with something going on over the link."""
    rng = random.Random(11)
    found = 0
    while found < 250:
        instance = random_instance(rng)
        timeline = simulate(instance, random_plan(rng, instance))
        if timeline.feasible and len(timeline.copies) >= 2:
            found += 1
            yield rng, timeline


# ---------------------------------------------------------------------------------------------
# Mutations of the record. A job or copy is moved as a whole, with what it frees, so that nothing
# but the rule in question is broken.


def job_earlier(rng: random.Random, record: RunRecord) -> bool:
    i = rng.randrange(len(record.job_starts_ns))
    record.job_starts_ns[i] -= 1
    record.job_ends_ns[i] -= 1
    return True


def job_shorter(rng: random.Random, record: RunRecord) -> bool:
    record.job_ends_ns[rng.randrange(len(record.job_ends_ns))] -= 1
    return True


def job_longer(rng: random.Random, record: RunRecord) -> bool:
    record.job_ends_ns[rng.randrange(len(record.job_ends_ns))] += 1
    return True


def last_job_later(rng: random.Random, record: RunRecord) -> bool:
    record.job_starts_ns[-1] += 3
    record.job_ends_ns[-1] += 3
    return True


def job_dropped(rng: random.Random, record: RunRecord) -> bool:
    i = rng.randrange(len(record.job_starts_ns))
    del record.job_starts_ns[i], record.job_ends_ns[i]
    return bool(record.job_ends_ns)


def copies_of(record: RunRecord, rng: random.Random) -> list[tuple[int, int, int | None]]:
    return rng.choice([log for log in (record.swap_outs, record.swap_ins) if log])


def copy_shorter(rng: random.Random, record: RunRecord) -> bool:
    """End a copy early, and release its memory then."""
    log = copies_of(record, rng)
    i = rng.randrange(len(log))
    t, start, end = log[i]
    if end is None or end - start < 1:
        return False
    log[i] = (t, start, end - 1)
    if log is record.swap_outs:
        moved = [(time - (time == end), u, size) for time, u, size in record.releases if u == t]
        record.releases[:] = [entry for entry in record.releases if entry[1] != t] + moved
    return True


def copy_longer(rng: random.Random, record: RunRecord) -> bool:
    log = copies_of(record, rng)
    i = rng.randrange(len(log))
    t, start, end = log[i]
    if end is None:
        return False
    log[i] = (t, start, end + 10**12)
    return True


def swap_out_earlier(rng: random.Random, record: RunRecord) -> bool:
    i = rng.randrange(len(record.swap_outs))
    t, start, end = record.swap_outs[i]
    if end is None:
        return False
    record.swap_outs[i] = (t, start - 1, end - 1)
    return True


def swap_in_earlier(rng: random.Random, record: RunRecord) -> bool:
    i = rng.randrange(len(record.swap_ins))
    t, start, end = record.swap_ins[i]
    if end is None:
        return False
    record.swap_ins[i] = (t, start - 1, end - 1)
    return True


def swap_in_later(rng: random.Random, record: RunRecord) -> bool:
    i = rng.randrange(len(record.swap_ins))
    t, start, end = record.swap_ins[i]
    if end is None:
        return False
    record.swap_ins[i] = (t, start + 1, end + 1)
    return True


def last_swap_out_later(rng: random.Random, record: RunRecord) -> bool:
    t, start, end = record.swap_outs[-1]
    if end is None:
        return False
    record.swap_outs[-1] = (t, start + 1, end + 1)
    record.releases[:] = [
        (time + (u == t and time == end), u, size) for time, u, size in record.releases
    ]
    return True


def swap_in_dropped(rng: random.Random, record: RunRecord) -> bool:
    del record.swap_ins[rng.randrange(len(record.swap_ins))]
    return True


def swap_out_dropped(rng: random.Random, record: RunRecord) -> bool:
    del record.swap_outs[rng.randrange(len(record.swap_outs))]
    return True


def swap_outs_exchanged(rng: random.Random, record: RunRecord) -> bool:
    return exchanged(rng, record.swap_outs)


def swap_ins_exchanged(rng: random.Random, record: RunRecord) -> bool:
    return exchanged(rng, record.swap_ins)


def exchanged(rng: random.Random, log: list[tuple[int, int, int | None]]) -> bool:
    """Let two neighbours in a queue change places."""
    if len(log) < 2:
        return False
    i = rng.randrange(len(log) - 1)
    (a, *first), (b, *second) = log[i], log[i + 1]
    log[i], log[i + 1] = (b, *first), (a, *second)  # type: ignore[assignment]
    return True


def release_dropped(rng: random.Random, record: RunRecord) -> bool:
    if not record.releases:
        return False
    del record.releases[rng.randrange(len(record.releases))]
    return True


def release_earlier(rng: random.Random, record: RunRecord) -> bool:
    if not record.releases:
        return False
    i = rng.randrange(len(record.releases))
    time, t, size = record.releases[i]
    record.releases[i] = (time - 1, t, size)
    return time > 0


def release_too_large(rng: random.Random, record: RunRecord) -> bool:
    if not record.releases:
        return False
    i = rng.randrange(len(record.releases))
    time, t, size = record.releases[i]
    record.releases[i] = (time, t, size + 1)
    return True


MUTATIONS: tuple[Mutation, ...] = (
    *(job_earlier, job_shorter, job_longer, last_job_later, job_dropped),
    *(copy_shorter, copy_longer, swap_out_earlier, swap_in_earlier, swap_in_later),
    *(last_swap_out_later, swap_in_dropped, swap_out_dropped),
    *(swap_outs_exchanged, swap_ins_exchanged),
    *(release_dropped, release_earlier, release_too_large),
)


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda m: m.__name__)
def test_a_wrong_record_is_noticed(mutation: Mutation) -> None:
    changed = 0
    for rng, timeline in timelines():
        record = deepcopy(timeline.record)
        if not mutation(rng, record) or record == timeline.record:
            continue
        changed += 1
        if mutation is last_swap_out_later and timeline.instance.device.host_memory_bytes:
            continue  # it may have waited for the host's memory
        assert notices(mutated(timeline, record)), f"{mutation.__name__}: {record}"
    assert changed > 50


# ---------------------------------------------------------------------------------------------
# Mutations of what the timeline says besides its record.


def test_a_wrong_memory_curve_is_noticed() -> None:
    for rng, timeline in timelines():
        curve = timeline.memory
        i = rng.randrange(len(curve.size_bytes))
        sizes = list(curve.size_bytes)
        sizes[i] += rng.choice((-1, 1))
        wrong = mutated(timeline, timeline.record)
        wrong.__dict__["memory"] = MemoryCurve(curve.time_ns, tuple(sizes))
        assert "memory curve" in notices(wrong)


def test_wrong_sums_are_noticed() -> None:
    for _, timeline in timelines():
        wrong = mutated(timeline, timeline.record)
        wrong.__dict__["recompute_ns"] = timeline.recompute_ns + 1
        assert "recompute time" in notices(wrong)
        wrong = mutated(timeline, timeline.record)
        wrong.__dict__["stalls"] = timeline.stalls[1:]
        assert not timeline.stalls or "stalls" in notices(wrong)


def test_a_stall_with_the_wrong_cause_is_noticed() -> None:
    other = {"memory": "swap-in", "swap-in": "memory"}
    changed = 0
    for _, timeline in timelines():
        if timeline.stalls:
            changed += 1
            stalls = (timeline.stalls[0]._replace(cause=other[timeline.stalls[0].cause]),)
            wrong = mutated(timeline, timeline.record)
            wrong.__dict__["stalls"] = stalls + timeline.stalls[1:]
            assert "waiting for memory" in notices(wrong)
    assert changed > 50


def test_a_peak_above_the_budget_is_noticed() -> None:
    for _, timeline in timelines():
        tight = timeline.instance.model_copy(update={"budget_bytes": timeline.peak_bytes - 1})
        assert "exceed the budget" in notices(replace(timeline, instance=tight))


def test_another_plan_is_noticed() -> None:
    """A tensor that goes out and back was decided swap, and one that doesn't was not."""
    for rng, timeline in timelines():
        name = rng.choice(timeline.copies).tensor
        for decision in ("keep", "recompute"):
            plan = timeline.plan.model_copy(
                update={"decisions": {**timeline.plan.decisions, name: decision}}
            )
            assert "not decided swap" in notices(replace(timeline, plan=plan))


def test_a_swap_in_before_its_trigger_is_noticed() -> None:
    changed = 0
    for _, timeline in timelines():
        last = len(timeline.instance.graph.ops) - 1
        slot_begins = [0, *(job.end_ns for job in timeline.jobs if not job.rerun)]
        for copy in timeline.copies:
            if copy.direction == "h2d" and copy.start_ns < slot_begins[last] - 1:
                # A later trigger than it had; at the latest the slot of the need counts.
                prefetch = {**timeline.plan.prefetch, copy.tensor: last}
                plan = timeline.plan.model_copy(update={"prefetch": prefetch})
                said = notices(replace(timeline, plan=plan))
                changed += "before its trigger" in said
    assert changed > 50


def test_a_full_host_is_noticed() -> None:
    changed = 0
    for _, timeline in timelines():
        ends = {c.tensor: c.end_ns for c in timeline.copies if c.direction == "h2d"}
        outs = [c for c in timeline.copies if c.direction == "d2h"]
        level = max(
            sum(
                c.size_bytes
                for c in outs
                if c.start_ns <= now.start_ns and (ends[c.tensor] or 2**62) > now.start_ns
            )
            for now in outs
        )
        device = timeline.instance.device.model_copy(update={"host_memory_bytes": level - 1})
        instance = timeline.instance.model_copy(update={"device": device})
        if level > 1:
            changed += 1
            assert "host memory exceeds" in notices(replace(timeline, instance=instance))
    assert changed > 50


def test_an_op_that_must_not_run_twice_is_noticed() -> None:
    ops = (
        Op(name="f0", phase="forward", duration_ns=3, outputs=("a",)),
        Op(name="f1", phase="forward", duration_ns=3, inputs=("a",), outputs=("b",)),
        Op(name="b1", phase="backward", duration_ns=3, inputs=("b",)),
        Op(name="b0", phase="backward", duration_ns=3, inputs=("a",)),
    )
    tensors = (Tensor(name="a", size_bytes=4), Tensor(name="b", size_bytes=4))
    device = Device(name="link", d2h_bytes_per_s=10**9, h2d_bytes_per_s=10**9)
    graph = Graph(name="four", ops=ops, tensors=tensors)
    instance = Instance.from_graph(graph, device=device, budget=8)
    timeline = simulate(instance, Plan.for_instance(instance, {"a": "recompute"}))
    assert notices(timeline) == ""
    fixed = tuple(op.model_copy(update={"recomputable": False}) for op in ops)
    instance = instance.model_copy(update={"graph": graph.model_copy(update={"ops": fixed})})
    assert "not recomputable" in notices(replace(timeline, instance=instance))
    twice = replace(
        timeline.sequence, ops=[0, 1, 2, 0, 3], reruns=[False, False, True, True, False]
    )
    assert notices(replace(timeline, sequence=twice))


def test_a_plan_that_cannot_run_is_no_timeline_to_check() -> None:
    rng = random.Random(2)
    found = 0
    while found < 5:
        instance = random_instance(rng)
        timeline = simulate(instance, random_plan(rng, instance))
        if not timeline.feasible:
            found += 1
            assert "out of memory" in notices(timeline)
