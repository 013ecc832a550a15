"""Incumbent and lower bound while a method runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes

from slackopt.errors import InputError
from slackopt.plotting.canvas import NS_PER_MS, legend_above, line_width, new_axes, open_frame
from slackopt.plotting.lines import Looks, log_time_axis, looks_for
from slackopt.result import Result

_EARLIEST_S = 1e-3
"""A logarithmic time axis begins here at the earliest."""


def plot_trajectory(
    results: Result | Sequence[Result],
    ax: Axes | None = None,
    *,
    looks: Looks | None = None,
    legend: bool = True,
    log_time: bool = True,
) -> Axes:
    """Draw the makespan of the incumbent and the lower bound over time, and the gap between them.

    Parameters
    ----------
    results
        One result, or several on one instance, each with its trajectory. A result with a plan or a
        bound but without trajectory shows its ends from the time at which it was done; one of
        status ``error`` is left out.
    ax
        Axes to draw into; None for a new figure.
    looks
        Looks of methods by name, from `line_looks`; None for looks in the order given.
    legend
        Whether to name the lines above the axes.
    log_time
        Whether time is logarithmic, from 1 ms on; solvers do most of their work early.

    Returns
    -------
    matplotlib.axes.Axes
        `ax`, or the new axes; the time of the run in s, step times in ms. Incumbents are solid
        lines with the marker of the method at each move, bounds dashed ones; each ends when the
        run did.

    Raises
    ------
    InputError
        If the results are of several instances, or none of them has a plan or a bound.
    """
    found = [results] if isinstance(results, Result) else list(results)
    if len({result.instance_sha256 for result in found}) > 1:
        names = ", ".join(sorted({result.instance for result in found}))
        raise InputError(f"trajectory: results of several instances ({names}); draw one at a time")
    curves = [(result, *_ends(result, log_time)) for result in found]
    curves = [curve for curve in curves if len(curve[1])]
    if not curves:
        raise InputError(
            "trajectory: no result has a plan or a bound to trust, so there is nothing to draw"
        )
    ax = new_axes(ax)
    known = looks_for([result.method for result, *_ in curves], looks)
    several = len(curves) > 1
    for result, times, makespans, bounds in curves:
        look = known[result.method]
        prefix = f"{result.method}: " if several else ""
        if not several:
            ax.fill_between(
                times, bounds, makespans, step="post", color="#E3E3E3", linewidth=0, label="gap"
            )
        common: dict[str, Any] = {"drawstyle": "steps-post", "color": look.color}
        if not np.isnan(makespans).all():
            # The last point only carries the line to the end of the run.
            moves = list(range(max(1, len(times) - 1)))
            ax.plot(
                times,
                makespans,
                marker=look.marker,
                markevery=moves,
                label=f"{prefix}incumbent",
                **common,
            )
        if not np.isnan(bounds).all():
            ax.plot(
                times,
                bounds,
                linestyle="--",
                linewidth=line_width(0.9),
                label=f"{prefix}lower bound",
                **common,
            )
    if log_time:
        log_time_axis(ax)
    else:
        ax.set_xlim(left=0)
    ax.set_xlabel("time of the run (s)")
    ax.set_ylabel("step time (ms)")
    open_frame(ax)
    if legend:
        legend_above(ax)
    return ax


def _ends(
    result: Result, log_time: bool
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return times in s, and makespans and bounds in ms; unknown is NaN."""
    # Where a bound and a plan contradict each other, neither counts.
    points = [] if result.status == "error" else list(result.trajectory)
    wall = result.wall_s or 0.0
    ends = (result.makespan_ns, result.lower_bound_ns)
    if not points and result.status != "error" and ends != (None, None):
        points = [(wall, result.makespan_ns, result.lower_bound_ns)]
    if not points:
        return np.array([]), np.array([]), np.array([])
    last = points[-1]
    points.append((max(wall, last[0]), last[1], last[2]))
    earliest = _EARLIEST_S if log_time else 0.0
    columns = (
        np.array([max(point[0], earliest) for point in points]),
        *(
            np.array([np.nan if end is None else end / NS_PER_MS for end in column])
            for column in zip(*(point[1:] for point in points), strict=True)
        ),
    )
    return columns[0], columns[1], columns[2]
