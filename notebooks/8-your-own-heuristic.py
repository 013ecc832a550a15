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
# # Your own heuristic in ten lines
#
# You will learn to
#
# - write a rule of your own, and make it a method like any other,
# - compare it with the rules of the field and with the best possible,
# - see where it loses, so that the next version is better.

# %%
import os
from pathlib import Path

import matplotlib as mpl
import pandas as pd

import slackopt as so
from slackopt import Plan, simulate
from slackopt.analysis import gap_over_budget, sweep
from slackopt.heuristics import NoPlanError, heuristic

# SLACKOPT_NOTEBOOKS=small makes every notebook run in seconds: the tests do so.
SMALL = os.environ.get("SLACKOPT_NOTEBOOKS") == "small"
FIGURES = Path(os.environ.get("SLACKOPT_FIGURES", "../build/notebooks/figures"))
FIGURES.mkdir(parents=True, exist_ok=True)
mpl.rcParams["figure.dpi"] = 160  # on the screen; files have their own

# %% [markdown]
# ## The rule
#
# The idea: recompute what is cheap, for each byte that it frees. A tensor's price is the time of
# its producer over its size. Drop the cheapest tensors, a few more at a time, until the step runs.


# %%
@heuristic("cheapest-bytes")
def cheapest_bytes(instance, *, at_once: int = 4):
    """Recompute the cheapest bytes first, until the step runs."""
    life, names = instance.lifetimes, [tensor.name for tensor in instance.graph.tensors]
    droppable = [t for t in life.candidates if life.can_recompute(t)]
    droppable.sort(key=lambda t: life.durations_ns[life.producer[t]] / life.sizes_bytes[t])
    for count in range(0, len(droppable) + at_once, at_once):
        plan = Plan.for_instance(instance, {names[t]: "recompute" for t in droppable[:count]})
        if simulate(instance, plan).feasible:
            return plan
    raise NoPlanError("cheapest-bytes", instance, "with everything dropped that can be")


# %% [markdown]
# That is all. The rule is a method now, with its option:

# %%
graph = so.profiles.transformer("llama-7b", batch=1 if SMALL else 2, num_layers=4 if SMALL else 32)
instance = so.Instance.from_graph(graph, device="a100-pcie4", budget=0.6)
first = so.solve(instance, "cheapest-bytes")
print(first)
print(so.solve(instance, "cheapest-bytes", at_once=1))

# %% [markdown]
# An option that the rule does not have is refused, with the names of those it has:

# %%
try:
    so.solve(instance, "cheapest-bytes", at_most=3)
except so.InputError as error:
    refusal = str(error)
print(refusal)

# %% [markdown]
# ## A second version
#
# The first version never uses the link. This one first swaps: tensors in the order in which they
# are made, until their copies out fill 80 % of the forward pass. The backward pass takes longer, so
# there is time for the copies back. What remains is dropped as before.


# %%
@heuristic("link-then-bytes")
def link_then_bytes(instance, *, share: float = 0.8):
    """Swap early tensors while a share of the link's time lasts, then drop the cheapest bytes."""
    life, names = instance.lifetimes, [tensor.name for tensor in instance.graph.tensors]
    left = share * sum(life.durations_ns[: life.num_forward])
    decisions = {}
    for t in (t for t in life.candidates if life.swappable[t] and life.producer[t] >= 0):
        left -= instance.device.swap_out_ns(life.sizes_bytes[t])
        if left < 0:
            break
        decisions[names[t]] = "swap"
    droppable = [t for t in life.candidates if life.can_recompute(t) and names[t] not in decisions]
    droppable.sort(key=lambda t: life.durations_ns[life.producer[t]] / life.sizes_bytes[t])
    for count in range(0, len(droppable) + 4, 4):
        plan = Plan.for_instance(
            instance, decisions | {names[t]: "recompute" for t in droppable[:count]}
        )
        if simulate(instance, plan).feasible:
            return plan
    raise NoPlanError("link-then-bytes", instance, "with everything dropped that can be")


# %% [markdown]
# ## Against the field, and against the best possible

# %%
ours = ["cheapest-bytes", "link-then-bytes"]
methods = ["milp", "slackswap-timeline", "knapsack", *ours]
budgets = ["0.5", "0.7"] if SMALL else ["0.3", "0.4", "0.5", "0.6", "0.7", "0.8", "0.9"]
kept = []
frame = sweep(
    instance,
    budgets=budgets,
    methods=methods,
    time_limit=2 if SMALL else 10,
    gap=1e-3,
    on_result=lambda variant, result: kept.append((variant.instance, result)),
)
bounds = frame.groupby("instance_sha256")["lower_bound_ns"].transform("max")
frame["gap_to_bound"] = frame["makespan_ns"] / bounds - 1
table = frame.pivot(index="budget_share", columns="method", values="gap_to_bound")[methods]
(100 * table).round(3)

# %%
looks = so.plotting.line_looks(methods)
with so.plotting.style("paper"):
    ax = so.plotting.plot_gap_over_budget(gap_over_budget(frame), looks=looks)
    so.plotting.save_figure(ax.figure, FIGURES / "8-gaps.pdf")
    so.plotting.save_figure(ax.figure, FIGURES / "8-gaps.png")

# %% [markdown]
# ## Where does it lose?
#
# Look at the decisions, ours first and the exact plan's below: which tensors does the exact plan
# treat otherwise?

# %%
at_half = {
    result.method: (variant, result) for variant, result in kept if variant.budget_fraction == "0.5"
}
for method in ("link-then-bytes", "milp"):
    variant, result = at_half[method]
    if result.plan is None:
        print(f"{method}: {result.reason}")
        continue
    print(result)
    with so.plotting.style("paper"):
        ax = so.plotting.plot_decision_map(variant, result)
        so.plotting.save_figure(ax.figure, FIGURES / f"8-decisions-{method}.pdf")
        so.plotting.save_figure(ax.figure, FIGURES / f"8-decisions-{method}.png")

# %% [markdown]
# The time that each adds, in its parts:

# %%
parts = frame[frame["budget_share"].sub(0.5).abs().lt(0.01)].set_index("method")
pd.DataFrame(
    {
        "recompute (ms)": parts["recompute_ns"] / 1e6,
        "stalls (ms)": parts["stall_ns"] / 1e6,
        "swapped (GiB)": parts["swapped_bytes"] / 2**30,
        "gap to the bound (%)": 100 * parts["gap_to_bound"],
    }
).astype(float).round(3)

# %% [markdown]
# To use a rule on the command line and in batches, put it into a module and name it as an entry
# point: [a rule of your own](../docs/own-heuristic.md) has the six lines.
#
# ## Checks

# %%
known = {method.name: method for method in so.methods()}
for name in ours:
    assert known[name].kind == "heuristic"
assert "at_once" in refusal
assert not (frame["status"] == "error").any()
for variant, result in kept:
    so.verify(variant, result)
assert (frame["gap_to_bound"].dropna() >= 0).all()
for name in ours:
    again = so.solve(instance, name)
    assert again.plan == so.solve(instance, name).plan, "the same instance gives the same plan"
    assert again.status == "feasible"
    assert again.peak_bytes <= instance.budget_bytes
alone = frame[frame["method"] == "cheapest-bytes"]
assert (alone["swapped_bytes"].dropna() == 0).all()
assert (alone["stall_ns"].dropna() == 0).all()
print("all checks hold")
