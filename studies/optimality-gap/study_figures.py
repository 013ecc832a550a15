"""The figures of the study, drawn by slackopt.plotting from the stored results."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.figure import Figure
from study_results import RESULTS, instance_of, plan_of
from study_tables import variants_frame

from slackopt import plotting
from slackopt.analysis import gap_over_budget, performance_profile
from slackopt.plotting import FULL_WIDTH_IN, line_looks, style

SHOWN = ("exact", "slackswap", "slackswap-timeline", "capuchin", "mu-two", "teraio", "dtr")
PROFILED = (*SHOWN, "knapsack")
CHAIN = {
    "aggregate/default": "SlackSwap, aggregate",
    "timeline/default": "SlackSwap, timeline",
    "timeline/joint": "+ drop together",
    "timeline/fixed-swaps": "same swaps, best recomputes",
    "timeline/fixed-recomputes": "same recomputes, best swaps",
}
"""Lines of the figure of parts: reading and variant, and how they are called."""

MAP = ("bert-large-eager", "0.5")


def make_figures(rows: pd.DataFrame, results: Path = RESULTS) -> Iterator[tuple[str, Figure]]:
    """Yield every figure with the name of its file; in the style of a paper."""
    looks = line_looks(PROFILED)
    models = rows[rows["part"] == "models"]
    with style("paper"):
        yield "gap-over-budget", _gap_over_budget(models, looks)
        yield "profile", _profile(rows, looks)
        yield "parts", _parts(rows)
    with style("paper", width_in=FULL_WIDTH_IN):
        yield "decisions", _decisions(models, results)


def _gap_over_budget(models: pd.DataFrame, looks: Mapping[str, plotting.LineLook]) -> Figure:
    shown = models[models["method"].isin(SHOWN)]
    gaps = gap_over_budget(shown, by="method")[list(SHOWN)]
    figure, ax = plt.subplots(figsize=(plotting.COLUMN_WIDTH_IN, 2.8), layout="constrained")
    plotting.plot_gap_over_budget(gaps, ax, looks=looks, legend=False)
    return _with_legend(figure)


def _profile(rows: pd.DataFrame, looks: Mapping[str, plotting.LineLook]) -> Figure:
    shown = rows[rows["part"].isin(["models", "library"]) & rows["method"].isin(PROFILED)]
    values = shown.assign(gap=shown["gap_to_bound"].clip(lower=0))
    profile = performance_profile(values, "gap", "difference", by="method")[list(PROFILED)]
    figure, ax = plt.subplots(figsize=(plotting.COLUMN_WIDTH_IN, 2.8), layout="constrained")
    plotting.plot_performance_profile(
        profile,
        ax,
        looks=looks,
        x_scale=100,
        limit=0.10,
        legend=False,
        xlabel="distance τ to the smallest gap (points)",
    )
    ax.set_ylabel("questions within τ (%)")
    return _with_legend(figure)


def _parts(rows: pd.DataFrame) -> Figure:
    frame = variants_frame(rows)
    frame = frame.assign(name=(frame["reading"] + "/" + frame["variant"]).map(CHAIN))
    means = frame.dropna(subset=["name", "gap_to_bound"])
    # A mean over the same models at each budget: medians hide what one model loses.
    lines = means.pivot_table(
        index="budget_fraction", columns="name", values="gap_to_bound", aggfunc="mean"
    )
    lines = lines[[name for name in CHAIN.values() if name in lines.columns]]
    figure, ax = plt.subplots(figsize=(plotting.COLUMN_WIDTH_IN, 2.9), layout="constrained")
    plotting.plot_gap_over_budget(
        lines, ax, log=False, legend=False, ylabel="mean optimality gap (%)"
    )
    return _with_legend(figure, columns=1)


def _with_legend(figure: Figure, columns: int = 2) -> Figure:
    """Name the lines above the axes, in columns that are narrow enough for the long names."""
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper left", ncols=columns, frameon=False)
    return figure


def _row(models: pd.DataFrame, method: str) -> pd.Series:
    base, budget = MAP
    own = models[
        (models["base"] == base) & (models["budget"] == budget) & (models["method"] == method)
    ]
    return own.iloc[0]


def _decisions(models: pd.DataFrame, results: Path) -> Figure:
    figure, axes = plt.subplots(1, 2, figsize=(FULL_WIDTH_IN, 3.2), layout="constrained")
    for i, (ax, method) in enumerate(zip(axes, ("slackswap-timeline", "exact"), strict=True)):
        row = _row(models, method)
        plotting.plot_decision_map(
            instance_of(row), plan_of(row, results), ax, legend=False, sizes=i == 1
        )
        ax.set_title(method, loc="left")
    handles, labels = axes[1].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper right", ncols=3, frameon=False)
    return figure
