"""A simulated step in two panels: the streams above, the memory below."""

from __future__ import annotations

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from slackopt.plotting.memory import plot_memory
from slackopt.plotting.styles import FULL_WIDTH_IN, style
from slackopt.plotting.timeline import plot_timeline
from slackopt.simulation.timeline import Timeline


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
        In the style of a paper; to be saved at its size, so that its letters are of 8 pt in print.
    """
    with style("paper", width_in=width_in):
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
    return figure
