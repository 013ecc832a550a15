"""Memory over the time of a simulated step, and what each decision frees."""

from __future__ import annotations

from typing import Final

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from slackopt.plotting.canvas import GIB, NS_PER_MS, legend_above, line_width, new_axes
from slackopt.plotting.looks import RECOMPUTE, SWAP, AreaLook
from slackopt.plotting.residency import residency, stop_ns
from slackopt.plotting.timeline import time_axis
from slackopt.simulation.timeline import Timeline

NEEDED: Final = AreaLook("on the device", "#C9C9C9")
FOR_RERUNS: Final = AreaLook("held for reruns only", "#222222")
FREED_BY_SWAP: Final = SWAP._replace(label="freed by swap")
FREED_BY_RECOMPUTE: Final = RECOMPUTE._replace(label="freed by recompute")


def plot_memory(timeline: Timeline, ax: Axes | None = None) -> Axes:
    """Draw the bytes on the device over time, and the budget.

    Parameters
    ----------
    timeline
        A simulated step.
    ax
        Axes to draw into; None for a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        `ax`, or the new axes; time is in ms, memory in GiB.
    """
    ax = new_axes(ax, 0.75)
    times = [time / NS_PER_MS for time in (*timeline.memory.time_ns, stop_ns(timeline))]
    sizes = timeline.memory.size_bytes
    levels = [size / GIB for size in (*sizes, sizes[-1])]
    ax.fill_between(times, levels, step="post", color=NEEDED.face, linewidth=0)
    ax.plot(
        times,
        levels,
        drawstyle="steps-post",
        color="#333333",
        linewidth=line_width(0.6),
        label="on the device",
    )
    _budget_line(ax, timeline)
    # Above the budget there is never a curve to run into.
    _name_budget(ax, timeline, "right", above=True)
    _memory_axis(ax, 1.25 * max(timeline.instance.budget_bytes / GIB, *levels))
    time_axis(ax, timeline)
    return ax


def plot_freed_memory(timeline: Timeline, ax: Axes | None = None, *, legend: bool = True) -> Axes:
    """Draw what would be in memory without a limit, and which decision keeps how much of it away.

    The upper edge of the areas is the memory of the step without a limit (where reruns hold more
    than that, it is a little higher). The grey part is on the device and stays below the budget;
    above it stand the bytes that are away because of a swap, and because of a recompute
    (`slackopt.plotting.residency`).

    Parameters
    ----------
    timeline
        A simulated step.
    ax
        Axes to draw into; None for a new figure.
    legend
        Whether to explain the areas above the axes.

    Returns
    -------
    matplotlib.axes.Axes
        `ax`, or the new axes; it holds one collection for each kind of area that occurs. Time is
        in ms, memory in GiB.
    """
    ax = new_axes(ax)
    found = residency(timeline)
    times = [time / NS_PER_MS for time in (*found.time_ns, found.end_ns)]
    below = [0.0] * len(times)
    for look, sizes in (
        (NEEDED, found.needed_bytes),
        (FOR_RERUNS, found.for_reruns_bytes),
        (FREED_BY_SWAP, found.freed_by_swap_bytes),
        (FREED_BY_RECOMPUTE, found.freed_by_recompute_bytes),
    ):
        if not any(sizes):
            continue
        above = [low + size / GIB for low, size in zip(below, (*sizes, sizes[-1]), strict=True)]
        ax.fill_between(
            times,
            below,
            above,
            step="post",
            facecolor=look.face,
            edgecolor=look.ink,  # which is the colour of the hatch as well
            hatch=look.hatch,
            linewidth=0,
            label=look.label,
        )
        below = above
    unlimited = [size / GIB for size in (*found.unlimited_bytes, found.unlimited_bytes[-1])]
    ax.plot(
        times,
        unlimited,
        drawstyle="steps-post",
        color="black",
        linewidth=line_width(0.6),
        label="without a limit",
    )
    _budget_line(ax, timeline)
    budget = timeline.instance.budget_bytes / GIB
    _memory_axis(ax, 1.05 * max(budget, *below, *unlimited))
    time_axis(ax, timeline)
    if legend:
        legend_above(ax)
    return ax


def _budget_line(ax: Axes, timeline: Timeline) -> None:
    ax.axhline(
        timeline.instance.budget_bytes / GIB,
        color="black",
        linestyle="--",
        linewidth=line_width(0.9),
        label="budget",
    )


def _name_budget(ax: Axes, timeline: Timeline, side: str, *, above: bool) -> None:
    budget = timeline.instance.budget_bytes / GIB
    ax.annotate(
        f"budget {budget:.2f} GiB",
        (1 if side == "right" else 0, budget),
        xycoords=("axes fraction", "data"),
        xytext=(-3 if side == "right" else 3, 2 if above else -2),
        textcoords="offset points",
        horizontalalignment="right" if side == "right" else "left",
        verticalalignment="bottom" if above else "top",
    )


def _memory_axis(ax: Axes, top: float) -> None:
    ax.set_ylim(0, top)
    ax.yaxis.set_major_locator(MaxNLocator(5))
    ax.set_ylabel("memory (GiB)")
