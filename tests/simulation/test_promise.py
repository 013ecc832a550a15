"""What lets a plan run, or run sooner, belongs to the instance (docs/problem.md)."""

from __future__ import annotations

import inspect
import json

import pytest
from pydantic import ValidationError

from slackopt.device import Device
from slackopt.errors import InputError
from slackopt.graph import Graph, Op, Tensor
from slackopt.instance import MAX_PIECES, Instance
from slackopt.plan import Plan
from slackopt.simulation import check_timeline, simulate
from slackopt.simulation.engine import run
from slackopt.simulation.evaluator import Evaluator
from slackopt.solve import solve

LINK = Device(name="link", d2h_bytes_per_s=10**9, h2d_bytes_per_s=10**9)


def three_ops(chunk_bytes: int = 0) -> Instance:
    """F makes s (2 bytes) and k (1 byte), B0 reads k and makes g (1 byte), B1 reads s; budget 3.

    s has to leave before B0, and is back for B1. Whole: s leaves 1-3, B0 3-4, in 4-6, B1 6-7. In
    pieces of one byte, the first is free at 2: B0 2-3, and the second leaves until 3; in 3-5, B1.
    """
    graph = Graph(
        name="three ops",
        ops=(
            Op(name="F", phase="forward", duration_ns=1, outputs=("s", "k"), recomputable=False),
            Op(name="B0", phase="backward", duration_ns=1, inputs=("k",), outputs=("g",)),
            Op(name="B1", phase="backward", duration_ns=1, inputs=("s",)),
        ),
        tensors=(
            Tensor(name="s", size_bytes=2),
            Tensor(name="k", size_bytes=1, swappable=False),
            Tensor(name="g", size_bytes=1, swappable=False),
        ),
    )
    return Instance.from_graph(graph, device=LINK.with_chunks(chunk_bytes), budget=3)


METHODS = ("exact", "milp", "cpsat", "bound", "enumerate", "milp-schedule", "cpsat-schedule")


@pytest.mark.parametrize(("chunk_bytes", "best_ns"), [(0, 7), (1, 6), (2, 7)])
def test_every_bound_is_of_the_semantics_of_its_instance(chunk_bytes: int, best_ns: int) -> None:
    instance = three_ops(chunk_bytes)
    timelines = [
        simulate(instance, Plan.for_instance(instance, {"s": "swap"}, {"s": g})) for g in (1, 2)
    ]
    for timeline in timelines:
        check_timeline(timeline)
    assert min(timeline.makespan_ns or 0 for timeline in timelines) == best_ns
    for method in METHODS:
        result = solve(instance, method, time_limit=10, gap=0.0)
        assert result.lower_bound_ns is not None
        assert result.lower_bound_ns <= best_ns, method
        assert result.makespan_ns == (None if method == "bound" else best_ns), method
        if method not in ("milp", "cpsat", "bound"):
            assert result.status == "optimal"
            assert result.lower_bound_ns == best_ns, method


def test_a_plan_of_whole_tensors_is_refused_where_tensors_leave_in_pieces() -> None:
    plan = Plan.for_instance(three_ops(), {"s": "swap"})
    with pytest.raises(InputError, match="made for another instance"):
        simulate(three_ops(1), plan)


def test_the_simulator_takes_an_instance_and_a_plan_and_no_option() -> None:
    """An argument that lets more plans run, or run sooner, would part bounds from semantics.

    Before one is added here, read "What a published number must satisfy" in docs/problem.md.
    """
    arguments = {
        simulate: ["instance", "plan"],
        check_timeline: ["timeline"],
        run: ["life", "device", "budget_bytes", "sequence", "triggers"],
        Evaluator: ["instance"],
        Evaluator.simulate: ["self", "decisions", "given"],
        Evaluator.run: ["self", "decisions", "given"],
        Evaluator.makespan_ns: ["self", "decisions", "given"],
    }
    for function, names in arguments.items():
        assert list(inspect.signature(function).parameters) == names, function


def test_every_field_of_an_instance_is_part_of_its_identity() -> None:
    instance = three_ops()
    changed = {
        "name": "other",
        "budget_bytes": 4,
        "budget_fraction": "0.5",
        "graph": instance.graph.model_copy(update={"name": "other"}),
    }
    device = {
        "name": "other",
        "d2h_bytes_per_s": 2 * 10**9,
        "h2d_bytes_per_s": 2 * 10**9,
        "latency_ns": 1,
        "d2h_shared_bytes_per_s": 10**9,
        "h2d_shared_bytes_per_s": 10**9,
        "host_memory_bytes": 5,
        "chunk_bytes": 1,
    }
    said = {"format", "schema_version", "provenance", "source"}
    assert Instance.model_fields.keys() == changed.keys() | said - {"source"} | {"device"}
    assert Device.model_fields.keys() - said == device.keys()
    variants = [instance.model_copy(update={field: value}) for field, value in changed.items()]
    for field, value in device.items():
        link = instance.device.model_copy(update={field: value})
        variants.append(instance.model_copy(update={"device": link}))
    identities = {instance.sha256, *(variant.sha256 for variant in variants)}
    assert len(identities) == 1 + len(variants)


def test_a_copy_with_other_fields_has_an_identity_of_its_own() -> None:
    """Also where the identity had been asked for before the copy was made."""
    instance = three_ops()
    before = instance.sha256
    copy = instance.model_copy(update={"budget_bytes": 4})
    assert copy.sha256 != before
    assert copy.sha256 == Instance.model_validate_json(copy.model_dump_json()).sha256
    assert instance.model_copy().sha256 == before == instance.sha256


def test_whole_tensors_are_written_as_files_without_chunks_are() -> None:
    instance = three_ops()
    assert "chunk" not in instance.model_dump_json()
    # The identity of this instance before devices had chunks.
    assert instance.sha256 == "94efd678db676ffff2f61ce30e166c46e09200186502eddb7be7df28e869107d"
    said = json.loads(instance.model_dump_json())
    said["device"]["chunk_bytes"] = 0
    assert Instance.model_validate_json(json.dumps(said)) == instance
    assert json.loads(three_ops(1).model_dump_json())["device"]["chunk_bytes"] == 1
    assert Instance.model_validate_json(three_ops(1).model_dump_json()) == three_ops(1)


def test_the_name_of_a_device_says_its_chunks() -> None:
    assert LINK.with_chunks(0) == LINK
    assert LINK.with_chunks(4).name == "link-chunks-4"
    assert LINK.with_chunks(4).with_chunks(8) == LINK.with_chunks(8)
    assert LINK.with_chunks(4).with_chunks(0) == LINK
    for wrong in (-1, 10**15 + 1):
        with pytest.raises(ValidationError, match="chunk_bytes"):
            LINK.with_chunks(wrong)


def test_too_many_pieces_are_refused() -> None:
    """Each is an event: a tensor of a gigabyte in single bytes would never end."""
    graph = three_ops().graph
    tensors = tuple(
        tensor.model_copy(update={"size_bytes": 10**9 if tensor.name == "s" else 1})
        for tensor in graph.tensors
    )
    large = Graph(name="large", ops=graph.ops, tensors=tensors)
    least = 10**9 // MAX_PIECES
    with pytest.raises(InputError, match=f"give at least {least}, or 0"):
        Instance.from_graph(large, device=LINK.with_chunks(least - 1), budget=1.0)
    assert Instance.from_graph(large, device=LINK.with_chunks(least), budget=1.0)
