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
# # Quick start
#
# You will learn to
#
# - make an *instance*: one training step, one device, one memory budget,
# - ask a rule of the field and an exact method for a *plan*,
# - read what the plan costs, and how far it is from the best possible,
# - check a result, store it, and draw it.
#
# Everything runs on a CPU. No GPU and no deep-learning framework is needed.

# %%
import os
from pathlib import Path

import matplotlib as mpl
import pandas as pd

import slackopt as so

# SLACKOPT_NOTEBOOKS=small makes every notebook run in seconds: the tests do so.
SMALL = os.environ.get("SLACKOPT_NOTEBOOKS") == "small"
FIGURES = Path(os.environ.get("SLACKOPT_FIGURES", "../build/notebooks/figures"))
FIGURES.mkdir(parents=True, exist_ok=True)
mpl.rcParams["figure.dpi"] = 160  # on the screen; files have their own

# %% [markdown]
# ## The question
#
# A *graph* is one training step: its ops in order, and the tensors between them. This one is
# BERT-Large, written down from the model's shape. Op times are estimated for an A100.

# %%
size = {"batch": 8, "num_layers": 8} if SMALL else {"batch": 32, "num_layers": 24}
graph = so.profiles.transformer("bert-large", **size)
print(graph)

# %% [markdown]
# Without a limit the step needs its *unlimited peak* of memory and its *ideal* time. We give it
# half of that memory, on a GPU that is connected by PCIe 4.0.

# %%
instance = so.Instance.from_graph(graph, device="a100-pcie4", budget=0.5)
print(instance)
print(f"ideal step time: {instance.ideal_ns / 1e6:.1f} ms")
print(f"unlimited peak:  {graph.unlimited_peak_bytes / 2**30:.2f} GiB")
print(f"budget:          {instance.budget_bytes / 2**30:.2f} GiB")

# %% [markdown]
# A *plan* says which tensors are swapped to the host and which are recomputed. All others are
# kept. Keeping everything can't work here, and the simulator says where it fails:

# %%
keep_all = so.simulate(instance, so.Plan.for_instance(instance, {}))
print(keep_all.explain())

# %% [markdown]
# ## Two answers
#
# `slackswap` is a rule: fast, and without any promise. `milp` is exact: besides a plan it proves a
# *lower bound*, a step time that no plan whatever can beat.

# %%
rule = so.solve(instance, "slackswap")
best = so.solve(instance, "milp", time_limit=2 if SMALL else 30)
print(rule)
print(best)

# %% [markdown]
# The *makespan* is the simulated step time. It is the sum of three parts, exactly: the ideal time,
# the time of recomputed ops, and stalls, in which compute waits for a copy or for memory.

# %%
bound = best.lower_bound_ns
table = pd.DataFrame(
    {
        result.method: {
            "ideal (ms)": result.ideal_ns / 1e6,
            "recompute (ms)": result.recompute_ns / 1e6,
            "stalls (ms)": result.stall_ns / 1e6,
            "makespan (ms)": result.makespan_ns / 1e6,
            "throughput (% of ideal)": 100 * result.throughput_ratio,
            "gap to the bound (%)": 100 * (result.makespan_ns - bound) / bound,
            "swapped (GiB)": result.swapped_bytes / 2**30,
            "recomputed (GiB)": result.recomputed_bytes / 2**30,
        }
        for result in (rule, best)
    }
)
table.round(3)

# %% [markdown]
# The gap of the rule is what any better plan could still gain, at most. The gap of the exact
# plan is small: it is optimal up to that.
#
# ## What happens during the step
#
# Compute runs in the upper panel, with copies to the host and back in lanes of their own. In the
# lower panel the memory stays below the budget.

# %%
timeline = so.simulate(instance, best.plan)
figure = so.plotting.plot_step(timeline)
so.plotting.save_figure(figure, FIGURES / "1-step.pdf")
so.plotting.save_figure(figure, FIGURES / "1-step.png")

# %% [markdown]
# ## Check, store, read again
#
# `verify` believes nothing that the result says. It simulates the plan again, checks the timeline
# by code of its own, and adds up the proof of the bound in exact numbers, without a solver.

# %%
checked = so.verify(instance, best)
for line in checked:
    print("-", line)

# %%
files = FIGURES.parent / "files"
files.mkdir(exist_ok=True)
so.write_record(instance, files / "instance.json")
so.write_record(best, files / "best.json")
again = so.read_result(files / "best.json")
print(again)

# %% [markdown]
# The command line reads the same files: `slackopt verify instance.json best.json`.
#
# ## Checks
#
# What this notebook says, as assertions.

# %%
assert not keep_all.feasible
for result in (rule, best):
    assert result.makespan_ns == result.ideal_ns + result.recompute_ns + result.stall_ns
    assert result.peak_bytes <= instance.budget_bytes
    assert instance.ideal_ns <= bound <= result.makespan_ns
    so.verify(instance, result)
assert timeline.makespan_ns == best.makespan_ns
assert again == best
assert so.read_instance(files / "instance.json") == instance
print("all checks hold")
