"""Models of which a trace isn't the whole truth: sparse gradients, checkpoints, workspaces."""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

from slackopt.errors import InputError, MendedWarning
from slackopt.graph import Graph
from slackopt.profiles import from_torch


class Words(nn.Module):
    """An embedding, whose gradient may be sparse, and a linear layer."""

    def __init__(self, *, sparse: bool, times: int = 1, padding: int | None = None) -> None:
        super().__init__()
        self.words = nn.Embedding(1000, 64, sparse=sparse, padding_idx=padding)
        self.linear = nn.Linear(64, 4)
        self.times = times

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return sum(self.linear(self.words(ids)).pow(2).mean() for _ in range(self.times))


IDS = torch.zeros(8, 16, dtype=torch.long)


def test_a_sparse_gradient_is_its_values() -> None:
    graph, dense = (from_torch(Words(sparse=sparse), IDS) for sparse in (True, False))
    assert [op.name for op in graph.ops if "words" in op.name] == ["words/embedding"]
    assert {op.name for op in dense.ops} - {op.name for op in graph.ops} == {
        "words/embedding_dense_backward"
    }
    # The gradient of the embedding's output stays: it holds the values of the parameter's gradient.
    gradient = 8 * 16 * 64 * 4
    assert not [t for t in graph.tensors if t.kind == "gradient" and t.size_bytes == gradient]
    assert [t for t in dense.tensors if t.kind == "gradient" and t.size_bytes == gradient]


def test_a_sparse_gradient_of_a_micro_batch_is_added_up() -> None:
    graph = from_torch(Words(sparse=True), IDS, micro_batches=2)
    assert "words.weight/accumulate.backward" in [op.name for op in graph.ops]


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (Words(sparse=True, times=2), ["aten.add.Tensor makes a sparse tensor", "sparse=False"]),
        (Words(sparse=True, padding=0), ["depends on data", "sparse=False"]),
    ],
)
def test_other_sparse_gradients_are_refused(model: nn.Module, words: list[str]) -> None:
    with pytest.raises(InputError) as caught:
        from_torch(model, IDS)
    assert "\n" not in str(caught.value)
    for word in words:
        assert word in str(caught.value)


class Checkpointing(nn.Module):
    def __init__(self, *, reentrant: bool) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block(reentrant) for _ in range(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = block(x)
        return x.sum()


class Block(nn.Module):
    def __init__(self, reentrant: bool) -> None:
        super().__init__()
        self.linear, self.reentrant = nn.Linear(8, 8), reentrant

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return checkpoint(lambda y: F.gelu(self.linear(y)), x, use_reentrant=self.reentrant)


def test_a_model_that_checkpoints_is_warned_of() -> None:
    with pytest.warns(MendedWarning) as caught:
        graph = from_torch(Checkpointing(reentrant=False), torch.zeros(4, 8))
    (warning,) = caught
    text = str(warning.message)
    assert "Checkpointing (blocks.0, blocks.1, blocks.2 and 1 more): activations are check" in text
    assert "call the function itself in place of torch.utils.checkpoint" in text
    assert graph.provenance["checkpointed"] == [f"blocks.{i}" for i in range(4)]


def test_reentrant_checkpoints_are_refused_by_name() -> None:
    with pytest.raises(InputError, match=r"Checkpointing \(blocks.0\): .*reentrant way"):
        from_torch(Checkpointing(reentrant=True), torch.zeros(4, 8))


def test_hugging_face_models_are_told_how_to_turn_it_off() -> None:
    transformers = pytest.importorskip("transformers")
    config = transformers.GPT2Config(n_embd=32, n_layer=2, n_head=4, vocab_size=50)
    config.use_cache = False
    model = transformers.GPT2LMHeadModel(config)
    inputs = {"input_ids": torch.zeros(2, 8, dtype=torch.long)}
    inputs["labels"] = inputs["input_ids"]
    plain = from_torch(model, inputs)

    def enable(**options: bool) -> None:
        turn_on = getattr(model, "activation_checkpointing_enable", None)
        (turn_on or model.gradient_checkpointing_enable)(dict(options))

    enable(use_reentrant=False)
    with pytest.warns(MendedWarning, match=r"Turn it off: model\.\w+_checkpointing_disable\(\)"):
        assert from_torch(model, inputs) != plain
    enable(use_reentrant=True)
    with pytest.raises(InputError, match=r"reentrant way.*model\.\w+_checkpointing_disable\(\)"):
        from_torch(model, inputs)
    switches = ("gradient_checkpointing_disable", "activation_checkpointing_disable")
    next(getattr(model, name) for name in switches if hasattr(model, name))()
    assert from_torch(model, inputs) == plain


@pytest.mark.parametrize("layer", [nn.LSTM, nn.GRU])
def test_a_workspace_without_a_size_is_told(layer: Callable[..., nn.Module]) -> None:
    def run(accelerator: str) -> Graph:
        return from_torch(
            layer(8, 8),
            torch.zeros(4, 2, 8),
            loss=lambda out: out[0].sum(),
            accelerator=accelerator,
        )

    assert "unknown_workspaces" not in run("a100").provenance
    if layer is nn.GRU:
        return  # oneDNN's op is for LSTM only
    with pytest.warns(MendedWarning, match="op LSTM/mkldnn_rnn_layer: what it keeps for the back"):
        graph = run("cpu")
    assert graph.provenance["unknown_workspaces"] == ["LSTM/mkldnn_rnn_layer"]
