"""Ops of a transformer block, forward and backward, with the tensors that PyTorch saves.

Notation: `s` sequence length, `b` batch, `h` width, `a` heads, `f` inner width of the MLP, `e`
bytes per element (2 in 16-bit formats), ``n = s*b*h``. Norms come first (pre-norm), as Megatron
trains all its models, BERT included.

Saved tensors are the forward tensors that a backward op reads:

=========================== ============= =============================================
op                          saves         bytes
=========================== ============= =============================================
norm (two per block)        its input     ``e*n`` each
QKV, projection, fc1, fc2   its input     ``e*n`` each, fc2 ``e*s*b*f``
scores or flash attention   q, k          ``2*e*n``
softmax (eager)             its output    ``e*a*s*s*b``
dropout                     its mask      1 byte an element
context or flash attention  v             ``e*n``
context (eager)             probabilities ``e*a*s*s*b`` (after dropout)
GELU                        its input     ``e*s*b*f``
=========================== ============= =============================================

In 16-bit formats with ``f = 4h`` they add up to the closed form ``s*b*h*(34 + 5*a*s/h)`` per
block of Korthikanti et al. 2022 (arXiv 2205.05198), section 4, with eager attention and dropout,
and to ``34*s*b*h`` with flash attention, whose backward pass rebuilds the probabilities and
restores the random state of its dropout.

The gated, dropout-free block saves ``16*s*b*h + 6*s*b*f`` bytes in 16-bit formats: inputs of the
norms, QKV and projection, q, k and v as above; the MLP's input once, shared by gate and up; gate,
up and their product. Eager attention adds ``2*a*s*s*b``: the probabilities, which are then both the
softmax's output and the context's input.

Simplifications, each below 0.1 % of these bytes: norm statistics and the flash kernel's row sums
are no tensors. Rotary embeddings are fused into the QKV projection. Causal masks are applied inside
the softmax, and products are counted in full. Dropout is recomputable: as in Megatron, its random
state is restored when it runs again, so that both of its outputs come out the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from slackopt.profiles.builder import GRADIENT, StepBuilder


@dataclass(frozen=True)
class Shape:
    """Sizes of one step; see the module's notation."""

    batch: int
    seq: int
    hidden: int
    heads: int
    ffn: int
    element_bytes: int
    gated: bool
    dropout: bool
    flash: bool

    @property
    def tokens(self) -> int:
        """Tokens in the batch, ``s*b``."""
        return self.batch * self.seq

    @property
    def hidden_bytes(self) -> int:
        """Bytes of one ``s x b x h`` tensor."""
        return self.tokens * self.hidden * self.element_bytes

    @property
    def ffn_bytes(self) -> int:
        """Bytes of one ``s x b x f`` tensor."""
        return self.tokens * self.ffn * self.element_bytes

    @property
    def scores_bytes(self) -> int:
        """Bytes of one ``a x s x s x b`` tensor."""
        return self.heads * self.seq * self.seq * self.batch * self.element_bytes


class Tape:
    """Appends ops to a `StepBuilder`, and keeps what their backward ops have to do.

    Every method appends one forward op and returns its output; `backward` appends the backward
    ops in reverse order. `grads` holds the gradient of each tensor as far as it is known.
    """

    def __init__(self, builder: StepBuilder, shape: Shape) -> None:
        self.builder = builder
        self.shape = shape
        self.grads: dict[str, str] = {}
        self._pending: list[Callable[[], None]] = []

    def backward(self) -> None:
        """Append the backward ops of everything on the tape."""
        while self._pending:
            self._pending.pop()()

    def later(self, backward: Callable[[], None]) -> None:
        """Put one op's backward work on the tape."""
        self._pending.append(backward)

    def linear(
        self, name: str, layer: str, source: str, widths: Mapping[str, int]
    ) -> tuple[str, ...]:
        """Append a linear op with one output (``name.key``) for each width.

        Forward: ``2*m*k*n`` FLOPs, and it reads its weights besides its input. Backward: two
        products, ``4*m*k*n`` FLOPs; it reads the outputs' gradients twice and the weights once, and
        writes the weights' gradient. If the input has another reader, the product adds to that
        reader's gradient.
        """
        shape, builder = self.shape, self.builder
        row_bytes = shape.tokens * shape.element_bytes
        outputs = tuple(
            builder.tensor(f"{name}.{key}", row_bytes * width) for key, width in widths.items()
        )
        weights = builder.size(source) // row_bytes * sum(widths.values())
        weight_bytes = weights * shape.element_bytes
        flops = 2 * shape.tokens * weights
        builder.forward(name, layer, [source], outputs, flops=flops, extra_bytes=weight_bytes)

        def backward() -> None:
            grads = [self.grads[output] for output in outputs]
            inputs = [*grads, source]
            if source in self.grads:
                inputs.append(self.grads[source])
                made = builder.tensor(f"{source}.grad.sum", builder.size(source), GRADIENT)
            else:
                made = builder.gradient(source)
            twice = sum(builder.size(grad) for grad in grads)
            builder.backward(
                name,
                layer,
                inputs,
                [made],
                flops=2 * flops,
                extra_bytes=2 * weight_bytes + twice,
            )
            self.grads[source] = made

        self.later(backward)
        return outputs

    def product(self, name: str, layer: str, left: str, right: str, size_bytes: int) -> str:
        """Append one of attention's two batched products, saving its inputs.

        ``2*b*s*s*h`` FLOPs forward, twice that backward.
        """
        flops = 2 * self.shape.tokens * self.shape.seq * self.shape.hidden
        sources = [left, right]
        return self._op(name, layer, sources, size_bytes, saved=sources, flops=flops)

    def flash(self, name: str, layer: str, q: str, k: str, v: str) -> str:
        """Append a fused attention op, saving its inputs and its output.

        ``4*b*s*s*h`` FLOPs forward; backward 2.5 times that, five products instead of two,
        because it forms the scores again (arXiv 2205.14135 and 2307.08691).
        """
        flops = 4 * self.shape.tokens * self.shape.seq * self.shape.hidden
        sources = [q, k, v]
        size = self.shape.hidden_bytes
        saved = [*sources, f"{name}.out"]
        return self._op(name, layer, sources, size, saved=saved, flops=flops, fused=True)

    def pointwise(
        self,
        name: str,
        layer: str,
        sources: list[str],
        size_bytes: int,
        *,
        saves: Literal["inputs", "output"],
    ) -> str:
        """Append a memory-bound op that saves its ``inputs`` or its ``output``."""
        saved = sources if saves == "inputs" else [f"{name}.out"]
        return self._op(name, layer, sources, size_bytes, saved=saved)

    def dropout(self, name: str, layer: str, source: str) -> str:
        """Append a dropout op with two outputs, values and mask; or nothing without dropout."""
        if not self.shape.dropout:
            return source
        builder, size = self.builder, self.builder.size(source)
        made = builder.tensor(f"{name}.out", size)
        mask = builder.tensor(f"{name}.mask", size // self.shape.element_bytes, "mask")
        builder.forward(name, layer, [source], [made, mask])

        def backward() -> None:
            grad = self.grads[made]
            self.grads[source] = builder.gradient(source)
            builder.backward(name, layer, [grad, mask], [self.grads[source]])

        self.later(backward)
        return made

    def norm(self, name: str, layer: str, source: str) -> str:
        """Append a norm, which saves its input.

        Where the input also feeds a residual add, another backward op adds the two gradients.
        """
        builder, size = self.builder, self.builder.size(source)
        made = builder.tensor(f"{name}.out", size)
        builder.forward(name, layer, [source], [made])

        def backward() -> None:
            around = self.grads.get(source)
            if around is None:
                through = builder.gradient(source)
            else:
                through = builder.tensor(f"{name}.in.grad", size, GRADIENT)
            builder.backward(name, layer, [self.grads[made], source], [through])
            if around is not None:
                total = builder.gradient(source)
                branch = name.rpartition("/")[0]
                builder.backward(f"{branch}/residual", layer, [around, through], [total])
                through = total
            self.grads[source] = through

        self.later(backward)
        return made

    def residual(self, name: str, layer: str, source: str, branch: str) -> str:
        """Append a residual add.

        It saves nothing: its output's gradient is the gradient of both inputs, as the same storage.
        """
        made = self.builder.tensor(f"{name}.out", self.builder.size(source))
        self.builder.forward(name, layer, [source, branch], [made])

        def backward() -> None:
            self.grads[source] = self.grads[branch] = self.grads[made]

        self.later(backward)
        return made

    def _op(
        self,
        name: str,
        layer: str,
        sources: list[str],
        size_bytes: int,
        *,
        saved: list[str],
        flops: int = 0,
        fused: bool = False,
    ) -> str:
        """Append an op with one output whose backward op reads its gradient and what it saved."""
        builder = self.builder
        made = builder.tensor(f"{name}.out", size_bytes)
        builder.forward(name, layer, sources, [made], flops=flops, fused_attention=fused)

        def backward() -> None:
            grad = self.grads[made]
            for source in sources:
                self.grads[source] = builder.gradient(source)
            builder.backward(
                name,
                layer,
                [grad, *saved],
                [self.grads[source] for source in sources],
                flops=flops * 5 // 2 if fused else flops * 2,
                fused_attention=fused,
            )

        self.later(backward)
        return made


def append_block(tape: Tape, layer: str, source: str) -> str:
    """Append one transformer block and return its output, the input of the next one."""
    shape = tape.shape
    part = f"{layer}/attention"
    normed = tape.norm(f"{part}/norm", layer, source)
    q, k, v = tape.linear(f"{part}/qkv", layer, normed, dict.fromkeys("qkv", shape.hidden))
    if shape.flash:
        context = tape.flash(f"{part}/flash", layer, q, k, v)
    else:
        scores = tape.product(f"{part}/scores", layer, q, k, shape.scores_bytes)
        weights = tape.pointwise(
            f"{part}/softmax", layer, [scores], shape.scores_bytes, saves="output"
        )
        weights = tape.dropout(f"{part}/softmax-dropout", layer, weights)
        context = tape.product(f"{part}/context", layer, weights, v, shape.hidden_bytes)
    (out,) = tape.linear(f"{part}/projection", layer, context, {"out": shape.hidden})
    out = tape.dropout(f"{part}/dropout", layer, out)
    middle = tape.residual(f"{part}/residual", layer, source, out)

    part = f"{layer}/mlp"
    normed = tape.norm(f"{part}/norm", layer, middle)
    if shape.gated:
        (gate,) = tape.linear(f"{part}/gate", layer, normed, {"out": shape.ffn})
        (up,) = tape.linear(f"{part}/up", layer, normed, {"out": shape.ffn})
        inner = tape.pointwise(
            f"{part}/silu-mul", layer, [gate, up], shape.ffn_bytes, saves="inputs"
        )
        (out,) = tape.linear(f"{part}/down", layer, inner, {"out": shape.hidden})
    else:
        (wide,) = tape.linear(f"{part}/fc1", layer, normed, {"out": shape.ffn})
        inner = tape.pointwise(f"{part}/gelu", layer, [wide], shape.ffn_bytes, saves="inputs")
        (out,) = tape.linear(f"{part}/fc2", layer, inner, {"out": shape.hidden})
    out = tape.dropout(f"{part}/dropout", layer, out)
    return tape.residual(f"{part}/residual", layer, middle, out)
