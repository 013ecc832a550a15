"""Mixed precision: casts against those of PyTorch for CUDA, saved bytes against a real CPU run."""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from profiles.pytorch.executing import AS_ON_CPU, assembled, contents, given_storages
from profiles.pytorch.small_networks import NETWORKS
from profiles.pytorch.test_against_eager import run_eagerly, run_forward, saved_storages
from torch import nn

from slackopt.cli.run import main
from slackopt.errors import InputError
from slackopt.files import read_graph
from slackopt.graph import Graph
from slackopt.profiles import from_torch
from slackopt.profiles.pytorch import autocasting, fakes
from slackopt.profiles.pytorch.settings import TraceSettings

BF16, FP16, FP32 = torch.bfloat16, torch.float16, torch.float32

CALLS: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "linear": lambda x, w: F.linear(x, w),
    "matmul": lambda x, w: x @ w,
    "conv": lambda x, w: F.conv1d(x[None], w[:, :, None], padding="same"),
    "prelu": lambda x, w: F.prelu(x, w[0, :1]),
    "attention": lambda x, w: F.scaled_dot_product_attention(x[None], w[None], w[None]),
    "softmax": lambda x, w: torch.softmax(x, -1),
    "log softmax in 64 bits": lambda x, w: F.log_softmax(x, -1, dtype=torch.float64),
    "layer norm": lambda x, w: F.layer_norm(x, (8,), w[0]),
    "group norm": lambda x, w: F.group_norm(x, 2),
    "exp": lambda x, w: x.exp(),
    "pow": lambda x, w: x**2,
    "sum": lambda x, w: x.sum(),
    "sum of rows": lambda x, w: x.sum(1),
    "cumsum": lambda x, w: x.cumsum(0),
    "mean": lambda x, w: x.mean(),
    "norm": lambda x, w: x.norm(),
    "norm of rows": lambda x, w: x.norm(dim=1),
    "vector norm": lambda x, w: torch.linalg.vector_norm(x),
    "addcmul": lambda x, w: torch.addcmul(x, x, w),
    "bilinear": lambda x, w: F.bilinear(x, x, w[:, None, :].expand(8, 8, 8)),
    "add": lambda x, w: x + w,
    "relu": lambda x, w: F.relu(x),
    "gelu": lambda x, w: F.gelu(x),
    "cat": lambda x, w: torch.cat([x, w]),
    "mse": lambda x, w: F.mse_loss(x, w),
    "cross entropy": lambda x, w: F.cross_entropy(x, torch.zeros_like(x)),
    "interpolation": lambda x, w: F.interpolate(x[None], scale_factor=2.0),
    "pooling": lambda x, w: F.avg_pool1d(x[None], 2),
    "64 bits": lambda x, w: x.double() @ w.double(),
}


@contextlib.contextmanager
def cuda_autocast(dtype: torch.dtype) -> Iterator[None]:
    """PyTorch's own; entered below Python, where it isn't turned off without a CUDA device."""
    before = torch.get_autocast_dtype("cuda")
    torch.set_autocast_enabled("cuda", True)
    torch.set_autocast_dtype("cuda", dtype)
    torch.autocast_increment_nesting()
    try:
        yield
    finally:
        torch.autocast_decrement_nesting()
        torch.clear_autocast_cache()
        torch.set_autocast_enabled("cuda", False)
        torch.set_autocast_dtype("cuda", before)


# These need CUDA itself for their answer; here their lists, as PyTorch documents them.
DOCUMENTED: dict[str, Callable[[torch.dtype, torch.dtype, torch.dtype], torch.dtype]] = {
    "conv": lambda x, w, low: low,
    "prelu": lambda x, w, low: low,
    "attention": lambda x, w, low: low,
    "layer norm": lambda x, w, low: FP32,
    "interpolation": lambda x, w, low: FP32,
    "bilinear": lambda x, w, low: FP32 if FP32 in (x, w) else low,
    "pooling": lambda x, w, low: x,
}


@pytest.mark.parametrize("dtype", [BF16, FP16], ids=["bf16", "fp16"])
@pytest.mark.parametrize("formats", ["full", "half", "mixed"])
def test_casts_are_those_of_pytorch_on_cuda(formats: str, dtype: torch.dtype) -> None:
    """The same calls on fake CUDA tensors under PyTorch's autocast, and here under ours."""
    x_format, w_format = FP32 if formats == "full" else dtype, dtype if formats == "half" else FP32

    def run(name: str, device: str) -> torch.dtype | str:
        x = torch.empty(8, 8, device=device, dtype=x_format)
        w = torch.empty(8, 8, device=device, dtype=w_format)
        try:
            return CALLS[name](x, w).dtype
        except RuntimeError as error:
            return str(error).splitlines()[0]

    with fakes.new_mode(), torch.no_grad():
        with cuda_autocast(dtype):
            expected = {name: run(name, "cuda") for name in CALLS}
        settings = TraceSettings(autocast="bf16" if dtype == BF16 else "fp16")
        casting = autocasting.Autocasting(settings, "cpu")
        with casting.active(), casting.region():
            found = {name: run(name, "cpu") for name in CALLS}
    for name, answer in expected.items():
        if answer == "PyTorch is not linked with support for cuda devices":
            expected[name] = DOCUMENTED[name](x_format, w_format, dtype)
    assert found == expected


def test_every_name_in_the_lists_is_an_operator_of_autocast() -> None:
    known = {
        operator.removeprefix("aten::").partition(".")[0]
        for operator in torch._C._dispatch_get_all_op_names()
        if autocasting.policy_of(operator) is not None
    }
    for names in autocasting._POLICIES.values():
        assert names <= known
    assert autocasting.policy_of("aten::relu") is None


@pytest.mark.parametrize("network", ["bert", "gpt2", "residual net", "u-net"])
def test_saved_storages_are_those_of_autocast_on_the_cpu(network: str) -> None:
    workload = NETWORKS[network]()
    settings = TraceSettings(**{**vars(AS_ON_CPU), "autocast": "bf16"})
    traced, made = assembled(workload, settings)
    storages = run_forward(made, given_storages(traced, made.step, workload))
    with torch.autocast("cpu", dtype=BF16):
        _, saved = run_eagerly(workload)
    found = contents(storages[s] for s in saved_storages(made))
    expected = contents(saved)
    assert len(expected) > 20
    assert sum(size for size, _ in found) == sum(size for size, _ in expected)
    assert found == expected


class Net(nn.Module):
    """Product, norm, product, softmax, product; maybe in a region of autocast of its own."""

    def __init__(self, region: Callable[[], Any] | None = None) -> None:
        super().__init__()
        self.first, self.norm = nn.Linear(8, 8), nn.LayerNorm(8)
        self.second, self.last = nn.Linear(8, 8, bias=False), nn.Linear(8, 2, bias=False)
        self.region = contextlib.nullcontext if region is None else region

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with self.region():
            y = torch.softmax(self.second(F.relu(self.norm(self.first(x)))), -1)
            return self.last(y).sum()


def traced(region: Callable[[], Any] | None = None, **options: Any) -> Graph:
    return from_torch(Net(region), torch.zeros(4, 8), **options)


def saved(graph: Graph) -> dict[str, int]:
    read = {name for op in graph.ops if op.phase == "backward" for name in op.inputs}
    made = {name for op in graph.ops if op.phase == "forward" for name in op.outputs}
    return {t.name: t.size_bytes for t in graph.tensors if t.name in read & made}


def test_what_cuda_saves_of_a_small_net() -> None:
    graph = traced(autocast="bf16")
    # 16 bits: inputs and weights of the products. 32 bits: input and statistics of the norm, its
    # output behind the ReLU, and the softmax.
    assert sorted(saved(graph).values()) == sorted(
        [64, 128, 16, 16, 128, 64, 128, 128, 64, 32],
    )
    assert graph.provenance["settings"]["autocast"] == "bf16"
    half = traced(autocast="fp16")
    # CUDA's softmax of fp16 gives fp32 without a copy of its input.
    assert "softmax" in next(op.name for op in half.ops if op.inputs == ("second/mm.out",))


def test_a_region_of_the_model_is_traced_as_on_cuda() -> None:
    def region() -> Any:
        return torch.autocast("cuda", dtype=BF16)

    own, option = traced(region), traced(autocast="bf16")
    assert [op.name for op in own.ops] == [op.name for op in option.ops]
    assert own.tensors == option.tensors
    assert own.provenance["autocast_entered"] == ["bf16"]
    assert "autocast_entered" not in option.provenance
    half = traced(lambda: torch.autocast("cuda"))
    assert half.provenance["autocast_entered"] == ["fp16"]
    plain = traced()
    assert traced(lambda: torch.autocast("cuda", enabled=False)) == plain
    # A CPU runs such a region without a cast, and so is it traced for one.
    with pytest.warns(UserWarning, match="CUDA is not available"):
        on_cpu = traced(region, accelerator="cpu")
    assert on_cpu.tensors == traced(accelerator="cpu").tensors
    # Within a region, one that is turned off.
    mixed = traced(lambda: torch.autocast("cuda", enabled=False), autocast="bf16")
    assert mixed.tensors == plain.tensors


def test_the_model_sees_that_autocast_is_on() -> None:
    seen: list[Any] = []

    @contextlib.contextmanager
    def region() -> Iterator[None]:
        with torch.autocast("cuda", dtype=BF16):
            seen.append((torch.is_autocast_enabled(), torch.is_autocast_enabled("cuda")))
            seen.append((torch.get_autocast_dtype("cuda"), torch.get_autocast_gpu_dtype()))
            yield
        seen.append(torch.is_autocast_enabled("cuda"))

    traced(region)
    assert seen == [(True, True), (BF16, BF16), False]
    assert torch.is_autocast_enabled("cuda") is torch.is_autocast_enabled("cpu") is False
    with torch.autocast("cpu", dtype=BF16):  # the CPU's own lists are back
        assert torch.softmax(torch.zeros(2, 2).bfloat16(), -1).dtype == BF16


def test_a_region_made_before_the_trace_is_refused() -> None:
    with pytest.warns(UserWarning, match="CUDA is not available"):
        made = torch.autocast("cuda")
    with pytest.raises(InputError, match=r"that was made before the trace .*the option autocast"):
        traced(lambda: made)


def test_fused_attention_under_autocast_is_flash_attention() -> None:
    class Attention(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.qkv = nn.Linear(64, 192)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            parts = self.qkv(x).float().chunk(3, -1)
            q, k, v = (part.unflatten(-1, (4, 16)).transpose(1, 2) for part in parts)
            return F.scaled_dot_product_attention(q, k, v).sum()

    names = [op.name for op in from_torch(Attention(), torch.zeros(2, 8, 64), autocast="bf16").ops]
    assert any("flash_attention" in name for name in names)


def test_options_that_do_not_fit() -> None:
    with pytest.raises(InputError, match="autocast 'int8': must be one of bf16, fp16"):
        traced(autocast="int8")
    with pytest.raises(InputError, match="autocast bf16 with dtype bf16: autocast is for"):
        traced(autocast="bf16", dtype="bf16")
    assert traced(autocast="bf16", dtype="fp32").tensors == traced(autocast="bf16").tensors

    class Unsafe(Net):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = torch.sigmoid(self.first(x))
            return F.binary_cross_entropy(y, torch.zeros_like(y))

    with pytest.raises(InputError, match="unsafe under autocast"):
        from_torch(Unsafe(), torch.zeros(4, 8), autocast="bf16")


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "graph.json"
    options = ["--batch", "2", "--set", "image_size=32", "-o", str(path)]
    assert main(["profile", "resnet18", "--autocast", "fp16", *options]) == 0
    settings = read_graph(path).provenance["settings"]
    assert (settings["autocast"], settings["dtype"]) == ("fp16", None)
    assert main(["profile", "gpt2", "--autocast", "fp16", "-o", str(path)]) == 2
    assert "--autocast is for PyTorch models" in capsys.readouterr().err
