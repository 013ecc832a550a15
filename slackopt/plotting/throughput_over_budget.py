"""Throughput over the memory budget: recompute only, swap only, both; where each pays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, NullFormatter

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

if TYPE_CHECKING:
    import pandas as pd


def plot_throughput_over_budget(
    frame: pd.DataFrame,
    ax: Axes | None = None,
    *,
    series: str = "allowed",
    value: Literal["throughput_ratio", "added_time"] = "throughput_ratio",
    looks: Looks | None = None,
    legend: bool = True,
) -> Axes:
    """Draw what a step reaches at each memory budget, one line for each way to save memory.

    A thin tail on each marker reaches to what its lower bound still allows: the true optimum lies
    in between. A cross at the foot of the axes says that no plan exists at this budget.

    Parameters
    ----------
    frame
        From `slackopt.analysis.sweep`, one method and one link; or of `runs_frame`, one instance
        family. Read are ``budget_share``, ``throughput_ratio``, `series` and, if they are there,
        ``ratio_limit`` and ``status``. Several rows of one line at one budget are refused.
    ax
        Axes to draw into; None for a new figure.
    series
        Column that tells the lines apart; ``allowed`` or e.g. ``method``.
    value
        ``throughput_ratio`` (ideal / makespan, in percent), or ``added_time`` (makespan / ideal
        - 1, in percent, logarithmic), which shows small losses beside large ones.
    looks
        Looks by the names in `series`, from `line_looks`; None for fixed looks of the
        three ways, and for others in order.
    legend
        Whether to name the lines above the axes.

    Returns
    -------
    matplotlib.axes.Axes
        `ax`, or the new axes; the budget in percent of the unlimited peak.

    Raises
    ------
    InputError
        If a column is missing, or a line has two values at one budget.
    """
    figure = "throughput over budget"
    require_columns(frame, ("budget_share", "throughput_ratio", series), figure)
    one_value_each(frame, (series, "budget_share"), figure)
    ax = new_axes(ax)
    names = [str(name) for name in dict.fromkeys(frame[series])]
    known = looks_for(names, {**ALLOWED_LOOKS, **(looks or {})})
    for i, name in enumerate(names):
        rows = frame[frame[series].astype(str) == name].sort_values("budget_share")
        budgets = rows["budget_share"].to_numpy(dtype=float) * 100
        values = _values(trusted(rows, "throughput_ratio"), value)
        ax.plot(budgets, values, label=ALLOWED_NAMES.get(name, name), **known[name]._asdict())
        if "ratio_limit" in rows:
            limits = _values(trusted(rows, "ratio_limit"), value)
            draw_tails(ax, budgets, values, limits, known[name].color)
        if "status" in rows:
            none = budgets[(rows["status"] == "infeasible").to_numpy(dtype=bool, na_value=False)]
            ax.plot(
                none,
                np.full(len(none), 0.03 + 0.05 * i),
                transform=ax.get_xaxis_transform(),
                linestyle="none",
                marker="x",
                color=known[name].color,
                label=f"{ALLOWED_NAMES.get(name, name)}: no plan" if len(none) else "_no plan",
            )
    ax.set_xlabel("memory budget (% of unlimited peak)")
    if value == "throughput_ratio":
        ax.set_ylabel("throughput (% of ideal)")
    else:
        ax.set_ylabel("added time (% of ideal)")
        ax.set_yscale("symlog", linthresh=0.1, linscale=0.3)
        ax.set_ylim(bottom=0)
        ax.yaxis.set_major_formatter(FuncFormatter(lambda number, _: f"{number:g}"))
        ax.yaxis.set_minor_formatter(NullFormatter())
    open_frame(ax)
    if legend:
        legend_above(ax)
    return ax


def _values(ratios: npt.NDArray[np.float64], value: str) -> npt.NDArray[np.float64]:
    return 100 * ratios if value == "throughput_ratio" else 100 * (1 / ratios - 1)
