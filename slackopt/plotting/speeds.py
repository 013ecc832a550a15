"""Axes of figures over speeds and budgets: columns of a sweep, their units, and grids of them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection

from slackopt.errors import InputError
from slackopt.plotting.canvas import line_width, one_value_each, require_columns, trusted
from slackopt.plotting.looks import AreaLook

if TYPE_CHECKING:
    import pandas as pd

AXES: Mapping[str, tuple[str, float]] = MappingProxyType(
    {
        "bandwidth_factor": ("link bandwidth (factor)", 1.0),
        "compute_factor": ("compute speed (factor)", 1.0),
        "d2h_bytes_per_s": ("link bandwidth, device to host (GB/s)", 1e-9),
        "h2d_bytes_per_s": ("link bandwidth, host to device (GB/s)", 1e-9),
        "budget_share": ("memory budget (% of unlimited peak)", 100.0),
        "budget_bytes": ("memory budget (GiB)", 2.0**-30),
    }
)
"""Columns of a sweep that can be an axis: its label with the unit, and the factor to that unit."""

VALUES: Mapping[str, tuple[str, float]] = MappingProxyType(
    {
        "throughput_ratio": ("throughput (% of ideal)", 100.0),
        "ratio_limit": ("throughput at most (% of ideal)", 100.0),
        "gap": ("certified gap (%)", 100.0),
        "recompute_ns": ("recompute (ms)", 1e-6),
        "stall_ns": ("stalls (ms)", 1e-6),
        "swapped_bytes": ("swapped (GiB)", 2.0**-30),
        "recomputed_bytes": ("recomputed (GiB)", 2.0**-30),
    }
)
"""Columns of a sweep that can be shown: their label with the unit, and the factor to that unit."""

NO_PLAN = AreaLook("no plan", "white", "xxxx", "#777777")
"""Where nothing is known."""


def known_column(column: str, known: Mapping[str, tuple[str, float]]) -> tuple[str, float]:
    """Return label and factor of a column, or raise `InputError`."""
    if column not in known:
        raise InputError(f"column {column!r} can't be drawn; choose one of: {', '.join(known)}")
    return known[column]


def grid(
    frame: pd.DataFrame, x: str, y: str, value: str, figure: str
) -> tuple[list[float], list[float], npt.NDArray[np.float64]]:
    """Return the values of columns and rows, rising, and the cells; NaN where there is none."""
    known_column(x, AXES), known_column(y, AXES)
    require_columns(frame, (x, y, value), figure)
    one_value_each(frame, (x, y), figure)
    columns, rows = (sorted(frame[name].astype(float).unique()) for name in (x, y))
    cells = np.full((len(rows), len(columns)), np.nan)
    places = zip(frame[y].astype(float), frame[x].astype(float), strict=True)
    numbers = trusted(frame, value)
    for (row, column), number in zip(places, numbers, strict=True):
        cells[rows.index(row), columns.index(column)] = number
    return columns, rows, cells


def name_grid(ax: Axes, x: str, columns: list[float], y: str, rows: list[float]) -> None:
    """Write the values of columns and rows on the axes, with their units."""
    (xlabel, x_scale), (ylabel, y_scale) = AXES[x], AXES[y]
    ax.set_xticks(range(len(columns)), [f"{value * x_scale:.3g}" for value in columns])
    ax.set_yticks(range(len(rows)), [f"{value * y_scale:.3g}" for value in rows])
    ax.tick_params(length=0)
    ax.set_xlabel(xlabel)
    ax.set_ylabel(ylabel)


def draw_boxes(ax: Axes, places: list[tuple[int, int]], look: AreaLook) -> None:
    """Draw the boxes of a grid at ``(row, column)`` in one look, as one collection."""
    corners = ((-0.5, -0.5), (0.5, -0.5), (0.5, 0.5), (-0.5, 0.5))
    ax.add_collection(
        PolyCollection(
            [[(column + dx, row + dy) for dx, dy in corners] for row, column in places],
            facecolor=look.face,
            edgecolor=look.ink,
            hatch=look.hatch,
            linewidth=line_width(0.4),
            label=look.label,
        )
    )
