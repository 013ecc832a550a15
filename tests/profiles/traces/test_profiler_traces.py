"""Profiler traces alone: allocations are exact, reads are matched by size."""

from pathlib import Path

import pytest
from profiles.traces.synthetic import ROWS, WIDTH, profile_alone, write

import slackopt as so


def test_ops_tensors_and_times(tmp_path: Path) -> None:
    graph = so.profiles.read_trace(write(tmp_path / "k.json", profile_alone()))
    names = [op.name.split()[0] for op in graph.ops]
    assert names == ["mm", "mm", "sum", "mul", "mm"]
    assert [op.duration_ns for op in graph.ops] == [5000, 6000, 1000, 1000, 6000]
    assert [op.phase for op in graph.ops] == ["forward"] * 3 + ["backward"] * 2
    made = [op.outputs for op in graph.ops]
    assert [op.inputs for op in graph.ops] == [
        (),
        made[0],
        made[1],
        made[1],
        made[0] + made[3],
    ]
    sizes = {tensor.name: tensor.size_bytes for tensor in graph.tensors}
    assert sizes[made[0][0]] == 4 * ROWS * WIDTH
    assert graph.provenance["dataflow"].startswith("inferred")
    assert graph.provenance["step"] == "ProfilerStep#4"


@pytest.mark.parametrize(
    ("without", "words"),
    [
        ("memory", "profile_memory=True"),
        ("shapes", "record_shapes=True"),
        ("both", "profile_memory=True and record_shapes=True"),
    ],
)
def test_a_profile_without_memory_or_shapes_is_refused(
    tmp_path: Path, without: str, words: str
) -> None:
    document = profile_alone()
    if without != "shapes":
        document["traceEvents"] = [e for e in document["traceEvents"] if e["ph"] == "X"]
    if without != "memory":
        for event in document["traceEvents"]:
            event["args"].pop("Input Dims", None)
    with pytest.raises(so.InputError) as caught:
        so.profiles.read_trace(write(tmp_path / "k.json", document))
    assert f"record it with {words}, or give the execution trace" in str(caught.value)


def test_kernels_that_belong_to_no_call_are_refused(tmp_path: Path) -> None:
    document = profile_alone()
    for event in document["traceEvents"]:
        if event.get("cat") == "kernel":
            del event["args"]["External id"]
    with pytest.raises(so.InputError, match="without 'External id' in their args"):
        so.profiles.read_trace(write(tmp_path / "k.json", document))
