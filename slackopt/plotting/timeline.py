"""A simulated step over time: what the three streams do, and the memory it takes.

Colours are of the Okabe-Ito palette, which colour-blind readers can tell apart; in print without
colour the kinds differ by lightness or hatching.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from slackopt.simulation.timeline import Timeline

COLUMN_WIDTH_IN = 3.4
"""Width of one column of a two-column paper, in inches."""

FULL_WIDTH_IN = 7.0
"""Width of a page of a two-column paper, in inches."""

_NS_PER_MS = 10**6
_GIB = 2**30
_LANES = {"compute": 2, "swap-out": 1, "swap-in": 0}
_LANE_HEIGHT = 0.8
_PARTED = 150
"""With at most so many copies of one direction, thin lines part them."""

_PAPER: dict[Any, Any] = {
    "font.size": 7,
    "axes.linewidth": 0.6,
    "hatch.linewidth": 0.5,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
}


class _Kind(NamedTuple):
    """How one kind of box is drawn: fill, hatch and the colour of the hatch."""

    label: str
    lane: str
    face: str
    hatch: str | None = None
    ink: str = "white"


_FORWARD = _Kind("forward", "compute", "#8CCBF0")
_BACKWARD = _Kind("backward", "compute", "#0072B2")
_RECOMPUTE = _Kind("recompute", "compute", "#E69F00", "////", "#6B4A00")
_WAIT_SWAP_IN = _Kind("waiting for swap-in", "compute", "#FFEADF", "xxxx", "#B03A00")
_WAIT_MEMORY = _Kind("waiting for memory", "compute", "#7A1F00")
_SWAP_OUT = _Kind("swap-out", "swap-out", "#009E73")
_SWAP_IN = _Kind("swap-in", "swap-in", "#C9A0C0")


def plot_timeline(timeline: Timeline, ax: Axes | None = None, *, legend: bool = True) -> Axes:
    """Draw what the three streams do: one box for every job, stall and copy.

    Parameters
    ----------
    timeline
        A simulated step. One that ran out of memory is drawn until then.
    ax
        Axes to draw into; None for a new figure.
    legend
        Whether to explain the boxes of the compute stream above the axes.

    Returns
    -------
    matplotlib.axes.Axes
        `ax`, or the new axes. It holds one collection for each kind of box that occurs, with the
        kind as its label; time is in ms.
    """
    if ax is None:
        _, ax = plt.subplots(figsize=(FULL_WIDTH_IN, 1.9), layout="constrained")
    drawn = [kind for kind, spans in _spans(timeline).items() if _draw(ax, kind, spans)]
    if not timeline.feasible:
        ax.axvline(_stop_ns(timeline) / _NS_PER_MS, color="black", label="out of memory")
    ax.set_yticks(list(_LANES.values()), list(_LANES))
    ax.tick_params(axis="y", length=0)
    ax.set_ylim(-0.5, len(_LANES) - 0.5)
    _time_axis(ax, timeline)
    if legend:
        handles, labels = ax.get_legend_handles_labels()
        copies = {kind.label for kind in drawn if kind.lane != "compute"}  # the axis names them
        shown = [i for i, label in enumerate(labels) if label not in copies]
        wide = ax.bbox.width / ax.figure.dpi > 4.5  # inches
        ax.legend(
            [handles[i] for i in shown],
            [labels[i] for i in shown],
            loc="lower left",
            bbox_to_anchor=(0, 1),
            ncols=6 if wide else 2,
            frameon=False,
            borderaxespad=0.2,
            columnspacing=1.2,
            handlelength=1.6,
        )
    return ax


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
    if ax is None:
        _, ax = plt.subplots(figsize=(FULL_WIDTH_IN, 1.6), layout="constrained")
    stop = _stop_ns(timeline)
    times = [time / _NS_PER_MS for time in (*timeline.memory.time_ns, stop)]
    sizes = timeline.memory.size_bytes
    levels = [size / _GIB for size in (*sizes, sizes[-1])]
    budget = timeline.instance.budget_bytes / _GIB
    ax.fill_between(times, levels, step="post", color="#BBBBBB", linewidth=0)
    ax.plot(
        times, levels, drawstyle="steps-post", color="#333333", linewidth=0.7, label="on the device"
    )
    ax.axhline(budget, color="black", linestyle="--", linewidth=0.9, label="budget")
    # Above the budget there is never a curve to run into.
    ax.annotate(
        f"budget {budget:.2f} GiB",
        (1, budget),
        xycoords=("axes fraction", "data"),
        xytext=(-3, 2),
        textcoords="offset points",
        horizontalalignment="right",
        verticalalignment="bottom",
    )
    ax.set_ylim(0, 1.25 * max(budget, *levels))
    ax.yaxis.set_major_locator(MaxNLocator(4))
    ax.set_ylabel("memory (GiB)")
    _time_axis(ax, timeline)
    return ax


def plot_step(timeline: Timeline, *, width_in: float = FULL_WIDTH_IN) -> Figure:
    """Make a figure of two panels: the streams above, the memory below, on one time axis.

    Parameters
    ----------
    timeline
        A simulated step.
    width_in
        Width in inches: `FULL_WIDTH_IN` or `COLUMN_WIDTH_IN` for papers.

    Returns
    -------
    matplotlib.figure.Figure
        To be saved at its size, so that its letters are of 7 pt in print.
    """
    with plt.rc_context(_PAPER):
        figure, (streams, memory) = plt.subplots(
            2,
            1,
            sharex=True,
            figsize=(width_in, 3.0),
            height_ratios=(4, 3),
            layout="constrained",
        )
        plot_timeline(timeline, streams)
        streams.set_xlabel("")
        plot_memory(timeline, memory)
        figure.align_ylabels()
    return figure


def _spans(timeline: Timeline) -> dict[_Kind, list[tuple[int, int]]]:
    """Sort all boxes, as (start, end) in ns, by kind."""
    ops = timeline.instance.graph.ops
    kinds = (
        *(_FORWARD, _BACKWARD, _RECOMPUTE, _WAIT_SWAP_IN, _WAIT_MEMORY),
        *(_SWAP_OUT, _SWAP_IN),
    )
    spans: dict[_Kind, list[tuple[int, int]]] = {kind: [] for kind in kinds}
    for job in timeline.jobs:
        base = _FORWARD if ops[job.op_index].phase == "forward" else _BACKWARD
        spans[_RECOMPUTE if job.rerun else base].append((job.start_ns, job.end_ns))
    for stall in timeline.stalls:
        wait = _WAIT_SWAP_IN if stall.cause == "swap-in" else _WAIT_MEMORY
        spans[wait].append((stall.start_ns, stall.end_ns))
    stop = _stop_ns(timeline)
    for copy in timeline.copies:
        way = _SWAP_OUT if copy.direction == "d2h" else _SWAP_IN
        spans[way].append((copy.start_ns, stop if copy.end_ns is None else copy.end_ns))
    return spans


def _draw(ax: Axes, kind: _Kind, spans: Sequence[tuple[int, int]]) -> bool:
    """Draw all boxes of one kind as one collection; return whether there are any."""
    if not spans:
        return False
    ranges = [(start / _NS_PER_MS, (end - start) / _NS_PER_MS) for start, end in spans]
    bottom = _LANES[kind.lane] - _LANE_HEIGHT / 2
    ax.broken_barh(
        ranges,
        (bottom, _LANE_HEIGHT),
        facecolor=kind.face,
        edgecolor=kind.ink,  # which is the colour of the hatch as well
        hatch=kind.hatch,
        linewidth=0.3 if kind.lane != "compute" and len(spans) <= _PARTED else 0,
        label=kind.label,
    )
    return True


def _stop_ns(timeline: Timeline) -> int:
    """Return the time at which the step ended or ran out of memory."""
    oom = timeline.out_of_memory
    return timeline.jobs[-1].end_ns if oom is None else oom.time_ns


def _time_axis(ax: Axes, timeline: Timeline) -> None:
    ax.set_xlim(0, max(_stop_ns(timeline), 1) / _NS_PER_MS)
    ax.set_xlabel("time (ms)")
    ax.spines[["top", "right"]].set_visible(False)
