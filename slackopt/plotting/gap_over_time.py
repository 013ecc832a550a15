"""How the gap of each method closes while it runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from matplotlib.axes import Axes

from slackopt.plotting.canvas import legend_above, new_axes, open_frame, require_columns
from slackopt.plotting.lines import Looks, draw_lines, log_time_axis, percent_log_axis

if TYPE_CHECKING:
    import pandas as pd


def plot_gap_over_time(
    frame: pd.DataFrame,
    ax: Axes | None = None,
    *,
    looks: Looks | None = None,
    legend: bool = True,
    ylabel: str = "certified gap (%)",
) -> Axes:
    """Draw the gap of each method over the time that it ran.

    Parameters
    ----------
    frame
        From `slackopt.analysis.gap_over_time`: index seconds (above 0), one column a method, gaps
        as fractions; missing until there is a gap.
    ax
        Axes to draw into; None for a new figure.
    looks
        Looks of methods by name, from `line_looks`; None for looks in the order of the columns.
    legend
        Whether to name the methods above the axes.
    ylabel
        Name of the gap, with its unit, percent.

    Returns
    -------
    matplotlib.axes.Axes
        `ax`, or the new axes; time in seconds, logarithmic; the gap in percent, logarithmic above
        0.01 % (linear below, so that 0 has a place).

    Raises
    ------
    InputError
        If the frame has no rows.
    """
    require_columns(frame, (), "gap over time")
    ax = new_axes(ax)
    # A marker at each of hundreds of grid points would hide the line.
    draw_lines(ax, frame, y_scale=100, looks=looks, drawstyle="steps-post", markevery=0.2)
    if frame.index.min() > 0 and len(frame) > 1:
        log_time_axis(ax)
    ax.set_xlabel("time (s)")
    ax.set_ylabel(ylabel)
    percent_log_axis(ax, 0.01)
    open_frame(ax)
    if legend:
        legend_above(ax)
    return ax
