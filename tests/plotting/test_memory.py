"""Memory over time: every byte of the timeline, and of what decisions free."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
from figure_samples import one_op_instance, rule_timeline, timelines

import slackopt as so
from slackopt.lifetimes import ABSENT
from slackopt.plotting import plot_freed_memory, plot_memory
from slackopt.plotting.residency import Residency, residency


def at(found: Residency, values: tuple[int, ...], time_ns: int) -> int:
    """Return the value that holds from `time_ns` on."""
    return values[int(np.searchsorted(found.time_ns, time_ns, side="right")) - 1]


def test_memory_curve_and_budget_are_those_of_the_timeline() -> None:
    for timeline in timelines(25):
        _, ax = plt.subplots()
        plot_memory(timeline, ax)
        curve, budget = ax.lines
        assert curve.get_drawstyle() == "steps-post"
        times, levels = (np.asarray(values) for values in curve.get_data())
        assert times[:-1] == pytest.approx(np.array(timeline.memory.time_ns) / 1e6)
        assert levels[:-1] == pytest.approx(np.array(timeline.memory.size_bytes) / 2**30)
        assert times[-1] == pytest.approx(timeline.makespan_ns / 1e6)
        assert np.asarray(budget.get_ydata())[0] == timeline.instance.budget_bytes / 2**30
        assert ax.get_ylim()[1] > timeline.instance.budget_bytes / 2**30
        plt.close("all")


@pytest.mark.parametrize("feasible", [True, False])
def test_what_is_needed_and_held_for_reruns_is_what_is_on_the_device(feasible: bool) -> None:
    for timeline in timelines(150, feasible=feasible):
        found = residency(timeline)
        memory = timeline.memory
        for i, time in enumerate(found.time_ns):
            held = memory.size_bytes[int(np.searchsorted(memory.time_ns, time, side="right")) - 1]
            assert found.needed_bytes[i] + found.for_reruns_bytes[i] == held
        for values in (
            *(found.needed_bytes, found.for_reruns_bytes),
            *(found.freed_by_swap_bytes, found.freed_by_recompute_bytes),
        ):
            assert min(values) >= 0


@pytest.mark.parametrize("feasible", [True, False])
def test_without_a_limit_is_what_the_graph_says_for_every_op(feasible: bool) -> None:
    for timeline in timelines(150, feasible=feasible):
        found = residency(timeline)
        live = timeline.instance.lifetimes.live_bytes
        for job in timeline.jobs:
            if not job.rerun:
                assert at(found, found.unlimited_bytes, job.start_ns) == live[job.op_index]


def test_what_is_freed_is_what_is_away_while_an_op_runs() -> None:
    """Counted tensor by tensor from the jobs and copies, at the start of every job."""
    some = {"swap": 0, "recompute": 0}
    for timeline in timelines(150):
        if timeline.instance.device.chunk_bytes:
            continue  # freed piece by piece
        found = residency(timeline)
        instance, plan = timeline.instance, timeline.plan
        life, graph = instance.lifetimes, instance.graph
        jobs = timeline.jobs
        base = {job.op_index: job for job in jobs if not job.rerun}
        rerun = {job.op_index: job for job in jobs if job.rerun}
        copies = {(c.tensor, c.direction): c for c in timeline.copies}
        for job in jobs:
            now = job.start_ns
            away = {"swap": 0, "recompute": 0}
            for t in life.candidates:
                name = graph.tensors[t].name
                decision = plan.decisions.get(name, "keep")
                if decision == "keep" or life.first_backward_use[t] == ABSENT:
                    continue
                last = life.last_forward_use[t]
                over = base[last].end_ns if last >= 0 else 0
                if decision == "swap":
                    out, back = copies[name, "d2h"], copies[name, "h2d"]
                    assert out.end_ns is not None
                    begin, end = max(over, out.end_ns), back.start_ns
                else:
                    begin, end = over, rerun[life.producer[t]].start_ns
                if begin <= now < end:
                    away[decision] += life.sizes_bytes[t]
            assert at(found, found.freed_by_swap_bytes, now) == away["swap"]
            assert at(found, found.freed_by_recompute_bytes, now) == away["recompute"]
            for decision, size in away.items():
                some[decision] += size
    assert all(some.values()), "both happen"


def test_the_areas_are_stacked_up_to_the_curve_without_a_limit() -> None:
    timeline = rule_timeline()
    found = residency(timeline)
    ax = plot_freed_memory(timeline)
    labels = [str(area.get_label()) for area in ax.collections]
    assert labels[0] == "on the device"
    assert {"freed by swap", "freed by recompute"} <= set(labels)
    tops = [max(path.get_extents().y1 for path in a.get_paths()) for a in ax.collections]
    stacked = np.array(found.needed_bytes)
    sizes = {
        "held for reruns only": found.for_reruns_bytes,
        "freed by swap": found.freed_by_swap_bytes,
        "freed by recompute": found.freed_by_recompute_bytes,
    }
    for label, top in zip(labels, tops, strict=True):
        stacked = stacked + np.array(sizes.get(label, 0))
        assert top == pytest.approx(stacked.max() / 2**30)
    unlimited = next(line for line in ax.lines if line.get_label() == "without a limit")
    peak = timeline.instance.graph.unlimited_peak_bytes / 2**30
    assert max(np.asarray(unlimited.get_ydata())) == pytest.approx(peak)


def test_nothing_freed_nothing_drawn() -> None:
    instance = one_op_instance()
    ax = plot_freed_memory(so.simulate(instance, so.Plan.for_instance(instance, {})))
    assert [str(area.get_label()) for area in ax.collections] == ["on the device"]
    assert plot_freed_memory(rule_timeline(), legend=False).get_legend() is None
