"""Collects the ops and tensors of a step while a model is written down op by op."""

from __future__ import annotations

from collections.abc import Sequence

from slackopt.graph import Op, Tensor
from slackopt.profiles.accelerators import Accelerator
from slackopt.profiles.roofline import op_time_ns

SWAP_THRESHOLD_BYTES = 2**20
"""Smallest tensor worth a copy of its own: below it, the latency of the link dominates."""

GRADIENT = "gradient"
"""Kind of the gradient of an activation."""


class StepBuilder:
    """A step under construction.

    Parameters
    ----------
    accelerator, dtype
        Whose roofline times the ops, and in which number format.
    activation_gradients
        Whether gradients of activations are tensors of the step.
    """

    def __init__(
        self, accelerator: Accelerator, *, dtype: str, activation_gradients: bool = True
    ) -> None:
        self.accelerator = accelerator
        self.dtype = dtype
        self.activation_gradients = activation_gradients
        self.ops: list[Op] = []
        self.tensors: dict[str, Tensor] = {}
        self.forward_flops = 0
        self._sizes: dict[str, int] = {}

    def tensor(self, name: str, size_bytes: int, kind: str = "activation") -> str:
        """Declare a tensor and return its name.

        Tensors of at least `SWAP_THRESHOLD_BYTES` are swappable, masks included; gradients are not:
        they are used up within a few ops of their production.
        """
        self._sizes[name] = size_bytes
        if kind != GRADIENT or self.activation_gradients:
            self.tensors[name] = Tensor(
                name=name,
                size_bytes=size_bytes,
                kind=kind,
                swappable=kind != GRADIENT and size_bytes >= SWAP_THRESHOLD_BYTES,
            )
        return name

    def gradient(self, name: str) -> str:
        """Declare the gradient of tensor `name`, as large as the tensor, and return its name."""
        return self.tensor(f"{name}.grad", self._sizes[name], GRADIENT)

    def size(self, name: str) -> int:
        """Size in bytes of a declared tensor, also of a gradient that is left out of the step."""
        return self._sizes[name]

    def forward(
        self,
        name: str,
        layer: str,
        inputs: Sequence[str],
        outputs: Sequence[str],
        *,
        flops: int = 0,
        extra_bytes: int = 0,
        fused_attention: bool = False,
    ) -> None:
        """Append a forward op; `extra_bytes` is its traffic besides its tensors (weights).

        It is below 0 for an op that does not read its inputs in full.
        """
        self.forward_flops += flops
        self._append(
            Op(
                name=name,
                phase="forward",
                duration_ns=self._time(inputs, outputs, flops, extra_bytes, fused_attention),
                inputs=self._present(inputs),
                outputs=self._present(outputs),
                layer=layer,
            )
        )

    def backward(
        self,
        name: str,
        layer: str,
        inputs: Sequence[str],
        outputs: Sequence[str],
        *,
        flops: int = 0,
        extra_bytes: int = 0,
        fused_attention: bool = False,
    ) -> None:
        """Append the backward op of forward op `name`.

        It is not recomputable: running it again would add its parameter gradients twice.
        """
        self._append(
            Op(
                name=f"{name}.backward",
                phase="backward",
                duration_ns=self._time(inputs, outputs, flops, extra_bytes, fused_attention),
                inputs=self._present(inputs),
                outputs=self._present(outputs),
                recomputable=False,
                layer=layer,
            )
        )

    def _append(self, op: Op) -> None:
        self.ops.append(op)

    def _time(
        self,
        inputs: Sequence[str],
        outputs: Sequence[str],
        flops: int,
        extra_bytes: int,
        fused_attention: bool,
    ) -> int:
        moved = sum(self._sizes[name] for name in (*inputs, *outputs)) + extra_bytes
        return op_time_ns(
            self.accelerator,
            flops=flops,
            moved_bytes=moved,
            dtype=self.dtype,
            fused_attention=fused_attention,
        )

    def _present(self, names: Sequence[str]) -> tuple[str, ...]:
        return tuple(name for name in names if name in self.tensors)
