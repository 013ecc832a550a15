"""Steps of all architectures: saved bytes against closed forms, times, structure, errors."""

from typing import Any

import pytest

from slackopt.errors import InputError
from slackopt.graph import Graph
from slackopt.lifetimes import ABSENT
from slackopt.profiles import Preset, get_accelerator, get_preset, preset_names, transformer

KINDS = ("flash", "eager")


def saved_sizes(graph: Graph, *layers: str) -> dict[str, int]:
    """Forward tensors that the backward ops of some layers read, with their bytes."""
    life = graph.lifetimes
    return {
        graph.tensors[t].name: life.sizes_bytes[t]
        for k, op in enumerate(graph.ops)
        if op.phase == "backward" and op.layer in layers
        for t in life.inputs[k]
        if life.producer[t] < life.num_forward
    }


def saved_bytes(graph: Graph, *layers: str) -> int:
    return sum(saved_sizes(graph, *layers).values())


@pytest.mark.parametrize(("batch", "seq"), [(None, None), (1, 2048), (3, 640)])
@pytest.mark.parametrize("preset", ["llama3-8b", "mistral-7b"])
def test_grouped_query_attention(preset: str, batch: int | None, seq: int | None) -> None:
    model = get_preset(preset)
    s, b, h, f = seq or model.seq, batch or model.batch, model.hidden, model.ffn
    a, g = model.heads, model.kv_heads
    assert g is not None
    # The closed form of the gated block, less what keys and values of a - g heads would take.
    expected = 16 * s * b * h + 6 * s * b * f - 4 * s * b * h * (a - g) // a
    flash = transformer(preset, batch=batch, seq=seq, num_layers=2)
    assert saved_bytes(flash, "layer 1") == expected
    eager = transformer(preset, batch=batch, seq=seq, num_layers=2, attention="eager")
    assert saved_bytes(eager, "layer 1") == expected + 2 * a * s * s * b


def test_sliding_window_saves_time_and_no_bytes() -> None:
    launch = get_accelerator("a100").launch_ns
    times, saved = [], []
    for seq in (4096, 8192, 16384):
        graph = transformer("mistral-7b", seq=seq, num_layers=1)
        ops = {op.name: op.duration_ns for op in graph.ops}
        times.append(ops["layer 0/attention/flash"] - launch)
        saved.append(saved_bytes(graph, "layer 0"))
    # Past the window of 4096, attention takes as long as it has tokens, no longer their square.
    assert times[1] == pytest.approx(2 * times[0], abs=2)
    assert times[2] == pytest.approx(4 * times[0], abs=4)
    assert saved[2] == 2 * saved[1] == 4 * saved[0]
    full = transformer("llama3-8b", seq=16384, num_layers=1)
    attention = {op.name: op.duration_ns for op in full.ops}["layer 0/attention/flash"] - launch
    assert attention == pytest.approx(4 * times[2], abs=4)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dropout", [True, False])
@pytest.mark.parametrize(("batch", "seq", "target"), [(2, 384, 128), (3, 128, 640)])
def test_cross_attention(kind: Any, dropout: bool, batch: int, seq: int, target: int) -> None:
    graph = transformer(
        "bart-large",
        batch=batch,
        seq=seq,
        target_seq=target,
        num_layers=2,
        attention=kind,
        dropout=dropout,
    )
    model = get_preset("bart-large")
    b, h, a = batch, model.hidden, model.heads
    eager = kind == "eager"

    def plain(s: int) -> int:  # Korthikanti et al. 2022, and the same without dropout
        if dropout:
            return 34 * s * b * h + (5 * a * s * s * b if eager else 0)
        return 32 * s * b * h + (2 * a * s * s * b if eager else 0)

    assert saved_bytes(graph, "encoder layer 1") == plain(seq)
    s, t = target, seq
    cross = 8 * s * b * h + 4 * t * b * h + (s * b * h if dropout else 0)
    if eager:
        cross += (5 if dropout else 2) * a * s * t * b
    memory = 2 * t * b * h
    assert saved_bytes(graph, "decoder layer 1") == plain(s) + cross + memory
    # All blocks of the decoder save one and the same output of the encoder.
    both = saved_bytes(graph, "decoder layer 0", "decoder layer 1")
    assert both == 2 * (plain(s) + cross) + memory
    assert "encoder/norm.out" in saved_sizes(graph, "decoder layer 0")


def test_gradient_of_the_encoder_is_added_up_over_the_decoder() -> None:
    graph = transformer("t5-large", batch=1, seq=128, target_seq=64, num_layers=4)
    ops = {op.name: op for op in graph.ops}
    last = ops["decoder layer 3/cross-attention/key-value.backward"]
    assert last.outputs == ("encoder/norm.out.grad",)
    previous = last.outputs[0]
    for index in (2, 1, 0):
        op = ops[f"decoder layer {index}/cross-attention/key-value.backward"]
        assert previous in op.inputs
        previous = op.outputs[0]
    assert previous in ops["encoder/norm.backward"].inputs
    size = graph.tensors[graph.tensor_index["encoder/norm.out"]].size_bytes
    assert graph.tensors[graph.tensor_index[previous]].size_bytes == size == 2 * 128 * 1024


@pytest.mark.parametrize("preset", ["vit-base", "vit-large", "vit-huge"])
@pytest.mark.parametrize("images", [1, 2])
def test_vision(preset: str, images: int) -> None:
    model = get_preset(preset)
    assert model.image_size is not None
    assert model.patch_size is not None
    size = images * model.image_size
    b, h, p = 4, model.hidden, model.patch_size
    graph = transformer(preset, batch=b, image_size=size, num_layers=2)
    patches = (size // p) ** 2
    s = patches + 1
    assert model.seq == (model.image_size // p) ** 2 + 1
    assert saved_bytes(graph, "layer 0") == 34 * s * b * h
    # The patch embedding saves the images, the position's dropout its mask.
    saved = saved_sizes(graph, "embedding")
    assert saved == {
        "batch/images": 2 * b * 3 * size**2,
        "embedding/dropout.mask": b * s * h,
    }
    ops = {op.name: op for op in graph.ops}
    assert ops["embedding/patches.backward"].outputs == ()
    flops = 2 * b * patches * 3 * p * p * h
    layers = 2 * b * s * 2 * 12 * h * h + 4 * 2 * b * s * s * h
    head = 2 * b * h * model.vocab
    assert graph.provenance["model_flops"] == 3 * (flops + layers + head)
    assert graph.provenance["settings"]["seq"] == s


@pytest.mark.parametrize("experts", ["grouped", "separate"])
@pytest.mark.parametrize("preset", ["mixtral-8x7b", "olmoe-1b-7b"])
@pytest.mark.parametrize(("batch", "seq"), [(1, 512), (2, 1000)])
def test_mixture_of_experts(preset: str, experts: Any, batch: int, seq: int) -> None:
    model = get_preset(preset)
    s, b, h, f, a = seq, batch, model.hidden, model.ffn, model.heads
    g, e, k = model.kv_heads or a, model.num_experts, model.top_k
    assert e is not None
    assert k is not None
    graph = transformer(preset, batch=b, seq=s, num_layers=2, experts=experts)
    n = s * b * h
    attention = 12 * n - 4 * n * (a - g) // a
    mlp = 2 * n + 2 * n * (1 + 2 * k) + 6 * s * b * k * f + 2 * s * b * e + 10 * s * b * k
    assert saved_bytes(graph, "layer 1") == attention + mlp
    expert_ops = sum(op.name.endswith("/down") for op in graph.ops)
    assert expert_ops == 2 * (e if experts == "separate" else 1)


def test_experts_together_do_the_work_of_one_grouped_product() -> None:
    grouped = transformer("mixtral-8x7b", seq=512, num_layers=1)
    separate = transformer("mixtral-8x7b", seq=512, num_layers=1, experts="separate")
    assert grouped.provenance["model_flops"] == separate.provenance["model_flops"]
    model = get_preset("mixtral-8x7b")
    s, h, f = 512, model.hidden, model.ffn
    weights = 2 * h * h + 2 * h * h // 4 + h * 8 + h * model.vocab + 2 * 3 * h * f
    assert grouped.provenance["model_flops"] == 6 * s * weights + 3 * 4 * s * s * h


def test_uneven_experts_differ_by_one_token() -> None:
    graph = transformer("olmoe-1b-7b", batch=1, seq=100, num_layers=1, experts="separate")
    sizes = {
        t.name: t.size_bytes
        for t in graph.tensors
        if t.name.startswith("layer 0/mlp/dispatch.out ") and ".grad" not in t.name
    }
    # 100 tokens to 8 of 64 experts each: 12 or 13 an expert; a copy has 2 * 2048 bytes.
    assert len(sizes) == 64
    assert sum(sizes.values()) == 100 * 8 * 4096
    assert set(sizes.values()) == {12 * 4096, 13 * 4096}


@pytest.mark.parametrize("preset", preset_names())
@pytest.mark.parametrize("kind", KINDS)
def test_structure(preset: str, kind: Any) -> None:
    model = get_preset(preset)
    graph = transformer(preset, attention=kind, num_layers=2, batch=2)
    life = graph.lifetimes
    forward = {op.name for op in graph.ops if op.phase == "forward"}
    backward = [op.name for op in graph.ops if op.phase == "backward"]
    assert {f"{name}.backward" for name in forward} == set(backward)
    for t, tensor in enumerate(graph.tensors):
        assert (life.producer[t] == ABSENT) == (tensor.kind == "input")
        # Nothing is made in vain, except the loss and a mask without dropout's backward op.
        if tensor.kind != "loss":
            assert max(life.last_forward_use[t], life.last_backward_use[t]) > life.producer[t]
    embeddings = sum(name.endswith(("lookup", "patches")) for name in forward)
    assert embeddings == (2 if model.architecture == "encoder-decoder" else 1)


@pytest.mark.parametrize("preset", preset_names())
def test_utilisation_is_plausible(preset: str) -> None:
    graph = transformer(preset)
    seconds = graph.ideal_ns * 1e-9
    utilisation = graph.provenance["model_flops"] / seconds / get_accelerator("a100").peak("bf16")
    # No op is faster than the 67 % of peak of its products.
    assert 0.50 <= utilisation <= 0.67


def test_layers_of_encoder_and_decoder() -> None:
    model: Preset = get_preset("t5-large")
    layers = {op.layer for op in transformer("t5-large").ops}
    assert sum(layer.startswith("encoder layer") for layer in layers) == model.num_layers
    assert sum(layer.startswith("decoder layer") for layer in layers) == model.decoder_layers


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"preset": "llama-7b", "target_seq": 5}, r"target_seq 5: 'llama-7b' has no such setting"),
        ({"preset": "llama-7b", "image_size": 224}, r"image_size 224: 'llama-7b' has no such"),
        ({"preset": "llama-7b", "experts": "grouped"}, r"experts 'grouped': 'llama-7b' has no"),
        ({"preset": "vit-base", "seq": 197}, r"seq 197: the tokens of 'vit-base' follow from"),
        (
            {"preset": "vit-base", "image_size": 225},
            r"image_size 225: must be a multiple of the 16",
        ),
        ({"preset": "vit-base", "image_size": 0}, r"image_size 0: must be a whole number"),
        ({"preset": "t5-large", "target_seq": -1}, r"target_seq -1: must be a whole number"),
        ({"preset": "mixtral-8x7b", "experts": "many"}, r"experts 'many': must be one of grouped"),
        ({"preset": "olmoe-1b-7b", "batch": 1, "seq": 7}, r"too few for 64 experts"),
    ],
)
def test_bad_settings(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        transformer(**{"num_layers": 1, **settings})
