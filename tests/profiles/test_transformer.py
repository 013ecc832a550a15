"""Analytic transformer steps: saved bytes, times, structure, errors."""

from collections import Counter
from typing import Any

import pytest

from slackopt.errors import InputError
from slackopt.graph import Graph
from slackopt.lifetimes import ABSENT
from slackopt.profiles import get_accelerator, get_preset, transformer
from slackopt.profiles.builder import SWAP_THRESHOLD_BYTES

KINDS = ("flash", "eager")
PRESETS = ("bert-large", "gpt2-xl", "llama-7b")


def saved_bytes(graph: Graph, layer: str) -> int:
    """Bytes of the forward tensors that the backward ops of a layer read."""
    life = graph.lifetimes
    saved = {
        t
        for k, op in enumerate(graph.ops)
        if op.phase == "backward" and op.layer == layer
        for t in life.inputs[k]
        if life.producer[t] < life.num_forward
    }
    return sum(life.sizes_bytes[t] for t in saved)


@pytest.mark.parametrize("preset", ["bert-large", "gpt2-xl"])
@pytest.mark.parametrize(("batch", "seq"), [(None, None), (1, 128), (3, 384), (8, 2048)])
def test_saved_bytes_of_a_plain_layer(preset: str, batch: int | None, seq: int | None) -> None:
    # Korthikanti et al. 2022 (arXiv 2205.05198), section 4: s*b*h*(34 + 5*a*s/h) bytes.
    model = get_preset(preset)
    s, b, h, a = seq or model.seq, batch or model.batch, model.hidden, model.heads
    eager = transformer(preset, batch=batch, seq=seq, attention="eager", num_layers=3)
    flash = transformer(preset, batch=batch, seq=seq, attention="flash", num_layers=3)
    for index in range(3):
        assert saved_bytes(eager, f"layer {index}") == 34 * s * b * h + 5 * a * s * s * b
        assert saved_bytes(flash, f"layer {index}") == 34 * s * b * h


@pytest.mark.parametrize(("batch", "seq"), [(None, None), (1, 4096), (3, 640)])
def test_saved_bytes_of_a_gated_layer(batch: int | None, seq: int | None) -> None:
    model = get_preset("llama-7b")
    s, b, h, f = seq or model.seq, batch or model.batch, model.hidden, model.ffn
    a = model.heads
    flash = transformer("llama-7b", batch=batch, seq=seq, num_layers=2)
    eager = transformer("llama-7b", batch=batch, seq=seq, num_layers=2, attention="eager")
    for index in range(2):
        assert saved_bytes(flash, f"layer {index}") == 16 * s * b * h + 6 * s * b * f
        assert saved_bytes(eager, f"layer {index}") == (
            16 * s * b * h + 6 * s * b * f + 2 * a * s * s * b
        )


def test_saved_bytes_without_dropout() -> None:
    # Both masks of 1 byte are gone, and the probabilities are kept once, not twice and a mask.
    model = get_preset("bert-large")
    s, b, h, a = model.seq, model.batch, model.hidden, model.heads
    graph = transformer("bert-large", attention="eager", dropout=False, num_layers=2)
    assert saved_bytes(graph, "layer 1") == 32 * s * b * h + 2 * a * s * s * b


def test_saved_bytes_in_single_precision() -> None:
    model = get_preset("gpt2-xl")
    n = model.seq * model.batch * model.hidden
    graph = transformer("gpt2-xl", dtype="fp32", num_layers=2)
    assert saved_bytes(graph, "layer 1") == (2 * 32 + 2) * n


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("kind", KINDS)
def test_times_match_a_hand_count(preset: str, kind: Any) -> None:
    model = get_preset(preset)
    graph = transformer(preset, attention=kind)
    layer_weights = model.hidden * (4 * model.hidden + (3 if model.gated else 2) * model.ffn)
    weights = model.num_layers * layer_weights + model.hidden * model.vocab
    tokens = model.batch * model.seq
    attention = 4 * tokens * model.seq * model.hidden * model.num_layers
    # 6 FLOPs per weight and token, and three times the forward products of attention.
    flops = 6 * weights * tokens + 3 * attention
    assert graph.provenance["model_flops"] == flops
    utilisation = flops / (graph.ideal_ns * 1e-9 * get_accelerator("a100").peak("bf16"))
    if kind == "flash":
        # LLM Foundry training benchmarks, A100 80 GB: 0.51 (350 M), 0.60 (1.3 B), 0.64 (6.7 B).
        assert 0.50 <= utilisation <= 0.64
    else:
        assert 0.40 <= utilisation <= 0.64


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("kind", KINDS)
def test_unlimited_peak_is_what_is_saved_and_a_little_more(preset: str, kind: Any) -> None:
    graph = transformer(preset, attention=kind)
    model = get_preset(preset)
    saved = sum(saved_bytes(graph, f"layer {index}") for index in range(model.num_layers))
    logits = 2 * model.batch * model.seq * model.vocab
    stream = 2 * model.batch * model.seq * model.hidden
    assert saved < graph.unlimited_peak_bytes < saved + 3 * logits + 8 * stream


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("gradients", [True, False])
def test_structure(preset: str, kind: Any, gradients: bool) -> None:
    graph = transformer(preset, attention=kind, num_layers=2, activation_gradients=gradients)
    life = graph.lifetimes
    names = [op.name for op in graph.ops]
    forward = [op.name for op in graph.ops if op.phase == "forward"]
    assert sorted(names) == sorted(forward + [f"{name}.backward" for name in forward])
    kinds = {tensor.kind for tensor in graph.tensors}
    assert ("gradient" in kinds) == gradients
    for t, tensor in enumerate(graph.tensors):
        assert tensor.size_bytes > 0
        assert (life.producer[t] == ABSENT) == (tensor.kind == "input")
        if tensor.kind == "gradient":
            assert not tensor.swappable
            assert life.producer[t] >= life.num_forward
            assert life.last_backward_use[t] > life.producer[t]
            assert not life.can_recompute(t)
        else:
            assert tensor.swappable == (tensor.size_bytes >= SWAP_THRESHOLD_BYTES)
            assert life.producer[t] < life.num_forward
            assert tensor.kind in ("input", "loss") or life.last_forward_use[t] >= 0
    assert all(op.recomputable == (op.phase == "forward") for op in graph.ops)
    masks = Counter(op.layer for op in graph.ops if any("mask" in name for name in op.outputs))
    if preset == "llama-7b":
        assert not masks
    else:
        per_layer = 2 if kind == "flash" else 3
        assert masks == {"embedding": 1, "layer 0": per_layer, "layer 1": per_layer}


def test_gradients_are_as_large_as_their_tensors() -> None:
    graph = transformer("llama-7b", attention="eager", num_layers=2)
    sizes = {tensor.name: tensor.size_bytes for tensor in graph.tensors}
    found = 0
    for name, size in sizes.items():
        base, dot, _ = name.rpartition(".grad")
        if dot and base in sizes:
            assert size == sizes[base]
            found += 1
    assert found == 32


def test_no_gradients_change_no_durations() -> None:
    full = transformer("bert-large", num_layers=2, attention="eager")
    bare = transformer("bert-large", num_layers=2, attention="eager", activation_gradients=False)
    assert [op.duration_ns for op in full.ops] == [op.duration_ns for op in bare.ops]
    assert bare.unlimited_peak_bytes < full.unlimited_peak_bytes


def test_another_share_of_peak_changes_products_alone() -> None:
    ours = transformer("gpt2-xl", num_layers=1)
    chip = get_accelerator("a100").assuming("assumed", matmul_percent=33)
    other = transformer("gpt2-xl", num_layers=1, accelerator=chip)
    assert other.tensors == ours.tensors
    slower = {
        b.name for a, b in zip(ours.ops, other.ops, strict=True) if b.duration_ns > a.duration_ns
    }
    products = ("attention/qkv", "attention/projection", "mlp/fc1", "mlp/fc2")
    expected = {"head/logits", *(f"layer 0/{name}" for name in products)}
    assert slower == expected | {f"{name}.backward" for name in expected}
    record = other.provenance["accelerator"]
    assert (record["matmul_percent"], record["sources"]["matmul_percent"]) == (33, "assumed")


def test_flash_backward_takes_two_and_a_half_times_as_long() -> None:
    graph = transformer("llama-7b", num_layers=1)
    times = {op.name: op.duration_ns for op in graph.ops}
    launch = get_accelerator("a100").launch_ns
    forward = times["layer 0/attention/flash"] - launch
    backward = times["layer 0/attention/flash.backward"] - launch
    assert 2 * backward == pytest.approx(5 * forward, abs=5)


def test_names_of_ops_and_layers() -> None:
    graph = transformer("bert-large", attention="eager", num_layers=4)
    ops = {op.name: op for op in graph.ops}
    softmax = ops["layer 3/attention/softmax"]
    assert softmax.layer == "layer 3"
    assert softmax.outputs == ("layer 3/attention/softmax.out",)
    assert ops["layer 3/attention/softmax.backward"].inputs == (
        "layer 3/attention/softmax.out.grad",
        "layer 3/attention/softmax.out",
    )
    dropout = ops["layer 3/attention/softmax-dropout"]
    assert dropout.outputs == (
        "layer 3/attention/softmax-dropout.out",
        "layer 3/attention/softmax-dropout.mask",
    )


def test_same_settings_give_the_same_bytes() -> None:
    first = transformer("gpt2-xl", batch=2, num_layers=3)
    second = transformer("gpt2-xl", batch=2, num_layers=3)
    assert first.model_dump_json() == second.model_dump_json()
    assert Graph.model_validate_json(first.model_dump_json()) == first


def test_provenance_names_every_setting() -> None:
    graph = transformer("bert-large", batch=7, accelerator="h100", num_layers=1, dtype="fp16")
    assert graph.provenance["preset"] == "bert-large"
    assert graph.provenance["settings"] == {
        "batch": 7,
        "seq": 512,
        "attention": "flash",
        "dropout": True,
        "num_layers": 1,
        "dtype": "fp16",
        "activation_gradients": True,
    }
    assert graph.provenance["accelerator"]["name"] == "h100"
    assert graph.provenance["accelerator"]["peak_flops_per_s"] == 989 * 10**12


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"preset": "gpt5"}, r"unknown preset 'gpt5'.*bert-large, .*gpt2-xl, .*llama-7b"),
        ({"batch": 0}, r"batch 0: must be a whole number from 1"),
        ({"batch": -3}, r"batch -3"),
        ({"batch": 2.5}, r"batch 2\.5"),
        ({"batch": True}, r"batch True"),
        ({"batch": 10**8}, r"batch 100000000"),
        ({"seq": 0}, r"seq 0"),
        ({"num_layers": 0}, r"num_layers 0"),
        ({"attention": "sparse"}, r"attention 'sparse': must be one of flash, eager"),
        ({"dtype": "fp8"}, r"dtype 'fp8': must be one of bf16, fp16, fp32"),
        ({"accelerator": "abacus"}, r"unknown accelerator 'abacus'"),
        ({"accelerator": "v100"}, r"'v100' has no 'bf16' figure"),
    ],
)
def test_bad_settings(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        transformer(**{"preset": "bert-large", "num_layers": 1, **settings})
