"""What a report holds: the tables and the data of the figures of one batch."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from slackopt.analysis import (
    common_instances,
    failures,
    gap_over_budget,
    gap_over_time,
    per_instance,
    per_method,
    performance_profile,
    read_run_summaries,
    runs_frame,
)
from slackopt.analysis.labels import instance_labels
from slackopt.analysis.summaries import run_times
from slackopt.errors import InputError


@dataclass(frozen=True)
class Report:
    """The tables of a batch.

    Attributes
    ----------
    folder
        The batch's folder, as given.
    runs
        One row a run: `slackopt.analysis.runs_frame`.
    methods, instances, failed
        `per_method`, `per_instance` and `failures` of these runs.
    conflicts
        Claims that can't both be true, one sentence each.
    skipped
        Files in the folder that are no sound runs, one sentence each.
    """

    folder: str
    runs: pd.DataFrame
    methods: pd.DataFrame
    instances: pd.DataFrame
    failed: pd.DataFrame
    conflicts: tuple[str, ...] = ()
    skipped: tuple[str, ...] = field(default_factory=tuple)

    @property
    def tables(self) -> dict[str, pd.DataFrame]:
        """The tables by the names that the command line gives them."""
        return {
            "methods": self.methods,
            "instances": self.instances,
            "runs": self.runs,
            "failures": self.failed,
        }


def make_report(folder: str | os.PathLike[str], *, methods: Sequence[str] | None = None) -> Report:
    """Read a batch and make its tables.

    Parameters
    ----------
    folder
        The batch's folder.
    methods
        Show these methods only, by method or label. The best bound and the best plan of an
        instance are still those of all runs.

    Raises
    ------
    InputError
        If the folder is none of a batch, holds no sound run, or none of a method asked for.
    """
    bad: list[InputError] = []
    runs = runs_frame(read_run_summaries(folder, on_bad=bad.append))
    skipped = tuple(" ".join(str(error).split()) for error in bad)
    if runs.empty:
        told = f"; {len(skipped)} files are no sound runs, the first: {skipped[0]}" if bad else ""
        raise InputError(f"{folder}: there is no run in it to report{told}")
    conflicts = tuple(
        f"{name}: {text}"
        for name, text in runs.assign(instance=instance_labels(runs))[["instance", "conflict"]]
        .dropna()
        .drop_duplicates()
        .to_numpy()
    )
    if methods is not None:
        known = set(runs["method"]) | set(runs["label"])
        for name in methods:
            if name not in known:
                raise InputError(
                    f"{folder}: has no runs of method {name!r}; it has: {', '.join(sorted(known))}"
                )
        runs = runs[runs["method"].isin(methods) | runs["label"].isin(methods)]
        runs = runs.reset_index(drop=True)
    return Report(
        folder=str(folder),
        runs=runs,
        methods=per_method(runs),
        instances=per_instance(runs),
        failed=failures(runs),
        conflicts=conflicts,
        skipped=skipped,
    )


@dataclass(frozen=True)
class FigureData:
    """What one figure shows.

    Attributes
    ----------
    name
        Name of its files.
    title
        What it shows, for a caption; one sentence and its definitions.
    frame
        The lines: one column a method.
    """

    name: str
    title: str
    frame: pd.DataFrame


def figure_data(report: Report) -> list[FigureData]:
    """Return the data of every figure that the runs can fill, in the order of a report.

    Methods that never have a plan (`bound`) are left out of profiles of plans, and methods that
    never prove anything (rules) out of profiles of times.
    """
    runs = report.runs.assign(time_s=run_times(report.runs))
    found = []
    planners = _with_any(runs, "has_plan")
    shared = common_instances(planners)
    if len(shared):
        count = shared["instance_sha256"].nunique()
        left = planners["instance_sha256"].nunique() - count
        of = f"{count} instances" + (
            f" ({left} that not all methods were run on are left out)" if left else ""
        )
        found += [
            FigureData(
                "profile-makespan",
                f"Share of {of} on which a method's makespan is within a factor τ of the best "
                "method's. A run without a plan never counts.",
                performance_profile(planners, "makespan_ns", counts="has_plan"),
            ),
            FigureData(
                "profile-added-time",
                f"Share of {of} on which a method adds at most τ more to the ideal step time than "
                "the best method does, in percentage points of the ideal time.",
                performance_profile(
                    planners.assign(
                        added=(planners["makespan_ns"] - planners["ideal_ns"])
                        / planners["ideal_ns"]
                    ),
                    "added",
                    "difference",
                    counts="has_plan",
                ),
            ),
        ]
    provers = _with_any(runs, "proved")
    timed = common_instances(provers)
    if provers["label"].nunique() > 1 and len(timed):
        found.append(
            FigureData(
                "profile-time",
                f"Share of {timed['instance_sha256'].nunique()} instances that a method solves, "
                "proof included, within a factor τ of the fastest method's time.",
                # A time of zero has no ratio; a clock does not resolve less than a microsecond.
                performance_profile(
                    provers.assign(time_s=np.maximum(provers["time_s"], 1e-6)),
                    "time_s",
                    counts="proved",
                ),
            )
        )
    certified = gap_over_time(runs)
    if len(certified.columns):
        found.append(
            FigureData(
                "gap-over-time",
                "Certified gap that half of a method's runs have reached, over time: each run's "
                "own plan and its own bound.",
                certified,
            )
        )
    distance = gap_over_time(runs, reference="best")
    if len(distance.columns):
        found.append(
            FigureData(
                "distance-over-time",
                "Distance of the plan to the best bound of all methods that half of a method's "
                "runs have reached, over time.",
                distance,
            )
        )
    budgets = gap_over_budget(runs)
    if len(budgets) > 1 and len(budgets.columns):
        found.append(
            FigureData(
                "gap-over-budget",
                "Gap of a method's plan to the best bound of all methods, over the memory budget: "
                "half of the runs at a budget are within it.",
                budgets,
            )
        )
    return found


def _with_any(runs: pd.DataFrame, column: str) -> pd.DataFrame:
    """Return the rows of the methods for which a column is true at least once."""
    return runs[runs.groupby("label")[column].transform("any").astype(bool)]
