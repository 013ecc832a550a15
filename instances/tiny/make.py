"""Write the instances of this folder, or check that they are what this script writes.

Usage: ``python instances/tiny/make.py [--check] [--only TEXT]``
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from slackopt.device import Device
from slackopt.graph import Graph, Op, Tensor
from slackopt.library.making import Between, Recipe, main
from slackopt.profiles import random_graph
from slackopt.profiles.devices import get_device
from slackopt.profiles.random_graphs import Kind

FOLDER = Path(__file__).resolve().parent
MIB = 2**20


@dataclass(frozen=True)
class Layer:
    """One forward op with one output, and what its backward op does.

    Attributes
    ----------
    inputs
        Positions of the layers whose outputs it reads; empty for the batch.
    size_mib, forward_us
        Size of its output, time of the op; the backward op takes twice as long.
    saves
        Whether its backward op reads its ``inputs``, its ``output`` or ``nothing``.
    workspace_mib, recomputable, swappable
        Of the op, of the op, and of its output.
    """

    inputs: tuple[int, ...]
    size_mib: int
    forward_us: int
    saves: str = "inputs"
    workspace_mib: int = 0
    recomputable: bool = True
    swappable: bool = True


def step(name: str, layers: Sequence[Layer]) -> Graph:
    """Make the step of `layers`: forward in order, backward in reverse, gradients added up."""
    sizes = [layer.size_mib * MIB for layer in layers]
    tensors = {"batch": Tensor(name="batch", size_bytes=MIB, kind="input", swappable=False)}
    ops = []
    for i, layer in enumerate(layers):
        tensors[f"a{i}"] = Tensor(name=f"a{i}", size_bytes=sizes[i], swappable=layer.swappable)
        ops.append(
            Op(
                name=f"f{i}",
                phase="forward",
                duration_ns=layer.forward_us * 1_000,
                inputs=tuple(f"a{j}" for j in layer.inputs) or ("batch",),
                outputs=(f"a{i}",),
                workspace_bytes=layer.workspace_mib * MIB,
                recomputable=layer.recomputable,
                layer=f"layer {i}",
            )
        )
    grads: dict[int, str] = {}
    for i, layer in reversed(list(enumerate(layers))):
        saved = {
            "inputs": [f"a{j}" for j in layer.inputs] or ["batch"],
            "output": [f"a{i}"],
            "nothing": [],
        }[layer.saves]
        # The last layer is the loss: nothing comes before its backward op.
        reads = [*([grads[i]] if i in grads else []), *saved]
        reads += [grads[j] for j in layer.inputs if j in grads]
        made = []
        for j in layer.inputs:
            grads[j] = f"g{j}" if j not in grads else f"{grads[j]}+"
            tensors[grads[j]] = Tensor(
                name=grads[j], size_bytes=sizes[j], kind="gradient", swappable=False
            )
            made.append(grads[j])
        ops.append(
            Op(
                name=f"b{i}",
                phase="backward",
                duration_ns=2 * layer.forward_us * 1_000,
                inputs=tuple(reads),
                outputs=tuple(made),
                workspace_bytes=layer.workspace_mib * MIB,
                recomputable=False,
                layer=f"layer {i}",
            )
        )
    return Graph(
        name=name,
        ops=tuple(ops),
        tensors=tuple(tensors.values()),
        provenance={"generator": "instances/tiny/make.py"},
    )


def chain(sizes_mib: Sequence[int], times_us: Sequence[int]) -> list[Layer]:
    """Layers in a row, each of which reads the one before."""
    return [
        Layer((i - 1,) if i else (), size, time)
        for i, (size, time) in enumerate(zip(sizes_mib, times_us, strict=True))
    ]


EQUAL = chain([100] * 10, [5_000] * 10)
FAST = chain([100] * 10, [700] * 10)
MIXED = chain(
    [64, 160, 48, 96, 192, 32, 128, 80, 112, 16],
    [1_500, 400, 6_000, 900, 2_500, 8_000, 700, 3_000, 1_200, 500],
)
FRONT = chain([512, 384, 256, 192, 128, 96, 64, 48, 32, 16], [4_000] * 10)
BACK = chain([16, 32, 48, 64, 96, 128, 192, 256, 384, 8], [4_000] * 10)
UNET = [
    Layer((), 256, 3_000),
    Layer((0,), 192, 3_000),
    Layer((1,), 128, 3_000),
    Layer((2,), 64, 3_000),
    Layer((3,), 64, 3_000),
    Layer((4, 2), 128, 3_000),
    Layer((5, 1), 192, 3_000),
    Layer((6, 0), 256, 3_000),
    Layer((7,), 8, 1_000),
]
# The sums save nothing: a rerun of what comes behind one needs it, or its two parts.
RESIDUAL = [
    Layer((), 96, 2_000),
    Layer((0,), 128, 4_000),
    Layer((0, 1), 96, 300, "nothing"),
    Layer((2,), 128, 4_000),
    Layer((2, 3), 96, 300, "nothing"),
    Layer((4,), 128, 4_000),
    Layer((4, 5), 96, 300, "nothing"),
    Layer((6,), 128, 4_000),
    Layer((7,), 8, 500),
]
# Cheap activations between costly products.
ACTIVATIONS = [
    Layer((), 128, 5_000),
    *(
        layer
        for i in range(1, 9, 2)
        for layer in (
            Layer((i - 1,), 128, 250, "output"),
            Layer((i,), 128, 5_000, "inputs"),
        )
    ),
    Layer((8,), 8, 500),
]
BRANCHES = [
    Layer((), 128, 2_000),
    Layer((0,), 96, 3_000),
    Layer((0,), 160, 1_000),
    Layer((1,), 64, 5_000),
    Layer((2,), 128, 1_500),
    Layer((0,), 80, 2_500),
    Layer((3, 4, 5), 160, 1_000),
    Layer((6,), 96, 3_000),
    Layer((7,), 8, 500),
]
FIXED_OPS = [replace(layer, recomputable=i % 2 == 0) for i, layer in enumerate(MIXED)]
PINNED = [replace(layer, swappable=i % 3 != 0) for i, layer in enumerate(MIXED)]
NO_SWAP = [replace(layer, swappable=False) for layer in MIXED]
NO_RERUN = [replace(layer, recomputable=False) for layer in MIXED]
WORKSPACE = [replace(layer, workspace_mib=400 if i == 4 else 0) for i, layer in enumerate(EQUAL)]
SMALL = chain([4, 6, 3, 5, 8, 2, 7, 4, 6, 1], [300] * 10)

PCIE = get_device("a100-pcie4")
SLOW = PCIE.model_copy(
    update={
        "name": "slow",
        "d2h_bytes_per_s": 6 * 10**9,
        "h2d_bytes_per_s": 6 * 10**9,
        "source": "made up",
    }
)
SLOW_OUT = SLOW.model_copy(update={"name": "slow-out", "h2d_bytes_per_s": 24 * 10**9})
SLOW_IN = SLOW.model_copy(update={"name": "slow-in", "d2h_bytes_per_s": 24 * 10**9})
HALF_DUPLEX = PCIE.model_copy(
    update={
        "name": "half-duplex",
        "d2h_shared_bytes_per_s": 12_500_000_000,
        "h2d_shared_bytes_per_s": 12_500_000_000,
        "source": "made up: both directions share one bandwidth",
    }
)
LATENCY = PCIE.model_copy(
    update={"name": "high-latency", "latency_ns": 500_000, "source": "made up"}
)
HOST = PCIE.model_copy(
    update={"name": "small-host", "host_memory_bytes": 260 * MIB, "source": "made up"}
)
NO_HOST = PCIE.model_copy(
    update={"name": "no-host", "host_memory_bytes": MIB, "source": "made up: room for 1 MiB"}
)

# Name, layers, device, budget in percent of the way from working set to peak, what it shows.
HANDMADE: tuple[tuple[str, list[Layer], Device, int, str], ...] = (
    ("equal-hidden", EQUAL, PCIE, 50, "equal layers whose copies the compute hides"),
    ("equal-tight", EQUAL, PCIE, 5, "equal layers, hardly more than the working set"),
    ("equal-slow-link", EQUAL, SLOW, 40, "the link hides a part; rerun or wait for the rest"),
    ("fast-layers", FAST, PCIE, 40, "layers shorter than their copies: reruns"),
    ("mixed", MIXED, PCIE, 30, "unequal layers"),
    ("mixed-slow-link", MIXED, SLOW, 30, "unequal layers, slow link"),
    ("mixed-tight", MIXED, SLOW, 5, "unequal layers, slow link, little memory"),
    ("mixed-slow-out", MIXED, SLOW_OUT, 30, "swap-outs are the bottleneck"),
    ("mixed-slow-in", MIXED, SLOW_IN, 30, "swap-ins are the bottleneck"),
    ("mixed-half-duplex", MIXED, HALF_DUPLEX, 15, "copies slow each other down"),
    ("front-heavy", FRONT, PCIE, 20, "large early tensors, as in a CNN"),
    ("back-heavy", BACK, PCIE, 20, "large late tensors, needed soon after they are made"),
    ("unet", UNET, PCIE, 30, "skip connections: long lives and several readers"),
    ("unet-slow-link", UNET, SLOW, 40, "skip connections on a slow link"),
    ("residual", RESIDUAL, SLOW, 30, "sums without a backward use are sources of reruns"),
    ("residual-tight", RESIDUAL, SLOW, 5, "sums, little memory"),
    ("activations", ACTIVATIONS, SLOW, 30, "cheap reruns between costly ones"),
    ("branches", BRANCHES, SLOW, 30, "three branches and a join"),
    ("fixed-ops", FIXED_OPS, SLOW, 30, "every second op must not run twice"),
    ("pinned", PINNED, SLOW, 30, "every third tensor must not be swapped"),
    ("no-swap", NO_SWAP, PCIE, 40, "recompute only"),
    ("no-rerun", NO_RERUN, SLOW, 40, "swap only"),
    ("workspace", WORKSPACE, SLOW, 30, "one op with a large workspace sets the peak"),
    ("small-tensors", SMALL, PCIE, 30, "the latency counts"),
    ("small-tensors-latency", SMALL, LATENCY, 30, "the latency rules"),
    ("host-cap", EQUAL, HOST, 30, "the host holds two tensors at a time"),
)
INFEASIBLE: tuple[tuple[str, list[Layer], Device, int, str], ...] = (
    ("below-working-set-infeasible", MIXED, PCIE, -1, "one op alone does not fit"),
    (
        "no-host-no-rerun-infeasible",
        NO_RERUN,
        NO_HOST,
        90,
        "every op fits, but nothing can leave: no tensor may be rebuilt, and the host has no room",
    ),
    (
        "rerun-too-large-infeasible",
        NO_SWAP,
        PCIE,
        0,
        "every op fits, but a rerun needs its inputs beside what is there",
    ),
)
# Kind, seed, forward ops, device, budget in percent.
RANDOM: tuple[tuple[Kind, int, int, Device, int], ...] = (
    ("layered", 4, 7, PCIE, 40),
    ("layered", 8, 7, PCIE, 30),
    ("layered", 15, 6, SLOW, 40),
    ("layered", 17, 6, HALF_DUPLEX, 25),
    ("layered", 26, 6, PCIE, 15),
    ("series-parallel", 5, 8, PCIE, 35),
    ("series-parallel", 7, 8, PCIE, 25),
    ("series-parallel", 13, 8, SLOW, 35),
    ("series-parallel", 22, 8, HALF_DUPLEX, 20),
    ("series-parallel", 29, 8, PCIE, 20),
)


def recipes() -> list[Recipe]:
    """All instances of the family, in the order in which they are made."""
    made = []
    for name, layers, device, percent, note in (*HANDMADE, *INFEASIBLE):
        graph: Callable[[], Graph] = partial(step, name, layers)
        made.append(Recipe(name, graph, device, Between(percent), note=note))
    for kind, seed, num_ops, device, percent in RANDOM:
        graph = partial(
            random_graph,
            kind,
            seed=seed,
            num_forward_ops=num_ops,
            min_bytes=32 * MIB,
            max_bytes=256 * MIB,
            **({"width": 2} if kind == "layered" else {}),
        )
        name = f"{kind}-{num_ops}-{seed}-{device.name}"
        made.append(Recipe(name, graph, device, Between(percent), note="random"))
    return made


if __name__ == "__main__":
    sys.exit(main(FOLDER, recipes()))
