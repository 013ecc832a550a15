"""Profiler traces alone: allocations are exact, reads are matched by size."""

import copy
from pathlib import Path

import pytest
from profiles.traces.synthetic import ROWS, WIDTH, Json, profile_alone, write

import slackopt as so
from slackopt.errors import MendedWarning


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


def kernels(document: Json) -> list[Json]:
    return [event for event in document["traceEvents"] if event.get("cat") == "kernel"]


def imported(tmp_path: Path, document: Json) -> so.Graph:
    return so.profiles.read_trace(write(tmp_path / "k.json", document))


def times(graph: so.Graph) -> list[int]:
    return [op.duration_ns for op in graph.ops]


def test_a_kernel_that_runs_over_the_next_is_cut_at_its_start(tmp_path: Path) -> None:
    document = profile_alone()
    mm, after = kernels(document)[1:3]
    mm["dur"] = 1_600_000.0
    with pytest.warns(MendedWarning, match=r"1 kernel, copy or fill runs over .*'k'") as caught:
        graph = imported(tmp_path, document)
    assert f"by {1_600_000_000 - 6000} ns" in str(caught[0].message)
    assert after["ts"] - mm["ts"] == 6.0
    assert times(graph) == [5000, 6000, 1000, 1000, 6000]
    assert graph.provenance["device_events"]["cut"] == {
        "number": 1,
        "duration_ns": 1_600_000_000 - 6000,
    }


def test_overlaps_within_the_clock_and_on_two_streams_are_nothing(tmp_path: Path) -> None:
    document = profile_alone()
    kernels(document)[0]["dur"] += 0.9
    assert times(imported(tmp_path, document)) == [5000, 6000, 1000, 1000, 6000]
    kernels(document)[0]["dur"] = 11.0
    for k, event in enumerate(kernels(document)):
        event["args"]["stream"] = 7 + k % 2
    assert times(imported(tmp_path, document))[0] == 11_000


def test_the_order_of_the_events_means_nothing(tmp_path: Path) -> None:
    document = profile_alone()
    before = imported(tmp_path, document)
    kernels(document)[0]["dur"] = 8.0
    with pytest.warns(MendedWarning):
        cut = imported(tmp_path, document)
    document["traceEvents"].reverse()
    with pytest.warns(MendedWarning):
        turned = imported(tmp_path, document)
    assert before.ops == cut.ops
    assert times(turned) == times(cut)


def test_the_last_kernel_ends_with_the_recording(tmp_path: Path) -> None:
    document = profile_alone()
    last = kernels(document)[-1]
    last["dur"] = 9000.0
    with pytest.warns(MendedWarning, match="the last on its stream, takes 9000000 ns, longer than"):
        assert times(imported(tmp_path, document))[-1] == 9_000_000
    end = {"ph": "i", "name": "Record Window End", "pid": "", "tid": "", "ts": last["ts"] + 50}
    document["traceEvents"].append(end)
    last["dur"] = 60.0
    with pytest.warns(MendedWarning, match="or the end of the recording, by 10000 ns"):
        assert times(imported(tmp_path, document))[-1] == 50_000


def test_two_kernels_that_begin_together_are_refused_and_one_twice_counts_once(
    tmp_path: Path,
) -> None:
    document = profile_alone()
    document["traceEvents"].append(copy.deepcopy(kernels(document)[0]))
    with pytest.warns(MendedWarning, match="1 of the kernels, copies and fills stand twice"):
        assert times(imported(tmp_path, document)) == [5000, 6000, 1000, 1000, 6000]
    document["traceEvents"][-1]["name"] = "another"
    with pytest.raises(so.InputError, match=r"'k'\) and .*'another'\) begin at the same time on"):
        imported(tmp_path, document)


def test_kernels_of_an_id_that_no_call_has_are_told(tmp_path: Path) -> None:
    document = profile_alone()
    kernels(document)[2]["args"]["External id"] = 999
    with pytest.warns(MendedWarning, match=r"1 of 5 kernels.*: 1000 of 19000 ns"):
        graph = imported(tmp_path, document)
    assert graph.provenance["device_events"]["without_call"] == {"number": 1, "duration_ns": 1000}


def test_one_external_id_at_two_ops_is_refused(tmp_path: Path) -> None:
    document = profile_alone()
    mms = [event for event in document["traceEvents"] if event["name"] == "aten::mm"]
    mms[1]["args"]["External id"] = mms[0]["args"]["External id"]
    kernels(document)[1]["args"]["External id"] = mms[0]["args"]["External id"]
    with pytest.raises(so.InputError, match=r"'External id' \d+ stands at two ops"):
        imported(tmp_path, document)


def test_a_call_that_ends_after_the_call_that_made_it_swallows_no_op(tmp_path: Path) -> None:
    """``aten::linear`` makes ``aten::mm``, whose end runs over the next calls of the thread."""
    document = profile_alone()
    events = document["traceEvents"]
    before = imported(tmp_path, document)
    mm = next(event for event in events if event["name"] == "aten::mm")
    outer = copy.deepcopy(mm) | {"name": "aten::linear", "ts": mm["ts"] - 0.01}
    outer["dur"] += 0.02
    outer["args"]["External id"] = 900
    events.append(outer)
    mm["dur"] += 2.0  # over the start of the next op
    with pytest.warns(MendedWarning, match=r"1 call ends later than .*'aten::mm'\), by 1\d\d\d ns"):
        graph = imported(tmp_path, document)
    assert len(graph.ops) == len(before.ops)
    assert times(graph) == times(before)
    calls = graph.provenance["calls"]
    assert calls["calls"] == calls["in_ops"] + calls["without_work"] == 10


def test_time_of_calls_without_tensors_is_told(tmp_path: Path) -> None:
    document = profile_alone()
    events = document["traceEvents"]
    sum_ = next(event for event in events if event["name"] == "aten::sum")
    events.remove(next(e for e in events if e["name"] == "[memory]" and e["args"]["Addr"] == 3))
    sum_["args"]["Input Dims"] = [[3, 5, 7]]  # of no allocation
    with pytest.warns(MendedWarning, match=r"1000 ns on the device are of 1 calls .*'aten::sum'"):
        graph = imported(tmp_path, document)
    assert graph.provenance["calls"]["time_in_no_op_ns"] == 1000


@pytest.mark.parametrize("what", ["category", "address"])
def test_traces_of_an_old_pytorch_are_called_so(tmp_path: Path, what: str) -> None:
    document = profile_alone()
    for event in document["traceEvents"]:
        if what == "category" and event.get("cat") == "cpu_op":
            event["cat"] = "Operator"
        if what == "address" and event["name"] == "[memory]":
            del event["args"]["Addr"]
    with pytest.raises(so.InputError, match="PyTorch that is too old; record it again with"):
        imported(tmp_path, document)
