"""The figures of the study, from the stored results."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from closeness import read_grid
from grid import RESULTS
from house import read_runs_table
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from optimum import stored_points
from settings import MODELS
from tables import TITLES, against_optimum

from slackopt.plotting import COLUMN_WIDTH_IN, style

READINGS = {"timeline": "slack along the step", "aggregate": "slack as one number"}
LARGEST = 4.0
"""Where the colours of the map end, in points."""


def make_figures(results: Path = RESULTS) -> Iterator[tuple[str, Figure]]:
    """Yield every figure with the name of its file; in the style of a paper."""
    rows = read_grid(results)
    with style("paper"):
        yield "error-map", _error_map(rows)
        yield "headroom", _headroom(against_optimum(rows, results), stored_points(results))


def error_cells(rows: pd.DataFrame, reading: str) -> pd.DataFrame:
    """Return the smallest error over all other assumptions of the full grid, by these two."""
    own = rows[(rows["part"] == "full") & (rows["reading"] == reading)]
    return own.pivot_table(
        index="matmul_percent", columns="link_gb_per_s", values="worst", aggfunc="min"
    )


def _error_map(rows: pd.DataFrame) -> Figure:
    figure, axes = plt.subplots(
        2, 1, figsize=(COLUMN_WIDTH_IN, 4.4), layout="constrained", sharex=True
    )
    for ax, (reading, title) in zip(axes, READINGS.items(), strict=True):
        cells = error_cells(rows, reading)
        image = _draw_cells(ax, cells)
        ax.set_title(title, loc="left")
        ax.set_ylabel("products (% of peak)")
    axes[-1].set_xlabel("link, each direction (GB/s)")
    bar = figure.colorbar(image, ax=axes, extend="max", aspect=40, fraction=0.05)
    bar.set_label("largest error of three models (points)")
    return figure


def _draw_cells(ax: Axes, cells: pd.DataFrame) -> mpl.image.AxesImage:
    numbers = cells.to_numpy(dtype=float)
    image = ax.imshow(
        numbers, cmap="cividis_r", vmin=0, vmax=LARGEST, origin="lower", aspect="auto"
    )
    for (i, j), number in np.ndenumerate(numbers):
        close = number <= 1.0
        ax.text(
            j,
            i,
            f"{number:.2f}",
            ha="center",
            va="center",
            color="white" if number > LARGEST / 2 else "black",
            fontsize=mpl.rcParams["xtick.labelsize"],
            fontweight="bold" if close else "normal",
        )
        if close:
            box = plt.Rectangle((j - 0.46, i - 0.45), 0.92, 0.9, fill=False, linewidth=0.9)
            ax.add_patch(box)
    ax.set_xticks(range(cells.shape[1]), [str(level) for level in cells.columns])
    ax.set_yticks(range(cells.shape[0]), [str(level) for level in cells.index])
    ax.tick_params(length=0)
    return image


def _headroom(close: pd.DataFrame, points: float) -> Figure:
    ours = read_runs_table()
    ours = ours[
        (ours["part"] == "models")
        & (ours["budget"] == "0.5")
        & (ours["method"] == "slackswap-timeline")
    ].set_index("base")["gap_to_bound"]
    figure, ax = plt.subplots(figsize=(COLUMN_WIDTH_IN, 1.9), layout="constrained")
    places = {model: place for place, model in enumerate(reversed(MODELS))}
    spread = np.linspace(-0.24, 0.24, close["question"].nunique())
    for model, place in places.items():
        own = close[close["model"] == model].sort_values(["question", "gap"])
        rank = own["question"].rank(method="dense").astype(int) - 1
        ax.scatter(
            own["gap"],
            place + spread[rank.to_numpy()],
            s=9,
            color="#0072B2",
            linewidths=0,
            alpha=0.8,
            label=f"under a setting within {points} points" if place == 0 else None,
        )
        for kind, marker in (("eager", "s"), ("flash", "D")):
            ax.scatter(
                100 * ours[f"{model}-{kind}"],
                place,
                s=26,
                marker=marker,
                facecolors="white",
                edgecolors="#D55E00",
                linewidths=1.2,
                zorder=3,
                label=f"with our own figures, {kind}" if place == 0 else None,
            )
    ax.set_yticks(list(places.values()), [TITLES[model] for model in places])
    ax.set_ylim(-0.5, len(places) - 0.5)
    ax.set_xlim(left=-0.04)
    ax.set_xlabel("gap of slackswap-timeline to the bound (%)")
    ax.spines[["top", "right"]].set_visible(False)
    ax.tick_params(axis="y", length=0)
    figure.legend(loc="outside upper left", ncols=1, frameon=False, handletextpad=0.3)
    return figure
