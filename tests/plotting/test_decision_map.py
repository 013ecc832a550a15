"""The decision map: every decision in its row and column."""

import random
from collections import Counter

import matplotlib.pyplot as plt
import numpy as np
import pytest
from figure_samples import one_op_instance, rule_result, transformer_instance
from random_steps import random_instance, random_plan

import slackopt as so
from slackopt.errors import InputError
from slackopt.plotting import plot_decision_map, style
from slackopt.plotting.decision_map import decision_map


def test_every_decision_stands_where_its_layer_and_role_meet() -> None:
    instance, plan = transformer_instance(), rule_result().plan
    assert plan is not None
    found = decision_map(instance, plan)
    assert found.layers == ("embedding", *(f"layer {i}" for i in range(4)), "head", "loss")
    life, index = instance.lifetimes, instance.graph.tensor_index
    named = 0
    for (row, column), decision in found.cells.items():
        label, role = found.layers[column], found.roles[row]
        name = f"{label}/{role}" if label.startswith("layer") else role
        assert decision == plan.decisions.get(name, "keep")
        assert found.sizes_bytes[row] == life.sizes_bytes[index[name]]
        named += 1
    assert named == len(found.cells)
    shown = Counter(found.cells.values())
    given = Counter(plan.decisions.values())
    assert (shown["swap"], shown["recompute"]) == (given["swap"], given["recompute"])
    evictable = {t for t in life.candidates if life.swappable[t] or life.can_recompute(t)}
    moved = {index[n] for n, decision in plan.decisions.items() if decision != "keep"}
    assert sum(shown.values()) == len(evictable | moved)


def test_boxes_are_drawn_by_decision() -> None:
    instance, result = transformer_instance(), rule_result()
    assert result.plan is not None
    found = decision_map(instance, result.plan)
    ax = plot_decision_map(instance, result)
    for area in ax.collections:
        drawn = {
            (round((box.y0 + box.y1) / 2), round((box.x0 + box.x1) / 2))
            for box in (path.get_extents() for path in area.get_paths())
        }
        label = str(area.get_label())
        assert drawn == {place for place, decision in found.cells.items() if decision == label}
    assert [text.get_text() for text in ax.get_yticklabels()] == list(found.roles)
    assert [text.get_text() for text in ax.get_xticklabels()] == ["0", "1", "2", "3"]


def test_a_graph_without_layers_has_its_forward_ops_as_columns() -> None:
    rng = random.Random(5)
    drawn = 0
    while drawn < 20:
        instance = random_instance(rng)
        plan = random_plan(rng, instance)
        found = decision_map(instance, plan)
        if not found.cells:
            continue
        assert found.layers == ()
        given = Counter(plan.decisions.values())
        shown = Counter(found.cells.values())
        assert (shown["swap"], shown["recompute"]) == (given["swap"], given["recompute"])
        ax = plot_decision_map(instance, plan)
        assert ax.get_xlabel() == "op that makes the tensor (index)"
        left, right = ax.get_xlim()
        assert all(left < column < right for _, column in found.cells)
        plt.close("all")
        drawn += 1


def layered(names: tuple[str, ...], layers: tuple[str, ...]) -> tuple[so.Instance, so.Plan]:
    """Return one forward op and tensor a name, read by backward ops in reverse."""
    forward = [
        so.Op(name=f"f{i}", phase="forward", duration_ns=5, outputs=(name,), layer=layer)
        for i, (name, layer) in enumerate(zip(names, layers, strict=True))
    ]
    backward = [
        so.Op(name=f"b{i}", phase="backward", duration_ns=5, inputs=(name,))
        for i, name in reversed(list(enumerate(names)))
    ]
    graph = so.Graph(
        name="layered",
        ops=(*forward, so.Op(name="loss", phase="forward", duration_ns=5), *backward),
        tensors=tuple(so.Tensor(name=name, size_bytes=2**20) for name in names),
    )
    instance = so.Instance.from_graph(graph, device="a100-pcie4", budget=10 * 2**20)
    return instance, so.Plan.for_instance(instance, {names[0]: "recompute"})


def test_numbered_names_meet_in_one_row() -> None:
    """Names of a traced graph count through the model: add_1, add_2 in a layer, then add_3."""
    instance, plan = layered(("add_1", "add_2", "add_3", "add_4"), ("h.0", "h.0", "h.1", "h.1"))
    found = decision_map(instance, plan)
    assert found.roles == ("add_#", "add_# 2")
    assert found.layers == ("h.0", "h.1")
    assert found.cells == {(0, 0): "recompute", (1, 0): "keep", (0, 1): "keep", (1, 1): "keep"}


def test_the_label_may_stand_anywhere_in_a_name() -> None:
    instance, plan = layered(("m.h.0.out", "m.h.1.out"), ("h.0", "h.1"))
    assert decision_map(instance, plan).roles == ("m/out",)


def test_letters_shrink_to_fit_axes_that_are_too_low() -> None:
    with style("paper"):
        figure, ax = plt.subplots(figsize=(3.3, 1.2))
        plot_decision_map(transformer_instance(), rule_result(), ax, legend=False)
        figure.canvas.draw()
        boxes = sorted(
            (text.get_window_extent() for text in ax.get_yticklabels()), key=lambda box: box.y0
        )
        pitch = min(np.diff([(box.y0 + box.y1) / 2 for box in boxes]))
        size = ax.get_yticklabels()[0].get_fontsize() / 72 * figure.dpi
        assert size < 7 / 72 * figure.dpi
        assert size <= pitch, "a line is as high as its letters at least"


def test_what_can_not_be_drawn_is_refused() -> None:
    instance, result = transformer_instance(), rule_result()
    with pytest.raises(InputError, match="'slackswap' has no plan"):
        plot_decision_map(instance, result.model_copy(update={"plan": None}))
    other = one_op_instance()
    with pytest.raises(InputError, match="another instance"):
        plot_decision_map(other, result)
    with pytest.raises(InputError, match="nothing to decide"):
        plot_decision_map(other, so.Plan.for_instance(other, {}))
    assert plt.get_fignums() == []
