"""Executes the ops of a traced step on real tensors: nothing but what the graph says is read."""

import hashlib
from collections.abc import Iterable

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils import _pytree as pytree

from slackopt.profiles import get_accelerator
from slackopt.profiles.pytorch import fakes
from slackopt.profiles.pytorch.assembling import Assembled, assemble
from slackopt.profiles.pytorch.settings import TraceSettings
from slackopt.profiles.pytorch.storages import Step, TracedOp
from slackopt.profiles.pytorch.timing import RooflineClock
from slackopt.profiles.pytorch.tracing import Trace, trace
from slackopt.profiles.pytorch.workload import Workload

Storages = dict[int, torch.UntypedStorage]

AS_ON_CPU = TraceSettings(attention="eager", dropout=False, kernels="cpu", min_swap_bytes=1)
"""What a CPU runs, without dropout: comparable to a run of the model itself."""


def assembled(workload: Workload, settings: TraceSettings = AS_ON_CPU) -> tuple[Trace, Assembled]:
    traced = trace(workload, settings)
    return traced, assemble(traced, settings, RooflineClock(get_accelerator("a100")))


def given_storages(traced: Trace, step: Step, workload: Workload) -> Storages:
    """Real storages of parameters, buffers, inputs, targets and constants."""
    tensors = [t.detach().clone() for t in fakes.state_of(workload.model).values()]
    tensors += [
        leaf.clone()
        for leaf in pytree.tree_leaves((workload.inputs, workload.targets))
        if isinstance(leaf, torch.Tensor)
    ]
    made: Storages = {}
    for node in traced.graph_module.graph.nodes:
        if node.op == "placeholder" and isinstance(node.meta.get("val"), torch.Tensor):
            made[step.position(node.meta["val"])] = tensors.pop(0).untyped_storage()
        elif node.op == "get_attr":
            value = getattr(traced.graph_module, node.target)
            fake = node.meta.get("val", value)
            real = value.constant if isinstance(value, FakeTensor) else value
            made[step.position(fake)] = real.clone().untyped_storage()
    assert not tensors
    return made


def execute(op: TracedOp, step: Step, storages: Storages) -> None:
    """Run an op's calls; it finds its inputs in `storages`, and its outputs are put there."""

    def real(node: torch.fx.Node) -> torch.Tensor:
        fake = node.meta["val"]
        storage = storages[step.position(fake)]
        view = torch.empty(0, dtype=fake.dtype)
        return view.set_(storage, fake.storage_offset(), fake.size(), fake.stride())

    for node in op.nodes:
        args, kwargs = pytree.tree_map_only(torch.fx.Node, real, (node.args, node.kwargs))
        with torch.no_grad():
            out = node.target(*args, **kwargs)
        fakes_out = pytree.tree_leaves(node.meta["val"])
        for fake, result in zip(fakes_out, pytree.tree_leaves(out), strict=True):
            if isinstance(fake, torch.Tensor):
                assert result.stride() == fake.stride()
                storages[step.position(fake)] = result.untyped_storage()


def content(storage: torch.UntypedStorage) -> tuple[int, str]:
    """Size and hash of a storage's bytes."""
    flat = torch.empty(0, dtype=torch.uint8).set_(storage)
    return storage.nbytes(), hashlib.sha256(flat.numpy().tobytes()).hexdigest()


def contents(storages: Iterable[torch.UntypedStorage]) -> list[tuple[int, str]]:
    return sorted(map(content, storages))
