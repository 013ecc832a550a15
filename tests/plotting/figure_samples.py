"""Things to draw: random timelines, a small transformer, frames as the analysis makes them."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import cache

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from random_steps import random_instance, random_plan

import slackopt as so
from slackopt import plotting
from slackopt.analysis.sweep import sweep


def timelines(count: int, *, feasible: bool = True) -> list[so.Timeline]:
    """Return timelines of random plans."""
    rng = random.Random(3)
    found: list[so.Timeline] = []
    while len(found) < count:
        instance = random_instance(rng)
        timeline = so.simulate(instance, random_plan(rng, instance))
        if timeline.feasible == feasible and (feasible or timeline.jobs):
            found.append(timeline)
    return found


@cache
def transformer_instance() -> so.Instance:
    """Return four layers of BERT-Large within 70 % of their memory."""
    graph = so.profiles.transformer("bert-large", batch=2, num_layers=4)
    return so.Instance.from_graph(graph, device="a100-pcie4", budget=0.7)


@cache
def rule_result() -> so.Result:
    """Return the plan of a rule for `transformer_instance`."""
    result = so.solve(transformer_instance(), "slackswap")
    assert result.plan is not None
    return result


@cache
def rule_timeline() -> so.Timeline:
    plan = rule_result().plan
    assert plan is not None
    return so.simulate(transformer_instance(), plan)


def moving_result(**changes: object) -> so.Result:
    """Return a result whose ends moved four times in 9 s."""
    moves = (
        (0.01, None, 90_000_000),
        (0.5, 120_000_000, 90_000_000),
        (2.0, 110_000_000, 95_000_000),
        (9.0, 100_000_000, 99_000_000),
    )
    fields = {
        "method": "milp",
        "makespan_ns": 100_000_000,
        "lower_bound_ns": 99_000_000,
        "wall_s": 10.0,
        "trajectory": moves,
    }
    return so.Result.model_validate(rule_result().model_dump() | fields | changes)


def one_op_instance() -> so.Instance:
    """Return an instance of one op and two tensors, with nothing to decide."""
    graph = so.Graph(
        name="one",
        ops=(so.Op(name="op", phase="forward", duration_ns=5, inputs=("in",), outputs=("out",)),),
        tensors=(so.Tensor(name="in", size_bytes=3), so.Tensor(name="out", size_bytes=4)),
    )
    return so.Instance.from_graph(graph, device="a100-pcie4", budget=10)


@cache
def sweep_frame() -> pd.DataFrame:
    """Return a sweep of a rule over budgets, link and compute speeds."""
    graph = so.profiles.transformer("bert-large", batch=2, num_layers=4)
    instance = so.Instance.from_graph(graph, device="a100-pcie4", budget=0.7)
    return sweep(
        instance,
        methods=["teraio"],
        budgets=["0.7", "0.85"],
        bandwidth_factors=[0.5, 1, 2],
        compute_factors=[1, 2],
        allowed=("both", "recompute", "swap"),
    )


def at(frame: pd.DataFrame, **values: object) -> pd.DataFrame:
    """Return the rows with these values."""
    for name, value in values.items():
        frame = frame[frame[name] == value]
    return frame


def budget_slice() -> pd.DataFrame:
    return at(sweep_frame(), bandwidth_factor=1.0, compute_factor=1.0)


def speed_slice() -> pd.DataFrame:
    frame = sweep_frame()
    return frame[frame["budget_share"] < 0.8]


def gaps_by_budget() -> pd.DataFrame:
    index = pd.Index([0.3, 0.5, 0.7], name="budget_share")
    return pd.DataFrame({"milp": [0.0, 1e-5, 3e-4], "slackswap": [np.nan, 0.05, 0.4]}, index=index)


def gaps_by_time() -> pd.DataFrame:
    index = pd.Index(np.geomspace(0.01, 30, 50), name="seconds")
    steps = np.where(np.arange(50) < 10, np.nan, 1.0 / np.arange(1, 51))
    return pd.DataFrame({"milp": steps, "cpsat": 2 * steps}, index=index)


def profiles() -> pd.DataFrame:
    return pd.DataFrame(
        {"milp": [0.5, 0.75, 1.0], "slackswap": [0.5, 0.5, 0.5]},
        index=pd.Index([1.0, 1.5, 8.0], name="tau"),
    )


FIGURES: dict[str, Callable[[Axes | None], Axes]] = {
    "timeline": lambda ax: plotting.plot_timeline(rule_timeline(), ax),
    "memory": lambda ax: plotting.plot_memory(rule_timeline(), ax),
    "freed-memory": lambda ax: plotting.plot_freed_memory(rule_timeline(), ax),
    "decision-map": lambda ax: plotting.plot_decision_map(
        transformer_instance(), rule_result(), ax
    ),
    "gap-over-budget": lambda ax: plotting.plot_gap_over_budget(gaps_by_budget(), ax),
    "gap-over-time": lambda ax: plotting.plot_gap_over_time(gaps_by_time(), ax),
    "performance-profile": lambda ax: plotting.plot_performance_profile(profiles(), ax),
    "trajectory": lambda ax: plotting.plot_trajectory(moving_result(), ax),
    "throughput": lambda ax: plotting.plot_throughput_over_budget(budget_slice(), ax),
    "added-time": lambda ax: plotting.plot_throughput_over_budget(
        budget_slice(), ax, value="added_time"
    ),
    "sensitivity": lambda ax: plotting.plot_sensitivity(at(speed_slice(), compute_factor=1.0), ax),
    "sensitivity-map": lambda ax: plotting.plot_sensitivity_map(
        at(speed_slice(), allowed="both"), ax
    ),
    "phase-map": lambda ax: plotting.plot_phase_map(speed_slice(), ax),
}
"""Every figure that draws into given axes, by name."""
