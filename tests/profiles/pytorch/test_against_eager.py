"""What the graph says, against what PyTorch does when the model runs for real on the CPU."""

from typing import Any

import pytest
import torch
from profiles.pytorch.executing import (
    Storages,
    assembled,
    content,
    contents,
    execute,
    given_storages,
)
from profiles.pytorch.small_networks import NETWORKS
from torch import nn
from torch.utils import _pytree as pytree

from slackopt.graph import Op
from slackopt.profiles import from_torch
from slackopt.profiles.pytorch import fakes
from slackopt.profiles.pytorch.assembling import Assembled
from slackopt.profiles.pytorch.storages import TracedOp
from slackopt.profiles.pytorch.workload import Workload

pytest.importorskip("transformers")


def run_eagerly(workload: Workload) -> tuple[torch.Tensor, list[torch.UntypedStorage]]:
    """The loss, and every storage that autograd saves and the model doesn't own."""
    model = workload.model
    model.train()
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
        for name in ("dropout_prob", "attention_dropout"):
            if isinstance(getattr(module, name, None), float):
                setattr(module, name, 0.0)
    own = {t.untyped_storage().data_ptr() for t in fakes.state_of(model).values()}
    saved: dict[int, torch.UntypedStorage] = {}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own and storage.nbytes():
            saved[storage.data_ptr()] = storage
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        output = call(workload)
        loss = output.loss if workload.loss is None else workload.loss(output, workload.targets)
    return loss.detach(), list(saved.values())


def call(workload: Workload) -> Any:
    inputs = workload.inputs
    return workload.model(**inputs) if isinstance(inputs, dict) else workload.model(inputs)


def saved_storages(made: Assembled) -> list[int]:
    """Storages of forward tensors and inputs that a backward op of the graph reads."""
    backward = {name for op in made.ops if op.phase == "backward" for name in op.inputs}
    forward = {name for op in made.ops if op.phase == "forward" for name in op.outputs}
    inputs = {t.name for t in made.tensors if t.kind == "input"}
    return [s for s, name in made.tensor_of.items() if name in backward & (forward | inputs)]


def run_forward(made: Assembled, given: Storages) -> Storages:
    storages = dict(given)
    for op in made.step.ops:
        if op.phase == "forward":
            execute(op, made.step, storages)
    return storages


@pytest.mark.parametrize("network", NETWORKS)
def test_the_graph_executes_to_the_same_loss_and_the_same_saved_storages(network: str) -> None:
    workload = NETWORKS[network]()
    traced, made = assembled(workload)
    storages = run_forward(made, given_storages(traced, made.step, workload))
    loss, saved = run_eagerly(workload)
    output = traced.graph_module.graph.output_node().args[0][0]
    assert (
        content(storages[made.step.position(output.meta["val"])])[1]
        == (content(loss.clone().untyped_storage())[1])
    )
    expected = contents(saved)
    found = contents(storages[s] for s in saved_storages(made))
    assert len(expected) > 20
    assert found == expected


@pytest.mark.parametrize("network", NETWORKS)
def test_every_recomputable_tensor_can_be_rebuilt_bit_for_bit(network: str) -> None:
    workload = NETWORKS[network]()
    traced, made = assembled(workload)
    given = given_storages(traced, made.step, workload)
    storages = run_forward(made, given)
    before = {s: content(storage) for s, storage in storages.items()}
    ops = list(zip(made.ops, made.step.ops, strict=True))
    rerun = [op for record, op in ops if record.phase == "forward" and record.recomputable]
    assert len(rerun) > 12

    # Each op alone, from what all others left behind at the end of the forward pass.
    for record, op in ops:
        if op in rerun:
            only = readable(record, op, made, storages)
            execute(op, made.step, only)
            for s in op.makes:
                assert content(only[s]) == before[s]

    # All of them, from the batch, the parameters and what can't be recomputed.
    dropped = {s for op in rerun for s in op.makes}
    left = {s: storage.clone() for s, storage in storages.items() if s not in dropped}
    for op in rerun:
        execute(op, made.step, left)
    assert dropped
    for s in dropped:
        assert content(left[s]) == before[s]


def readable(record: Op, op: TracedOp, made: Assembled, storages: Storages) -> Storages:
    """The inputs that the graph's op has, and parameters; of others the shape alone is right."""
    found: Storages = {}
    for node in (node for call in op.nodes for node in call.all_input_nodes):
        if isinstance(node.meta.get("val"), torch.Tensor):
            s = made.step.position(node.meta["val"])
            if s in op.makes:
                continue
            static = made.step.storages[s].role == "static"
            found[s] = storages[s].clone()
            if not static and made.tensor_of[s] not in record.inputs:
                found[s].fill_(0xAB)
    return found


@pytest.mark.parametrize("network", ["bert", "residual net"])
def test_gradients_are_those_of_the_model(network: str) -> None:
    workload = NETWORKS[network]()
    traced, made = assembled(workload)
    storages = dict(given_storages(traced, made.step, workload))
    for op in made.step.ops:
        execute(op, made.step, storages)
    run_eagerly(workload)  # turns dropout off
    output = call(workload)
    loss = output.loss if workload.loss is None else workload.loss(output, workload.targets)
    loss.backward()
    _, *grads = traced.graph_module.graph.output_node().args[0]
    named = dict(workload.model.named_parameters())
    assert len(grads) == len(traced.parameter_names) > 5
    for name, node in zip(traced.parameter_names, grads, strict=True):
        fake = node.meta["val"]
        real = torch.empty(0, dtype=fake.dtype).set_(
            storages[made.step.position(fake)], fake.storage_offset(), fake.size(), fake.stride()
        )
        torch.testing.assert_close(real, named[name].grad, rtol=1e-4, atol=1e-6)


def test_the_model_is_left_as_it_was() -> None:
    workload = NETWORKS["residual net"]()
    workload.model.eval()
    before = {name: tensor.clone() for name, tensor in fakes.state_of(workload.model).items()}
    assembled(workload)
    after = fakes.state_of(workload.model)
    assert not any(module.training for module in workload.model.modules())
    assert all(torch.equal(before[name], after[name]) for name in before)
    assert not any(isinstance(leaf, fakes.FakeTensor) for leaf in pytree.tree_leaves(after))


@pytest.mark.parametrize("network", ["residual net", "u-net"])
def test_the_peak_is_what_pytorchs_own_tracker_counts(network: str) -> None:
    tracker_module = pytest.importorskip("torch.distributed._tools.mem_tracker")
    workload = NETWORKS[network]()
    graph = from_torch(workload, attention="eager", accelerator="cpu")
    workload.model.train()
    tracker = tracker_module.MemTracker()
    tracker.track_external(workload.model)
    with tracker:
        workload.loss(workload.model(workload.inputs), workload.targets).backward()
    (peak,) = tracker.get_tracker_snapshot("peak").values()
    kinds = {str(key).rpartition(".")[2]: size for key, size in peak.items()}
    # In these two, most memory is used in the backward pass: the labels are not needed any more.
    counted = kinds["ACT"] + kinds["TEMP"] + workload.inputs.nbytes
    # What is left are scalars of the loss, which Python holds on to.
    assert abs(graph.unlimited_peak_bytes - counted) <= 64
