# ---
# jupyter:
#   jupytext:
#     formats: ipynb,py:percent
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Swap or recompute: a phase diagram over bandwidth and compute
#
# You will learn
#
# - how to ask what recompute alone, swap alone and both together can reach,
# - where each of the two pays: over link bandwidth, compute speed and budget,
# - when it is worth having both.

# %%
import os
from pathlib import Path

import matplotlib as mpl
import pandas as pd

import slackopt as so
from slackopt.analysis import restricted, sweep

# SLACKOPT_NOTEBOOKS=small makes every notebook run in seconds: the tests do so.
SMALL = os.environ.get("SLACKOPT_NOTEBOOKS") == "small"
FIGURES = Path(os.environ.get("SLACKOPT_FIGURES", "../build/notebooks/figures"))
FIGURES.mkdir(parents=True, exist_ok=True)
mpl.rcParams["figure.dpi"] = 160  # on the screen; files have their own

# %% [markdown]
# ## One instance, three questions
#
# BERT-Large with eager attention and a few layers: each layer is like the next, so more layers cost
# time and teach little. An instance is *restricted* by saying that nothing is swappable, or that
# nothing is recomputable.

# %%
graph = so.profiles.transformer(
    "bert-large", batch=8, num_layers=4 if SMALL else 8, attention="eager"
)
instance = so.Instance.from_graph(graph, device="a100-pcie4", budget=0.6)
for allowed in ("recompute", "swap", "both"):
    print(so.solve(restricted(instance, allowed), "milp", time_limit=1 if SMALL else 10, gap=1e-3))

# %% [markdown]
# A plan of a restricted instance is a plan of the instance itself. So the optimum of *both* is
# never worse than either, and its bound holds for all three.
#
# ## Over two speeds
#
# Each way at each pair of speeds. A compute speed of 2 halves the time of every op. Swap alone
# rarely closes its gap, and it is far from the others where that matters: it may stop at 5 %.

# %%
if SMALL:
    speeds = {"bandwidth_factors": ["0.5", "4"], "compute_factors": ["1", "2"]}
    time_limit = 0.3
else:
    speeds = {
        "bandwidth_factors": ["0.5", "1", "2", "4", "8", "16"],
        "compute_factors": ["0.5", "1", "2", "4"],
    }
    time_limit = 5
frame = pd.concat(
    [
        sweep(instance, allowed=("both", "recompute"), time_limit=time_limit, gap=1e-3, **speeds),
        sweep(instance, allowed=("swap",), time_limit=time_limit / 2, gap=0.05, **speeds),
    ],
    ignore_index=True,
)
with so.plotting.style("paper"):
    ax = so.plotting.plot_phase_map(frame)
    so.plotting.save_figure(ax.figure, FIGURES / "6-phase-map.pdf")
    so.plotting.save_figure(ax.figure, FIGURES / "6-phase-map.png")

# %% [markdown]
# A number says by how many percent both together are faster than the better one alone. Along a
# diagonal both speeds rise together, and little changes: what counts is their ratio, up to the
# latency of a copy. To the right the link is fast, and swap alone is enough. To the upper left
# compute is fast and the link slow: recompute. Having both pays most around the border.
#
# How sure is that? Below is the certified gap of the plans that may use both, in percent. Where it
# is larger than a difference in the map, the search ran out of time, and the gain may be larger:
# take a longer limit, or a batch.

# %%
both = frame[frame["allowed"] == "both"]
100 * both.pivot(index="compute_factor", columns="bandwidth_factor", values="gap").round(5)

# %% [markdown]
# ## Along one axis

# %%
as_profiled = frame[frame["compute_factor"] == 1]
with so.plotting.style("paper"):
    ax = so.plotting.plot_sensitivity(as_profiled)
    so.plotting.save_figure(ax.figure, FIGURES / "6-bandwidth.pdf")
    so.plotting.save_figure(ax.figure, FIGURES / "6-bandwidth.png")

# %% [markdown]
# Recompute alone does not know the link: its line is flat. A tail at a marker reaches to what the
# bound still allows.

# %%
with so.plotting.style("paper"):
    ax = so.plotting.plot_sensitivity_map(both)
    so.plotting.save_figure(ax.figure, FIGURES / "6-throughput.pdf")
    so.plotting.save_figure(ax.figure, FIGURES / "6-throughput.png")

# %% [markdown]
# ## Over the budget
#
# At the speeds as profiled. The axis of the added time is logarithmic, so that small losses can be
# seen beside large ones.

# %%
budgets = ["0.6", "0.8"] if SMALL else ["0.5", "0.6", "0.7", "0.8", "0.9", "1.0"]
memory = sweep(
    instance,
    budgets=budgets,
    allowed=("both", "recompute", "swap"),
    time_limit=time_limit,
    gap=1e-3,
)
with so.plotting.style("paper"):
    ax = so.plotting.plot_throughput_over_budget(memory, value="added_time")
    so.plotting.save_figure(ax.figure, FIGURES / "6-budget.pdf")
    so.plotting.save_figure(ax.figure, FIGURES / "6-budget.png")

# %% [markdown]
# ## Checks

# %%
assert not pd.concat([frame, memory])["status"].eq("error").any()
for table, keys in (
    (frame, ["bandwidth_factor", "compute_factor"]),
    (memory, ["budget_bytes"]),
):
    for _, rows in table.groupby(keys):
        ways = rows.set_index("allowed")
        bound = ways.loc["both", "lower_bound_ns"]
        assert pd.notna(bound)
        # The bound of both holds for the plans of either, and each bound for its own plans.
        assert (ways["makespan_ns"].dropna() >= bound).all()
        own = ways.dropna(subset=["makespan_ns", "lower_bound_ns"])
        assert (own["makespan_ns"] >= own["lower_bound_ns"]).all()
        assert (ways.loc[["recompute"], "swapped_bytes"].dropna() == 0).all()
        assert (ways.loc[["swap"], "recomputed_bytes"].dropna() == 0).all()
# Recompute alone is the same problem with every link: a bound with one holds for plans with all.
for _, rows in frame[frame["allowed"] == "recompute"].groupby("compute_factor"):
    assert rows["lower_bound_ns"].max() <= rows["makespan_ns"].min()
print("all checks hold")
