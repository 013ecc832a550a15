"""Random training steps from a seed: layered and series-parallel graphs.

They test methods on what no model looks like: sizes, times and lifetimes without repetition. The
same settings give the same graph everywhere: all arithmetic is in integers, and the numbers come
from `SplitMix64` below, not from a library whose stream may change.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from slackopt.errors import InputError
from slackopt.graph import Graph, Op, Tensor
from slackopt.profiles.builder import GRADIENT, SWAP_THRESHOLD_BYTES

Kind = Literal["layered", "series-parallel"]

MAX_FORWARD_OPS = 100_000
MAX_SEED = 2**64 - 1

_MASK = 2**64 - 1
_ROUND_BYTES = 512
"""Sizes are multiples of what PyTorch's caching allocator rounds to."""

_BYTES_PER_US = 1_800_000
"""Memory traffic of 1.8 TB/s, the reached bandwidth of an A100 80 GB."""

_INTENSITIES = (1, 1, 1, 2, 4, 8, 16, 32)
"""How many times as long as its memory traffic an op takes: 1 is an element-wise op."""

_LAUNCH_NS = 1_000

_SAVES: tuple[tuple[bool, bool], ...] = (
    (True, False),
    (True, False),
    (False, True),
    (True, True),
    (False, False),
)
"""Whether the backward op reads inputs and outputs: products (drawn twice as often), activations,
fused attention, sums."""


class SplitMix64:
    """The SplitMix64 generator (Steele, Lea and Flood 2014, doi 10.1145/2660193.2660195).

    ::

        state = state + 0x9E3779B97F4A7C15                 (mod 2**64, from state = seed)
        z     = state
        z     = (z xor (z >> 30)) * 0xBF58476D1CE4E5B9     (mod 2**64)
        z     = (z xor (z >> 27)) * 0x94D049BB133111EB     (mod 2**64)
        next  = z xor (z >> 31)

    Examples
    --------
    >>> SplitMix64(1234567).next()
    6457827717110365317
    """

    def __init__(self, seed: int) -> None:
        self._state = seed & _MASK

    def next(self) -> int:
        """Return the next number, from 0 to 2**64 - 1."""
        self._state = (self._state + 0x9E3779B97F4A7C15) & _MASK
        z = self._state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
        return z ^ (z >> 31)

    def below(self, bound: int) -> int:
        """Return a number from 0 to ``bound - 1``: ``next * bound >> 64``."""
        return self.next() * bound >> 64

    def chance(self, one_in: int) -> bool:
        """Return True once in so many times."""
        return self.below(one_in) == 0


@dataclass(frozen=True)
class _ForwardOp:
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    saves_inputs: bool
    saves_outputs: bool
    duration_ns: int
    workspace_bytes: int
    recomputable: bool
    layer: str


def random_graph(
    kind: Kind,
    *,
    seed: int,
    num_forward_ops: int = 100,
    width: int = 4,
    min_bytes: int = 2**20,
    max_bytes: int = 2**28,
    name: str | None = None,
) -> Graph:
    """Make a random training step.

    Forward ops in the order of their making, a loss that reads whatever no other op reads, then
    one backward op for each forward op in reverse. A backward op reads the gradients of its
    outputs and what its forward op saves (inputs, outputs, both or nothing, by a draw), and adds
    to the gradients of its inputs.

    Parameters
    ----------
    kind
        ``layered``: layers of `width` ops, each of which reads one to three tensors of the layer
        before, and one time in eight a tensor of any earlier layer instead (a skip connection).
        ``series-parallel``: ops composed at random in series, or as two or three parallel branches
        that another op joins.
    seed
        From 0 to 2**64 - 1; feeds `SplitMix64`.
    num_forward_ops
        Forward ops without the loss.
    width
        Ops of a layer; for ``layered`` only.
    min_bytes, max_bytes
        Range of tensor sizes, which are log-uniform: every power of two is as frequent. One op
        in eight has a second output of a quarter of the size, a mask.
    name
        Name of the graph; ``random-<kind>-<seed>`` by default.

    Returns
    -------
    Graph
        An op takes as long as its memory traffic at 1.8 TB/s times a factor drawn from 1 (three
        times as often), 2, 4, 8, 16 and 32, and twice that backward unless the factor is 1. One
        op in eight has a workspace of up to the size of its output, one in sixteen is not
        recomputable. Tensors of at least 1 MiB are swappable, gradients are not.

    Raises
    ------
    InputError
        For an unknown kind and settings out of range.
    """
    if kind not in get_args(Kind):
        raise InputError(f"kind {kind!r}: must be one of {', '.join(get_args(Kind))}")
    _whole("seed", seed, 0, MAX_SEED)
    _whole("num_forward_ops", num_forward_ops, 1, MAX_FORWARD_OPS)
    _whole("width", width, 1, MAX_FORWARD_OPS)
    _whole("min_bytes", min_bytes, _ROUND_BYTES, 2**40)
    _whole("max_bytes", max_bytes, min_bytes, 2**40)
    draws = _Draws(SplitMix64(seed), min_bytes, max_bytes)
    if kind == "layered":
        _layered(draws, num_forward_ops, width)
    else:
        _series_parallel(draws, num_forward_ops, "batch", "part")
    settings = {
        "kind": kind,
        "seed": seed,
        "num_forward_ops": num_forward_ops,
        "min_bytes": min_bytes,
        "max_bytes": max_bytes,
    } | ({"width": width} if kind == "layered" else {})
    ops = draws.step()
    return Graph(
        name=name or f"random-{kind}-{seed}",
        ops=tuple(ops),
        tensors=tuple(draws.tensors.values()),
        provenance={"generator": "slackopt.profiles.random_graph", "settings": settings},
    )


class _Draws:
    """Draws ops one by one; then adds the loss and the backward ops."""

    def __init__(self, rng: SplitMix64, min_bytes: int, max_bytes: int) -> None:
        self.rng = rng
        self.min_bytes, self.max_bytes = min_bytes, max_bytes
        self.tensors: dict[str, Tensor] = {}
        self.forward: list[_ForwardOp] = []
        self.tensor("batch", self._size(), "input")

    def tensor(self, name: str, size_bytes: int, kind: str) -> str:
        swappable = kind != GRADIENT and size_bytes >= SWAP_THRESHOLD_BYTES
        self.tensors[name] = Tensor(
            name=name, size_bytes=size_bytes, kind=kind, swappable=swappable
        )
        return name

    def _size(self) -> int:
        """Log-uniform in the range: a power of two first, then a place between it and the next."""
        low, high = self.min_bytes.bit_length() - 1, self.max_bytes.bit_length() - 1
        base = 1 << (low + self.rng.below(max(1, high - low)))
        size = base + self.rng.below(base)
        size = min(self.max_bytes, max(self.min_bytes, size))
        return max(_ROUND_BYTES, size // _ROUND_BYTES * _ROUND_BYTES)

    def op(self, inputs: Sequence[str], layer: str) -> str:
        """Draw a forward op that reads `inputs`; return its main output."""
        rng, index = self.rng, len(self.forward)
        size = self._size()
        outputs = [self.tensor(f"t{index}", size, "activation")]
        if rng.chance(8):
            outputs.append(self.tensor(f"t{index}.mask", max(_ROUND_BYTES, size // 4), "mask"))
        intensity = _INTENSITIES[rng.below(len(_INTENSITIES))]
        saves_inputs, saves_outputs = _SAVES[rng.below(len(_SAVES))]
        self.forward.append(
            _ForwardOp(
                inputs=tuple(dict.fromkeys(inputs)),
                outputs=tuple(outputs),
                saves_inputs=saves_inputs,
                saves_outputs=saves_outputs,
                duration_ns=self._time([*inputs, *outputs], intensity),
                workspace_bytes=rng.below(size) if rng.chance(8) else 0,
                recomputable=not rng.chance(16),
                layer=layer,
            )
        )
        return outputs[0]

    def _time(self, names: Sequence[str], intensity: int) -> int:
        moved = sum(self.tensors[name].size_bytes for name in names)
        return moved * 1_000 * intensity // _BYTES_PER_US + _LAUNCH_NS

    def step(self) -> list[Op]:
        """Return all ops: those drawn, the loss, and the backward ops in reverse."""
        ops = [
            Op(
                name=f"op {i}",
                phase="forward",
                duration_ns=op.duration_ns,
                inputs=op.inputs,
                outputs=op.outputs,
                workspace_bytes=op.workspace_bytes,
                recomputable=op.recomputable,
                layer=op.layer,
            )
            for i, op in enumerate(self.forward)
        ]
        read = {name for op in self.forward for name in op.inputs}
        ends = tuple(op.outputs[0] for op in self.forward if op.outputs[0] not in read)
        loss = self.tensor("loss", _ROUND_BYTES, "loss")
        ops.append(
            Op(
                name="loss",
                phase="forward",
                duration_ns=self._time(ends, 1),
                inputs=ends,
                outputs=(loss,),
                layer="loss",
            )
        )
        grads: dict[str, str] = {}
        ops.append(self._backward("loss.backward", "loss", (loss,), ends, 1, grads))
        for i, op in reversed(list(enumerate(self.forward))):
            saved = [
                *(op.inputs if op.saves_inputs else ()),
                *(op.outputs if op.saves_outputs else op.outputs[1:]),
            ]
            reads = (grads[op.outputs[0]], *saved)
            # Element-wise ops do in reverse about what they did forward; products do it twice.
            traffic = self._time([*op.inputs, *op.outputs], 1)
            factor = 1 if op.duration_ns <= traffic else 2
            wanted = tuple(name for name in op.inputs if name != "batch")
            ops.append(
                self._backward(
                    f"op {i}.backward", op.layer, reads, wanted, factor * op.duration_ns, grads
                )
            )
        return ops

    def _backward(
        self,
        name: str,
        layer: str,
        reads: tuple[str, ...],
        wanted: tuple[str, ...],
        duration_ns: int,
        grads: dict[str, str],
    ) -> Op:
        """Make a backward op that reads `reads` and adds to the gradients of `wanted`."""
        inputs = [*reads, *(grads[source] for source in wanted if source in grads)]
        made = []
        for source in wanted:
            number = "" if source not in grads else f"{grads[source].removeprefix(source)}+"
            grad = f"{source}{number or '.grad'}"
            grads[source] = self.tensor(grad, self.tensors[source].size_bytes, GRADIENT)
            made.append(grads[source])
        moved = self._time([*inputs, *made], 1)
        return Op(
            name=name,
            phase="backward",
            duration_ns=max(duration_ns, moved),
            inputs=tuple(dict.fromkeys(inputs)),
            outputs=tuple(made),
            recomputable=False,
            layer=layer,
        )


def _layered(draws: _Draws, num_ops: int, width: int) -> None:
    rng = draws.rng
    before, earlier = ["batch"], ["batch"]
    for first in range(0, num_ops, width):
        layer = []
        for _ in range(first, min(num_ops, first + width)):
            inputs = [
                earlier[rng.below(len(earlier))]
                if rng.chance(8)
                else before[rng.below(len(before))]
                for _ in range(1 + rng.below(3))
            ]
            layer.append(draws.op(inputs, f"layer {first // width}"))
        earlier += layer
        before = layer


def _series_parallel(draws: _Draws, num_ops: int, source: str, layer: str) -> str:
    """Append `num_ops` ops that begin at tensor `source`; return the tensor they end at."""
    rng = draws.rng
    if num_ops == 1:
        return draws.op([source], layer)
    if num_ops >= 5 and rng.chance(3):
        branches = 2 + rng.below(2)
        left = num_ops - 1
        ends = []
        for branch in range(branches, 0, -1):
            most = left - (branch - 1)
            size = most if branch == 1 else 1 + rng.below(most)
            left -= size
            ends.append(_series_parallel(draws, size, source, layer))
        return draws.op(ends, layer)
    half = 1 + rng.below(num_ops - 1)
    middle = _series_parallel(draws, half, source, layer)
    return _series_parallel(draws, num_ops - half, middle, layer)


def _whole(field: str, value: object, least: int, most: int) -> None:
    if type(value) is not int or not least <= value <= most:
        raise InputError(f"{field} {value!r}: must be a whole number from {least} to {most}")
