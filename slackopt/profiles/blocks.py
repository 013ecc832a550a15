"""Ops of a transformer block, forward and backward, with the tensors that PyTorch saves.

Notation: `s` sequence length, `b` batch, `h` width, `a` heads, `g` heads of keys and values, `f`
inner width of the MLP, `e` bytes per element (2 in 16-bit formats), ``n = s*b*h``. Norms come first
(pre-norm), as Megatron trains all its models, BERT included.

Saved tensors are the forward tensors that a backward op reads:

=========================== ============= =============================================
op                          saves         bytes
=========================== ============= =============================================
norm (two per block)        its input     ``e*n`` each
QKV, projection, fc1, fc2   its input     ``e*n`` each, fc2 ``e*s*b*f``
scores or flash attention   q, k          ``2*e*n`` (k: ``e*n*g/a``)
softmax (eager)             its output    ``e*a*s*s*b``
dropout                     its mask      1 byte an element
context or flash attention  v             ``e*n`` (``e*n*g/a``)
context (eager)             probabilities ``e*a*s*s*b`` (after dropout)
GELU                        its input     ``e*s*b*f``
=========================== ============= =============================================

In 16-bit formats with ``f = 4h`` and ``g = a`` they add up to the closed form
``s*b*h*(34 + 5*a*s/h)`` per block of Korthikanti et al. 2022 (arXiv 2205.05198), section 4, with
eager attention and dropout, and to ``34*s*b*h`` with flash attention, whose backward pass rebuilds
the probabilities and restores the random state of its dropout.

The gated, dropout-free block saves ``16*s*b*h + 6*s*b*f`` bytes in 16-bit formats: inputs of the
norms, QKV and projection, q, k and v as above; the MLP's input once, shared by gate and up; gate,
up and their product. Eager attention adds ``2*a*s*s*b``: the probabilities, which are then both the
softmax's output and the context's input. Grouped-query attention takes off
``4*s*b*h*(1 - g/a)``: k and v.

A block of a decoder that reads an encoder has a third part, cross-attention: its queries come from
the block, its keys and values from the encoder's output, of `t` tokens. In 16-bit formats with
flash attention it saves ``8*s*b*h + 4*t*b*h`` bytes (inputs of norm, of the query product, of the
projection, and q; k and v), ``s*b*h`` more with dropout (its mask), and with eager attention
``2*a*s*t*b`` (``5*a*s*t*b`` with dropout) more. The encoder's output is an input of every such
block and saved once, ``2*t*b*h``. Mixture-of-experts blocks: `slackopt.profiles.experts`.

Simplifications, each below 0.1 % of these bytes: norm statistics and the flash kernel's row sums
are no tensors. Rotary embeddings are fused into the QKV projection. Causal masks are applied inside
the softmax, and products are counted in full; a sliding window counts as many keys as it is wide.
Dropout is recomputable: as in Megatron, its random state is restored when it runs again, so that
both of its outputs come out the same.
"""

from __future__ import annotations

from slackopt.profiles.experts import append_experts
from slackopt.profiles.shape import Shape
from slackopt.profiles.tape import Tape


def append_block(tape: Tape, shape: Shape, layer: str, source: str, memory: str = "") -> str:
    """Append one transformer block and return its output, the input of the next one.

    `memory` is the output of the encoder that the block reads, if it reads one.
    """
    stream = _attention(tape, shape, f"{layer}/attention", layer, source)
    if memory:
        stream = _attention(tape, shape, f"{layer}/cross-attention", layer, stream, memory)
    part = f"{layer}/mlp"
    normed = tape.norm(f"{part}/norm", layer, stream)
    append = append_experts if shape.num_experts else _mlp
    out = append(tape, shape, part, layer, normed)
    out = tape.dropout(f"{part}/dropout", layer, out)
    return tape.residual(f"{part}/residual", layer, stream, out)


def _attention(
    tape: Tape, shape: Shape, part: str, layer: str, source: str, memory: str = ""
) -> str:
    """Append the attention part of a block: over its own tokens, or over those of `memory`."""
    rows, hidden = shape.tokens, shape.hidden
    normed = tape.norm(f"{part}/norm", layer, source)
    keys_values = {"k": shape.kv_width, "v": shape.kv_width}
    if memory:
        assert shape.memory_seq is not None  # noqa: S101
        keys = shape.memory_seq
        (q,) = tape.linear(f"{part}/query", layer, normed, {"q": hidden}, rows=rows)
        k, v = tape.linear(f"{part}/key-value", layer, memory, keys_values, rows=shape.batch * keys)
    else:
        keys = shape.seq
        q, k, v = tape.linear(f"{part}/qkv", layer, normed, {"q": hidden} | keys_values, rows=rows)
    if shape.flash:
        seen = min(keys, shape.window or keys)
        context = tape.flash(f"{part}/flash", layer, q, k, v, flops=4 * rows * seen * hidden)
    else:
        flops = 2 * rows * keys * hidden
        scores_bytes = shape.heads * rows * keys * shape.element_bytes
        scores = tape.product(f"{part}/scores", layer, q, k, scores_bytes, flops=flops)
        weights = tape.pointwise(f"{part}/softmax", layer, [scores], scores_bytes, saves="output")
        weights = tape.dropout(f"{part}/softmax-dropout", layer, weights)
        context = tape.product(
            f"{part}/context", layer, weights, v, shape.hidden_bytes, flops=flops
        )
    (out,) = tape.linear(f"{part}/projection", layer, context, {"out": hidden}, rows=rows)
    out = tape.dropout(f"{part}/dropout", layer, out)
    return tape.residual(f"{part}/residual", layer, source, out)


def _mlp(tape: Tape, shape: Shape, part: str, layer: str, source: str) -> str:
    """Append the products of a plain or gated MLP."""
    rows = shape.tokens
    if shape.gated:
        (gate,) = tape.linear(f"{part}/gate", layer, source, {"out": shape.ffn}, rows=rows)
        (up,) = tape.linear(f"{part}/up", layer, source, {"out": shape.ffn}, rows=rows)
        inner = tape.pointwise(
            f"{part}/silu-mul", layer, [gate, up], shape.ffn_bytes, saves="inputs"
        )
        (out,) = tape.linear(f"{part}/down", layer, inner, {"out": shape.hidden}, rows=rows)
    else:
        (wide,) = tape.linear(f"{part}/fc1", layer, source, {"out": shape.ffn}, rows=rows)
        inner = tape.pointwise(f"{part}/gelu", layer, [wide], shape.ffn_bytes, saves="inputs")
        (out,) = tape.linear(f"{part}/fc2", layer, inner, {"out": shape.hidden}, rows=rows)
    return out
