"""Traces one training step under fake tensors: forward, loss, backward."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils import _pytree as pytree

from slackopt.errors import InputError
from slackopt.profiles.pytorch import fakes
from slackopt.profiles.pytorch.autocasting import Autocasting
from slackopt.profiles.pytorch.checkpointing import Checkpoints
from slackopt.profiles.pytorch.failures import explain
from slackopt.profiles.pytorch.marking import Mark, Marker
from slackopt.profiles.pytorch.settings import TraceSettings
from slackopt.profiles.pytorch.sparse import split_sparse
from slackopt.profiles.pytorch.substitutes import Substitutes
from slackopt.profiles.pytorch.workload import Workload


@dataclass(frozen=True)
class Trace:
    """A traced step.

    Attributes
    ----------
    graph_module
        The step as `torch.fx` code. It takes the tensors of the state, of the inputs and of the
        targets, in this order, and returns the loss and the parameters' gradients.
    marks
        Phase and module of every node that is an op.
    input_names
        Name of each input and target, in the order of their placeholders.
    num_state
        How many placeholders come before those: parameters and buffers.
    parameter_names
        Names of the parameters whose gradients are returned, in the order of the output.
    children
        Paths of the modules that have submodules.
    model_class
        Name of the model's class.
    parameter_count, parameter_bytes
        Size of the parameters, a tied one counted once.
    autocast_entered
        Formats of the regions of autocast for CUDA that the model entered by itself.
    checkpointed
        Modules that checkpoint their activations.
    """

    graph_module: torch.fx.GraphModule
    marks: Mapping[torch.fx.Node, Mark]
    input_names: tuple[str, ...]
    num_state: int
    parameter_names: tuple[str, ...]
    children: frozenset[str]
    model_class: str
    parameter_count: int
    parameter_bytes: int
    autocast_entered: tuple[str, ...]
    checkpointed: tuple[str, ...]


def trace(workload: Workload, settings: TraceSettings) -> Trace:
    """Trace one training step of a workload.

    The model trains: dropout is on (unless the settings turn it off), batch norms use the batch.
    Its parameters, buffers and mode are left as they were.

    Raises
    ------
    InputError
        If the model can't be traced: where, at which op, and what to do.
    """
    # What torch.compile made keeps the module that it was made from.
    model = getattr(workload.model, "_orig_mod", workload.model)
    if not isinstance(model, torch.nn.Module):
        raise InputError(f"the model is a {type(model).__name__}: must be a torch.nn.Module")
    dtype = None if settings.dtype is None else fakes.DTYPES[settings.dtype]
    mode = fakes.mode_of(model, workload.inputs, workload.targets)
    state = fakes.fake_state(mode, model, dtype)
    inputs = fakes.fake_values(mode, workload.inputs, dtype)
    targets = fakes.fake_values(mode, workload.targets, dtype)
    parameters = {name: p for name, p in model.named_parameters() if p.requires_grad}
    if not parameters:
        raise InputError(
            f"no parameter of {type(model).__name__} requires a gradient: there is no step to train"
        )
    marker = Marker(model)
    substitutes = Substitutes(settings)
    autocasting = Autocasting(settings, state[next(iter(parameters))].device.type)
    checkpoints = Checkpoints(model, marker)

    def step(
        state: dict[str, torch.Tensor], inputs: Any, targets: Any
    ) -> tuple[torch.Tensor, list[torch.Tensor | None]]:
        with marker.active(), substitutes.active():
            args, kwargs = _arguments(inputs)
            with autocasting.region():
                output = torch.func.functional_call(model, state, args, kwargs)
                loss = _loss(workload, output, targets)
            marker.begin_backward()
            wanted = [state[name] for name in parameters]
            return loss, list(torch.autograd.grad(loss, wanted, allow_unused=True))

    onednn = _onednn(settings.kernels == "cpu")
    watched = (autocasting.active(), checkpoints.active())
    with _training(model), torch.enable_grad(), onednn, watched[0], watched[1], mode:
        try:
            graph_module = make_fx(step)(state, inputs, targets)
        except InputError:
            raise
        except Exception as error:
            raise explain(error, model, marker) from error
    checkpoints.warn()
    split_sparse(graph_module, marker, type(model).__name__)
    counted = [state[name] for name in dict(model.named_parameters())]
    return Trace(
        graph_module=graph_module,
        marks=marker.marks,
        input_names=(*_names("batch", inputs), *_names("batch/targets", targets)),
        num_state=len(state),
        parameter_names=tuple(parameters),
        children=frozenset(
            name for name, module in model.named_modules() if any(True for _ in module.children())
        ),
        model_class=type(model).__name__,
        parameter_count=sum(p.numel() for p in counted),
        parameter_bytes=sum(p.numel() * p.element_size() for p in counted),
        autocast_entered=tuple(sorted(autocasting.entered)),
        checkpointed=tuple(checkpoints.paths),
    )


@contextlib.contextmanager
def _training(model: torch.nn.Module) -> Iterator[None]:
    """Put every module in training mode, and each back in its own mode afterwards."""
    modes = {module: module.training for module in model.modules()}
    model.train()
    try:
        yield
    finally:
        for module, training in modes.items():
            module.training = training


@contextlib.contextmanager
def _onednn(enabled: bool) -> Iterator[None]:
    """Turn oneDNN on or off: its recurrent layers are one op, which no CUDA device has.

    `torch.backends.mkldnn.flags` does so too, and warns of Intel GPUs.
    """
    before = torch._C._get_mkldnn_enabled()
    torch._C._set_mkldnn_enabled(enabled)
    try:
        yield
    finally:
        torch._C._set_mkldnn_enabled(before)


def _arguments(inputs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if isinstance(inputs, Mapping):
        return (), dict(inputs)
    return (tuple(inputs) if isinstance(inputs, list | tuple) else (inputs,)), {}


def _names(prefix: str, values: Any) -> Iterator[str]:
    """Name each tensor of a nesting by its place in it."""
    for path, value in pytree.tree_flatten_with_path(values)[0]:
        if isinstance(value, torch.Tensor):
            parts = [str(getattr(key, "key", getattr(key, "idx", key))) for key in path]
            yield "/".join([prefix, *parts])


def _loss(workload: Workload, output: Any, targets: Any) -> torch.Tensor:
    if workload.loss is not None:
        loss = workload.loss(output) if targets is None else workload.loss(output, targets)
        source = "the loss function returns"
    elif isinstance(output, Mapping):
        loss, source = output.get("loss"), "the model's output has as 'loss'"
    elif not isinstance(output, torch.Tensor) and hasattr(output, "loss"):
        loss, source = output.loss, "the model's output has as 'loss'"
    else:
        loss, source = output, "the model returns"
    if not isinstance(loss, torch.Tensor):
        what = f"a {type(loss).__name__}"
    elif loss.numel() != 1:
        what = f"a tensor of shape {tuple(loss.shape)}"
    elif not loss.requires_grad:
        what = "a tensor that depends on no parameter that requires a gradient"
    else:
        return loss.reshape(())
    raise InputError(
        f"{source} {what}, and training needs a scalar loss: give a loss function that makes one "
        "of the model's output"
    )
