"""Profiles of models by name: which source a name belongs to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from slackopt.errors import InputError
from slackopt.graph import Graph
from slackopt.profiles.accelerators import Dtype, get_accelerator
from slackopt.profiles.pytorch.entry import from_torch
from slackopt.profiles.pytorch.reference import REFERENCE_MODELS
from slackopt.profiles.pytorch.requirement import require
from slackopt.profiles.pytorch.settings import MAX_MICRO_BATCHES, Attention, Autocast, whole_number
from slackopt.profiles.pytorch.workload import Workload

_DEFAULT_DTYPES: tuple[Dtype, ...] = ("bf16", "fp16", "fp32")
"""The first that an accelerator has is the default."""

FORMS = "hf:TYPE, torchvision:NAME, timm:NAME, FILE.py:FUNCTION"


def torch_model_names() -> tuple[str, ...]:
    """Names of the models that come with slackopt and need nothing but PyTorch, sorted."""
    return tuple(sorted(REFERENCE_MODELS))


def torch_model(
    name: str,
    *,
    batch: int | None = None,
    seq: int | None = None,
    num_layers: int | None = None,
    overrides: Mapping[str, Any] | None = None,
    micro_batches: int = 1,
    attention: Attention = "flash",
    dtype: Dtype | None = None,
    autocast: Autocast | None = None,
    accelerator: str = "a100",
    measure: bool = False,
    graph_name: str | None = None,
    **options: Any,
) -> Graph:
    """Make the graph of one training step of a PyTorch model that has a name.

    Parameters
    ----------
    name
        A reference model (`torch_model_names`); ``hf:bert``, ``hf:gpt2-xl`` and so on for a model
        type or a known size of transformers; ``torchvision:resnet18`` or ``timm:convnext_tiny``;
        or ``path/to/module.py:build``, a function that returns a model and its inputs. Weights
        are never downloaded.
    batch, seq, num_layers
        Samples a step, tokens a sequence, layers; the model's defaults where None.
    overrides
        Fields of the config (``hf:``), parameters of the constructor or of the function.
    micro_batches
        Equal parts into which the batch is cut; the graph is of one part.
    attention, dtype, autocast, accelerator, measure, **options
        As `from_torch` has them. By name and without autocast, the format is bf16 by default, or
        the best that the accelerator has, and fp32 when measuring on a CPU; models from files are
        taken as they are.
    graph_name
        Name of the graph; made of the model's by default.

    Raises
    ------
    InputError
        For a name that nothing knows, a missing package, a wrong option, or a model that can't
        be traced.

    Examples
    --------
    >>> graph = torch_model("resnet50", batch=8)  # doctest: +SKIP
    >>> graph = torch_model("hf:llama-7b", batch=1, seq=4096, num_layers=4)  # doctest: +SKIP
    """
    parts = whole_number("micro_batches", micro_batches, 1, MAX_MICRO_BATCHES)
    source, work = _workload(
        name,
        parts=parts,
        batch=batch,
        seq=seq,
        num_layers=num_layers,
        overrides=dict(overrides or {}),
        attention=attention,
    )
    if dtype is None and autocast is None and source != "file":
        dtype = _default_dtype(accelerator, measure)
    from slackopt.profiles.pytorch.huggingface import quiet

    with quiet():
        return from_torch(
            work,
            micro_batches=parts,
            attention=attention,
            dtype=dtype,
            autocast=autocast,
            accelerator=accelerator,
            measure=measure,
            name=graph_name,
            **options,
        )


def _workload(
    name: str,
    *,
    parts: int,
    batch: int | None,
    seq: int | None,
    num_layers: int | None,
    overrides: Mapping[str, Any],
    attention: Attention,
) -> tuple[str, Workload]:
    library, _, rest = name.partition(":")
    known = name in REFERENCE_MODELS or library in ("hf", "torchvision", "timm")
    if not known and not name.rpartition(":")[0].endswith(".py") and not name.endswith(".py"):
        raise InputError(
            f"unknown model {name!r}; PyTorch models: {', '.join(torch_model_names())}, {FORMS}"
        )
    require("torch")
    from slackopt.profiles.pytorch import fakes, huggingface, reference, userfile, vision

    mode = fakes.new_mode()
    if library == "hf":
        made = huggingface.workload(
            rest,
            batch=_part(batch, huggingface.DEFAULT_BATCH, parts),
            seq=seq,
            num_layers=num_layers,
            attention=attention,
            overrides=overrides,
            mode=mode,
        )
        return library, made
    if name not in REFERENCE_MODELS and library not in vision.LIBRARIES:
        # A file's function may have a default batch of its own.
        size = batch if batch is None and parts == 1 else _part(batch, None, parts)
        made = userfile.workload(
            name, batch=size, seq=seq, num_layers=num_layers, overrides=overrides, mode=mode
        )
        return "file", made
    for option, value in (("seq", seq), ("num_layers", num_layers)):
        if value is not None:
            raise InputError(f"{name} has no option {option!r}: it takes images")
    if name in REFERENCE_MODELS:
        size = _part(batch, REFERENCE_MODELS[name].batch, parts)
        return "reference", reference.workload(name, batch=size, overrides=overrides)
    size = _part(batch, vision.DEFAULT_BATCH, parts)
    return library, vision.workload(library, rest, batch=size, overrides=overrides, mode=mode)


def _default_dtype(accelerator: str, measure: bool) -> Dtype:
    if measure:
        return "bf16" if require("torch").cuda.is_available() else "fp32"
    peaks = get_accelerator(accelerator).peak_flops_per_s
    return next(known for known in _DEFAULT_DTYPES if known in peaks)


def _part(batch: int | None, default: int | None, parts: int) -> int | None:
    """Return the size of one micro-batch."""
    whole = default if batch is None else batch
    if whole is None:
        raise InputError("micro_batches cut a batch: give its size (batch)")
    if type(whole) is int and whole % parts:
        raise InputError(f"batch {whole} can't be cut into {parts} equal micro-batches")
    return whole // parts if type(whole) is int else whole
