"""The three kinds of steps: one stack of blocks, an encoder with a decoder, a vision model.

Each appends embedding, blocks, head and loss, then all backward ops in reverse order.
"""

from __future__ import annotations

from slackopt.profiles.blocks import append_block
from slackopt.profiles.shape import Shape
from slackopt.profiles.tape import Tape

TOKEN_BYTES = 8
"""Token ids and labels are 64-bit integers."""

CHANNELS = 3
"""Colours of an image."""


def append_stack_step(tape: Tape, shape: Shape, num_layers: int, vocab: int) -> None:
    """Append the step of an encoder or of a decoder over tokens: a loss at every token."""
    tokens = _token_input(tape, "batch/tokens", shape)
    labels = _token_input(tape, "batch/labels", shape)
    stream = _embed(tape, shape, "embedding", tokens)
    for index in range(num_layers):
        stream = append_block(tape, shape, f"layer {index}", stream)
    normed = tape.norm("head/norm", "head", stream)
    _append_loss(tape, normed, labels, vocab, rows=shape.tokens)
    tape.backward()


def append_encoder_decoder_step(
    tape: Tape,
    encoder: Shape,
    decoder: Shape,
    *,
    encoder_layers: int,
    decoder_layers: int,
    vocab: int,
) -> None:
    """Append the step of a decoder that reads an encoder, with a loss at every decoder token."""
    tokens = _token_input(tape, "batch/tokens", encoder)
    targets = _token_input(tape, "batch/target-tokens", decoder)
    labels = _token_input(tape, "batch/labels", decoder)
    stream = _embed(tape, encoder, "encoder/embedding", tokens)
    for index in range(encoder_layers):
        stream = append_block(tape, encoder, f"encoder layer {index}", stream)
    memory = tape.norm("encoder/norm", "encoder", stream)
    stream = _embed(tape, decoder, "decoder/embedding", targets)
    for index in range(decoder_layers):
        stream = append_block(tape, decoder, f"decoder layer {index}", stream, memory)
    normed = tape.norm("head/norm", "head", stream)
    _append_loss(tape, normed, labels, vocab, rows=decoder.tokens)
    tape.backward()


def append_vision_step(
    tape: Tape, shape: Shape, num_layers: int, *, image_size: int, patch_size: int, classes: int
) -> None:
    """Append the step of a vision transformer (Dosovitskiy et al. 2021, arXiv 2010.11929).

    The patch embedding is a convolution whose stride is its kernel: a product of each patch with
    a matrix. It saves the images, and no gradient of theirs is formed. A class token is put in
    front of the patches; the head reads it alone.
    """
    builder, batch = tape.builder, shape.batch
    images = builder.tensor(
        "batch/images", batch * CHANNELS * image_size**2 * tape.element_bytes, "input"
    )
    labels = builder.tensor("batch/labels", batch * TOKEN_BYTES, "input")
    stream = _embed_patches(tape, shape, images, (image_size // patch_size) ** 2, patch_size)
    # The class token and the positions, both parameters, are added in one op.
    stream = tape.pointwise(
        "embedding/position", "embedding", [stream], shape.hidden_bytes, saves="nothing"
    )
    stream = tape.dropout("embedding/dropout", "embedding", stream)
    for index in range(num_layers):
        stream = append_block(tape, shape, f"layer {index}", stream)
    normed = tape.norm("head/norm", "head", stream)
    class_bytes = batch * shape.hidden * tape.element_bytes
    chosen = tape.pointwise("head/class-token", "head", [normed], class_bytes, saves="nothing")
    _append_loss(tape, chosen, labels, classes, rows=batch)
    tape.backward()


def _token_input(tape: Tape, name: str, shape: Shape) -> str:
    return tape.builder.tensor(name, shape.tokens * TOKEN_BYTES, "input")


def _embed(tape: Tape, shape: Shape, layer: str, tokens: str) -> str:
    """Append the embedding of tokens and its dropout."""
    builder = tape.builder
    name = f"{layer}/lookup"
    made = builder.tensor(f"{name}.out", shape.hidden_bytes)
    # Each token reads a row of the table; its gradient is added to the same row.
    row_bytes = shape.hidden_bytes
    builder.forward(name, layer, [tokens], [made], extra_bytes=row_bytes)

    def backward() -> None:
        inputs = [tape.grads[made], tokens]
        builder.backward(name, layer, inputs, [], extra_bytes=2 * row_bytes)

    tape.later(backward)
    return tape.dropout(f"{layer}/dropout", layer, made)


def _embed_patches(tape: Tape, shape: Shape, images: str, patches: int, patch_size: int) -> str:
    """Append the product of each patch with the embedding matrix."""
    builder, rows = tape.builder, shape.batch * patches
    name, layer = "embedding/patches", "embedding"
    weights = CHANNELS * patch_size**2 * shape.hidden
    weight_bytes = weights * tape.element_bytes
    flops = 2 * rows * weights
    made = builder.tensor(f"{name}.out", rows * shape.hidden * tape.element_bytes)
    builder.forward(name, layer, [images], [made], flops=flops, extra_bytes=weight_bytes)

    def backward() -> None:
        inputs = [tape.grads[made], images]
        builder.backward(name, layer, inputs, [], flops=flops, extra_bytes=weight_bytes)

    tape.later(backward)
    return made


def _append_loss(tape: Tape, source: str, labels: str, classes: int, *, rows: int) -> None:
    """Append the head, the log-softmax and the negative log-likelihood."""
    builder = tape.builder
    (logits,) = tape.linear("head/logits", "head", source, {"out": classes}, rows=rows)
    scores = tape.pointwise(
        "loss/log-softmax", "loss", [logits], builder.size(logits), saves="output"
    )
    loss = builder.tensor("loss/nll.out", 4, "loss")
    # It gathers one log-probability per row and does not read the others.
    unread = builder.size(scores) - rows * tape.element_bytes
    builder.forward("loss/nll", "loss", [scores, labels], [loss], extra_bytes=-unread)
    tape.grads[scores] = builder.gradient(scores)
    builder.backward("loss/nll", "loss", [labels], [tape.grads[scores]])
