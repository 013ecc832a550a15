"""How the outcome depends on the speed of link and compute, as lines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, NullFormatter, NullLocator

from slackopt.plotting.canvas import (
    legend_above,
    new_axes,
    one_value_each,
    open_frame,
    require_columns,
    trusted,
)
from slackopt.plotting.lines import Looks, draw_tails, looks_for
from slackopt.plotting.looks import ALLOWED_LOOKS, ALLOWED_NAMES
from slackopt.plotting.speeds import AXES, VALUES, known_column

if TYPE_CHECKING:
    import pandas as pd

_LINEAR = {"budget_share", "budget_bytes"}


def plot_sensitivity(
    frame: pd.DataFrame,
    ax: Axes | None = None,
    *,
    x: str = "d2h_bytes_per_s",
    value: str = "throughput_ratio",
    series: str = "allowed",
    looks: Looks | None = None,
    legend: bool = True,
) -> Axes:
    """Draw a value over the speed of the link or of compute, one line a series.

    Where the value is the throughput, a thin tail on each marker reaches to what the lower bound
    still allows: the true optimum lies in between.

    Parameters
    ----------
    frame
        From `slackopt.analysis.sweep`; each series has one row at each `x`.
    ax
        Axes to draw into; None for a new figure.
    x
        A column in `AXES`.
    value
        A column in `VALUES`.
    series
        Column that tells the lines apart: ``allowed``, ``method``, ``compute_factor``, ...
    looks
        Looks by the names in `series`, from `line_looks`; None for fixed looks of the
        three ways, and for others in order.
    legend
        Whether to name the lines above the axes.

    Returns
    -------
    matplotlib.axes.Axes
        `ax`, or the new axes; speeds are on a logarithmic axis.

    Raises
    ------
    InputError
        If a column is missing or can't be drawn, or a line has two values at one place.
    """
    (xlabel, x_scale), (ylabel, scale) = known_column(x, AXES), known_column(value, VALUES)
    require_columns(frame, (x, value, series), "sensitivity")
    one_value_each(frame, (series, x), "sensitivity")
    ax = new_axes(ax)
    names = [str(name) for name in dict.fromkeys(frame[series])]
    known = looks_for(names, {**ALLOWED_LOOKS, **(looks or {})})
    for name in names:
        rows = frame[frame[series].astype(str) == name].sort_values(x)
        places = rows[x].to_numpy(dtype=float) * x_scale
        values = trusted(rows, value) * scale
        ax.plot(places, values, label=ALLOWED_NAMES.get(name, name), **known[name]._asdict())
        if value == "throughput_ratio" and "ratio_limit" in rows:
            limits = trusted(rows, "ratio_limit") * scale
            draw_tails(ax, places, values, limits, known[name].color)
    if x not in _LINEAR:
        ax.set_xscale("log", base=2)
        ax.xaxis.set_major_formatter(FuncFormatter(lambda number, _: f"{number:.3g}"))
        if frame[x].nunique() <= 8:  # a tick where something was computed
            ax.set_xticks(sorted(frame[x].astype(float).unique() * x_scale))
        ax.xaxis.set_minor_locator(NullLocator())
        ax.xaxis.set_minor_formatter(NullFormatter())
    ax.set_xlabel(xlabel)
    ax.set_ylabel(ylabel)
    open_frame(ax)
    if legend:
        legend_above(ax)
    return ax
