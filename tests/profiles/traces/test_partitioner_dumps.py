"""The partitioner's joint graph."""

from pathlib import Path
from typing import Any

import pytest
from profiles.traces.synthetic import ROWS, WIDTH, aot_dump, write

import slackopt as so

BIG = 2 * ROWS * WIDTH


def test_ops_views_and_items(tmp_path: Path) -> None:
    path = write(tmp_path / "aot.json", aot_dump())
    graph = so.profiles.read_trace(path, accelerator="a100")
    assert [(op.name, op.phase, op.inputs, op.outputs) for op in graph.ops] == [
        ("mm", "forward", (), ("mm",)),
        ("relu", "forward", ("mm",), ("relu",)),
        ("dropout", "forward", ("relu",), ("getitem", "getitem_1")),
        ("tangents", "backward", (), ("tangents_1",)),
        ("mul", "backward", ("tangents_1", "getitem_1"), ("mul",)),
        # No result of the forward pass needs it: it is computed in the backward pass.
        ("le", "backward", ("relu",), ("le",)),
        ("where", "backward", ("le", "mul"), ("where",)),
        ("mm_1", "backward", ("where",), ("mm_1",)),
    ]
    assert {tensor.size_bytes for tensor in graph.tensors} == {BIG, 2 * WIDTH * WIDTH}
    assert all(op.recomputable == (op.phase == "forward") for op in graph.ops)
    lost = so.profiles.read_trace(path, accelerator="a100", restore_random_state=False)
    assert [op.recomputable for op in lost.ops[:4]] == [True, True, False, False]
    chip = so.profiles.get_accelerator("a100")
    # 2 * ROWS * WIDTH * WIDTH FLOPs, in bf16: bound by them.
    at_peak = 2 * ROWS * WIDTH**2 * 100 * 10**9 / (chip.matmul_percent * chip.peak("bf16"))
    assert graph.ops[0].duration_ns == pytest.approx(at_peak + chip.launch_ns, abs=1)


def test_measured_runtimes_are_milliseconds(tmp_path: Path) -> None:
    path = write(tmp_path / "aot.json", aot_dump(measured=True))
    graph = so.profiles.read_trace(path, accelerator="a100")
    assert graph.ops[0].duration_ns == 250_000
    assert graph.provenance["times"].startswith("measured by the partitioner")


def test_older_dumps_need_the_bytes_of_an_element(tmp_path: Path) -> None:
    path = write(tmp_path / "aot.json", aot_dump(absolute=False))
    with pytest.raises(so.InputError, match="field 'Absolute Memories' is missing"):
        so.profiles.read_trace(path, accelerator="a100")
    graph = so.profiles.read_trace(path, accelerator="a100", element_bytes=4)
    assert graph.tensors[0].size_bytes == 2 * BIG


def test_a_forward_graph_alone_is_refused(tmp_path: Path) -> None:
    document = aot_dump()
    nodes = document["Joint Graph Node Information"]
    for name in ("tangents_1", "mul", "le", "where", "mm_1"):
        del nodes[name]
    nodes["output"]["input_arguments"] = ["getitem"]
    with pytest.raises(so.InputError, match="the graph has no backward pass"):
        so.profiles.read_trace(write(tmp_path / "aot.json", document), accelerator="a100")


def test_a_dump_of_a_real_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch", reason="dumping a joint graph needs PyTorch")
    partitioners = pytest.importorskip("torch._functorch.partitioners")
    logging = pytest.importorskip("torch._functorch._activation_checkpointing.ac_logging_utils")
    found: list[str] = []

    def capture(*_: object, metadata_fn: Any, payload_fn: Any, **__: object) -> None:
        if metadata_fn()["name"] == "min_cut_information":
            found.append(payload_fn())

    monkeypatch.setattr(logging, "trace_structured", capture)
    monkeypatch.setattr(partitioners, "AOT_PARTITIONER_DEBUG", True)
    monkeypatch.setattr(torch._functorch.config, "activation_memory_budget", 0.05)
    blocks = [
        torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.GELU(), torch.nn.Linear(64, 32))
        for _ in range(2)
    ]
    model = torch.compile(torch.nn.Sequential(*blocks), backend="aot_eager_decomp_partition")
    model(torch.randn(16, 32)).sum().backward()
    (tmp_path / "dump.json").write_text(found[0])
    graph = so.profiles.read_trace(tmp_path / "dump.json", accelerator="a100")
    products = [op for op in graph.ops if op.name.startswith("addmm")]
    assert len(products) == 4
    assert all(op.phase == "forward" for op in products)
    sizes = {tensor.name: tensor.size_bytes for tensor in graph.tensors}
    assert [sizes[op.outputs[0]] for op in products] == [16 * 64 * 4, 16 * 32 * 4] * 2
