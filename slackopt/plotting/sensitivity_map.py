"""How the outcome depends on two speeds, as a heat map."""

from __future__ import annotations

from typing import TYPE_CHECKING

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import Normalize

from slackopt.plotting.canvas import new_axes
from slackopt.plotting.speeds import NO_PLAN, VALUES, draw_boxes, grid, known_column, name_grid

if TYPE_CHECKING:
    import pandas as pd


def plot_sensitivity_map(
    frame: pd.DataFrame,
    ax: Axes | None = None,
    *,
    x: str = "bandwidth_factor",
    y: str = "compute_factor",
    value: str = "throughput_ratio",
    colorbar: bool = True,
) -> Axes:
    """Draw a value over two speeds as a heat map with its numbers.

    Parameters
    ----------
    frame
        From `slackopt.analysis.sweep`, one row for each pair of speeds.
    ax
        Axes to draw into; None for a new figure.
    x, y
        Columns in `AXES`; their values are set at equal distances.
    value
        A column in `VALUES`. A pair without a value is hatched.
    colorbar
        Whether to add a colour bar beside the axes; it carries the unit of the value. Without
        one, the title does.

    Returns
    -------
    matplotlib.axes.Axes
        `ax`, or the new axes. The colours get lighter with the value for every reader (cividis).

    Raises
    ------
    InputError
        If a column is missing or can't be drawn, or a pair has two values.
    """
    label, scale = known_column(value, VALUES)
    columns, rows, cells = grid(frame, x, y, value, "sensitivity map")
    cells = cells * scale
    ax = new_axes(ax)
    known = cells[np.isfinite(cells)]
    low, high = (float(known.min()), float(known.max())) if known.size else (0.0, 1.0)
    norm = Normalize(low, high if high > low else low + 1)
    image = ax.imshow(cells, cmap="cividis", norm=norm, origin="lower", aspect="auto")
    for (i, j), number in np.ndenumerate(cells):
        if np.isfinite(number):
            red, green, blue, _ = image.cmap(norm(number))
            dark = 0.299 * red + 0.587 * green + 0.114 * blue < 0.5
            ax.text(
                j,
                i,
                f"{number:.1f}" if known.max() >= 10 else f"{number:.3g}",
                color="white" if dark else "black",
                horizontalalignment="center",
                verticalalignment="center",
                fontsize=mpl.rcParams["legend.fontsize"],
            )
    missing = [(i, j) for (i, j), number in np.ndenumerate(cells) if not np.isfinite(number)]
    if missing:
        draw_boxes(ax, missing, NO_PLAN)
    name_grid(ax, x, columns, y, rows)
    if colorbar and ax.figure is not None:
        ax.figure.colorbar(image, ax=ax, label=label)
    else:
        ax.set_title(label)
    return ax
