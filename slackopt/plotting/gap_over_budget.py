"""Gap of each method over the memory budget."""

from __future__ import annotations

from typing import TYPE_CHECKING

from matplotlib.axes import Axes

from slackopt.plotting.canvas import legend_above, new_axes, open_frame, require_columns
from slackopt.plotting.lines import Looks, draw_lines, percent_log_axis

if TYPE_CHECKING:
    import pandas as pd


def plot_gap_over_budget(
    frame: pd.DataFrame,
    ax: Axes | None = None,
    *,
    looks: Looks | None = None,
    legend: bool = True,
    log: bool = True,
    ylabel: str = "optimality gap (%)",
) -> Axes:
    """Draw the gap of each method at each budget.

    Parameters
    ----------
    frame
        From `slackopt.analysis.gap_over_budget`: index budget over unlimited peak, one column a
        method, gaps as fractions. A missing value breaks the line.
    ax
        Axes to draw into; None for a new figure.
    looks
        Looks of methods by name, from `line_looks`; None for looks in the order of the columns.
    legend
        Whether to name the methods above the axes.
    log
        Whether the gap axis is logarithmic above 0.01 % (linear below, so that 0 has a place).
    ylabel
        Name of the gap, with its unit, percent.

    Returns
    -------
    matplotlib.axes.Axes
        `ax`, or the new axes; both axes are in percent.

    Raises
    ------
    InputError
        If the frame has no rows.
    """
    require_columns(frame, (), "gap over budget")
    ax = new_axes(ax)
    draw_lines(ax, frame, x_scale=100, y_scale=100, looks=looks)
    ax.set_xlabel("memory budget (% of unlimited peak)")
    ax.set_ylabel(ylabel)
    if log:
        percent_log_axis(ax, 0.01)
    else:
        ax.set_ylim(bottom=0)
    open_frame(ax)
    if legend:
        legend_above(ax)
    return ax
