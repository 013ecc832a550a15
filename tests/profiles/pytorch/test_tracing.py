"""Graphs of traced models: saved bytes, phases, names, overwriting, options."""

import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from profiles.pytorch.small_networks import SmallUNet, hugging_face, residual_net
from torch import nn

import slackopt as so
from slackopt.errors import InputError
from slackopt.graph import Graph
from slackopt.profiles import Workload, from_torch
from slackopt.profiles.pytorch.naming import layer_of


def saved_bytes(graph: Graph, layer: str) -> int:
    """Bytes of the forward tensors that are read by the backward ops of a layer.

    Those made outside of the layers, which all layers read, are left out; a layer's input is in.
    """
    life = graph.lifetimes
    layers = [op.layer for op in graph.ops]
    saved = set()
    for k, op in enumerate(graph.ops):
        if op.phase == "backward" and op.layer == layer:
            for t in life.inputs[k]:
                made_in = layers[life.producer[t]] if life.producer[t] >= 0 else ""
                numbered = made_in.rpartition(".")[2].isdecimal()
                if life.producer[t] < life.num_forward and numbered:
                    saved.add(t)
    return sum(life.sizes_bytes[t] for t in saved)


# Multiples of s*b*h bytes in 16-bit: Korthikanti et al. 2022 (arXiv 2205.05198), section 4. The
# GELU of transformers' GPT-2 is a formula of several ops, which save 24 more.
@pytest.mark.parametrize("attention", ["eager", "flash"])
def test_saved_bytes_of_a_bert_layer(attention: Any) -> None:
    pytest.importorskip("transformers")
    s, b, h, a = 512, 2, 256, 4
    graph = so.profiles.torch_model(
        "hf:bert",
        batch=b,
        seq=s,
        num_layers=3,
        overrides={"hidden_size": h, "num_attention_heads": a, "intermediate_size": 4 * h},
        attention=attention,
    )
    extra = 5 * a * s / h if attention == "eager" else 0
    middle = saved_bytes(graph, "bert.encoder.layer.1")
    assert middle == pytest.approx((34 + extra) * s * b * h, rel=0.01)


@pytest.mark.parametrize(
    ("kind", "overrides", "layer", "multiple"),
    [
        ("gpt2", {"n_embd": 256, "n_head": 4}, "transformer.h.1", 58.0),
        (
            "llama",
            {"hidden_size": 256, "num_attention_heads": 2, "intermediate_size": 688},
            "model.layers.1",
            # As Llama-7B, whose MLP is 2.69 times as wide as the model, too.
            45.53,
        ),
    ],
)
def test_saved_bytes_of_a_decoder_layer(
    kind: str, overrides: dict[str, Any], layer: str, multiple: float
) -> None:
    pytest.importorskip("transformers")
    s, b = 512, 2
    graph = so.profiles.torch_model(f"hf:{kind}", batch=b, seq=s, num_layers=3, overrides=overrides)
    assert saved_bytes(graph, layer) == pytest.approx(multiple * s * b * 256, rel=0.02)


def test_phases_inputs_statics_and_labels() -> None:
    workload = residual_net()
    graph = from_torch(workload, min_swap_bytes=1024)
    phases = [op.phase for op in graph.ops]
    assert phases == sorted(phases, key=["forward", "backward"].index)
    assert {t.name for t in graph.tensors if t.kind == "input"} == {"batch", "batch/targets"}
    parameter_bytes = {p.numel() * 4 for p in workload.model.parameters()}
    gradients = [t for t in graph.tensors if t.kind == "gradient"]
    assert gradients
    # Neither parameters nor their gradients are tensors: nothing has the size of the first filter.
    assert 8 * 3 * 9 * 4 in parameter_bytes
    assert not [t for t in graph.tensors if t.size_bytes == 8 * 3 * 9 * 4]
    by_name = {op.name: op for op in graph.ops}
    norm = by_name["bn1/native_batch_norm+relu_"]
    assert norm.layer == "bn1"
    assert norm.inputs == ("conv1/convolution.out",)
    assert by_name["bn1/native_batch_norm_backward"].phase == "backward"
    assert by_name["loss/log_softmax"].layer == "loss"
    assert not any(op.recomputable for op in graph.ops if op.phase == "backward")
    assert not any(t.swappable for t in graph.tensors if t.kind == "gradient")
    for tensor in graph.tensors:
        if tensor.swappable:
            assert tensor.size_bytes >= 1024


def test_an_op_that_overwrites_pins_what_it_overwrites() -> None:
    graph = from_torch(residual_net(), min_swap_bytes=1)
    ops = {op.name: op for op in graph.ops}
    tensors = {tensor.name: tensor for tensor in graph.tensors}
    # Norm and ReLU stand side by side: one op, which can run again.
    assert ops["block2.bn1/native_batch_norm+relu_"].recomputable
    # Between the norm and the addition stands the projection: the norm's output changes later.
    norm = ops["block2.bn2/native_batch_norm"]
    assert not norm.recomputable
    assert not ops["block2/add_"].recomputable
    assert not tensors[norm.outputs[0]].swappable
    assert norm.outputs[0] in ops["block2/add_"].inputs
    # The first block adds its own input, with nothing in between.
    assert ops["block1.bn2/native_batch_norm+add_+relu_"].recomputable


class Overwriting(nn.Module):
    """Reads a map, then overwrites it: the reader can't run again."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        made = self.linear(x)
        kept = made.sum(1)
        other = kept.sin()
        made[:, 0] = 0.0
        return (made.sum(1) * other).sum()


def test_a_reader_before_the_overwriting_is_not_recomputable() -> None:
    graph = from_torch(Overwriting(), torch.zeros(3, 4))
    state = {op.name: op.recomputable for op in graph.ops if op.phase == "forward"}
    assert not state["linear/addmm"]
    assert not state["Overwriting/sum"]
    assert state["Overwriting/sin"]


class Views(nn.Module):
    """Two views of one product, tied weights, several outputs of one op."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(8, 8, bias=False)
        self.second = nn.Linear(8, 8, bias=False)
        self.second.weight = self.first.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        left, right = self.first(x).chunk(2, 1)
        values, _ = torch.cat([left.sin(), right.cos()], 1).sort(1)
        return self.second(values).square().sum()


def test_views_are_merged_with_their_storage_and_tied_weights_with_each_other() -> None:
    graph = from_torch(Views(), torch.zeros(17, 8))
    product = next(t for t in graph.tensors if t.name == "first/mm.out")
    assert product.size_bytes == 17 * 8 * 4
    readers = [op.name for op in graph.ops if "first/mm.out" in op.inputs]
    # Sine and cosine read half of it each, and so do their backward ops.
    assert {"Views/sin", "Views/cos"} < set(readers)
    assert sum(op.phase == "backward" for op in graph.ops if op.name in readers) >= 2
    sort = next(op for op in graph.ops if op.name == "Views/sort")
    assert [name.rpartition(".")[2] for name in sort.outputs] == ["out", "out2"]
    assert graph.provenance["model"]["parameters"] == 64
    # The two gradients of the one weight are tensors until they are added up.
    weight_gradients = [t for t in graph.tensors if t.size_bytes == 64 * 4]
    assert [t.kind for t in weight_gradients] == ["gradient", "gradient"]


def test_dropout_is_the_kernel_of_cuda() -> None:
    model = nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5), nn.Linear(8, 1))
    graph = from_torch(model, torch.zeros(4, 8), loss=torch.sum)
    drop = next(op for op in graph.ops if op.name == "1/native_dropout")
    assert drop.recomputable
    mask = next(t for t in graph.tensors if t.name == "1/native_dropout.mask")
    assert (mask.size_bytes, mask.kind) == (32, "mask")  # one byte an element
    lost = from_torch(model, torch.zeros(4, 8), loss=torch.sum, restore_random_state=False)
    assert not next(op for op in lost.ops if op.name == "1/native_dropout").recomputable
    without = from_torch(model, torch.zeros(4, 8), loss=torch.sum, dropout=False)
    assert not [op for op in without.ops if "dropout" in op.name]


class Attends(nn.Module):
    def __init__(self, mask: bool, causal: bool) -> None:
        super().__init__()
        self.inner = nn.MultiheadAttention(32, 4, dropout=0.1, batch_first=True)
        self.mask, self.causal = mask, causal

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mask = torch.ones(x.size(1), x.size(1), dtype=torch.bool).triu(1) if self.mask else None
        out, _ = self.inner(x, x, x, attn_mask=mask, need_weights=False, is_causal=False)
        return out.square().mean()


@pytest.mark.parametrize(
    ("dtype", "mask", "attention", "kernel"),
    [
        ("bf16", False, "flash", "flash_attention"),
        ("fp16", False, "flash", "flash_attention"),
        ("fp32", False, "flash", "efficient_attention"),
        ("bf16", True, "flash", "efficient_attention"),
        ("bf16", False, "eager", None),
        ("bf16", True, "eager", None),
    ],
)
def test_attention_is_the_kernel_of_cuda(
    dtype: Any, mask: bool, attention: Any, kernel: str | None
) -> None:
    graph = from_torch(
        Attends(mask, False), torch.zeros(2, 16, 32), dtype=dtype, attention=attention
    )
    fused = [op for op in graph.ops if "scaled_dot_product" in op.name]
    if kernel is None:
        assert not fused
        assert any("softmax" in op.name for op in graph.ops)
    else:
        assert [op.phase for op in fused] == ["forward", "backward"]
        assert all(kernel in op.name for op in fused)
        # Dropout within the kernel draws from its random state, whatever the mode.
        lost = from_torch(
            Attends(mask, False),
            torch.zeros(2, 16, 32),
            dtype=dtype,
            attention=attention,
            restore_random_state=False,
        )
        assert not next(op for op in lost.ops if "scaled_dot" in op.name).recomputable


def test_number_formats_change_sizes() -> None:
    sizes = {
        dtype: from_torch(SmallUNet(), torch.zeros(1, 1, 16, 16), loss=torch.sum, dtype=dtype)
        for dtype in ("bf16", "fp32", None)
    }
    peaks = {dtype: graph.unlimited_peak_bytes for dtype, graph in sizes.items()}
    assert peaks["fp32"] == peaks[None]
    assert 0.49 * peaks["fp32"] < peaks["bf16"] < 0.56 * peaks["fp32"]


def test_micro_batches_add_up_gradients() -> None:
    model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 1))
    one = from_torch(model, torch.zeros(4, 8), loss=torch.sum)
    four = from_torch(model, torch.zeros(4, 8), loss=torch.sum, micro_batches=4)
    added = [op for op in four.ops if op.name.endswith("/accumulate.backward")]
    assert {op.name.partition("/")[0] for op in added} == {
        name for name, _ in model.named_parameters()
    }
    names = {op.name for op in added}
    assert [op.name for op in four.ops if op.name not in names] == [op.name for op in one.ops]
    sizes = {tensor.name: tensor.size_bytes for tensor in four.tensors}
    assert sorted(sizes[op.inputs[0]] for op in added) == [4, 32, 32, 256]
    with pytest.raises(InputError, match="micro_batches 0: must be a whole number from 1"):
        from_torch(model, torch.zeros(4, 8), loss=torch.sum, micro_batches=0)


class AddsAParameter(nn.Module):
    """The gradient of the parameter is that of the sum, which the product needs as well."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8, bias=False)
        self.position = nn.Parameter(torch.zeros(4, 8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (self.linear(x) + self.position).square().sum()


def test_a_gradient_of_parameter_and_activation_is_a_tensor() -> None:
    one = from_torch(AddsAParameter(), torch.zeros(4, 8))
    shared = next(op for op in one.ops if op.name.endswith("linear/mm.backward")).inputs[0]
    assert shared in {tensor.name for tensor in one.tensors}
    two = from_torch(AddsAParameter(), torch.zeros(4, 8), micro_batches=2)
    added = {op.name: op.inputs for op in two.ops if op.name.endswith("accumulate.backward")}
    assert added["position/accumulate.backward"] == (shared,)
    assert len(added) == 2


class ChangesItsInput(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        before = x.sum()
        x.mul_(2.0)
        return self.linear(x).sum() * before


def test_an_input_that_is_overwritten_stays() -> None:
    graph = from_torch(ChangesItsInput(), torch.zeros(4, 8), min_swap_bytes=1)
    batch = next(t for t in graph.tensors if t.kind == "input")
    assert not batch.swappable
    state = {op.name: op.recomputable for op in graph.ops if op.phase == "forward"}
    assert not state["ChangesItsInput/sum"]
    assert not state["ChangesItsInput/mul_"]
    assert state["linear/addmm"]


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.LSTM(8, 16, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x)[0].sum()


def test_recurrent_layers_are_traced_step_by_step() -> None:
    graph = from_torch(Recurrent(), torch.zeros(2, 5, 8))
    assert graph.provenance["times"]["flops"] > 3 * 5 * 2 * 2 * 16 * 4 * 16
    assert not [op.name for op in graph.ops if "rnn_layer" in op.name]


def test_roofline_of_a_linear_layer() -> None:
    m, k, n = 512, 1024, 2048
    graph = from_torch(nn.Linear(k, n, bias=False), torch.zeros(m, k), loss=torch.sum, dtype="bf16")
    product = next(op for op in graph.ops if op.phase == "forward")
    chip = so.profiles.get_accelerator("a100")
    arithmetic = 2 * m * k * n / (0.67 * 312e12) * 1e9
    traffic = 2 * (m * k + k * n + m * n) / (0.88 * 2039e9) * 1e9
    assert product.duration_ns == math.ceil(max(arithmetic, traffic)) + chip.launch_ns
    assert graph.provenance["times"] == {"source": "roofline", "flops": 2 * (2 * m * k * n)}
    assert graph.provenance["versions"]["torch"].startswith("2.")


def test_a_model_on_the_meta_device_gives_the_same_graph() -> None:
    with torch.device("meta"):
        model, image = SmallUNet(), torch.empty(1, 1, 16, 16)
    on_meta = from_torch(model, image, loss=torch.sum)
    real = from_torch(SmallUNet(), torch.zeros(1, 1, 16, 16), loss=torch.sum)
    assert on_meta == real


def test_the_same_settings_give_the_same_graph() -> None:
    pytest.importorskip("transformers")
    first, second = (from_torch(hugging_face("llama", "sdpa"), dtype="bf16") for _ in range(2))
    assert first == second


def test_layers_of_a_model_are_alike() -> None:
    pytest.importorskip("transformers")
    graph = from_torch(hugging_face("gpt2", "sdpa"), dtype="bf16")

    def shape(layer: str) -> list[tuple[str, int, bool]]:
        return [
            (op.name.replace(layer, "L").partition(" #")[0], op.duration_ns, op.recomputable)
            for op in graph.ops
            if op.layer == layer and op.phase == "forward"
        ]

    assert shape("transformer.h.0") == shape("transformer.h.1")
    assert len(shape("transformer.h.0")) > 10


@pytest.mark.parametrize(
    ("path", "layer"),
    [
        ("", ""),
        ("loss", "loss"),
        ("bert.encoder.layer.3.attention.self", "bert.encoder.layer.3"),
        ("bert.embeddings.LayerNorm", "bert.embeddings"),
        ("features.block1.layer2.conv1", "features.block1.layer2"),
        ("features.block1.layer2", "features.block1.layer2"),
        ("conv1", "conv1"),
    ],
)
def test_layer_of(path: str, layer: str) -> None:
    children = frozenset({"bert.embeddings", "features.block1.layer2"})
    assert layer_of(path, children) == layer


def test_workloads_and_names() -> None:
    workload = residual_net()
    named = Workload(
        workload.model,
        workload.inputs,
        targets=workload.targets,
        loss=workload.loss,
        name="mine",
        record={"paper": "none"},
    )
    graph = from_torch(named)
    assert graph.name == "mine"
    assert graph.provenance["model"]["paper"] == "none"
    assert from_torch(named, name="other").name == "other"
    assert from_torch(workload).name == "ResidualNet"
    doubled = from_torch(
        workload.model,
        (torch.zeros(8, 3, 16, 16),),
        targets=torch.zeros(8, dtype=torch.long),
        loss=F.cross_entropy,
    )
    assert doubled.unlimited_peak_bytes > 1.9 * graph.unlimited_peak_bytes
