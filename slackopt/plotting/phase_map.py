"""Swap or recompute: which of the two pays, over two speeds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes

from slackopt.errors import InputError
from slackopt.plotting.canvas import (
    legend_above,
    new_axes,
    one_value_each,
    require_columns,
    trusted,
)
from slackopt.plotting.looks import BOTH, RECOMPUTE, SWAP, AreaLook
from slackopt.plotting.speeds import NO_PLAN, draw_boxes, grid, name_grid

if TYPE_CHECKING:
    import pandas as pd

_TIE = 1e-3
"""Two ways are told apart in a phase map if their step times differ by more than this share."""


def plot_phase_map(
    frame: pd.DataFrame,
    ax: Axes | None = None,
    *,
    x: str = "bandwidth_factor",
    y: str = "compute_factor",
    legend: bool = True,
) -> Axes:
    """Draw which of the two ways to save memory is the faster one, over two speeds.

    A box says which of *recompute only* and *swap only* makes the faster step, and by how many
    percent both together are faster than that one. ``tie``: within 0.1 %.

    Parameters
    ----------
    frame
        From `slackopt.analysis.sweep` with ``allowed=("recompute", "swap", "both")``; one row for
        each of them at each pair.
    ax
        Axes to draw into; None for a new figure.
    x, y
        Columns in `AXES`; their values are set at equal distances.
    legend
        Whether to explain the boxes above the axes.

    Returns
    -------
    matplotlib.axes.Axes
        `ax`, or the new axes; it holds one collection for each kind of box that occurs. Numbers
        are percent of the faster single way's step time.

    Raises
    ------
    InputError
        If a column is missing or can't be drawn, or a pair has two values.
    """
    figure = "phase map"
    require_columns(frame, (x, y, "allowed", "throughput_ratio"), figure)
    one_value_each(frame, (x, y, "allowed"), figure)
    for word in ("recompute", "swap", "both"):
        if not (frame["allowed"] == word).any():
            raise InputError(
                f"{figure}: no row has allowed={word!r}; sweep over allowed=('recompute', "
                "'swap', 'both')"
            )
    frame = frame.assign(throughput_ratio=trusted(frame, "throughput_ratio"))
    wide = frame.pivot(index=[y, x], columns="allowed", values="throughput_ratio")
    wide = wide.astype(float).reset_index()
    columns, rows, recompute = grid(wide, x, y, "recompute", figure)
    swap, both = (grid(wide, x, y, word, figure)[2] for word in ("swap", "both"))
    ax = new_axes(ax)
    looks = (
        RECOMPUTE._replace(label="recompute is faster", face="#F3CE80"),
        SWAP._replace(label="swap is faster", face="#99D8C7", hatch="...."),
        BOTH._replace(label="tie", hatch=None),
        NO_PLAN,
    )
    kinds: dict[AreaLook, list[tuple[int, int]]] = {look: [] for look in looks}
    for place in np.ndindex(recompute.shape):
        one, other = (np.nan_to_num(ways[place]) for ways in (recompute, swap))
        best = max(one, other)
        if best == 0 and not np.isfinite(both[place]):
            kind = 3
        elif abs(one - other) <= _TIE * best:
            kind = 2
        else:
            kind = 0 if one > other else 1
        kinds[looks[kind]].append((place[0], place[1]))
        if best > 0 and np.isfinite(both[place]):
            # A plan of one way alone is a plan of both, so that a loss is only a solver's.
            gain = 100 * (1 - best / both[place])
            ax.text(
                place[1],
                place[0],
                f"{max(gain, 0.0):.2g}",
                horizontalalignment="center",
                verticalalignment="center",
                fontsize=mpl.rcParams["legend.fontsize"],
                bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.8},
            )
    for look, places in kinds.items():
        if places:
            draw_boxes(ax, places, look)
    ax.set_xlim(-0.5, len(columns) - 0.5)
    ax.set_ylim(-0.5, len(rows) - 0.5)
    name_grid(ax, x, columns, y, rows)
    if legend:
        legend_above(ax)
    return ax
