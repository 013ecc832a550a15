"""Attention found by structure; selective and memo, which need it."""

from __future__ import annotations

import pytest
from handmade import chain, decided, instance, link, step

from slackopt import InputError, profiles
from slackopt.graph import Graph
from slackopt.heuristics import NoPlanError, heuristics
from slackopt.heuristics.common.attention import attentions


def names(graph: Graph) -> list[tuple[list[str], str]]:
    question = instance(graph, 1.0)
    return [
        ([graph.ops[k].name for k in a.inner_ops], graph.ops[a.output_op].name)
        for a in attentions(question)
    ]


@pytest.mark.parametrize("preset", profiles.preset_names())
@pytest.mark.parametrize("attention", ["eager", "flash"])
def test_attention_of_the_presets(preset: str, attention: str) -> None:
    settings = profiles.get_preset(preset)
    sizes = {} if preset.startswith("vit") else {"seq": 64}
    graph = profiles.transformer(preset, batch=1, num_layers=2, attention=attention, **sizes)
    inner = ["scores", "softmax", *(["softmax-dropout"] if settings.dropout else [])]
    found = names(graph)
    where = [output.rpartition("/")[0] for _, output in found]
    if preset in ("bart-large", "t5-large"):
        parts = [f"encoder layer {i}/attention" for i in range(2)]
        for i in range(2):
            parts.append(f"decoder layer {i}/attention")
            if attention == "eager":  # fused, its tensors come from two sources: not found
                parts.append(f"decoder layer {i}/cross-attention")
    else:
        parts = [f"layer {i}/attention" for i in range(2)]
    assert where == parts
    for part, (ops, output) in zip(parts, found, strict=True):
        assert ops == ([f"{part}/{op}" for op in inner] if attention == "eager" else [])
        assert output == f"{part}/{'context' if attention == 'eager' else 'flash'}"


def attention_ops(*, mask: bool = False, scale: bool = False) -> list:
    """Ops of an attention with three projections; its names say nothing."""
    return [
        ("o1", "f", 1, ["x"], ["q"]),
        ("o2", "f", 1, ["x"], ["k"]),
        ("o3", "f", 1, ["x"], ["v"]),
        ("o4", "f", 4, ["q", "k"], ["s"]),
        *([("o5", "f", 1, ["s"], ["s2"])] if scale else []),
        ("o6", "f", 1, ["s2" if scale else "s", *(["m"] if mask else [])], ["p"]),
        ("o7", "f", 4, ["p", "v"], ["c"]),
        ("o8", "f", 1, ["c"], ["y"]),
        ("b8", "b", 1, ["c"], []),
        ("b7", "b", 1, ["p", "v"], []),
        ("b6", "b", 1, ["p"], []),
        ("b4", "b", 1, ["q", "k"], []),
        ("b3", "b", 1, ["x"], []),
    ]


SIZES = {"x": 4, "q": 4, "k": 4, "v": 4, "s": 50, "p": 50, "c": 4, "y": 4}


@pytest.mark.parametrize("scale", [False, True])
@pytest.mark.parametrize("mask", [False, True])
def test_attention_needs_no_names_and_no_labels(mask: bool, scale: bool) -> None:
    sizes = SIZES | ({"m": 9} if mask else {}) | ({"s2": 50} if scale else {})
    ops = [("o0", "f", 1, ["batch"], ["x"]), *attention_ops(mask=mask, scale=scale)]
    graph = step(ops, sizes | {"batch": 1})
    assert names(graph) == [(["o4", *(["o5"] if scale else []), "o6"], "o7")]
    plan = heuristics()["selective"](instance(graph, 1.0))
    assert decided(plan, "recompute") == {"s", "p", *(["s2"] if scale else [])}


def test_cross_attention() -> None:
    ops = attention_ops()
    ops[1] = ("o2", "f", 1, ["e"], ["k"])
    ops[2] = ("o3", "f", 1, ["e"], ["v"])
    ops = [("o0", "f", 1, [], ["x"]), ("e0", "f", 1, [], ["e"]), *ops]
    assert names(step(ops, SIZES | {"e": 4})) == [(["o4", "o6"], "o7")]


def test_a_gated_mlp_with_a_residual_is_no_attention() -> None:
    ops = [
        ("o0", "f", 1, [], ["x"]),
        ("norm", "f", 1, ["x"], ["n"]),
        ("gate", "f", 1, ["n"], ["g"]),
        ("up", "f", 1, ["n"], ["u"]),
        ("mul", "f", 1, ["g", "u"], ["i"]),
        ("down", "f", 1, ["i"], ["d"]),
        ("add", "f", 1, ["x", "d"], ["y"]),
        ("b", "b", 1, ["x", "n", "g", "u", "i"], []),
    ]
    graph = step(ops, dict.fromkeys("xnguidy", 4))
    assert names(graph) == []
    with pytest.raises(NoPlanError, match="no attention"):
        heuristics()["selective"](instance(graph, 1.0))


def test_selective_keeps_what_the_scores_are_made_from() -> None:
    graph = profiles.transformer("gpt2-xl", batch=1, seq=256, num_layers=2, attention="eager")
    plan = heuristics()["selective"](instance(graph, 1.0))
    assert decided(plan, "recompute") == {
        f"layer {i}/attention/{name}"
        for i in range(2)
        for name in ("scores.out", "softmax.out", "softmax-dropout.out", "softmax-dropout.mask")
    }


def test_memo_swaps_layer_inputs_and_attention_outputs() -> None:
    graph = profiles.transformer("llama-7b", batch=1, seq=512, num_layers=6)
    slow = instance(graph, 0.9, link(0.001))
    plan = heuristics()["memo"](slow)
    # A link that hides nothing: only what is always swapped; all else of four layers is rebuilt.
    assert decided(plan, "swap") == {
        *(f"layer {i}/mlp/residual.out" for i in range(3)),
        "embedding/lookup.out",
        *(f"layer {i}/attention/flash.out" for i in range(4)),
    }
    assert "layer 3/mlp/silu-mul.out" in decided(plan, "recompute")
    assert not any(name.startswith(("layer 4", "layer 5", "head")) for name in plan.decisions)


def test_memo_swaps_more_on_a_faster_link_and_all_on_a_fast_one() -> None:
    graph = profiles.transformer("llama-7b", batch=1, seq=512, num_layers=6)
    shares = [
        len(decided(heuristics()["memo"](instance(graph, 0.9, link(rate))), "recompute"))
        for rate in (0.001, 25, 10_000)
    ]
    assert shares[0] > shares[1] > shares[2] == 0


def test_memo_respects_host_memory() -> None:
    graph = profiles.transformer("llama-7b", batch=1, seq=512, num_layers=6)
    fast = instance(graph, 0.9, link(10_000))
    swapped = sum(
        graph.tensors[graph.tensor_index[name]].size_bytes
        for name in decided(heuristics()["memo"](fast), "swap")
    )
    tight = instance(graph, 0.9, link(10_000, host_memory_bytes=swapped // 2))
    plan = heuristics()["memo"](tight)
    sizes = [graph.tensors[graph.tensor_index[name]].size_bytes for name in decided(plan, "swap")]
    assert 0 < sum(sizes) <= swapped // 2


def test_memo_needs_labels_and_attention() -> None:
    with pytest.raises(NoPlanError, match="no forward op has a layer label"):
        heuristics()["memo"](instance(chain([10] * 4), 1.0))
    with pytest.raises(NoPlanError, match="no attention"):
        heuristics()["memo"](instance(chain([10] * 4, labels=True), 1.0))
    with pytest.raises(InputError, match="keep_last is -1"):
        heuristics()["memo"](instance(chain([10] * 4, labels=True), 1.0), keep_last=-1)
