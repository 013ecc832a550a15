"""Measured times, through the whole chain; the link."""

import pytest
import torch
from profiles.pytorch.small_networks import NETWORKS, hugging_face
from torch import nn

import slackopt as so
from slackopt.errors import InputError
from slackopt.profiles import from_torch, measure_link
from slackopt.profiles.pytorch.link import device_of

LINK = so.Device(name="a slow link", d2h_bytes_per_s=10**9, h2d_bytes_per_s=10**9)


@pytest.mark.parametrize("network", ["bert", "gpt2", "u-net", "residual net"])
def test_a_measured_profile_runs_through_the_chain(network: str) -> None:
    if network in ("bert", "gpt2"):
        pytest.importorskip("transformers")
    graph = from_torch(NETWORKS[network](), measure=True, repeats=3, min_swap_bytes=256)
    times = graph.provenance["times"]
    assert times["source"] == "measured"
    assert times["repeats"] == 3
    assert "accelerator" not in graph.provenance
    assert all(op.duration_ns > 0 for op in graph.ops)
    instance = so.Instance.from_graph(graph, device=LINK, budget=0.5)
    result = so.solve(instance, method="slackswap")
    assert result.plan is not None
    timeline = so.simulate(instance, result.plan)
    assert timeline.makespan_ns == result.makespan_ns
    so.verify(instance, result)


def test_equal_calls_are_measured_once() -> None:
    model = nn.Sequential(*(nn.Linear(8, 8) for _ in range(6)))
    graph = from_torch(model, torch.zeros(4, 8), loss=torch.sum, measure=True, repeats=1)
    products = [op for op in graph.ops if op.name.endswith("/addmm")]
    assert len(products) == 6
    assert len({op.duration_ns for op in products}) == 1
    assert graph.provenance["times"]["distinct_calls"] < len(graph.ops) / 2


def test_a_cpu_has_kernels_of_its_own() -> None:
    pytest.importorskip("transformers")
    graph = from_torch(
        hugging_face("gpt2", "sdpa"), dropout=False, measure=True, repeats=1, micro_batches=2
    )
    fused = [op.name for op in graph.ops if "attention_for_cpu" in op.name]
    assert len(fused) == 4
    assert any(op.name.endswith("/accumulate.backward") for op in graph.ops)
    modelled = from_torch(hugging_face("gpt2", "sdpa"), dropout=False, accelerator="cpu")
    assert [op.name for op in modelled.ops if "attention_for_cpu" in op.name] == fused


def test_without_cuda_there_is_no_link(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(InputError, match="PyTorch sees no CUDA device here"):
        measure_link()


def test_a_device_of_measured_times() -> None:
    # 1 GB in 40 ms and 50 ms beyond a latency of 10 us: 25 and 20 GB/s.
    device = device_of(
        "measured",
        size_bytes=10**9,
        latency_ns=10_000,
        alone_ns={"d2h": 40_010_000, "h2d": 50_010_000},
        shared_ns={"d2h": 40_010_000, "h2d": 100_010_000},
        source="a test",
    )
    assert device.d2h_bytes_per_s == 25 * 10**9
    assert device.h2d_bytes_per_s == 20 * 10**9
    assert device.d2h_shared_bytes_per_s == 25 * 10**9
    assert device.h2d_shared_bytes_per_s == 10 * 10**9
    alone = {"d2h": 40_010_000, "h2d": 50_010_000}
    independent = device_of(
        "measured",
        size_bytes=10**9,
        latency_ns=10_000,
        alone_ns=alone,
        shared_ns=alone,
        source="a test",
    )
    assert independent.independent
    assert independent.d2h_shared_bytes_per_s is None
