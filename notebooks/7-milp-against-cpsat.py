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
# # MILP against CP-SAT: what solves what, how fast
#
# Two families of solvers stand on the same rows: MILP (PuLP, here with HiGHS) and CP-SAT
# (OR-Tools). You will learn
#
# - which exact method solves which kind of instance, and to what gap,
# - that all of them agree, as they must,
# - how incumbent and bound move while they run.
#
# Times are of the machine that ran this notebook. Two threads of one machine, other programs and
# other versions all change them: compare within one table, not between machines.

# %%
import os
from pathlib import Path

import matplotlib as mpl
import pandas as pd

import slackopt as so
from slackopt.analysis import gap_over_time, performance_profile
from slackopt.compare import compare

# SLACKOPT_NOTEBOOKS=small makes every notebook run in seconds: the tests do so.
SMALL = os.environ.get("SLACKOPT_NOTEBOOKS") == "small"
FIGURES = Path(os.environ.get("SLACKOPT_FIGURES", "../build/notebooks/figures"))
FIGURES.mkdir(parents=True, exist_ok=True)
mpl.rcParams["figure.dpi"] = 160  # on the screen; files have their own

# %% [markdown]
# ## Tiny instances: the true optimum in five ways
#
# `enumerate` tries all plans. The two schedule models place every op and copy in time; their
# optimum is the simulator's. `milp` and `cpsat` search with window rows: these give a valid bound,
# but need not reach the optimum of a tiny instance, since there a single copy is a large part of
# the step.

# %%
names = ["branches", "residual-tight"]
if not SMALL:
    names += ["mixed", "mixed-tight", "mixed-slow-link", "unet", "layered-6-15-slow"]
tiny = [so.read_instance(f"../instances/tiny/{name}.json.gz") for name in names]
five = ("enumerate", "milp-schedule", "cpsat-schedule", "milp", "cpsat")
tiny_rows = compare(tiny, five, time_limit=1 if SMALL else 5)
tiny_table = pd.DataFrame(
    [
        {
            "instance": row.result.instance,
            "method": row.result.method,
            "status": row.result.status,
            "makespan (us)": None
            if row.result.makespan_ns is None
            else row.result.makespan_ns / 1e3,
            "bound (us)": None
            if row.result.lower_bound_ns is None
            else row.result.lower_bound_ns / 1e3,
            "seconds": row.result.wall_s,
        }
        for row in tiny_rows
    ]
)
tiny_table.pivot(index="instance", columns="method", values="makespan (us)")[list(five)]

# %%
tiny_table.pivot(index="instance", columns="method", values="status")[list(five)]

# %%
tiny_table.pivot(index="instance", columns="method", values="seconds")[list(five)].round(2)

# %% [markdown]
# ## Training steps of growing depth
#
# Real steps have hundreds of ops. The schedule models are too large for them; `milp` and `cpsat`
# are made for them. Both start from the same linear relaxation and the same rounded plans, so
# where these already close the gap, they end alike.

# %%
depths = [4] if SMALL else [4, 8, 16, 24]
steps = [
    so.Instance.from_graph(
        so.profiles.transformer(
            "bert-large",
            batch=8,
            num_layers=depth,
            attention=attention,
            name=f"bert-large-{attention}-{depth:02}",
        ),
        device="a100-pcie4",
        budget=0.7,
    )
    for attention in (("eager",) if SMALL else ("flash", "eager"))
    for depth in depths
]
tolerance = 1e-3 if SMALL else 5e-4
rows = compare(steps, ("milp", "cpsat"), time_limit=2 if SMALL else 10, gap=tolerance)
results = [row.result for row in rows]
frame = pd.DataFrame(
    {
        "instance": [result.instance for result in results],
        "instance_sha256": [result.instance_sha256 for result in results],
        "method": [result.method for result in results],
        "solver": [result.solver for result in results],
        "version": [result.solver_version for result in results],
        "status": [result.status for result in results],
        "stopped_by": [result.stopped_by for result in results],
        "gap (%)": [None if result.gap is None else 100 * result.gap for result in results],
        "variables": [result.num_variables for result in results],
        "rows": [result.num_constraints for result in results],
        "wall_s": [result.wall_s for result in results],
        "proved": [result.status in ("optimal", "infeasible") for result in results],
        "trajectory": [result.trajectory for result in results],
        "best_lower_bound_ns": [row.best_lower_bound_ns for row in rows],
    }
)
hidden = ["instance_sha256", "trajectory", "best_lower_bound_ns", "proved"]
frame.drop(columns=hidden).round({"gap (%)": 4, "wall_s": 2})

# %% [markdown]
# *Optimal* means: a certified gap within the tolerance, 0.05 % in full settings.
#
# ## Which is faster?
#
# The share of the instances that a method has proved optimal within a factor of the faster one's
# time. Runs that end at the limit count as failed.

# %%
looks = so.plotting.line_looks(["milp", "cpsat"])
if frame["proved"].any():
    profile = performance_profile(frame, "wall_s", counts="proved")
    with so.plotting.style("paper"):
        ax = so.plotting.plot_performance_profile(profile, looks=looks)
        so.plotting.save_figure(ax.figure, FIGURES / "7-time-profile.pdf")
        so.plotting.save_figure(ax.figure, FIGURES / "7-time-profile.png")
else:
    print("no run was proved optimal within its time limit: no profile")

# %% [markdown]
# ## Incumbent and bound while they run
#
# One instance. The incumbent falls, the bound rises, and the optimum is in between.

# %%
one = steps[0] if SMALL else steps[1]
runs = [result for result in results if result.instance_sha256 == one.sha256]
print(one)
with so.plotting.style("paper"):
    ax = so.plotting.plot_trajectory(runs, looks=looks)
    so.plotting.save_figure(ax.figure, FIGURES / "7-trajectory.pdf")
    so.plotting.save_figure(ax.figure, FIGURES / "7-trajectory.png")

# %% [markdown]
# And the gap over time for all instances: the value that half of the runs have reached.

# %%
with so.plotting.style("paper"):
    ax = so.plotting.plot_gap_over_time(gap_over_time(frame), looks=looks)
    so.plotting.save_figure(ax.figure, FIGURES / "7-gap-over-time.pdf")
    so.plotting.save_figure(ax.figure, FIGURES / "7-gap-over-time.png")

# %% [markdown]
# ## Checks
#
# Methods may differ in speed. They may not contradict each other.

# %%
by_sha = {instance.sha256: instance for instance in (*tiny, *steps)}
for row in (*tiny_rows, *rows):
    result = row.result
    assert result.status != "error", result.reason
    assert row.conflict is None
    so.verify(by_sha[result.instance_sha256], result)
for instance in by_sha.values():
    answers = [
        row.result for row in (*tiny_rows, *rows) if row.result.instance_sha256 == instance.sha256
    ]
    bounds = [each.lower_bound_ns for each in answers if each.lower_bound_ns is not None]
    makespans = [each.makespan_ns for each in answers if each.makespan_ns is not None]
    # All of these have plans, so no method may say that there is none.
    assert makespans
    assert all(each.status != "infeasible" for each in answers)
    # No bound of any method is above a plan of any other.
    assert max(bounds) <= min(makespans)
    # Who says optimal is within its tolerance of the best plan that anyone has.
    for each in answers:
        if each.status == "optimal":
            assert each.gap <= tolerance
            assert each.makespan_ns <= min(makespans) * (1 + tolerance)
print("all checks hold")
