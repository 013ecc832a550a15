"""Random steps: the generator's stream, structure, settings, errors."""

import hashlib
from typing import Any

import pytest

from slackopt.errors import InputError
from slackopt.graph import Graph
from slackopt.lifetimes import ABSENT
from slackopt.profiles import random_graph
from slackopt.profiles.builder import SWAP_THRESHOLD_BYTES
from slackopt.profiles.random_graphs import SplitMix64

KINDS = ("layered", "series-parallel")


def test_stream_of_the_generator() -> None:
    # The five first numbers from seed 1234567, as Rosetta Code lists them for SplitMix64.
    numbers = SplitMix64(1234567)
    assert [numbers.next() for _ in range(5)] == [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
        4593380528125082431,
        16408922859458223821,
    ]


def test_numbers_below_a_bound_are_spread_evenly() -> None:
    numbers = SplitMix64(5)
    counts = [0] * 7
    for _ in range(70_000):
        counts[numbers.below(7)] += 1
    assert sum(counts) == 70_000
    assert all(9_500 < count < 10_500 for count in counts)  # five standard deviations


def test_the_same_settings_give_the_same_bytes() -> None:
    # Recorded once: the same on every platform and for every version of Python.
    texts = [random_graph(kind, seed=7, num_forward_ops=30).model_dump_json() for kind in KINDS]
    hashes = [hashlib.sha256(text.encode()).hexdigest()[:16] for text in texts]
    assert hashes == ["78f8dca723fd6cf9", "1347fa843ae6fc5e"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("num_ops", [1, 2, 5, 37, 200])
@pytest.mark.parametrize("seed", [0, 1, 2**64 - 1])
def test_structure(kind: Any, num_ops: int, seed: int) -> None:
    graph = random_graph(kind, seed=seed, num_forward_ops=num_ops, min_bytes=2**16)
    life = graph.lifetimes
    assert life.num_forward == num_ops + 1
    assert life.num_ops == 2 * (num_ops + 1)
    names = [op.name for op in graph.ops]
    forward, backward = names[: num_ops + 1], names[num_ops + 1 :]
    assert backward == [f"{name}.backward" for name in reversed(forward)]
    for t, tensor in enumerate(graph.tensors):
        assert (
            2**16 <= tensor.size_bytes <= 2**28
            or tensor.kind in ("mask", "loss")
            or (tensor.name == "loss.grad")
        )
        assert (life.producer[t] == ABSENT) == (tensor.kind == "input")
        if tensor.kind == "gradient":
            assert not tensor.swappable
            assert life.last_backward_use[t] > life.producer[t] >= life.num_forward
        else:
            assert tensor.swappable == (tensor.size_bytes >= SWAP_THRESHOLD_BYTES)
        if tensor.kind in ("activation", "input"):
            assert life.last_forward_use[t] > life.producer[t]  # nothing is made in vain
    assert not any(op.recomputable for op in graph.ops[num_ops + 1 :])


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_are_as_large_as_their_tensors(kind: Any) -> None:
    graph = random_graph(kind, seed=3, num_forward_ops=60)
    sizes = {tensor.name: tensor.size_bytes for tensor in graph.tensors}
    grads = {name: size for name, size in sizes.items() if ".grad" in name}
    assert len(grads) >= 60
    assert all(size == sizes[name.partition(".grad")[0]] for name, size in grads.items())


def test_layers_read_the_layer_before_or_skip() -> None:
    graph = random_graph("layered", seed=11, num_forward_ops=120, width=6)
    layer = {name: int(op.layer.split()[1]) for op in graph.ops[:120] for name in op.outputs}
    layer["batch"] = -1
    steps = [layer[op.outputs[0]] - layer[name] for op in graph.ops[:120] for name in op.inputs]
    assert min(steps) == 1
    skips = sum(step > 1 for step in steps)
    assert 0.04 < skips / len(steps) < 0.25  # one in eight, of 200 to 300 edges


def test_series_parallel_graphs_reduce_to_one_edge() -> None:
    # Valdes, Tarjan and Lawler 1982: series and parallel reductions leave a single edge.
    graph = random_graph("series-parallel", seed=4, num_forward_ops=80)
    edges = _edges(graph)
    changed = True
    while changed:
        changed = False
        edges = list(dict.fromkeys(edges))  # parallel reduction
        for node in {a for a, _ in edges} & {b for _, b in edges}:
            into = [edge for edge in edges if edge[1] == node]
            out = [edge for edge in edges if edge[0] == node]
            if len(into) == len(out) == 1:  # series reduction
                edges = [edge for edge in edges if node not in edge] + [(into[0][0], out[0][1])]
                changed = True
                break
    assert len(edges) == 1
    layered = _edges(random_graph("layered", seed=4, num_forward_ops=80))
    assert len(layered) > len(set(_edges(graph)))


def _edges(graph: Graph) -> list[tuple[str, str]]:
    maker = {name: op.name for op in graph.ops for name in op.outputs}
    forward = [op for op in graph.ops if op.phase == "forward"]
    return [(maker.get(name, "batch"), op.name) for op in forward for name in op.inputs]


def test_seeds_give_different_graphs() -> None:
    assert random_graph("layered", seed=1).ops != random_graph("layered", seed=2).ops


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"kind": "tree"}, r"kind 'tree': must be one of layered, series-parallel"),
        ({"seed": -1}, r"seed -1: must be a whole number from 0 to 18446744073709551615"),
        ({"seed": 2**64}, r"seed 18446744073709551616: must be"),
        ({"seed": 1.0}, r"seed 1\.0: must be a whole number"),
        ({"num_forward_ops": 0}, r"num_forward_ops 0: must be a whole number from 1"),
        ({"width": 0}, r"width 0: must be a whole number from 1"),
        ({"min_bytes": 100}, r"min_bytes 100"),
        ({"min_bytes": 2**20, "max_bytes": 2**19}, r"max_bytes 524288: .* from 1048576"),
    ],
)
def test_bad_settings(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        random_graph(**{"kind": "layered", "seed": 1, **settings})
