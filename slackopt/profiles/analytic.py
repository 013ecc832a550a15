"""Analytic training steps of transformers, op by op, without a framework."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal, get_args

from slackopt.errors import InputError
from slackopt.graph import Graph
from slackopt.profiles.accelerators import Accelerator, Dtype, get_accelerator
from slackopt.profiles.builder import StepBuilder
from slackopt.profiles.presets import Preset, get_preset
from slackopt.profiles.shape import Shape
from slackopt.profiles.steps import (
    append_encoder_decoder_step,
    append_stack_step,
    append_vision_step,
)
from slackopt.profiles.tape import Tape

Attention = Literal["flash", "eager"]
Experts = Literal["grouped", "separate"]

ELEMENT_BYTES = {"bf16": 2, "fp16": 2, "fp32": 4}

MAX_SETTING = 10**7
"""Largest batch, sequence length and number of layers."""


def transformer(
    preset: str,
    *,
    batch: int | None = None,
    seq: int | None = None,
    target_seq: int | None = None,
    image_size: int | None = None,
    attention: Attention = "flash",
    experts: Experts | None = None,
    dropout: bool | None = None,
    accelerator: str | Accelerator = "a100",
    num_layers: int | None = None,
    dtype: Dtype = "bf16",
    activation_gradients: bool = True,
    name: str | None = None,
) -> Graph:
    """Make the graph of one training step of a transformer.

    The step of an encoder or decoder is: embedding and its dropout; the blocks
    (`slackopt.profiles.blocks` and `slackopt.profiles.experts` list their ops and what each saves);
    a final norm, the head (``2*b*s*h*V`` FLOPs for vocabulary ``V``), and the loss as PyTorch
    computes it, a log-softmax that saves its output, ``b*s*V`` elements, and the negative
    log-likelihood; then all backward ops in reverse order. `slackopt.profiles.steps` has the
    steps of the other architectures. Op times come from `slackopt.profiles.roofline`. Parameters,
    their gradients and the optimizer are no part of the graph: they are statics outside the
    activation budget.

    Parameters
    ----------
    preset
        A name in `slackopt.profiles.presets`, e.g. ``bert-large``, ``gpt2-xl``, ``llama-7b``,
        ``t5-large``, ``vit-large``, ``mixtral-8x7b``.
    batch, seq
        Sequences per step and tokens per sequence; the preset's by default. A vision model has
        one token for each patch of its images and one more, and takes no `seq`.
    target_seq
        Tokens per sequence of the decoder, for models with an encoder and a decoder.
    image_size
        Width of the images in pixels, a multiple of the patch, for vision models.
    attention
        ``flash`` (one fused op) or ``eager`` (scores, softmax, dropout, context).
    experts
        For mixtures of experts: ``grouped`` (default; one op for all experts) or ``separate``.
    dropout
        Whether the model trains with dropout; the preset's by default. With dropout, flash
        attention keeps its random state instead of a mask.
    accelerator
        A name in `slackopt.profiles.accelerators`, or an accelerator with figures of your own:
        ``get_accelerator("a100").assuming("why", matmul_percent=40)``.
    num_layers
        Number of blocks, in encoder and decoder each; the preset's by default.
    dtype
        Format of parameters and activations: ``bf16``, ``fp16`` or ``fp32``.
    activation_gradients
        Whether the gradients of activations are tensors of the graph, each as large as its
        activation and freed after its last use. False leaves them out, as simpler models do;
        op times do not change.
    name
        Name of the graph; ``<preset>-<attention>`` by default.

    Returns
    -------
    Graph
        Sizes in bytes, durations in ns; the same settings give the same bytes everywhere.

    Raises
    ------
    InputError
        For an unknown preset, accelerator or setting, for sizes below 1, and for a setting that
        the architecture does not have.

    Notes
    -----
    BERT's embedding norm, pooler and output transform, below 1 % of its FLOPs, are left out.

    Examples
    --------
    >>> graph = transformer("gpt2-xl", batch=1, num_layers=2)
    >>> len(graph.ops), graph.ops[2].name
    (60, 'layer 0/attention/norm')
    """
    model = get_preset(preset)
    _refuse("target_seq", target_seq, model, model.target_seq)
    _refuse("image_size", image_size, model, model.image_size)
    _refuse("experts", experts, model, model.num_experts)
    if model.image_size is not None and seq is not None:
        raise InputError(f"seq {seq!r}: the tokens of {preset!r} follow from its image_size")
    batch = _positive("batch", batch, model.batch)
    seq = _positive("seq", seq, model.seq)
    num_encoder = _positive("num_layers", num_layers, model.num_layers)
    _one_of("attention", attention, get_args(Attention))
    _one_of("dtype", dtype, get_args(Dtype))
    chip = get_accelerator(accelerator) if isinstance(accelerator, str) else accelerator
    chip.peak(dtype)
    settings: dict[str, Any] = {
        "batch": batch,
        "seq": seq,
        "attention": attention,
        "dropout": model.dropout if dropout is None else dropout,
        "num_layers": num_encoder,
        "dtype": dtype,
        "activation_gradients": activation_gradients,
    }
    if model.target_seq is not None:
        settings["target_seq"] = _positive("target_seq", target_seq, model.target_seq)
    if model.image_size is not None:
        settings |= _image_settings(model, image_size)
    if model.num_experts is not None:
        settings["experts"] = "grouped" if experts is None else experts
        _one_of("experts", settings["experts"], get_args(Experts))
    builder = StepBuilder(chip, dtype=dtype, activation_gradients=activation_gradients)
    tape = Tape(builder, element_bytes=ELEMENT_BYTES[dtype], dropouts=settings["dropout"])
    _append_step(tape, model, settings)
    return Graph(
        name=name or f"{model.name}-{attention}",
        ops=tuple(builder.ops),
        tensors=tuple(builder.tensors.values()),
        provenance={
            "generator": "slackopt.profiles.transformer",
            "preset": model.name,
            "model": _model_record(model),
            "settings": settings,
            "accelerator": _accelerator_record(chip, dtype),
            "model_flops": 3 * builder.forward_flops,
        },
    )


def _append_step(tape: Tape, model: Preset, settings: dict[str, Any]) -> None:
    shape = _shape(tape, model, settings)
    num_layers = settings["num_layers"]
    if model.target_seq is not None:
        # Without an override, each stack has its own number of blocks.
        overridden = num_layers != model.num_layers
        decoder_layers = model.decoder_layers or num_layers
        append_encoder_decoder_step(
            tape,
            shape,
            replace(shape, seq=settings["target_seq"], memory_seq=shape.seq),
            encoder_layers=num_layers,
            decoder_layers=num_layers if overridden else decoder_layers,
            vocab=model.vocab,
        )
    elif model.patch_size is not None:
        append_vision_step(
            tape,
            shape,
            num_layers,
            image_size=settings["image_size"],
            patch_size=model.patch_size,
            classes=model.vocab,
        )
    else:
        append_stack_step(tape, shape, num_layers, model.vocab)


def _shape(tape: Tape, model: Preset, settings: dict[str, Any]) -> Shape:
    shape = Shape(
        batch=settings["batch"],
        seq=settings["seq"],
        hidden=model.hidden,
        heads=model.heads,
        ffn=model.ffn,
        element_bytes=tape.element_bytes,
        gated=model.gated,
        flash=settings["attention"] == "flash",
        kv_heads=model.kv_heads or model.heads,
        window=model.window,
        num_experts=model.num_experts or 0,
        top_k=model.top_k or 0,
        separate_experts=settings.get("experts") == "separate",
    )
    if shape.tokens * shape.top_k < shape.num_experts:
        raise InputError(
            f"batch {shape.batch} of {shape.seq} tokens: too few for {shape.num_experts} experts; "
            "every expert needs at least one token"
        )
    return shape


def _image_settings(model: Preset, image_size: int | None) -> dict[str, int]:
    """Size of the images and the number of tokens it gives."""
    assert model.image_size is not None  # noqa: S101
    assert model.patch_size is not None  # noqa: S101
    size = _positive("image_size", image_size, model.image_size)
    if size % model.patch_size:
        raise InputError(
            f"image_size {size}: must be a multiple of the {model.patch_size} pixels of a patch"
        )
    return {"image_size": size, "seq": (size // model.patch_size) ** 2 + 1}


def _refuse(field: str, value: object, model: Preset, default: int | None) -> None:
    """Refuse a setting that the architecture of the model does not have."""
    if value is not None and default is None:
        raise InputError(f"{field} {value!r}: {model.name!r} has no such setting")


def _model_record(model: Preset) -> dict[str, Any]:
    """Fields of the preset that are no settings; those that a model does not have are left out."""
    settings = {"name", "num_layers", "seq", "batch", "dropout", "target_seq", "image_size"}
    return model.model_dump(exclude=settings | {"architecture"}, exclude_none=True)


def _accelerator_record(chip: Accelerator, dtype: Dtype) -> dict[str, Any]:
    record = chip.model_dump(exclude={"peak_flops_per_s"})
    return {**record, "peak_flops_per_s": chip.peak(dtype)}


def _positive(field: str, value: int | None, default: int) -> int:
    if value is None:
        return default
    # Exactly int: neither a float nor a bool is a count, whatever the caller's types say.
    if type(value) is not int or not 0 < value <= MAX_SETTING:
        raise InputError(f"{field} {value!r}: must be a whole number from 1 to {MAX_SETTING}")
    return value


def _one_of(field: str, value: object, known: tuple[str, ...]) -> None:
    if value not in known:
        raise InputError(f"{field} {value!r}: must be one of {', '.join(known)}")
