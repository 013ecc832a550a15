"""Lines of several methods in one figure: from a frame with one column a method."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from slackopt.plotting.canvas import line_width
from slackopt.plotting.looks import LineLook, line_looks

if TYPE_CHECKING:
    import pandas as pd

_WIDE = 100.0
"""A logarithmic axis that spans more than this factor has ticks at powers of ten only."""

Looks = Mapping[str, LineLook]


def draw_lines(
    ax: Axes,
    frame: pd.DataFrame,
    *,
    x_scale: float = 1.0,
    y_scale: float = 1.0,
    looks: Looks | None = None,
    **style: Any,
) -> None:
    """Draw each column of a frame over its index; missing values break the line.

    Parameters
    ----------
    ax
        Axes to draw into.
    frame
        Index: places on the horizontal axis; one column a line, its name the label.
    x_scale, y_scale
        Factors to the units of the axes.
    looks
        Looks by name, e.g. from `slackopt.plotting.line_looks`; those that are missing are made.
    **style
        For `matplotlib.axes.Axes.plot`, over the look.
    """
    names = [str(name) for name in frame.columns]
    known = looks_for(names, looks)
    places = frame.index.to_numpy(dtype=float) * x_scale
    for i, name in enumerate(names):
        values = frame.iloc[:, i].to_numpy(dtype=float, na_value=np.nan) * y_scale
        settings = {**known[name]._asdict(), **style}
        if not np.isfinite(values).any():
            settings.pop("markevery", None)  # matplotlib can't space markers on no line
        ax.plot(places, values, label=name, **settings)


def draw_tails(
    ax: Axes,
    places: npt.NDArray[np.float64],
    values: npt.NDArray[np.float64],
    limits: npt.NDArray[np.float64],
    color: str,
) -> None:
    """Draw a thin line from each value to what its bound still allows."""
    ax.vlines(places, values, limits, colors=color, linewidth=line_width(0.7))


def looks_for(names: list[str], looks: Looks | None) -> dict[str, LineLook]:
    """Return a look for each name: the given one, or one of its own."""
    given = looks or {}
    made = line_looks([*given, *names])
    return {name: given.get(name, made[name]) for name in names}


def log_time_axis(ax: Axes) -> None:
    """Make the horizontal axis logarithmic, with plain numbers on it, also within a decade."""
    ax.set_xscale("log")
    low, high = ax.dataLim.x0, ax.dataLim.x1
    wide = low <= 0 or high / low > _WIDE
    ax.xaxis.set_major_locator(LogLocator(subs=(1,) if wide else (1, 2, 5)))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    ax.xaxis.set_minor_formatter(NullFormatter())


def percent_log_axis(ax: Axes, smallest: float) -> None:
    """Make the vertical axis logarithmic above `smallest` percent, and linear from 0 to there.

    A gap may be 0, which a logarithmic axis can't show.
    """
    ax.set_yscale("symlog", linthresh=smallest, linscale=0.3)
    ax.set_ylim(0, 1.6 * max(ax.dataLim.y1, smallest))
    ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    ax.yaxis.set_minor_formatter(NullFormatter())
