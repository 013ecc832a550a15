"""Models by name: reference models, Hugging Face, vision libraries, files; the command line."""

import json
import sys
import types
from pathlib import Path
from typing import Any

import pytest
import torch
from cli.conftest import Cli, cli
from profiles.pytorch.small_networks import ResidualNet
from torch import nn

import slackopt as so
from slackopt.errors import InputError
from slackopt.profiles import torch_model, torch_model_names
from slackopt.profiles.pytorch.models import densenet, diffusion, mobilenet, resnet, unet, vgg

__all__ = ["cli"]


@pytest.mark.parametrize(
    ("constructor", "parameters"),
    [
        # Tables of the torchvision documentation, for the weights of ImageNet.
        (resnet.resnet18, 11_689_512),
        (resnet.resnet50, 25_557_032),
        (resnet.resnet152, 60_192_808),
        (vgg.VGG16, 138_357_544),
        (mobilenet.MobileNetV2, 3_504_872),
        (densenet.DenseNet121, 7_978_856),
    ],
)
def test_parameters_are_as_published(constructor: Any, parameters: int) -> None:
    with torch.device("meta"):
        assert sum(p.numel() for p in constructor().parameters()) == parameters


def test_the_diffusion_model_is_that_of_the_paper() -> None:
    # Ho et al. 2020 (arXiv 2006.11239), appendix B: "35.7 million parameters".
    with torch.device("meta"):
        model = diffusion.DiffusionUNet()
    assert round(sum(p.numel() for p in model.parameters()) / 1e6, 1) == 35.7
    small = diffusion.DiffusionUNet(width=32)
    assert small(torch.zeros(2, 3, 32, 32), torch.tensor([1, 500])).shape == (2, 3, 32, 32)


def test_the_u_net_is_that_of_the_paper() -> None:
    # Ronneberger et al. 2015 (arXiv 1505.04597), figure 1: 572 -> 388; 23 convolutional layers.
    assert unet.unet_side(572) == 388
    with torch.device("meta"):
        model = unet.UNet()
        assert model(torch.empty(1, 1, 572, 572)).shape == (1, 2, 388, 388)
    kinds = (nn.Conv2d, nn.ConvTranspose2d)
    assert sum(isinstance(module, kinds) for module in model.modules()) == 23
    assert unet.UNet(width=2)(torch.zeros(1, 1, 188, 188)).shape[-1] == unet.unet_side(188)


SMALL: dict[str, dict[str, Any]] = {
    "ddpm-unet": {"width": 32, "multipliers": [1, 2], "depth": 1},
    "densenet121": {"image_size": 32},
    "mobilenet-v2": {"image_size": 32},
    "resnet152": {"image_size": 32},
    "resnet18": {"image_size": 32},
    "resnet50": {"image_size": 32},
    "unet": {"image_size": 188, "width": 8},
    "vgg16": {"image_size": 224},
}


def test_every_reference_model_is_tested() -> None:
    assert sorted(SMALL) == list(torch_model_names())


@pytest.mark.parametrize("name", ["ddpm-unet", "mobilenet-v2", "resnet18", "unet", "vgg16"])
def test_reference_models(name: str) -> None:
    graph = torch_model(name, batch=2, overrides=SMALL[name], dtype="fp32")
    assert graph.name == name
    assert graph.provenance["model"]["batch"] == 2
    assert "arXiv" in graph.provenance["model"]["paper"]
    # In-place activations stand right after what they overwrite, and so do residual additions:
    # only the counters of batch norms can't run twice.
    stuck = {
        op.name.rpartition("/")[2].partition(" ")[0]
        for op in graph.ops
        if op.phase == "forward" and not op.recomputable
    }
    assert stuck <= {"add_"}


def test_flops_of_resnet50() -> None:
    # He et al. 2016, table 1, counts 3.8 billion multiply-adds forward for an image; with the
    # stride in the 3x3 convolution there are 4.09 billion (torchvision documentation).
    graph = torch_model("resnet50", batch=1)
    flops = graph.provenance["times"]["flops"]
    first = 2 * 7 * 7 * 3 * 64 * 112 * 112  # the images get no gradient
    assert flops == pytest.approx(3 * 2 * 4.09e9 - first, rel=0.005)


def test_names_that_nothing_knows() -> None:
    for name, words in [
        ("resnet51", "unknown model 'resnet51'; PyTorch models: .*resnet50.*hf:TYPE"),
        ("nowhere.py:build", r"nowhere.py: no such file"),
        ("nowhere.py", r"name the function that builds the model, as in nowhere.py:build"),
    ]:
        with pytest.raises(InputError, match=words):
            torch_model(name)


def test_options_that_a_model_does_not_have() -> None:
    for name, options, words in [
        ("resnet50", {"seq": 3}, "resnet50 has no option 'seq'"),
        ("unet", {"overrides": {"depth": 3}}, "'depth'; it has channels, classes, width"),
        ("unet", {"overrides": {"image_size": 100}}, "a map of 5 x 5 can't be halved"),
        ("vgg16", {"batch": 0}, "batch 0: must be a whole number"),
        ("vgg16", {"batch": 6, "micro_batches": 4}, "batch 6 can't be cut into 4 equal"),
    ]:
        with pytest.raises(InputError, match=words):
            torch_model(name, **options)


def test_micro_batches_cut_the_batch() -> None:
    cut = torch_model("resnet18", batch=4, micro_batches=2, overrides={"image_size": 32})
    assert cut.provenance["model"]["batch"] == 2
    assert cut.provenance["settings"]["micro_batches"] == 2


def test_hugging_face_models_by_type() -> None:
    pytest.importorskip("transformers")
    small = {"hidden_size": 32, "num_attention_heads": 2, "intermediate_size": 64}
    for name, overrides, task in [
        ("hf:bert", small, "AutoModelForMaskedLM"),
        ("hf:vit", {**small, "image_size": 32, "patch_size": 8}, "AutoModelForImageClassification"),
        ("hf:t5", {"d_model": 32, "d_kv": 8, "num_heads": 4, "d_ff": 64}, "AutoModelForSeq2SeqLM"),
    ]:
        seq = None if name == "hf:vit" else 16
        graph = torch_model(
            name, batch=2, seq=seq, num_layers=1, overrides=overrides, attention="eager"
        )
        assert graph.provenance["model"]["task"] == task
        assert graph.provenance["model"]["overrides"] == overrides
        assert graph.provenance["settings"]["dtype"] == "bf16"


def test_flops_of_a_mixture_of_experts() -> None:
    pytest.importorskip("transformers")
    s, h, f, v, heads = 64, 64, 128, 100, 4
    graph = torch_model(
        "hf:mixtral",
        batch=1,
        seq=s,
        num_layers=1,
        overrides={
            "hidden_size": h,
            "intermediate_size": f,
            "vocab_size": v,
            "num_attention_heads": heads,
            "num_key_value_heads": heads,
            "num_local_experts": 8,
            "num_experts_per_tok": 2,
        },
    )
    # Every token meets two experts of three matrices; queries, keys, values and output; the router.
    products = s * h * (2 * 3 * f + 4 * h + 8 + v)
    attention = 2 * s * s * h
    # Backward costs twice as much, and fused attention forms the scores again.
    expected = 2 * (3 * products + (1 + 2.5) * attention)
    assert graph.provenance["times"]["flops"] == expected


def test_hugging_face_errors() -> None:
    pytest.importorskip("transformers")
    for name, options, words in [
        ("hf:brt", {}, "no model type 'brt'; did you mean bert"),
        ("hf:bert", {"overrides": {"hidden": 3}}, "no field 'hidden'; did you mean .*_size"),
        ("hf:bert", {"seq": 513}, "takes 512 tokens at most, not 513"),
        (
            "hf:bert",
            {"overrides": {"hidden_size": 100}},
            "can't be built: .*The hidden size",
        ),
        ("hf:vit", {"seq": 3}, "takes images"),
        ("hf:resnet", {}, "has no fused attention in transformers: use attention eager"),
        ("hf:wav2vec2", {}, "no language model or image classifier of type 'wav2vec2'"),
    ]:
        with pytest.raises(InputError, match=words):
            torch_model(name, **options)


@pytest.mark.parametrize("library", ["torchvision", "timm"])
def test_vision_libraries(library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # Stands in for a library that may not be there, with the two functions that are called.
    fake: Any = types.ModuleType(library)

    def make(name: str, **options: Any) -> nn.Module:
        assert name == "small"
        assert options in ({"weights": None}, {"pretrained": False})
        return ResidualNet()

    fake.models = types.SimpleNamespace(list_models=lambda: ["small"], get_model=make)
    fake.list_models, fake.create_model = fake.models.list_models, make
    monkeypatch.setitem(sys.modules, library, fake)
    graph = torch_model(f"{library}:small", batch=2, overrides={"image_size": 16})
    assert graph.provenance["model"]["image_size"] == 16
    with pytest.raises(InputError, match=f"{library} has no model 'large'"):
        torch_model(f"{library}:large")


def test_torchvision_where_it_can_be_imported() -> None:
    pytest.importorskip("torchvision", exc_type=Exception)
    graph = torch_model("torchvision:resnet18", batch=2, overrides={"image_size": 64})
    ours = torch_model("resnet18", batch=2, overrides={"image_size": 64})
    assert graph.provenance["model"]["parameters"] == ours.provenance["model"]["parameters"]


BUILD = """
import torch
from torch import nn
from neighbour import WIDTH

def build(batch=2, depth=1):
    model = nn.Sequential(*(nn.Linear(WIDTH, WIDTH) for _ in range(depth)))
    return model, torch.zeros(batch, WIDTH), lambda out: out.square().mean()

def reads_numbers():
    model = nn.Linear(4, 4)
    model.scale = torch.linspace(0, 1, 3)[1].item()
    return model, (torch.zeros(2, 4),), torch.sum

def breaks():
    raise ValueError("no such thing")

def returns_nonsense():
    return 3

def returns_a_bad_loss():
    return nn.Linear(1, 1), torch.zeros(1), 4
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "neighbour.py").write_text("WIDTH = 4\n")
    path = tmp_path / "own.py"
    path.write_text(BUILD)
    return path


def test_models_from_a_file(file: Path) -> None:
    graph = torch_model(f"{file}:build", batch=8, overrides={"depth": 3})
    assert graph.name == "own"
    assert sum(op.name.endswith("/addmm") for op in graph.ops) == 3
    assert next(t for t in graph.tensors if t.kind == "input").size_bytes == 8 * 4 * 4
    assert graph.provenance["model"]["options"] == {"batch": 8, "depth": 3}
    assert "/" not in graph.provenance["model"]["file"]
    assert torch_model(f"{file}:reads_numbers").ops


def test_files_that_fail(file: Path) -> None:
    for function, options, words in [
        ("missing", {}, "has no function 'missing'; it has build, reads_numbers"),
        ("build", {"seq": 3}, "build has no parameter 'seq'; it has batch, depth"),
        ("breaks", {}, "own.py: breaks can't be built: ValueError: no such thing"),
        ("returns_nonsense", {}, "returns a int: must return .model, inputs."),
        ("returns_a_bad_loss", {}, "returns a int as loss: must be a function"),
        ("build", {"micro_batches": 2}, r"give its size \(batch\)"),
    ]:
        with pytest.raises(InputError, match=words):
            torch_model(f"{file}:{function}", **options)
    file.write_text("import nothing_of_this_name\n")
    with pytest.raises(InputError, match="running it failed: ModuleNotFoundError"):
        torch_model(f"{file}:build")


def test_the_command_line(cli: Cli, file: Path, tmp_path: Path) -> None:
    graph, instance = tmp_path / "graph.json", tmp_path / "half.json"
    ran = cli(
        *("profile", f"{file}:build", "--batch", 64, "--set", "depth=6", "-o", graph),
        *("--min-swap-bytes", 64, "--measure", "--repeats", 1, "--name", "six", "--json"),
    )
    assert ran.code == 0, ran.err
    assert ran.document["name"] == "six"
    assert ran.document["provenance"]["times"]["source"] == "measured"
    device = tmp_path / "device.json"
    device.write_text(
        json.dumps({"name": "mine", "d2h_bytes_per_s": 10**9, "h2d_bytes_per_s": 10**9})
    )
    ran = cli("instance", graph, "--device", device, "--budget", "0.6", "-o", instance)
    assert ran.code == 0, ran.err
    assert so.read_instance(instance).device.name == "mine"
    device.write_text(json.dumps({"name": "mine", "d2h_bytes_per_s": -1, "h2d_bytes_per_s": 1}))
    ran = cli("instance", graph, "--device", device, "--budget", "0.6", "-o", instance)
    assert ran.code == 2
    assert "d2h_bytes_per_s" in ran.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["resnet51"], "unknown model 'resnet51'; analytic presets: "),
        (["bert-large", "--measure"], "--measure is for PyTorch models"),
        (["bert-large", "--set", "a=1"], "hf:bert-large is the PyTorch model"),
        (["resnet18", "--set", "a"], "--set 'a': must be KEY=VALUE"),
        (["resnet18", "--measure", "--device", "a100"], "leave out --device"),
        (["resnet18", "--seq", "3"], "no option 'seq'"),
    ],
)
def test_wrong_command_lines(cli: Cli, tmp_path: Path, arguments: list[str], words: str) -> None:
    ran = cli("profile", *arguments, "-o", tmp_path / "graph.json")
    assert ran.code == 2
    assert words in ran.err
    assert ran.err.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_a_traced_error_has_no_traceback(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "own.py"
    path.write_text(
        "import torch\n"
        "class Model(torch.nn.Linear):\n"
        "    def forward(self, x):\n"
        "        return super().forward(x).sum() * x.max().item()\n"
        "def build():\n"
        "    return Model(2, 2), torch.zeros(1, 2)\n"
    )
    ran = cli("profile", f"{path}:build", "-o", tmp_path / "graph.json")
    assert ran.code == 2
    assert "op aten._local_scalar_dense.default reads a value of a tensor" in ran.err
    assert "Traceback" not in ran.err
    assert ran.err.count("\n") == 1


def test_the_link_is_refused_without_cuda(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    ran = cli("link", "-o", tmp_path / "device.json")
    assert ran.code == 2
    assert "no CUDA device" in ran.err
    assert not list(tmp_path.iterdir())
