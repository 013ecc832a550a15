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
# # Anatomy of an instance
#
# You will learn
#
# - what a training step is made of: ops, tensors, and when each tensor is needed,
# - why memory has its peak where forward and backward pass meet,
# - which tensors can leave the device at all, and what each way out costs,
# - how to read the three figures that show a plan.

# %%
import os
from pathlib import Path

import matplotlib as mpl
import networkx as nx
import pandas as pd

import slackopt as so
from slackopt.describe import describe

# SLACKOPT_NOTEBOOKS=small makes every notebook run in seconds: the tests do so.
SMALL = os.environ.get("SLACKOPT_NOTEBOOKS") == "small"
FIGURES = Path(os.environ.get("SLACKOPT_FIGURES", "../build/notebooks/figures"))
FIGURES.mkdir(parents=True, exist_ok=True)
mpl.rcParams["figure.dpi"] = 160  # on the screen; files have their own

# %% [markdown]
# ## Ops and tensors
#
# The step is a fixed sequence of ops. Each reads tensors and makes tensors. These are the ops of
# one layer of Llama 7B in the forward pass:

# %%
size = {"batch": 1, "num_layers": 4} if SMALL else {"batch": 2, "num_layers": 32}
graph = so.profiles.transformer("llama-7b", **size)
ops = pd.DataFrame(
    {
        "phase": [op.phase for op in graph.ops],
        "op": [op.name for op in graph.ops],
        "layer": [op.layer for op in graph.ops],
        "duration (us)": [op.duration_ns / 1e3 for op in graph.ops],
        "reads": [len(op.inputs) for op in graph.ops],
        "makes (MiB)": [size / 2**20 for size in graph.lifetimes.output_bytes],
        "recomputable": [op.recomputable for op in graph.ops],
    }
)
layer = ops["layer"].dropna().iloc[len(ops) // 4]
ops[(ops["layer"] == layer) & (ops["phase"] == "forward")].round(2)

# %% [markdown]
# Matrix products take long. Norms, products and additions are short, and make tensors that are as
# large: those are the cheap ones to recompute.
#
# Underneath there is a `networkx.DiGraph` with a node for each op and each tensor, for any
# question that this notebook does not ask:

# %%
net = graph.networkx
deepest = nx.dag_longest_path_length(net)
print(f"{net.number_of_nodes()} nodes, {net.number_of_edges()} edges, longest path {deepest}")

# %% [markdown]
# ## Who waits for whom
#
# A tensor made in the forward pass and read in the backward pass is idle in between. Such a tensor
# is a *candidate*: a plan decides whether to keep, swap or recompute it. All others live briefly.

# %%
life = graph.lifetimes
starts_ns = pd.Series(life.durations_ns).cumsum().shift(fill_value=0)
device = so.profiles.get_device("a100-pcie4")
candidates = pd.DataFrame(
    [
        {
            "tensor": graph.tensors[t].name,
            "made by": graph.ops[life.producer[t]].name if life.producer[t] >= 0 else "batch",
            "size (MiB)": life.sizes_bytes[t] / 2**20,
            "idle (ms)": (
                starts_ns[life.first_backward_use[t]]
                - starts_ns[life.last_forward_use[t]]
                - life.durations_ns[life.last_forward_use[t]]
            )
            / 1e6,
            "two copies (ms)": (
                device.swap_out_ns(life.sizes_bytes[t]) + device.swap_in_ns(life.sizes_bytes[t])
            )
            / 1e6,
            "producer's time (ms)": life.durations_ns[life.producer[t]] / 1e6
            if life.can_recompute(t)
            else None,
            "swappable": life.swappable[t],
            "recomputable": life.can_recompute(t),
        }
        for t in life.candidates
    ]
)
largest = candidates.sort_values(["size (MiB)", "tensor"], ascending=[False, True])
largest.head(8).round(3)

# %% [markdown]
# Nearly every candidate is idle far longer than its two copies take. Still, they can't all be
# swapped: they share one link. So what counts is the sum.

# %%
facts = describe(so.Instance.from_graph(graph, device=device, budget=0.5))
in_gib = {
    "unlimited peak": facts["graph"]["unlimited_peak_bytes"],
    "all candidates": facts["graph"]["candidate_bytes"],
    "largest working set of one op": facts["graph"]["min_budget_lower_bound_bytes"],
    "budget": facts["budget_bytes"],
    "excess: peak above the budget": facts["excess_bytes"],
    "what the link can hide at most": facts["hideable_bytes"],
}
pd.Series(in_gib).div(2**30).round(2).to_frame("GiB")

# %% [markdown]
# The *hideable* bytes are what fits through the link while compute runs. If they are below the
# excess, something has to be recomputed, or the step stalls. No plan exists below the largest
# working set.
#
# ## Memory without a limit
#
# With the whole peak as budget, nothing needs to be decided. Memory rises in the forward pass and
# falls in the backward pass.

# %%
unlimited = so.Instance.from_graph(graph, device=device, budget=1.0)
free = so.simulate(unlimited, so.Plan.for_instance(unlimited, {}))
figure = so.plotting.plot_step(free)
so.plotting.save_figure(figure, FIGURES / "2-unlimited.pdf")
so.plotting.save_figure(figure, FIGURES / "2-unlimited.png")

# %% [markdown]
# ## Memory with a plan
#
# Now a tight budget, and a plan by an exact method. The grey area is on the device. Above it stands
# what swap and recompute keep away, up to the curve of the figure before.

# %%
budget = 0.5 if SMALL else 0.3
instance = so.Instance.from_graph(graph, device=device, budget=budget)
result = so.solve(instance, "milp", time_limit=3 if SMALL else 30, gap=1e-3)
timeline = so.simulate(instance, result.plan)
print(result)
print(timeline.explain())
with so.plotting.style("paper"):
    ax = so.plotting.plot_freed_memory(timeline)
    so.plotting.save_figure(ax.figure, FIGURES / "2-freed-memory.pdf")
    so.plotting.save_figure(ax.figure, FIGURES / "2-freed-memory.png")

# %% [markdown]
# ## What is decided where
#
# A row is a tensor's role in its layer, a column is a layer.

# %%
with so.plotting.style("paper"):
    ax = so.plotting.plot_decision_map(instance, result)
    so.plotting.save_figure(ax.figure, FIGURES / "2-decisions.pdf")
    so.plotting.save_figure(ax.figure, FIGURES / "2-decisions.png")

# %% [markdown]
# The same in numbers: what the plan does with the candidates, and with how many bytes.

# %%
decided = candidates.assign(
    decision=[result.plan.decisions.get(name, "keep") for name in candidates["tensor"]]
)
decided.groupby("decision")["size (MiB)"].agg(["count", "sum"]).round(1)

# %% [markdown]
# ## Below the working set
#
# One byte less than the largest working set, and the instance says why there is no plan:

# %%
too_small = so.Instance.from_graph(
    graph, device=device, budget=facts["graph"]["min_budget_lower_bound_bytes"] - 1
)
try:
    too_small.check_working_set()
except so.InfeasibleError as error:
    reason = str(error)
print(reason)

# %% [markdown]
# ## Checks

# %%
assert sum(op.duration_ns for op in graph.ops) == graph.ideal_ns == free.makespan_ns
assert free.peak_bytes == graph.unlimited_peak_bytes
assert nx.is_directed_acyclic_graph(net)
assert net.number_of_nodes() == len(graph.ops) + len(graph.tensors)
assert (candidates["idle (ms)"] > 0).all()
assert timeline.feasible
assert timeline.peak_bytes <= instance.budget_bytes < graph.unlimited_peak_bytes
assert result.lower_bound_ns <= timeline.makespan_ns
assert decided.loc[decided["decision"] == "swap", "swappable"].all()
assert decided.loc[decided["decision"] == "recompute", "recomputable"].all()
assert so.solve(too_small, "milp").status == "infeasible"
assert "has no plan" in reason
so.verify(instance, result)
print("all checks hold")
