"""Ops of a mixture-of-experts MLP: router, dispatch, experts and combine.

Each token goes to the `k` experts of `E` that the router gives the largest probabilities
(Shazeer et al. 2017, arXiv 1701.06538; Mixtral, arXiv 2401.04088). No token is dropped
(MegaBlocks, Gale et al. 2023, arXiv 2211.15841) and the load is balanced: each expert gets
``s*b*k/E`` tokens, rounded up for the first ones. With the notation of
`slackopt.profiles.blocks`:

=========== =================================================== ==========================
op          saves                                               bytes
=========== =================================================== ==========================
router      its input (a product with `E` outputs)              ``e*n``
top-k       probabilities; the indices of the chosen experts    ``e*s*b*E``, ``8*s*b*k``
dispatch    the indices again (a copy of each token per expert)
gate, up    their shared input, the copies                      ``e*k*n``
SiLU, mul   both inputs                                         ``2*e*s*b*k*f``
down        its input                                           ``e*s*b*k*f``
combine     outputs of the experts; the gates                   ``e*k*n``, ``e*s*b*k``
=========== =================================================== ==========================

In 16-bit formats that is ``2*n*(1 + 2*k) + 6*s*b*k*f + 2*s*b*E + 10*s*b*k`` bytes, and with the
norm's input, ``2*n``, the whole MLP part of the block. (The combine keeps the outputs of the
experts because the gradients of the gates are products of them.)

The experts are *grouped*, each product one op for all of them (a grouped GEMM that reads all
weights), or *separate*, with ops and tensors of their own, as a loop over experts makes them. Both
save the same bytes.
"""

from __future__ import annotations

from slackopt.profiles.shape import Shape
from slackopt.profiles.tape import Tape

INDEX_BYTES = 8
"""PyTorch's top-k returns 64-bit indices."""


def append_experts(tape: Tape, shape: Shape, part: str, layer: str, source: str) -> str:
    """Append the mixture of experts of a block and return its output."""
    gates, indices = _route(tape, shape, f"{part}/router", layer, source)
    rows = _rows_of_experts(shape)
    copies = _dispatch(tape, shape, f"{part}/dispatch", layer, source, indices, rows)
    weight_sets = 1 if shape.separate_experts else shape.num_experts
    outs = []
    for index, (copied, count) in enumerate(zip(copies, rows, strict=True)):
        name = f"{part}/expert {index}" if shape.separate_experts else f"{part}/experts"
        outs.append(_expert(tape, shape, name, layer, copied, count, weight_sets))
    return _combine(tape, shape, f"{part}/combine", layer, outs, gates, indices)


def _rows_of_experts(shape: Shape) -> list[int]:
    """Tokens of each group of experts: all in one, or one group for each expert."""
    total = shape.tokens * shape.top_k
    if not shape.separate_experts:
        return [total]
    least, more = divmod(total, shape.num_experts)
    return [least + (index < more) for index in range(shape.num_experts)]


def _route(tape: Tape, shape: Shape, name: str, layer: str, source: str) -> tuple[str, str]:
    """Append the router; return the gates and the indices of the chosen experts."""
    builder, rows = tape.builder, shape.tokens
    (logits,) = tape.linear(name, layer, source, {"logits": shape.num_experts}, rows=rows)
    top = f"{name}/top-k"
    probabilities = builder.tensor(f"{top}.probabilities", builder.size(logits))
    gates = builder.tensor(f"{top}.gates", rows * shape.top_k * shape.element_bytes)
    indices = builder.tensor(f"{top}.indices", rows * shape.top_k * INDEX_BYTES, "index")
    builder.forward(top, layer, [logits], [probabilities, gates, indices])

    def backward() -> None:
        tape.grads[logits] = builder.gradient(logits)
        inputs = [tape.grads[gates], probabilities, indices]
        builder.backward(top, layer, inputs, [tape.grads[logits]])

    tape.later(backward)
    return gates, indices


def _dispatch(
    tape: Tape, shape: Shape, name: str, layer: str, source: str, indices: str, rows: list[int]
) -> list[str]:
    """Append the op that copies each token to its experts; return a tensor for each group."""
    builder = tape.builder
    row_bytes = shape.hidden * shape.element_bytes
    made = [
        builder.tensor(f"{name}.out" if len(rows) == 1 else f"{name}.out {i}", count * row_bytes)
        for i, count in enumerate(rows)
    ]
    builder.forward(name, layer, [source, indices], made)

    def backward() -> None:
        # The gradient of a token is the sum of those of its copies. The router, whose backward op
        # runs later, adds its own.
        tape.grads[source] = builder.gradient(source)
        inputs = [*(tape.grads[out] for out in made), indices]
        builder.backward(name, layer, inputs, [tape.grads[source]])

    tape.later(backward)
    return made


def _expert(
    tape: Tape, shape: Shape, name: str, layer: str, source: str, rows: int, weight_sets: int
) -> str:
    """Append the gated MLP of one expert, or of all of them as grouped products."""
    (gate,) = tape.linear(
        f"{name}/gate", layer, source, {"out": shape.ffn}, rows=rows, weight_sets=weight_sets
    )
    (up,) = tape.linear(
        f"{name}/up", layer, source, {"out": shape.ffn}, rows=rows, weight_sets=weight_sets
    )
    size = tape.builder.size(gate)
    inner = tape.pointwise(f"{name}/silu-mul", layer, [gate, up], size, saves="inputs")
    (out,) = tape.linear(
        f"{name}/down", layer, inner, {"out": shape.hidden}, rows=rows, weight_sets=weight_sets
    )
    return out


def _combine(
    tape: Tape, shape: Shape, name: str, layer: str, outs: list[str], gates: str, indices: str
) -> str:
    """Append the op that adds up each token's outputs, weighted with its gates."""
    builder = tape.builder
    made = builder.tensor(f"{name}.out", shape.hidden_bytes)
    saved = [*outs, gates, indices]
    builder.forward(name, layer, saved, [made])

    def backward() -> None:
        for source in (*outs, gates):
            tape.grads[source] = builder.gradient(source)
        grads = [tape.grads[source] for source in (*outs, gates)]
        builder.backward(name, layer, [tape.grads[made], *saved], grads)

    tape.later(backward)
    return made
