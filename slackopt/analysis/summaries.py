"""Summaries of a table of runs: one row per instance and method, one row per method."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import numpy as np
import pandas as pd

from slackopt.analysis.labels import instance_labels
from slackopt.analysis.means import shifted_geometric_mean
from slackopt.analysis.performance_profile import method_column

TIME_SHIFT_S = 1.0
"""Shift of the geometric mean of times, in seconds."""

PER_INSTANCE: Mapping[str, str] = {
    "instance": "string",
    "budget_share": "float64",
    "device": "string",
    "method": "string",
    "runs": "Int64",
    "failed": "Int64",
    "with_plan": "Int64",
    "proved": "Int64",
    "makespan_ns": "Int64",
    "throughput_ratio": "float64",
    "lower_bound_ns": "Int64",
    "best_lower_bound_ns": "Int64",
    "gap": "float64",
    "gap_to_bound": "float64",
    "gap_to_best": "float64",
    "time_s": "float64",
    "instance_sha256": "string",
}
"""Columns of `per_instance` and their types, in order."""

_PER_CELL = {
    **dict.fromkeys(("runs", "failed", "with_plan", "proved"), "sum"),
    **dict.fromkeys(("instance", "budget_share", "device", "best_lower_bound_ns"), "first"),
    **dict.fromkeys(("throughput_ratio", "gap", "gap_to_bound", "gap_to_best", "time_s"), "median"),
    "makespan_ns": "min",
    "lower_bound_ns": "max",
}

PER_METHOD: Mapping[str, str] = {
    "method": "string",
    "instances": "Int64",
    "runs": "Int64",
    "failed": "Int64",
    "with_plan": "Int64",
    "proved": "Int64",
    "best": "Int64",
    "throughput_ratio": "float64",
    "gap": "float64",
    "gap_max": "float64",
    "gap_to_bound": "float64",
    "gap_to_bound_p90": "float64",
    "gap_to_bound_max": "float64",
    "time_s": "float64",
    "time_max_s": "float64",
}
"""Columns of `per_method` and their types, in order."""


def per_instance(frame: pd.DataFrame, *, by: str | None = None) -> pd.DataFrame:
    """Summarise the runs of each method on each instance.

    Where a method ran more than once on an instance (seeds), ``makespan_ns`` is the smallest,
    ``lower_bound_ns`` the largest, and ratio, gaps and time are medians over the runs that have
    them.

    Parameters
    ----------
    frame
        From `runs_frame`.
    by
        Column that tells methods apart: ``label`` if there is one, or ``method``.

    Returns
    -------
    pandas.DataFrame
        The columns of `PER_INSTANCE`, sorted by instance, budget and method. ``instance`` is the
        label of the instance, see `slackopt.analysis.labels.instance_labels`. ``failed`` counts
        runs whose process or solver failed, ``with_plan`` those with a plan to trust,
        ``proved`` those that proved an optimum (within the tolerance) or that no plan exists.
        ``gap`` is the certified gap of the runs themselves, ``gap_to_bound`` that to the best
        bound of any method, ``gap_to_best`` the distance to the best plan of any method.
        ``time_s`` is the time of the method; of a run that was killed, that of its process.
    """
    by = method_column(frame) if by is None else by
    trusted = frame["has_plan"]
    work = frame.assign(
        instance=instance_labels(frame),
        method=frame[by],
        runs=1,
        failed=failed_runs(frame),
        with_plan=trusted,
        makespan_ns=frame["makespan_ns"].where(trusted),
        throughput_ratio=frame["throughput_ratio"].where(trusted),
        time_s=run_times(frame),
    )
    # Whole columns at a time: there may be thousands of instances.
    found = work.groupby(["instance_sha256", "method"], as_index=False, sort=False).agg(_PER_CELL)
    made = found[list(PER_INSTANCE)].astype(cast(Any, dict(PER_INSTANCE)))
    order = ["instance", "budget_share", "instance_sha256", "method"]
    return made.sort_values(order, ignore_index=True)


def per_method(frame: pd.DataFrame, *, by: str | None = None) -> pd.DataFrame:
    """Summarise the runs of each method over all its instances.

    Parameters
    ----------
    frame
        From `runs_frame`.
    by
        Column that tells methods apart: ``label`` if there is one, or ``method``.

    Returns
    -------
    pandas.DataFrame
        The columns of `PER_METHOD`, sorted by method. The counts are of runs, as in
        `per_instance`; ``best`` counts the runs whose plan is as fast as the best of any
        method. ``throughput_ratio`` is the geometric mean over the runs with a plan;
        ``gap`` (certified gap of the run itself) and ``gap_to_bound`` (to the best bound of any
        method) are medians over the runs that have one, ``_p90`` the value that nine in ten of
        these runs stay within, ``_max`` their largest. ``time_s`` is the shifted geometric mean
        (shift `TIME_SHIFT_S`) of the times of all runs, ``time_max_s`` the longest.

        Means over runs with a plan are of different instances where methods fail on different
        ones: compare them beside ``with_plan``.
    """
    by = method_column(frame) if by is None else by
    work = frame.assign(time_s=run_times(frame), failed=failed_runs(frame))
    rows = []
    for name, runs in work.groupby(by):
        ratios = runs.loc[runs["has_plan"], "throughput_ratio"].dropna()
        gaps = runs["gap_to_bound"].dropna().sort_values()
        rows.append(
            _counts(runs)
            | {
                "method": name,
                "instances": runs["instance_sha256"].nunique(),
                "best": int((runs["gap_to_best"] == 0).sum()),
                "throughput_ratio": shifted_geometric_mean(ratios, 0.0),
                "gap": runs["gap"].median(),
                "gap_max": runs["gap"].max(),
                "gap_to_bound": gaps.median(),
                "gap_to_bound_p90": _reached_by(gaps, 0.9),
                "gap_to_bound_max": gaps.max(),
                "time_s": shifted_geometric_mean(runs["time_s"], TIME_SHIFT_S),
                "time_max_s": runs["time_s"].max(),
            }
        )
    return _typed(rows, PER_METHOD).sort_values("method", ignore_index=True)


def failures(frame: pd.DataFrame, *, by: str | None = None) -> pd.DataFrame:
    """List the runs that failed: one row each with instance, method, outcome and reason."""
    by = method_column(frame) if by is None else by
    rows = frame.assign(instance=instance_labels(frame))[failed_runs(frame)]
    return pd.DataFrame(
        {
            "instance": rows["instance"],
            "method": rows[by],
            "seed": rows["seed"],
            "outcome": rows["outcome"].where(rows["outcome"] != "done", rows["status"]),
            "reason": rows["reason"],
            "key": rows["key"],
        }
    ).reset_index(drop=True)


def failed_runs(frame: pd.DataFrame) -> pd.Series:
    """Return which runs failed: a process that did not end by itself, or a solver's error.

    A method that ends without a plan has not failed; it has found nothing.
    """
    return frame["outcome"].ne("done") | frame["status"].eq("error").fillna(False).astype(bool)


def run_times(frame: pd.DataFrame) -> pd.Series:
    """Return the seconds of each run: of the method if it returned, else of its process."""
    ended = frame["outcome"].eq("done") & frame["wall_s"].notna()
    return frame["wall_s"].where(ended, frame["run_wall_s"])


def _counts(runs: pd.DataFrame) -> dict[str, Any]:
    return {
        "runs": len(runs),
        "failed": int(runs["failed"].sum()),
        "with_plan": int(runs["has_plan"].sum()),
        "proved": int(runs["proved"].sum()),
    }


def _reached_by(rising: pd.Series, share: float) -> float:
    if rising.empty:
        return float("nan")
    return float(rising.iloc[max(int(np.ceil(share * len(rising) - 1e-9)), 1) - 1])


def _typed(rows: list[dict[str, Any]], columns: Mapping[str, str]) -> pd.DataFrame:
    return pd.DataFrame(
        {name: pd.Series([row[name] for row in rows], dtype=kind) for name, kind in columns.items()}
    )
