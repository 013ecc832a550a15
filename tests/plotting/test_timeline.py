"""Figures of a simulated step: every box and every byte of the timeline is in them."""

import subprocess
import sys

import matplotlib.pyplot as plt
import pytest
from figure_samples import one_op_instance, timelines
from matplotlib.collections import PolyCollection

import slackopt as so
from slackopt.plotting import COLUMN_WIDTH_IN, FULL_WIDTH_IN, plot_step, plot_timeline

LANE = {"swap-out": 1, "swap-in": 0}


def long_timeline() -> so.Timeline:
    """Return a timeline with more than 1,000 jobs, copies and reruns among them."""
    graph = so.profiles.transformer("gpt2-xl", batch=1, seq=512)
    instance = so.Instance.from_graph(graph, device="a100-pcie4", budget=0.5)
    plan = so.solve(instance, method="slackswap").plan
    assert plan is not None
    return so.simulate(instance, plan)


def expected_boxes(timeline: so.Timeline) -> dict[str, list[tuple[int, int]]]:
    """Return start and end in ns of every box, by label."""
    boxes: dict[str, list[tuple[int, int]]] = {}
    stop = timeline.makespan_ns
    if timeline.out_of_memory is not None:
        stop = timeline.out_of_memory.time_ns
    for job in timeline.jobs:
        phase = timeline.instance.graph.ops[job.op_index].phase
        label = "recompute" if job.rerun else phase
        boxes.setdefault(label, []).append((job.start_ns, job.end_ns))
    for stall in timeline.stalls:
        boxes.setdefault(f"waiting for {stall.cause}", []).append((stall.start_ns, stall.end_ns))
    for copy in timeline.copies:
        label = "swap-out" if copy.direction == "d2h" else "swap-in"
        end = stop if copy.end_ns is None else copy.end_ns
        boxes.setdefault(label, []).append((copy.start_ns, end))
    return boxes


@pytest.mark.parametrize("feasible", [True, False])
def test_every_box_of_the_timeline_is_drawn_where_it_belongs(feasible: bool) -> None:
    for timeline in timelines(25, feasible=feasible):
        _, ax = plt.subplots()
        plot_timeline(timeline, ax)
        drawn = {str(c.get_label()): c for c in ax.collections}
        expected = expected_boxes(timeline)
        assert set(drawn) == set(expected)
        for label, spans in expected.items():
            collection = drawn[label]
            assert isinstance(collection, PolyCollection)
            paths = collection.get_paths()
            assert len(paths) == len(spans)
            for path, (start, end) in zip(paths, spans, strict=True):
                box = path.get_extents()
                assert box.x0 == pytest.approx(start / 1e6, abs=1e-12)
                assert box.x1 == pytest.approx(end / 1e6, abs=1e-12)
                assert (box.y0 + box.y1) / 2 == pytest.approx(LANE.get(label, 2))
        plt.close("all")


def test_axes_carry_units_and_end_with_the_step() -> None:
    timeline = timelines(1)[0]
    ax = plot_timeline(timeline)
    assert ax.get_xlabel() == "time (ms)"
    assert [text.get_text() for text in ax.get_yticklabels()] == ["compute", "swap-out", "swap-in"]
    assert ax.get_xlim() == pytest.approx((0, timeline.makespan_ns / 1e6))


@pytest.mark.parametrize("width", [COLUMN_WIDTH_IN, FULL_WIDTH_IN])
def test_a_figure_has_its_width_and_nothing_overlaps(width: float) -> None:
    timeline = long_timeline()
    figure = plot_step(timeline, width_in=width)
    figure.canvas.draw()
    assert figure.get_size_inches()[0] == width
    streams, memory = figure.axes
    legend = streams.get_legend()
    assert legend is not None
    labels = [text.get_text() for text in legend.get_texts()]
    assert labels[:3] == ["forward", "backward", "recompute"]
    assert not set(labels) & {"swap-out", "swap-in"}, "the axis names these"
    legend_box, page = legend.get_window_extent(), figure.bbox
    assert legend_box.y0 >= streams.bbox.y1 - 1, "the legend is above the boxes"
    assert legend_box.x1 <= page.x1
    assert legend_box.y1 <= page.y1
    assert streams.bbox.y0 > memory.bbox.y1
    assert streams.bbox.width > 0.6 * page.width


def test_a_long_step_takes_few_artists() -> None:
    timeline = long_timeline()
    ax = plot_timeline(timeline)
    assert sum(len(collection.get_paths()) for collection in ax.collections) > 1_300
    assert len(ax.get_children()) < 25


def test_no_legend_on_request() -> None:
    assert plot_timeline(timelines(1)[0], legend=False).get_legend() is None


def test_a_step_of_one_op_without_copies() -> None:
    instance = one_op_instance()
    timeline = so.simulate(instance, so.Plan.for_instance(instance, {}))
    ax = plot_timeline(timeline)
    assert [str(c.get_label()) for c in ax.collections] == ["forward"]
    assert ax.get_xlim() == pytest.approx((0, 5e-6))


def test_a_step_that_ends_without_memory_says_so() -> None:
    ax = plot_timeline(timelines(1, feasible=False)[0])
    legend = ax.get_legend()
    assert legend is not None
    assert "out of memory" in [text.get_text() for text in legend.get_texts()]


def test_matplotlib_is_imported_only_for_plots() -> None:
    code = (
        "import sys, slackopt as so\n"
        "assert 'matplotlib' not in sys.modules\n"
        "assert callable(so.plotting.plot_timeline)\n"
        "assert 'matplotlib' in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        so.nothing  # noqa: B018
