"""The Chrome trace against the Trace Event Format: JSON object form, phases M, X and C."""

import json
import random
from decimal import Decimal
from itertools import pairwise
from typing import Any

import pytest
from random_steps import random_instance, random_plan

from slackopt.simulation import Timeline, simulate
from slackopt.simulation.chrome_trace import chrome_trace

THREADS = {1: "compute", 2: "swap-out (d2h)", 3: "swap-in (h2d)"}


def timelines(*, feasible: bool) -> list[Timeline]:
    """Return 60 timelines of random plans."""
    rng = random.Random(7)
    found: list[Timeline] = []
    while len(found) < 60:
        instance = random_instance(rng)
        timeline = simulate(instance, random_plan(rng, instance))
        if timeline.feasible == feasible:
            found.append(timeline)
    return found


def events(timeline: Timeline, phase: str) -> list[dict[str, Any]]:
    """Return the events of a phase; numbers with a point are exact decimals."""
    document = json.loads(chrome_trace(timeline), parse_float=Decimal)
    return [event for event in document["traceEvents"] if event["ph"] == phase]


@pytest.mark.parametrize("feasible", [True, False])
def test_fields_are_those_of_the_format(feasible: bool) -> None:
    for timeline in timelines(feasible=feasible):
        document = json.loads(chrome_trace(timeline), parse_float=Decimal)
        assert set(document) == {"displayTimeUnit", "otherData", "traceEvents"}
        assert document["displayTimeUnit"] in ("ms", "ns")
        for event in document["traceEvents"]:
            assert event["ph"] in ("M", "X", "C")
            assert isinstance(event["pid"], int)
            assert isinstance(event["name"], str)
            assert event["name"]
            assert isinstance(event["args"], dict)
            if event["ph"] == "X":
                assert isinstance(event["cat"], str)
                assert event["tid"] in THREADS
                assert event["ts"] >= 0
                assert event["dur"] >= 0
            if event["ph"] == "C":
                assert all(isinstance(value, int) for value in event["args"].values())


def test_threads_are_named_and_sorted() -> None:
    meta = events(timelines(feasible=True)[0], "M")
    assert [event["name"] for event in meta].count("process_name") == 1
    names = {e["tid"]: e["args"]["name"] for e in meta if e["name"] == "thread_name"}
    order = {e["tid"]: e["args"]["sort_index"] for e in meta if e["name"] == "thread_sort_index"}
    assert names == THREADS
    assert sorted(order.values()) == [order[thread] for thread in (1, 2, 3)]


@pytest.mark.parametrize("feasible", [True, False])
def test_slices_are_exact_sorted_and_apart(feasible: bool) -> None:
    for timeline in timelines(feasible=feasible):
        slices = events(timeline, "X")
        for event in slices:
            start, end = event["args"]["start_ns"], event["args"]["end_ns"]
            assert Decimal(event["ts"]) * 1000 == start
            assert Decimal(event["dur"]) * 1000 == end - start
        for thread in THREADS:
            track = [event["args"] for event in slices if event["tid"] == thread]
            for before, after in pairwise(track):
                assert before["end_ns"] <= after["start_ns"], "in order of time, without overlap"


def test_everything_on_the_timeline_is_in_the_trace() -> None:
    for timeline in timelines(feasible=True):
        slices = events(timeline, "X")
        count = {
            category: sum(event["cat"] == category for event in slices)
            for category in ("recompute", "stall", "swap-out", "swap-in", "forward", "backward")
        }
        phases = [timeline.instance.graph.ops[job.op_index].phase for job in timeline.jobs]
        reruns = [job.rerun for job in timeline.jobs]
        assert count["recompute"] == sum(reruns)
        assert count["forward"] + count["backward"] == len(phases) - sum(reruns)
        assert count["stall"] == len(timeline.stalls)
        assert count["swap-out"] == sum(copy.direction == "d2h" for copy in timeline.copies)
        assert count["swap-in"] == sum(copy.direction == "h2d" for copy in timeline.copies)
        # Jobs and stalls fill the compute track from 0 to the makespan.
        compute = [event["args"] for event in slices if event["tid"] == 1]
        assert compute[0]["start_ns"] == 0
        assert compute[-1]["end_ns"] == timeline.makespan_ns
        assert all(a["end_ns"] == b["start_ns"] for a, b in pairwise(compute))


def test_the_counter_is_the_memory_curve() -> None:
    for timeline in timelines(feasible=True):
        counter = events(timeline, "C")
        budget = timeline.instance.budget_bytes
        assert len({event["name"] for event in counter}) == 1
        assert [int(Decimal(e["ts"]) * 1000) for e in counter] == list(timeline.memory.time_ns)
        assert [e["args"]["used"] for e in counter] == list(timeline.memory.size_bytes)
        assert all(e["args"]["used"] + e["args"]["free in budget"] == budget for e in counter)
        assert all(e["args"]["free in budget"] >= 0 for e in counter)
        assert all(a["ts"] < b["ts"] for a, b in pairwise(counter))
