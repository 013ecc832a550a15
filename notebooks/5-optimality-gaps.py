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
# # Optimality gaps of every rule, over models and budgets
#
# You will learn
#
# - how far each rule of the field is from the best possible plan, at each budget,
# - which rules find no plan at all, and where,
# - whether a rule loses its time by recomputing too much or by waiting,
# - how to read a performance profile, and what it hides.

# %%
import os
from pathlib import Path

import matplotlib as mpl
import pandas as pd

import slackopt as so
from slackopt.analysis import gap_over_budget, performance_profile, shifted_geometric_mean, sweep

# SLACKOPT_NOTEBOOKS=small makes every notebook run in seconds: the tests do so.
SMALL = os.environ.get("SLACKOPT_NOTEBOOKS") == "small"
FIGURES = Path(os.environ.get("SLACKOPT_FIGURES", "../build/notebooks/figures"))
FIGURES.mkdir(parents=True, exist_ok=True)
mpl.rcParams["figure.dpi"] = 160  # on the screen; files have their own

# %% [markdown]
# ## The rules and the instances
#
# All rules that are registered, and `milp` for the bound.

# %%
rules = [method for method in so.methods() if method.kind == "heuristic"]
pd.DataFrame({"rule": [m.name for m in rules], "what": [m.summary for m in rules]}).style.hide()

# %% [markdown]
# Three models at several budgets. One time limit holds for all; most rules need a fraction of a
# second. `round` and `local-search` are searches of this toolkit: they use the time they get, so
# their numbers depend on the machine.

# %%
if SMALL:
    graphs = [
        so.profiles.transformer("bert-large", batch=8, num_layers=4, attention="eager"),
        so.profiles.transformer("llama-7b", batch=1, num_layers=4),
    ]
    starts = [so.Instance.from_graph(each, device="a100-pcie4", budget=0.5) for each in graphs]
    budgets, time_limit = ["0.5", "0.7"], 0.5
else:
    names = ("bert-large-eager", "gpt2-xl-flash", "llama-7b-eager")
    starts = [so.read_instance(f"../instances/slackswap/{name}.json") for name in names]
    budgets, time_limit = ["0.3", "0.4", "0.5", "0.6", "0.8"], 4

checked = []


def check(variant, result):
    """Verify every plan and every bound as soon as it is there."""
    if result.status != "error":
        so.verify(variant.instance, result)
        checked.append(result)


frame = pd.concat(
    [
        sweep(
            start,
            budgets=budgets,
            methods=["milp", *(rule.name for rule in rules)],
            time_limit=time_limit,
            gap=1e-3,
            on_result=check,
        )
        for start in starts
    ],
    ignore_index=True,
)
print(f"{len(frame)} runs, {len(checked)} of them verified")

# %% [markdown]
# The gap of a run is (makespan - LB) / LB, with the best lower bound of its instance. It is the
# most that any other plan could gain.

# %%
bounds = frame.groupby("instance_sha256")["lower_bound_ns"].transform("max")
frame["gap_to_bound"] = frame["makespan_ns"] / bounds - 1
frame["found"] = frame["makespan_ns"].notna()
summary = frame.groupby("method").agg(
    found=("found", "sum"),
    runs=("found", "size"),
    median=("gap_to_bound", "median"),
    worst=("gap_to_bound", "max"),
)
summary["mean"] = [
    shifted_geometric_mean(frame.loc[frame["method"] == name, "gap_to_bound"].dropna(), shift=0.01)
    for name in summary.index
]
order = summary.assign(missed=-summary["found"]).sort_values(["missed", "mean"]).index
summary = summary.loc[order]
summary.mul({"found": 1, "runs": 1, "median": 100, "worst": 100, "mean": 100}).rename(
    columns={
        "found": "plans found",
        "median": "median gap (%)",
        "worst": "worst gap (%)",
        "mean": "shifted geometric mean (%)",
    }
).round(3)

# %% [markdown]
# A mean is over the plans that a rule found. A rule that fails where it is hard looks better than
# it is: read the first column first. The mean is shifted by one percent.
#
# ## Over the budget

# %%
named = ["milp", "slackswap", "slackswap-timeline", "capuchin", "teraio", "knapsack"]
shown = frame[frame["method"].isin(named)]
looks = so.plotting.line_looks(named)
with so.plotting.style("paper"):
    ax = so.plotting.plot_gap_over_budget(gap_over_budget(shown), looks=looks)
    so.plotting.save_figure(ax.figure, FIGURES / "5-gap-over-budget.pdf")
    so.plotting.save_figure(ax.figure, FIGURES / "5-gap-over-budget.png")

# %% [markdown]
# Shown is the median over the models. A line that begins late had no plan for half of the
# models at the smaller budgets.
#
# ## Performance profiles
#
# The share of all instances that a rule solves within a factor of the best of the rules shown.

# %%
profile = performance_profile(shown, "makespan_ns")
with so.plotting.style("paper"):
    # What lies beyond 10 % matters less than which rule is how near the best.
    ax = so.plotting.plot_performance_profile(profile, looks=looks, limit=1.1)
    so.plotting.save_figure(ax.figure, FIGURES / "5-profile.pdf")
    so.plotting.save_figure(ax.figure, FIGURES / "5-profile.png")

# %% [markdown]
# A profile compares with the best plan *found*. It does not know how far that one is from the
# bound; the figure before does.
#
# ## What the rules lose, and how
#
# The time that a plan adds is recompute or stalls. Compared with the exact plan of the same
# instance, on average over the plans that the rule found:

# %%
exact = frame[frame["method"] == "milp"].set_index("instance_sha256")
losses = frame[frame["found"] & frame["method"].ne("milp")].copy()
for column in ("recompute_ns", "stall_ns", "swapped_bytes", "ideal_ns"):
    losses[f"exact_{column}"] = losses["instance_sha256"].map(exact[column]).astype(float)
losses["more recompute (% of ideal)"] = (
    100 * (losses["recompute_ns"] - losses["exact_recompute_ns"]) / losses["ideal_ns"]
)
losses["more stalls (% of ideal)"] = (
    100 * (losses["stall_ns"] - losses["exact_stall_ns"]) / losses["ideal_ns"]
)
losses["more swapped (GiB)"] = (losses["swapped_bytes"] - losses["exact_swapped_bytes"]) / 2**30
parts = losses.groupby("method")[
    ["more recompute (% of ideal)", "more stalls (% of ideal)", "more swapped (GiB)"]
].mean()
parts.loc[[name for name in order if name in parts.index]].astype(float).round(3)

# %% [markdown]
# Rules that only recompute never stall; what they lose, they lose by rebuilding. Rules that only
# swap lose by waiting. For larger studies take `slackopt batch`: every run is a file, and nothing
# is lost when one fails.
#
# ## Checks

# %%
assert set(frame["method"]) == {"milp", *(rule.name for rule in rules)}
assert not (frame["status"] == "error").any()
assert len(checked) == len(frame)
assert (frame["gap_to_bound"].dropna() >= 0).all(), "no plan is below a proved bound"
found = frame[frame["found"]]
assert (found["makespan_ns"] == found["ideal_ns"] + found["recompute_ns"] + found["stall_ns"]).all()
assert (found["peak_bytes"] <= found["budget_bytes"]).all()
for name in ("sqrt-n", "layer-checkpoint", "selective", "knapsack", "dtr", "recompute-all"):
    plans = found[found["method"] == name]
    assert (plans["swapped_bytes"] == 0).all()
    assert (plans["stall_ns"] == 0).all()
for name in ("vdnn", "largest-first-offload", "swap-all"):
    assert (found.loc[found["method"] == name, "recompute_ns"] == 0).all()
# Below the unlimited peak keeping everything never works.
assert not frame.loc[frame["method"] == "keep-all", "found"].any()
assert ((profile >= 0) & (profile <= 1)).all().all()
assert (profile.diff().dropna() >= 0).all().all()
print("all checks hold")
