"""Execution traces: what counts as a tensor, which step is taken, where times come from."""

from pathlib import Path
from typing import Any

import pytest
from profiles.traces import synthetic
from profiles.traces.independent_count import count_saved
from profiles.traces.synthetic import ROWS, WIDTH, Recorder, execution_trace, record_step, write

import slackopt as so

BIG = 4 * ROWS * WIDTH
SCHEMAS = ["1.0.1", "1.0.3-chakra.0.0.4", "1.1.0-chakra.0.0.4", "1.1.1-chakra.0.0.4"]


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    return write(tmp_path / "et.json", execution_trace()[0])


def short(graph: so.Graph) -> list[tuple[str, list[str], list[str]]]:
    """Ops by their names without ids."""

    def plain(name: str) -> str:
        return "".join(c for c in name if not c.isdigit()).replace(" ", "")

    return [
        (plain(op.name), [plain(n) for n in op.inputs], [plain(n) for n in op.outputs])
        for op in graph.ops
    ]


@pytest.mark.parametrize("schema", SCHEMAS)
def test_ops_and_storages(tmp_path: Path, schema: str) -> None:
    path = write(tmp_path / "et.json", execution_trace(schema)[0])
    graph = so.profiles.read_trace(path, accelerator="a100")
    assert short(graph) == [
        ("addmm+clamp_min_", ["input"], ["addmm+clamp_min_.out"]),
        (
            "native_dropout",
            ["addmm+clamp_min_.out"],
            ["native_dropout.out", "native_dropout.out"],
        ),
        ("sum", ["native_dropout.out"], ["sum.out"]),
        ("mul", ["sum.out"], ["mul.out"]),
        (
            "native_dropout_backward",
            ["mul.out", "native_dropout.out"],
            ["native_dropout_backward.out"],
        ),
        (
            "threshold_backward",
            ["native_dropout_backward.out", "addmm+clamp_min_.out"],
            ["threshold_backward.out"],
        ),
        ("mm", ["input", "threshold_backward.out"], []),
    ]
    sizes = {tensor.name.split(".")[-1]: tensor.size_bytes for tensor in graph.tensors[:3]}
    assert sizes == {"out": BIG, "out0": BIG, "out1": ROWS * WIDTH}
    assert [tensor.kind for tensor in graph.tensors] == [
        "activation",
        "activation",
        "mask",
        "activation",
        "gradient",
        "gradient",
        "gradient",
        "input",
    ]
    # Parameters (weight, bias) and the weight's gradient are left out.
    counted = graph.provenance["counted"]
    assert counted["statics"] == {"number": 2, "bytes": 4 * (WIDTH * WIDTH + WIDTH)}
    assert counted["parameter_gradients"] == {"number": 1, "bytes": 4 * WIDTH * WIDTH}
    assert counted["inputs"] == {"number": 1, "bytes": BIG}


def test_the_independent_count_agrees(trace: Path) -> None:
    document = execution_trace()[0]
    graph = so.profiles.read_trace(trace, accelerator="a100")
    found = graph.provenance["counted"]["saved_activations"]
    assert count_saved(document, "ProfilerStep#1", "cuda:0") == (found["number"], found["bytes"])


def test_recomputability(trace: Path) -> None:
    # The in-place op was merged into the op it follows; dropout draws random numbers.
    graph = so.profiles.read_trace(trace, accelerator="a100")
    assert [op.recomputable for op in graph.ops] == [True, True, True] + [False] * 4
    lost = so.profiles.read_trace(trace, accelerator="a100", restore_random_state=False)
    assert [op.recomputable for op in lost.ops[:3]] == [True, False, True]


def test_what_an_in_place_op_overwrites_is_not_recomputed(tmp_path: Path) -> None:
    recorder = Recorder()
    big = [ROWS, WIDTH]
    x, w = recorder.tensor(1, big), recorder.tensor(2, [WIDTH, WIDTH])
    h, y, loss = recorder.tensor(3, big), recorder.tensor(4, big), recorder.tensor(5, [])
    recorder.op("aten::mm", [x, w], [h], synthetic.MM)
    recorder.op("aten::tanh", [h], [y], "aten::tanh(Tensor self) -> Tensor")
    recorder.op("aten::relu_", [h], [h], synthetic.RELU_)
    recorder.op("aten::dot", [h, y], [loss], "aten::dot(Tensor self, Tensor tensor) -> Tensor")
    with recorder.call("autograd::engine::evaluate_function: DotBackward0"):
        seed = recorder.tensor(6, big)
        recorder.op("aten::mul", [h, y], [seed], "aten::mul(Tensor self, Tensor other) -> Tensor")
    graph = so.profiles.read_trace(
        write(tmp_path / "et.json", recorder.document()), accelerator="a100"
    )
    by_name = {op.name.split()[0]: op for op in graph.ops}
    # mm's result and tanh's input have other bytes now; relu_ would change them again.
    assert not by_name["mm"].recomputable
    assert not by_name["tanh"].recomputable
    assert not by_name["relu_"].recomputable
    assert by_name["dot"].recomputable
    assert by_name["relu_"].inputs == by_name["mm"].outputs
    assert by_name["relu_"].outputs == ()


def test_layers_come_from_annotations_and_sequence_numbers(trace: Path) -> None:
    graph = so.profiles.read_trace(trace, accelerator="a100")
    assert [op.layer for op in graph.ops] == ["block 0"] * 2 + [""] * 2 + ["block 0"] * 3


def test_times_of_the_roofline(trace: Path) -> None:
    graph = so.profiles.read_trace(trace, accelerator="a100")
    chip = so.profiles.get_accelerator("a100")
    flops = 2 * ROWS * WIDTH * WIDTH
    at_peak = flops * 100 * 10**9 / (chip.matmul_percent * chip.peak("fp32"))
    assert graph.ops[-1].duration_ns == pytest.approx(at_peak + chip.launch_ns, abs=1)
    moved = 2 * BIG + ROWS * WIDTH
    at_bandwidth = moved * 100 * 10**9 / (chip.memory_percent * chip.memory_bytes_per_s)
    assert graph.ops[1].duration_ns == pytest.approx(at_bandwidth + chip.launch_ns, abs=1)
    assert graph.provenance["accelerator"]["name"] == "a100"


def test_a_whole_chain(trace: Path) -> None:
    graph = so.profiles.read_trace(trace, accelerator="a100")
    instance = so.Instance.from_graph(graph, device="a100-pcie4", budget=0.9)
    result = so.solve(instance, method="milp", time_limit=10)
    assert result.plan is not None
    so.verify(instance, result)


def markers(*labels: int | None) -> dict[str, Any]:
    recorder = Recorder()
    for label in labels:
        record_step(recorder, label)
    return recorder.document()


@pytest.mark.parametrize(
    ("labels", "asked", "taken", "found"),
    [
        ((4, 5), None, "ProfilerStep#5", ["ProfilerStep#4", "ProfilerStep#5"]),
        ((4, 5), "ProfilerStep#4", "ProfilerStep#4", ["ProfilerStep#4", "ProfilerStep#5"]),
        ((4, 5), 0, "ProfilerStep#4", ["ProfilerStep#4", "ProfilerStep#5"]),
        ((4, 5), "0", "ProfilerStep#4", ["ProfilerStep#4", "ProfilerStep#5"]),
        ((None, None), None, "step 1", ["step 0", "step 1"]),
        ((None, None, None), "step 1", "step 1", ["step 0", "step 1", "step 2"]),
    ],
)
def test_steps(
    tmp_path: Path,
    labels: tuple[int | None, ...],
    asked: int | str | None,
    taken: str,
    found: list[str],
) -> None:
    path = write(tmp_path / "et.json", markers(*labels))
    graph = so.profiles.read_trace(path, accelerator="a100", step=asked)
    assert graph.provenance["step"] == taken
    assert graph.provenance["steps_found"] == found
    assert len(graph.ops) == 7


def test_micro_batches_are_steps_of_their_own(tmp_path: Path) -> None:
    recorder = Recorder()
    with recorder.call("ProfilerStep#0", scope=7):
        record_step(recorder, None)
        record_step(recorder, None)
    graph = so.profiles.read_trace(
        write(tmp_path / "et.json", recorder.document()), accelerator="a100"
    )
    assert graph.provenance["steps_found"] == ["ProfilerStep#0.0", "ProfilerStep#0.1"]


def test_a_last_step_that_was_cut_off_is_not_taken(tmp_path: Path) -> None:
    recorder = Recorder()
    record_step(recorder, None)
    whole = len(recorder.nodes)
    record_step(recorder, None)
    first = min(node["id"] for node in recorder.nodes[whole:])
    names = [node["name"] for node in sorted(recorder.nodes, key=lambda node: node["id"])]
    cut = [i for i, name in enumerate(names) if name == "aten::native_dropout_backward"][-1] + 3
    kept = sorted(recorder.nodes, key=lambda node: node["id"])[:cut]
    assert kept[-1]["id"] > first
    document = {"schema": recorder.schema, "nodes": kept}
    graph = so.profiles.read_trace(write(tmp_path / "et.json", document), accelerator="a100")
    assert graph.provenance["step"] == "step 0"


def test_what_came_before_the_forward_pass_is_left_out(tmp_path: Path) -> None:
    recorder = Recorder()
    norm = recorder.tensor(99, [])
    recorder.op("aten::norm", [recorder.tensor(synthetic.GW, [8])], [norm], synthetic.SUM)
    record_step(recorder, None)
    graph = so.profiles.read_trace(
        write(tmp_path / "et.json", recorder.document()), accelerator="a100"
    )
    assert not any(op.name.startswith("norm") for op in graph.ops)


def test_the_same_trace_gives_the_same_bytes(trace: Path, tmp_path: Path) -> None:
    for name in ("a.json", "b.json"):
        so.write_record(so.profiles.read_trace(trace, accelerator="a100"), tmp_path / name)
    assert (tmp_path / "a.json").read_bytes() == (tmp_path / "b.json").read_bytes()


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("on_device", [False, True])
def test_joined_with_the_profiler(tmp_path: Path, swapped: bool, on_device: bool) -> None:
    document, host, device = execution_trace()
    first = write(tmp_path / "et.json", document)
    second = write(tmp_path / "profile.json", device if on_device else host)
    if swapped:
        first, second = second, first
    graph = so.profiles.read_trace(first, durations=second)
    alone = so.profiles.read_trace(tmp_path / "et.json", accelerator="a100")
    assert [op.model_copy(update={"duration_ns": 1}) for op in graph.ops] == [
        op.model_copy(update={"duration_ns": 1}) for op in alone.ops
    ]
    if on_device:
        # addmm and its merged relu_, of which the profiler saw no kernel.
        assert [op.duration_ns for op in graph.ops] == [7001, 7000, 1, 1, 1, 1, 7000]
    else:
        assert [op.duration_ns for op in graph.ops[2:]] == [10500] * 5


def test_joining_traces_of_two_runs_is_refused(tmp_path: Path) -> None:
    document, host, _ = execution_trace()
    for event in host["traceEvents"]:
        event["args"]["Record function id"] += 1
    first, second = write(tmp_path / "et.json", document), write(tmp_path / "p.json", host)
    with pytest.raises(so.InputError, match="are both traces of the same run"):
        so.profiles.read_trace(first, durations=second)
    for event in host["traceEvents"]:
        del event["args"]["Record function id"]
    write(second, host)
    with pytest.raises(so.InputError, match="no event has 'Record function id'"):
        so.profiles.read_trace(first, durations=second)
