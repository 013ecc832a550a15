"""Performance profiles: the share of instances that a method solves within a factor of the best."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, NullFormatter

from slackopt.plotting.canvas import legend_above, new_axes, open_frame, require_columns
from slackopt.plotting.lines import Looks, draw_lines

if TYPE_CHECKING:
    from collections.abc import Hashable

_LOG_FROM = 4.0
"""Ratios beyond this factor are drawn on a logarithmic axis."""


def plot_performance_profile(
    frame: pd.DataFrame,
    ax: Axes | None = None,
    *,
    looks: Looks | None = None,
    legend: bool = True,
    xlabel: str | None = None,
    x_scale: float = 1.0,
    limit: float | None = None,
) -> Axes:
    """Draw performance profiles as steps.

    Parameters
    ----------
    frame
        From `slackopt.analysis.performance_profile`: index tau, where the profiles step; one column
        a method, shares of instances. A first tau of 0 tells that they are of differences.
    ax
        Axes to draw into; None for a new figure.
    looks
        Looks of methods by name, from `line_looks`; None for looks in the order of the columns.
    legend
        Whether to name the methods above the axes.
    xlabel
        Name of tau with its unit; by default a factor of the best, or a distance from the best.
    x_scale
        Factor of tau to the unit of the axis, e.g. 100 for differences of gaps in percentage
        points.
    limit
        Largest tau shown; None for a little more than the last step.

    Returns
    -------
    matplotlib.axes.Axes
        `ax`, or the new axes; the share of instances in percent.

    Raises
    ------
    InputError
        If the frame has no rows.
    """
    require_columns(frame, (), "performance profile")
    ax = new_axes(ax)
    ratios = bool(frame.index.min() >= 1)
    first, last = float(frame.index.min()), float(frame.index.max())
    end = limit if limit is not None else last + 0.05 * ((last - first) or 1.0)
    # After the last step the profiles stay where they are, up to the edge of the figure.
    tail: dict[Hashable, float] = {name: frame[name].iloc[-1] for name in frame.columns}
    shown = pd.concat([frame, pd.DataFrame([tail], index=[max(end, last)])])
    draw_lines(
        ax,
        shown,
        x_scale=x_scale,
        y_scale=100,
        looks=looks,
        drawstyle="steps-post",
        markevery=0.2,
        clip_on=True,
    )
    left = first - 0.015 * (end - first)  # markers on the first step are drawn whole
    if ratios and end > _LOG_FROM:
        left = first * (first / end) ** 0.015
        ax.set_xscale("log")
        ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        ax.xaxis.set_minor_formatter(NullFormatter())
    ax.set_xlim(left * x_scale, end * x_scale)
    ax.set_ylim(0, 103)
    if xlabel is None:
        xlabel = "factor τ to the best method" if ratios else "distance τ to the best method"
    ax.set_xlabel(xlabel)
    ax.set_ylabel("instances within τ (%)")
    open_frame(ax)
    if legend:
        legend_above(ax)
    return ax
