"""From a PyTorch model to a graph: what users call."""

from __future__ import annotations

import platform
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from slackopt.environment import package_version
from slackopt.graph import Graph
from slackopt.profiles.accelerators import Dtype, get_accelerator
from slackopt.profiles.builder import SWAP_THRESHOLD_BYTES
from slackopt.profiles.pytorch.requirement import require
from slackopt.profiles.pytorch.settings import Attention, Autocast, Kernels, TraceSettings
from slackopt.profiles.pytorch.workload import Workload

if TYPE_CHECKING:
    import torch

    from slackopt.profiles.pytorch.assembling import Assembled
    from slackopt.profiles.pytorch.tracing import Trace

_VERSIONS = ("torch", "transformers", "torchvision", "timm")


def from_torch(
    model: torch.nn.Module | Workload,
    inputs: Any = None,
    *,
    targets: Any = None,
    loss: Callable[..., Any] | None = None,
    accelerator: str = "a100",
    measure: bool = False,
    repeats: int = 5,
    dtype: Dtype | None = None,
    autocast: Autocast | None = None,
    attention: Attention = "flash",
    dropout: bool = True,
    micro_batches: int = 1,
    restore_random_state: bool = True,
    min_swap_bytes: int = SWAP_THRESHOLD_BYTES,
    name: str | None = None,
) -> Graph:
    """Make the graph of one training step of a PyTorch model: forward, loss, backward.

    The step is traced under fake tensors: no op runs, no weight is downloaded, and a model built
    under ``torch.device("meta")`` takes no memory. A tensor of the graph is a *storage*: views are
    merged with what they show, and a view that the backward pass needs keeps its whole storage.
    Parameters, buffers and the parameters' gradients are outside of the graph, as statics.

    Parameters
    ----------
    model
        A ``torch.nn.Module``, left as it is; or a `Workload`, which has its inputs with it.
    inputs
        Example inputs: a tensor, a tuple of positional arguments or a dict of keyword arguments.
        Only shapes and number formats matter, not values.
    targets
        Tensors for the loss alone, such as labels.
    loss
        Called as ``loss(output)``, or ``loss(output, targets)`` if there are targets; returns a
        scalar. Without it, the model's output is the loss or has it as ``output.loss``.
    accelerator
        Whose roofline times the ops; a name in `slackopt.profiles.accelerators`.
    measure
        Time the ops on the device at hand instead (a CUDA device if there is one, else the
        CPU): each distinct op on inputs of its shapes, the median of `repeats` runs.
    repeats
        Runs of each op when measuring.
    dtype
        ``bf16``, ``fp16`` or ``fp32``: cast floating-point parameters, buffers and inputs.
        None takes them as they are.
    autocast
        ``bf16`` or ``fp16``: forward pass and loss run under ``torch.autocast``, with the casts of
        the accelerator, on parameters in fp32. Regions of ``torch.autocast("cuda")`` that the model
        enters by itself are traced as a CUDA device would run them, in any case.
    attention
        ``flash``: `scaled_dot_product_attention` is the fused op that a GPU would run; ``eager``:
        scores, softmax, dropout and context are ops of their own.
    dropout
        False turns dropout off; True leaves it as the model has it.
    micro_batches
        How many micro-batches one step adds up the gradients of. `inputs` are those of one, and
        so is the graph; above 1, each parameter's gradient is a tensor that is added to its sum.
    restore_random_state
        Whether random ops, such as dropout, find the same random state when they run again. If
        not, they are not recomputable.
    min_swap_bytes
        Smaller tensors are not swappable: the latency of a copy would dominate.
    name
        Name of the graph; the class of the model by default.

    Returns
    -------
    Graph
        Sizes in bytes, durations in ns. Op names are paths of modules; `Op.layer` is the path up
        to the first number, so that a model's identical layers can be told.

    Raises
    ------
    InputError
        If PyTorch isn't installed (and which extra to install); if the model can't be traced:
        where, at which op, and what to do.

    Notes
    -----
    Forward ops are recomputable, but for ops that overwrite a tensor or read one that is
    overwritten later, and random ones without their state. Backward ops are not, and gradients
    are not swappable. Workspaces of kernels are not known and count as 0.

    Examples
    --------
    >>> import torch  # doctest: +SKIP
    >>> model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU())  # doctest: +SKIP
    >>> graph = from_torch(model, torch.zeros(8, 64), loss=torch.sum)  # doctest: +SKIP
    """
    require("torch")
    from slackopt.profiles.pytorch.assembling import assemble
    from slackopt.profiles.pytorch.measuring import MeasuringClock
    from slackopt.profiles.pytorch.timing import Clock, RooflineClock
    from slackopt.profiles.pytorch.tracing import trace

    work = (
        model
        if isinstance(model, Workload)
        else Workload(model, inputs, targets=targets, loss=loss)
    )
    clock: Clock
    kernels: Kernels
    if measure:
        clock = MeasuringClock(repeats=repeats)
        kernels = clock.kernels
    else:
        chip = get_accelerator(accelerator)
        clock = RooflineClock(chip)
        kernels = "cpu" if chip.name == "cpu" else "cuda"
    settings = TraceSettings(
        dtype=dtype,
        autocast=autocast,
        attention=attention,
        dropout=dropout,
        micro_batches=micro_batches,
        restore_random_state=restore_random_state,
        min_swap_bytes=min_swap_bytes,
        kernels=kernels,
    )
    traced = trace(work, settings)
    made = assemble(traced, settings, clock)
    return Graph(
        name=name or work.name or traced.model_class,
        ops=made.ops,
        tensors=made.tensors,
        provenance={
            "generator": "slackopt.profiles.from_torch",
            "model": {
                "class": traced.model_class,
                "parameters": traced.parameter_count,
                "parameter_bytes": traced.parameter_bytes,
                **work.record,
            },
            "settings": {
                "dtype": dtype,
                "autocast": autocast,
                "attention": attention,
                "dropout": dropout,
                "micro_batches": micro_batches,
                "restore_random_state": restore_random_state,
                "min_swap_bytes": min_swap_bytes,
                "kernels": kernels,
            },
            **_found(traced, made),
            **clock.record(),
            "versions": _versions(),
        },
    )


def _found(traced: Trace, made: Assembled) -> dict[str, Any]:
    """Return what a reader of the graph should know of the model, where there is any of it."""
    found = {
        "autocast_entered": list(traced.autocast_entered),
        "checkpointed": list(traced.checkpointed),
        "unknown_workspaces": list(made.unknown_workspaces),
    }
    return {key: value for key, value in found.items() if value}


def _versions() -> dict[str, str]:
    found = {name: package_version(name) for name in ("slackopt", *_VERSIONS)}
    return {"python": platform.python_version()} | {k: v for k, v in found.items() if v}
