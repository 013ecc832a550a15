"""What all figures share: new axes, legends that cover no data, units, columns of a frame."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Final, Literal

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import numpy.typing as npt
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.font_manager import FontProperties
from matplotlib.legend import Legend
from matplotlib.textpath import TextPath

from slackopt.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

NS_PER_MS: Final = 10**6
GIB: Final = 2**30

_POINTS_PER_INCH = 72


def new_axes(ax: Axes | None, height_share: float | None = None) -> Axes:
    """Return `ax`, or axes of a new figure as wide as the style says.

    Parameters
    ----------
    ax
        Axes to draw into, or None.
    height_share
        Height of the new figure as a share of the height that the style sets.
    """
    if ax is not None:
        return ax
    width, height = mpl.rcParams["figure.figsize"]
    size = (width, height if height_share is None else height * height_share)
    return plt.subplots(figsize=size, layout="constrained")[1]


def line_width(share: float) -> float:
    """Return a line width in points, as a share of the style's own."""
    return share * float(mpl.rcParams["lines.linewidth"])


def open_frame(ax: Axes) -> None:
    """Leave out the two sides of the frame that carry no ticks."""
    ax.spines[["top", "right"]].set_visible(False)


def legend_above(
    ax: Axes,
    handles: Sequence[Artist] | None = None,
    labels: Sequence[str] | None = None,
    *,
    side: Literal["left", "right"] = "left",
) -> Legend | None:
    """Put a legend above the axes, in as many columns as fit; return it, or None if it is empty.

    Above, it can't cover anything. Drawn into axes of a constrained layout, it gets its room. One
    on the `right` may reach over the names on the vertical axis, where those are long.
    """
    if handles is None or labels is None:
        handles, labels = ax.get_legend_handles_labels()
    if not handles:
        return None
    if _has_neighbours(ax):
        side = "right"  # where it can't reach into another panel
    return ax.legend(
        handles,
        labels,
        loc="lower left" if side == "left" else "lower right",
        bbox_to_anchor=(0 if side == "left" else 1, 1),
        ncols=_columns(labels, _room(ax, side)),
        frameon=False,
        borderaxespad=0.2,
        borderpad=0.2,
        columnspacing=_COLUMN_SPACE,
        handlelength=_HANDLE,
        handletextpad=_HANDLE_PAD,
    )


_COLUMN_SPACE, _HANDLE, _HANDLE_PAD = 1.2, 2.2, 0.6  # in units of the font size


def _has_neighbours(ax: Axes) -> bool:
    place = ax.get_subplotspec()
    return place is not None and place.get_gridspec().ncols > 1


def _room(ax: Axes, side: str) -> float:
    """Return how wide a legend may be, in points.

    In a figure of one column of panels, up to the edge of the figure. Beside other panels, the
    axes and the names on their vertical axis.
    """
    figure = ax.get_figure(root=True)
    assert figure is not None  # noqa: S101
    if _has_neighbours(ax):
        names = 4 * FontProperties(size=mpl.rcParams["legend.fontsize"]).get_size_in_points()
        width = ax.bbox.width + names / _POINTS_PER_INCH * figure.dpi
    elif side == "left":
        width = 0.99 * figure.bbox.width - ax.bbox.x0
    else:
        width = ax.bbox.x1 - 0.01 * figure.bbox.width
    return float(width) / figure.dpi * _POINTS_PER_INCH


def _columns(labels: Sequence[str], room: float) -> int:
    """Return the largest number of columns that are not wider than `room`, in points."""
    font = FontProperties(size=mpl.rcParams["legend.fontsize"])
    points = font.get_size_in_points()
    widths = [
        float(TextPath((0, 0), label or " ", size=points, prop=font).get_extents().width)
        + (_HANDLE + _HANDLE_PAD) * points
        for label in labels
    ]
    for columns in range(len(labels), 1, -1):
        rows = -(-len(labels) // columns)
        # Matplotlib fills columns one after the other, the first ones with one more.
        longer = len(labels) - (rows - 1) * columns
        lengths = [rows if i < longer else rows - 1 for i in range(columns)]
        total, first = 0.0, 0
        for length in lengths:
            total += max(widths[first : first + length], default=0.0)
            first += length
        if total + _COLUMN_SPACE * points * (columns - 1) <= room:
            return columns
    return 1


def require_columns(frame: pd.DataFrame, wanted: Collection[str], figure: str) -> None:
    """Raise `InputError` if a frame lacks columns that a figure needs, or has no rows."""
    missing = [name for name in wanted if name not in frame.columns]
    if missing:
        raise InputError(
            f"{figure}: the frame has no column {', '.join(map(repr, missing))}; it has "
            f"{', '.join(map(str, frame.columns)) or 'none'}"
        )
    if not len(frame):
        raise InputError(f"{figure}: the frame has no rows, so there is nothing to draw")


def trusted(frame: pd.DataFrame, column: str) -> npt.NDArray[np.float64]:
    """Return a column as numbers, NaN where unknown, and where the status of the run is an error.

    A run in which a bound and a plan contradict each other has both, and neither counts.
    """
    values = frame[column].to_numpy(dtype=float, na_value=np.nan)
    if "status" in frame.columns:
        wrong = (frame["status"] == "error").to_numpy(dtype=bool, na_value=False)
        values = np.where(wrong, np.nan, values)
    return values


def one_value_each(frame: pd.DataFrame, columns: tuple[str, ...], figure: str) -> None:
    """Raise `InputError` if two rows stand for the same point of a figure."""
    doubled = frame.duplicated(list(columns))
    if doubled.any():
        row = frame[doubled].iloc[0]
        where = ", ".join(f"{name}={row[name]}" for name in columns)
        raise InputError(
            f"{figure}: the frame has several rows with {where}; choose one method, instance or "
            "setting before drawing, e.g. frame[frame['method'] == 'milp']"
        )
