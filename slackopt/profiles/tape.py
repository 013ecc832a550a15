"""Forward ops that remember what their backward ops have to do."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal

from slackopt.profiles.builder import GRADIENT, StepBuilder


class Tape:
    """Appends ops to a `StepBuilder`, and keeps what their backward ops have to do.

    Every method appends one forward op and returns its output; `backward` appends the backward
    ops in reverse order. `grads` holds the gradient of each tensor as far as it is known.

    Parameters
    ----------
    builder
        The step under construction.
    element_bytes
        Bytes of one element of an activation.
    dropouts
        Whether `dropout` appends an op, or nothing.
    """

    def __init__(self, builder: StepBuilder, *, element_bytes: int, dropouts: bool) -> None:
        self.builder = builder
        self.element_bytes = element_bytes
        self.dropouts = dropouts
        self.grads: dict[str, str] = {}
        self._readers: dict[str, int] = {}
        self._pending: list[Callable[[], None]] = []

    def backward(self) -> None:
        """Append the backward ops of everything on the tape."""
        while self._pending:
            self._pending.pop()()

    def later(self, backward: Callable[[], None]) -> None:
        """Put one op's backward work on the tape."""
        self._pending.append(backward)

    def linear(
        self,
        name: str,
        layer: str,
        source: str,
        widths: Mapping[str, int],
        *,
        rows: int,
        weight_sets: int = 1,
    ) -> tuple[str, ...]:
        """Append a linear op with one output (``name.key``) for each width.

        Forward: ``2*m*k*n`` FLOPs, and it reads its weights besides its input. Backward: two
        products, ``4*m*k*n`` FLOPs; it reads the outputs' gradients twice and the weights once, and
        writes the weights' gradient. If the input has another reader, the product adds to that
        reader's gradient.

        Parameters
        ----------
        rows
            Rows of the input, ``m``: its tokens.
        weight_sets
            Above 1, the op is a grouped product: each row meets one of so many weight matrices,
            all of which are read.
        """
        builder = self.builder
        row_bytes = rows * self.element_bytes
        outputs = tuple(
            builder.tensor(f"{name}.{key}", row_bytes * width) for key, width in widths.items()
        )
        weights = builder.size(source) // row_bytes * sum(widths.values())
        weight_bytes = weights * self.element_bytes * weight_sets
        flops = 2 * rows * weights
        builder.forward(name, layer, [source], outputs, flops=flops, extra_bytes=weight_bytes)

        def backward() -> None:
            grads = [self.grads[output] for output in outputs]
            inputs = [*grads, source]
            if source in self.grads:
                inputs.append(self.grads[source])
            twice = sum(builder.size(grad) for grad in grads)
            made = self._next_gradient(source)
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

    def product(
        self, name: str, layer: str, left: str, right: str, size_bytes: int, *, flops: int
    ) -> str:
        """Append one of attention's two batched products, saving its inputs.

        `flops` forward, twice that backward.
        """
        sources = [left, right]
        return self._op(name, layer, sources, size_bytes, saved=sources, flops=flops)

    def flash(self, name: str, layer: str, q: str, k: str, v: str, *, flops: int) -> str:
        """Append a fused attention op, saving its inputs and its output, as large as `q`.

        `flops` forward; backward 2.5 times that, five products instead of two, because it forms
        the scores again (arXiv 2205.14135 and 2307.08691).
        """
        sources = [q, k, v]
        saved = [*sources, f"{name}.out"]
        size = self.builder.size(q)
        return self._op(name, layer, sources, size, saved=saved, flops=flops, fused=True)

    def pointwise(
        self,
        name: str,
        layer: str,
        sources: list[str],
        size_bytes: int,
        *,
        saves: Literal["inputs", "output", "nothing"],
    ) -> str:
        """Append a memory-bound op that saves its ``inputs``, its ``output`` or ``nothing``.

        One that saves nothing and makes less than it is given does not read the rest.
        """
        saved = {"inputs": sources, "output": [f"{name}.out"], "nothing": []}[saves]
        given = sum(self.builder.size(source) for source in sources)
        unread = max(0, given - size_bytes) if saves == "nothing" else 0
        return self._op(name, layer, sources, size_bytes, saved=saved, unread=unread)

    def dropout(self, name: str, layer: str, source: str) -> str:
        """Append a dropout op with two outputs, values and mask; or nothing without dropout."""
        if not self.dropouts:
            return source
        builder, size = self.builder, self.builder.size(source)
        made = builder.tensor(f"{name}.out", size)
        mask = builder.tensor(f"{name}.mask", size // self.element_bytes, "mask")
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

    def _next_gradient(self, source: str) -> str:
        """Declare the gradient of `source` after one more of its readers has added to it."""
        readers = self._readers.get(source, int(source in self.grads)) + 1
        self._readers[source] = readers
        if readers == 1:
            return self.builder.gradient(source)
        suffix = "" if readers == 2 else str(readers)
        size = self.builder.size(source)
        return self.builder.tensor(f"{source}.grad.sum{suffix}", size, GRADIENT)

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
        unread: int = 0,
    ) -> str:
        """Append an op with one output whose backward op reads its gradient and what it saved."""
        builder = self.builder
        made = builder.tensor(f"{name}.out", size_bytes)
        builder.forward(
            name, layer, sources, [made], flops=flops, extra_bytes=-unread, fused_attention=fused
        )

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
