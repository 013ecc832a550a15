"""sqrt-n and layer-checkpoint."""

from __future__ import annotations

import pytest
from handmade import chain, checked, decided, instance, step

from slackopt import Graph, InputError, Instance, Plan, profiles, solve
from slackopt.heuristics import NoPlanError, heuristics
from slackopt.heuristics.sqrt_n import boundaries


def bytes_after_forward(question: Instance, plan: Plan) -> int:
    """Bytes on the device when the last forward op has ended."""
    timeline = checked(question, plan)
    end = next(
        job.end_ns for job in timeline.jobs if job.op_index == question.lifetimes.num_forward - 1
    )
    curve = timeline.memory
    return max(
        (time, held)
        for time, held in zip(curve.time_ns, curve.size_bytes, strict=True)
        if time <= end
    )[1]


def per_layer(graph_of: dict[int, Graph], rule: str) -> int:
    """Bytes that one layer more adds at the end of the forward pass."""
    held = [
        bytes_after_forward(question, heuristics()[rule](question))
        for question in (instance(graph_of[n], 1.0) for n in (3, 4))
    ]
    return held[1] - held[0]


@pytest.mark.parametrize(
    ("attention", "rule", "factor"),
    # Korthikanti et al. 2022 (arXiv 2205.05198), section 4 and 5, table 2.
    [
        ("eager", "layer-checkpoint", 2),
        ("flash", "layer-checkpoint", 2),
        ("eager", "selective", 34),
        ("flash", "selective", 34),
        ("flash", "keep-all", 34),
    ],
)
def test_activation_bytes_of_a_layer(attention: str, rule: str, factor: int) -> None:
    s, b, h = 128, 2, 1024
    graphs = {
        n: profiles.transformer("bert-large", batch=b, seq=s, attention=attention, num_layers=n)
        for n in (3, 4)
    }
    assert per_layer(graphs, rule) == factor * s * b * h


def test_eager_attention_keeps_the_scores_without_selective() -> None:
    s, b, h, a = 128, 2, 1024, 16
    graphs = {
        n: profiles.transformer("bert-large", batch=b, seq=s, attention="eager", num_layers=n)
        for n in (3, 4)
    }
    assert per_layer(graphs, "keep-all") == s * b * h * 34 + 5 * a * s * s * b


def test_selective_adds_less_time_than_layer_checkpoint() -> None:
    graph = profiles.transformer("bert-large", batch=4, attention="eager", num_layers=4)
    question = instance(graph, 0.9)
    makespans = [solve(question, name).makespan_ns for name in ("selective", "layer-checkpoint")]
    assert None not in makespans
    assert question.ideal_ns < makespans[0] < makespans[1]


def test_layer_checkpoint_keeps_what_crosses_layers() -> None:
    # Two ops a layer; the second reads what the first saves, and the layer's input.
    ops, sizes, labels = [], {}, {}
    source: list[str] = []
    for k in range(3):
        ops.append((f"in{k}", "f", 10, source, [f"h{k}"]))
        ops.append((f"out{k}", "f", 10, [f"h{k}"], [f"x{k}"]))
        source = [f"x{k}"]
        sizes |= {f"h{k}": 10, f"x{k}": 10}
    ops.append(("loss", "f", 1, source, ["loss"]))
    sizes["loss"] = 1
    for k in reversed(range(3)):
        ops.append((f"grad{k}", "b", 10, [f"h{k}", *([f"x{k - 1}"] if k else [])], []))
        labels |= {f"{name}{k}": f"blocks.{k}" for name in ("in", "out", "grad")}
    question = instance(step(ops, sizes, labels=labels), 1.0)
    plan = heuristics()["layer-checkpoint"](question)
    assert decided(plan, "recompute") == {"h0", "h1", "h2"}
    assert checked(question, plan).recompute_ns == 30
    pairs = heuristics()["layer-checkpoint"](question, num_layers=2)
    assert decided(pairs, "recompute") == {"h0", "x0", "h1", "h2"}


def test_layer_checkpoint_needs_labels() -> None:
    question = instance(chain([10] * 4), 1.0)
    with pytest.raises(NoPlanError, match="no forward op has a layer label"):
        heuristics()["layer-checkpoint"](question)
    with pytest.raises(InputError, match="num_layers is 0"):
        heuristics()["layer-checkpoint"](question, num_layers=0)


def test_layers_are_the_repeated_labels() -> None:
    graph = profiles.transformer("bert-large", batch=1, num_layers=2)
    plan = heuristics()["layer-checkpoint"](instance(graph, 1.0))
    assert all(name.startswith("layer ") for name in plan.decisions)


@pytest.mark.parametrize("n", [4, 9, 16])
def test_sqrt_n_keeps_every_sqrt_nth_activation_of_a_chain(n: int) -> None:
    # n + 1 ops have n boundaries; the last segment stays.
    graph = chain([10] * (n + 1))
    root = round(n**0.5)
    question = instance(graph, 1.0)
    plan = heuristics()["sqrt-n"](question)
    kept = {f"a{k}" for k in range(n + 1) if k % root == root - 1 or k >= n - 1}
    assert decided(plan, "recompute") == {f"a{k}" for k in range(n + 1)} - kept
    # Each dropped activation is rebuilt once: below the time of one more forward pass.
    assert checked(question, plan).recompute_ns == 10 * len(plan.decisions)


def test_sqrt_n_lowers_the_peak_to_the_order_of_sqrt_n() -> None:
    question = instance(chain([100] * 50), 1.0)
    peak = checked(question, heuristics()["sqrt-n"](question)).peak_bytes
    assert peak < 100 * 3 * 50**0.5 < question.graph.unlimited_peak_bytes


def test_boundaries_of_a_transformer_are_in_its_residual_stream() -> None:
    graph = profiles.transformer("bert-large", batch=1, num_layers=3)
    before = {graph.ops[k - 1].name for k in boundaries(graph.lifetimes)}
    assert {
        f"layer {i}/{part}/residual" for i in range(3) for part in ("attention", "mlp")
    } <= before
    assert not any(name.endswith(("qkv", "fc1", "flash")) for name in before)


def test_sqrt_n_every() -> None:
    question = instance(chain([10] * 5), 1.0)
    assert not heuristics()["sqrt-n"](question, every=1).decisions
    with pytest.raises(InputError, match="every is 0"):
        heuristics()["sqrt-n"](question, every=0)
