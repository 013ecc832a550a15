"""vdnn, largest-first-offload and teraio: what they swap, and in which order."""

from __future__ import annotations

import pytest
from handmade import chain, checked, decided, instance, link, step

from slackopt import InputError, profiles
from slackopt.heuristics import NoPlanError, heuristics


def test_vdnn_swaps_every_input_of_a_forward_op() -> None:
    ops = [
        ("f0", "f", 10, ["batch"], ["a0", "mask"]),
        ("f1", "f", 10, ["a0"], ["a1"]),
        ("f2", "f", 10, ["a1"], ["a2"]),
        ("b2", "b", 10, ["a2"], []),
        ("b1", "b", 10, ["a1"], []),
        ("b0", "b", 10, ["a0", "mask", "batch"], []),
    ]
    graph = step(ops, dict.fromkeys(("batch", "a0", "mask", "a1", "a2"), 10))
    question = instance(graph, 1.0)
    plan = heuristics()["vdnn"](question)
    # a2 is never idle, and no forward op reads the mask.
    assert decided(plan, "swap") == {"batch", "a0", "a1"}
    assert "mask" not in plan.decisions


def test_vdnn_prefetches_one_need_ahead() -> None:
    question = instance(chain([10] * 6), 1.0)
    plan = heuristics()["vdnn"](question)
    graph = question.graph
    needs = {f"a{k}": f"b{k + 1}" for k in range(5)}
    for name, trigger in plan.prefetch.items():
        k = int(name[1:])
        if f"a{k + 1}" in plan.prefetch:
            assert graph.ops[trigger].name == needs[f"a{k + 1}"]
    assert not heuristics()["vdnn"](question, prefetch="early").prefetch


def test_vdnn_by_label_swaps_layer_inputs_only() -> None:
    graph = profiles.transformer("llama-7b", batch=1, seq=256, num_layers=3)
    plan = heuristics()["vdnn"](instance(graph, 1.0), layers="label")
    assert decided(plan, "swap") == {
        "embedding/lookup.out", "layer 0/mlp/residual.out", "layer 1/mlp/residual.out",
    }  # fmt: skip
    with pytest.raises(NoPlanError, match="label"):
        heuristics()["vdnn"](instance(chain([10] * 4), 1.0), layers="label")


def test_largest_first() -> None:
    question = instance(chain([10, 80, 30, 80, 50, 10, 10]), 1.0)
    rule = heuristics()["largest-first-offload"]
    assert decided(rule(question, max_bytes=200, min_bytes=0), "swap") == {"a1", "a3", "a2", "a0"}
    assert decided(rule(question, max_bytes=210, min_bytes=40), "swap") == {"a1", "a3", "a4"}
    # What doesn't fit under the cap is passed over; a5 is never idle.
    assert decided(rule(question, max_bytes=100, min_bytes=0), "swap") == {"a1", "a0"}
    assert not rule(question).decisions
    with pytest.raises(InputError, match="max_bytes is -1"):
        rule(question, max_bytes=-1)
    with pytest.raises(NoPlanError):
        rule(instance(question.graph, 0.7), max_bytes=0)


def test_largest_first_takes_the_fewest_that_run() -> None:
    question = instance(chain([10, 80, 30, 80, 50, 10, 10]), 0.75)
    plan = heuristics()["largest-first-offload"](question, min_bytes=0)
    assert decided(plan, "swap") == {"a1"}
    checked(question, plan)


def test_teraio_prefers_the_swap_that_frees_more_for_longer() -> None:
    # All equal but for their idle time: the one made first is away for longest.
    graph = chain([100] * 8)
    question = instance(graph, graph.unlimited_peak_bytes - 100, link(100))
    assert decided(heuristics()["teraio"](question), "swap") == {"a0"}


def test_teraio_reserves_the_link() -> None:
    # The link moves two activations while the forward pass runs: the others are recomputed.
    graph = chain([100] * 8)
    question = instance(graph, 0.5, link(2.5))
    plan = heuristics()["teraio"](question)
    assert decided(plan, "swap")
    assert decided(plan, "recompute")
    only_swaps = heuristics()["teraio"](question, recompute=False)
    assert not decided(only_swaps, "recompute")
    assert len(decided(only_swaps, "swap")) > len(decided(plan, "swap"))
    assert checked(question, plan).stall_ns() < checked(question, only_swaps).stall_ns()


def test_teraio_hides_all_on_a_fast_link() -> None:
    question = instance(chain([100] * 8), 0.6, link(100))
    for prefetch in ("early", "late"):
        plan = heuristics()["teraio"](question, prefetch=prefetch)
        assert checked(question, plan).makespan_ns == question.ideal_ns
        assert bool(plan.prefetch) == (prefetch == "late")


def test_swap_all_collapses_where_the_link_cannot_hide_it() -> None:
    graph = chain([100] * 10)
    fast, slow = (instance(graph, 0.6, link(rate)) for rate in (1000, 0.5))
    ratios = [
        checked(question, heuristics()["swap-all"](question)).throughput_ratio
        for question in (fast, slow)
    ]
    assert None not in ratios
    assert ratios[0] > 0.99
    assert ratios[1] < 0.3
    best = checked(slow, heuristics()["teraio"](slow)).throughput_ratio
    assert best is not None
    assert best > 2 * ratios[1]
