"""A simulated step over time: what the three streams do.

In print without colour the kinds of boxes differ by lightness or hatching.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from matplotlib.axes import Axes

from slackopt.plotting.canvas import NS_PER_MS, legend_above, line_width, new_axes, open_frame
from slackopt.plotting.looks import BLUE, RECOMPUTE, SWAP, AreaLook
from slackopt.plotting.residency import stop_ns
from slackopt.simulation.timeline import Timeline

_LANES = {"compute": 2, "swap-out": 1, "swap-in": 0}
_LANE_HEIGHT = 0.8
_PARTED = 60
"""With at most so many copies of one direction, thin lines part them."""

FORWARD: Final = AreaLook("forward", "#8CCBF0")
BACKWARD: Final = AreaLook("backward", BLUE)
RERUN: Final = RECOMPUTE
WAIT_SWAP_IN: Final = AreaLook("waiting for swap-in", "#FFEADF", "xxxx", "#B03A00")
WAIT_MEMORY: Final = AreaLook("waiting for memory", "#7A1F00")
SWAP_OUT: Final = SWAP._replace(label="swap-out")
SWAP_IN: Final = AreaLook("swap-in", "#C9A0C0")

_LANE_OF = {SWAP_OUT: "swap-out", SWAP_IN: "swap-in"}  # the others run on the compute stream


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
    ax = new_axes(ax, 0.9)
    for look, spans in _spans(timeline).items():
        _draw(ax, look, spans)
    if not timeline.feasible:
        ax.axvline(
            stop_ns(timeline) / NS_PER_MS,
            color="black",
            linewidth=line_width(1),
            label="out of memory",
        )
    ax.set_yticks(list(_LANES.values()), list(_LANES))
    ax.tick_params(axis="y", length=0)
    ax.set_ylim(-0.5, len(_LANES) - 0.5)
    time_axis(ax, timeline)
    if legend:
        # The axis names the copies.
        copies = {look.label for look in _LANE_OF}
        entries = zip(*ax.get_legend_handles_labels(), strict=True)
        shown = [(handle, label) for handle, label in entries if label not in copies]
        legend_above(ax, [handle for handle, _ in shown], [label for _, label in shown])
    return ax


def time_axis(ax: Axes, timeline: Timeline) -> None:
    """Let the horizontal axis run from the start of the step to its end, in ms."""
    ax.set_xlim(0, max(stop_ns(timeline), 1) / NS_PER_MS)
    ax.set_xlabel("time (ms)")
    open_frame(ax)


def _spans(timeline: Timeline) -> dict[AreaLook, list[tuple[int, int]]]:
    """Sort all boxes, as (start, end) in ns, by kind."""
    ops = timeline.instance.graph.ops
    looks = (FORWARD, BACKWARD, RERUN, WAIT_SWAP_IN, WAIT_MEMORY, SWAP_OUT, SWAP_IN)
    spans: dict[AreaLook, list[tuple[int, int]]] = {look: [] for look in looks}
    for job in timeline.jobs:
        base = FORWARD if ops[job.op_index].phase == "forward" else BACKWARD
        spans[RERUN if job.rerun else base].append((job.start_ns, job.end_ns))
    for stall in timeline.stalls:
        wait = WAIT_SWAP_IN if stall.cause == "swap-in" else WAIT_MEMORY
        spans[wait].append((stall.start_ns, stall.end_ns))
    stop = stop_ns(timeline)
    for copy in timeline.copies:
        way = SWAP_OUT if copy.direction == "d2h" else SWAP_IN
        spans[way].append((copy.start_ns, stop if copy.end_ns is None else copy.end_ns))
    return spans


def _draw(ax: Axes, look: AreaLook, spans: Sequence[tuple[int, int]]) -> None:
    """Draw all boxes of one kind as one collection."""
    if not spans:
        return
    lane = _LANE_OF.get(look, "compute")
    parted = lane != "compute" and len(spans) <= _PARTED
    ax.broken_barh(
        [(start / NS_PER_MS, (end - start) / NS_PER_MS) for start, end in spans],
        (_LANES[lane] - _LANE_HEIGHT / 2, _LANE_HEIGHT),
        facecolor=look.face,
        edgecolor=look.ink,  # which is the colour of the hatch as well
        hatch=look.hatch,
        linewidth=line_width(0.27) if parted else 0,
        label=look.label,
    )
