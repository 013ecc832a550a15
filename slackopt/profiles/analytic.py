"""Analytic training steps of transformers, op by op, without a framework."""

from __future__ import annotations

from typing import Any, Literal, get_args

from slackopt.errors import InputError
from slackopt.graph import Graph
from slackopt.profiles.accelerators import Accelerator, Dtype, get_accelerator
from slackopt.profiles.blocks import Shape, Tape, append_block
from slackopt.profiles.builder import StepBuilder
from slackopt.profiles.presets import Preset, get_preset

Attention = Literal["flash", "eager"]

ELEMENT_BYTES = {"bf16": 2, "fp16": 2, "fp32": 4}
TOKEN_BYTES = 8
"""Token ids and labels are 64-bit integers."""

MAX_SETTING = 10**7
"""Largest batch, sequence length and number of layers."""


def transformer(
    preset: str,
    *,
    batch: int | None = None,
    seq: int | None = None,
    attention: Attention = "flash",
    dropout: bool | None = None,
    accelerator: str = "a100",
    num_layers: int | None = None,
    dtype: Dtype = "bf16",
    activation_gradients: bool = True,
    name: str | None = None,
) -> Graph:
    """Make the graph of one training step of a transformer.

    The step is: embedding and its dropout; the blocks (`slackopt.profiles.blocks` lists their ops
    and what each saves); a final norm, the head (``2*b*s*h*V`` FLOPs for vocabulary ``V``), and
    the loss as PyTorch computes it, a log-softmax that saves its output, ``b*s*V`` elements, and
    the negative log-likelihood; then all backward ops in reverse order. Op times come from
    `slackopt.profiles.roofline`. Parameters, their gradients and the optimizer are no part of
    the graph: they are statics outside the activation budget.

    Parameters
    ----------
    preset
        A name in `slackopt.profiles.presets`: ``bert-large``, ``gpt2-xl``, ``llama-7b``.
    batch, seq
        Sequences per step and tokens per sequence; the preset's by default.
    attention
        ``flash`` (one fused op) or ``eager`` (scores, softmax, dropout, context).
    dropout
        Whether the model trains with dropout; the preset's by default. With dropout, flash
        attention keeps its random state instead of a mask.
    accelerator
        A name in `slackopt.profiles.accelerators`.
    num_layers
        Number of blocks; the preset's by default.
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
        For an unknown preset, accelerator or setting, and for sizes below 1.

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
    batch = _positive("batch", batch, model.batch)
    seq = _positive("seq", seq, model.seq)
    num_layers = _positive("num_layers", num_layers, model.num_layers)
    _one_of("attention", attention, get_args(Attention))
    _one_of("dtype", dtype, get_args(Dtype))
    chip = get_accelerator(accelerator)
    chip.peak(dtype)
    shape = Shape(
        batch=batch,
        seq=seq,
        hidden=model.hidden,
        heads=model.heads,
        ffn=model.ffn,
        element_bytes=ELEMENT_BYTES[dtype],
        gated=model.gated,
        dropout=model.dropout if dropout is None else dropout,
        flash=attention == "flash",
    )
    builder = StepBuilder(chip, dtype=dtype, activation_gradients=activation_gradients)
    _append_step(Tape(builder, shape), num_layers, model.vocab)
    settings: dict[str, Any] = {
        "batch": batch,
        "seq": seq,
        "attention": attention,
        "dropout": shape.dropout,
        "num_layers": num_layers,
        "dtype": dtype,
        "activation_gradients": activation_gradients,
    }
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


def _append_step(tape: Tape, num_layers: int, vocab: int) -> None:
    shape, builder = tape.shape, tape.builder
    tokens = builder.tensor("batch/tokens", shape.tokens * TOKEN_BYTES, "input")
    labels = builder.tensor("batch/labels", shape.tokens * TOKEN_BYTES, "input")

    stream = builder.tensor("embedding/lookup.out", shape.hidden_bytes)
    # Each token reads a row of the table; its gradient is added to the same row.
    row_bytes = shape.hidden_bytes
    builder.forward("embedding/lookup", "embedding", [tokens], [stream], extra_bytes=row_bytes)
    looked_up = stream

    def embedding_backward() -> None:
        inputs = [tape.grads[looked_up], tokens]
        builder.backward("embedding/lookup", "embedding", inputs, [], extra_bytes=2 * row_bytes)

    tape.later(embedding_backward)
    stream = tape.dropout("embedding/dropout", "embedding", stream)
    for index in range(num_layers):
        stream = append_block(tape, f"layer {index}", stream)
    normed = tape.norm("head/norm", "head", stream)
    (logits,) = tape.linear("head/logits", "head", normed, {"out": vocab})
    scores = tape.pointwise(
        "loss/log-softmax", "loss", [logits], builder.size(logits), saves="output"
    )
    loss = builder.tensor("loss/nll.out", 4, "loss")
    # It gathers one log-probability per token and does not read the others.
    unread = builder.size(scores) - shape.tokens * shape.element_bytes
    builder.forward("loss/nll", "loss", [scores, labels], [loss], extra_bytes=-unread)
    tape.grads[scores] = builder.gradient(scores)
    builder.backward("loss/nll", "loss", [labels], [tape.grads[scores]])
    tape.backward()


def _model_record(model: Preset) -> dict[str, Any]:
    fields = {"title", "hidden", "heads", "ffn", "vocab", "gated", "source"}
    return model.model_dump(include=fields)


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
