"""`runs_frame`: the runs of a batch as one flat table."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, cast

import numpy as np
import pandas as pd

from slackopt.analysis.labels import method_labels
from slackopt.batch.run import Run
from slackopt.batch.summary import RunSummary

_TEXT, _COUNT, _REAL, _FLAG, _TIME = "string", "Int64", "float64", "boolean", "datetime64[ns, UTC]"

COLUMNS: Mapping[str, str] = {
    "key": _TEXT,
    "instance": _TEXT,
    "instance_sha256": _TEXT,
    "method": _TEXT,
    "label": _TEXT,
    "seed": _COUNT,
    "outcome": _TEXT,
    "status": _TEXT,
    "stopped_by": _TEXT,
    "reason": _TEXT,
    "has_plan": "bool",
    "proved": "bool",
    "ideal_ns": _COUNT,
    "makespan_ns": _COUNT,
    "throughput_ratio": _REAL,
    "recompute_ns": _COUNT,
    "stall_ns": _COUNT,
    "swapped_bytes": _COUNT,
    "recomputed_bytes": _COUNT,
    "peak_bytes": _COUNT,
    "budget_bytes": _COUNT,
    "lower_bound_ns": _COUNT,
    "gap": _REAL,
    "best_makespan_ns": _COUNT,
    "best_lower_bound_ns": _COUNT,
    "gap_to_bound": _REAL,
    "gap_to_best": _REAL,
    "conflict": _TEXT,
    "build_s": _REAL,
    "solve_s": _REAL,
    "wall_s": _REAL,
    "peak_rss_bytes": _COUNT,
    "num_variables": _COUNT,
    "num_constraints": _COUNT,
    "solver": _TEXT,
    "solver_version": _TEXT,
    "time_limit_s": _REAL,
    "memory_limit_bytes": _COUNT,
    "gap_tolerance": _REAL,
    "threads": _COUNT,
    "deterministic": _FLAG,
    "options": _TEXT,
    "device": _TEXT,
    "budget_fraction": _REAL,
    "budget_share": _REAL,
    "unlimited_peak_bytes": _COUNT,
    "num_ops": _COUNT,
    "num_tensors": _COUNT,
    "num_candidates": _COUNT,
    "trajectory": "object",
    "instance_path": _TEXT,
    "exit_code": _COUNT,
    "signal": _TEXT,
    "attempt": _COUNT,
    "started_at": _TIME,
    "finished_at": _TIME,
    "run_wall_s": _REAL,
    "run_peak_rss_bytes": _COUNT,
    "slackopt_version": _TEXT,
}
"""Columns of `runs_frame` and their types, in order. Columns ``tag_<name>`` follow."""

_OF_RESULT = (
    *("status", "stopped_by", "makespan_ns", "throughput_ratio", "recompute_ns", "stall_ns"),
    *("swapped_bytes", "recomputed_bytes", "peak_bytes", "budget_bytes", "lower_bound_ns", "gap"),
    *("build_s", "solve_s", "wall_s", "peak_rss_bytes", "num_variables", "num_constraints"),
    *("solver_version", "trajectory"),
)
_OF_TASK = (
    *("instance", "instance_sha256", "method", "seed", "time_limit_s", "memory_limit_bytes"),
    *("threads", "deterministic", "instance_path"),
)
_OF_RUN = (
    *("key", "outcome", "exit_code", "signal", "attempt", "started_at", "finished_at"),
    "slackopt_version",
)
_MOST = 2**63 - 1
"""Largest whole number that a column holds."""

_FEATURES = ("device", "unlimited_peak_bytes", "num_ops", "num_tensors", "num_candidates")


def runs_frame(runs: Iterable[Run | RunSummary]) -> pd.DataFrame:
    """Make one flat table of runs, one row a run, in the order given.

    The columns are `COLUMNS`, always all of them, in this order and with these types, and one
    column ``tag_<name>`` (text) for each tag of the tasks, by name. Unknown is missing.

    - ``label`` is the method, with the settings in which its runs differ (`method_labels`).
    - ``has_plan``: there is a plan to trust, status ``optimal`` or ``feasible``.
    - ``proved``: status ``optimal`` or ``infeasible``.
    - ``gap`` is the certified gap of the run itself; ``gap_tolerance`` what it was asked for.
    - ``best_makespan_ns`` and ``best_lower_bound_ns`` are the smallest makespan and the largest
      bound of all runs on the instance (equal ``instance_sha256``), results of status ``error``
      left out. ``gap_to_bound = (makespan - best bound) / best bound`` and
      ``gap_to_best = (makespan - best makespan) / best makespan`` compare a run with them; the
      optimality gap of its plan lies between the two.
    - ``conflict`` says which bound is above which plan, or which plan exists though another run
      proved that there is none; the ``best_`` columns and gaps of that instance are then missing.
    - ``wall_s`` and ``peak_rss_bytes`` are those of the method, ``run_wall_s`` and
      ``run_peak_rss_bytes`` those of the run's process around it.
    - ``budget_share`` is the budget over the unlimited peak; ``budget_fraction`` as it was asked.
    - ``trajectory`` holds tuples ``(seconds, makespan_ns, lower_bound_ns)``; ``options`` is JSON.

    Parameters
    ----------
    runs
        From `slackopt.batch.read_runs` or, faster, from `read_run_summaries`.

    Returns
    -------
    pandas.DataFrame
    """
    given = list(runs)
    labels = method_labels(given)
    rows = [_row(run, label) for run, label in zip(given, labels, strict=True)]
    tags = sorted({tag for run in given for tag in run.task.tags})
    columns = dict(COLUMNS) | {f"tag_{tag}": _TEXT for tag in tags}
    frame = pd.DataFrame(
        {name: _column([row.get(name) for row in rows], kind) for name, kind in columns.items()}
    )
    return _with_best(_with_facts(frame))


def _column(values: list[Any], kind: str) -> pd.Series:
    if kind == "object":
        return pd.Series(values, dtype="object")
    if kind == _TIME:
        moments = pd.to_datetime(pd.Series(values, dtype="string"), utc=True, format="ISO8601")
        return moments.dt.as_unit("ns")
    if kind == _REAL:
        numbers = [np.nan if value is None else float(value) for value in values]
        return pd.Series(numbers, dtype="float64")
    column: pd.Series = pd.Series(values, dtype=cast(Any, kind))
    return column


def _row(run: Run | RunSummary, label: str) -> dict[str, Any]:
    task, result = run.task, run.result
    features = run.features
    row: dict[str, Any] = {"label": label, "trajectory": ()}
    row |= {name: getattr(task, name) for name in _OF_TASK}
    row |= {name: getattr(run, name) for name in _OF_RUN}
    row |= {name: _feature(features, name, COLUMNS[name]) for name in _FEATURES}
    row |= {f"tag_{tag}": value for tag, value in task.tags.items()}
    row |= {
        "gap_tolerance": task.gap,
        "options": json.dumps(dict(task.options), sort_keys=True) if task.options else "{}",
        "solver": task.solver,
        "run_wall_s": run.wall_s,
        "run_peak_rss_bytes": run.peak_rss_bytes,
        "ideal_ns": _feature(features, "ideal_ns", _COUNT),
        "budget_fraction": _fraction(features.get("budget_fraction")),
        "reason": run.detail,
        "has_plan": False,
        "proved": False,
    }
    if result is not None:
        row |= {name: getattr(result, name) for name in _OF_RESULT}
        row |= {
            "ideal_ns": result.ideal_ns,
            "solver": result.solver or task.solver,
            "has_plan": result.status in ("optimal", "feasible"),
            "proved": result.status in ("optimal", "infeasible"),
            "reason": run.detail or result.reason,
        }
    return row


def _feature(features: Mapping[str, Any], name: str, kind: str) -> Any:
    """Return a feature if it is of the type of its column; features are free-form."""
    value = features.get(name)
    if kind == _TEXT:
        return value if isinstance(value, str) else None
    sound = isinstance(value, int) and not isinstance(value, bool) and -_MOST <= value <= _MOST
    return value if sound else None


def _fraction(value: Any) -> float | None:
    """Read a budget fraction as users write it: 0.5, "0.5", "50%", "1/2"."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    text = str(value).strip()
    try:
        if text.endswith("%"):
            return float(text[:-1]) / 100
        over, _, under = text.partition("/")
        return float(over) / float(under or 1)
    except (ValueError, ZeroDivisionError):
        return None


def _with_facts(frame: pd.DataFrame) -> pd.DataFrame:
    """Fill in what is of the instance, where a run without a result does not say it."""
    groups = frame["instance_sha256"]
    for name in ("ideal_ns", "budget_bytes", "unlimited_peak_bytes"):
        frame[name] = frame[name].fillna(frame[name].groupby(groups).transform("max"))
    share = (frame["budget_bytes"] / frame["unlimited_peak_bytes"]).astype("Float64")
    known = pd.Series(share.to_numpy(dtype=float, na_value=np.nan), index=frame.index)
    frame["budget_share"] = known.fillna(frame["budget_fraction"])
    return frame


def _with_best(frame: pd.DataFrame) -> pd.DataFrame:
    sound = frame["status"].ne("error").fillna(False).astype(bool)
    groups = frame["instance_sha256"]
    makespans = frame["makespan_ns"].where(sound & frame["has_plan"])
    bounds = frame["lower_bound_ns"].where(sound)
    best_makespan = makespans.groupby(groups).transform("min")
    best_bound = bounds.groupby(groups).transform("max")
    impossible = (frame["status"].eq("infeasible").fillna(False)).groupby(groups).transform("any")
    crossed = (best_bound > best_makespan).fillna(False).astype(bool)
    refuted = impossible.astype(bool) & best_makespan.notna()
    for sha256 in frame.loc[crossed | refuted, "instance_sha256"].unique():
        here = groups == sha256
        frame.loc[here, "conflict"] = _conflict(frame[here], makespans[here], bounds[here])
    agreed = ~(crossed | refuted)
    frame["best_makespan_ns"] = best_makespan.where(agreed)
    frame["best_lower_bound_ns"] = best_bound.where(agreed)
    for name, reference in (("bound", "best_lower_bound_ns"), ("best", "best_makespan_ns")):
        excess = (makespans - frame[reference]) / frame[reference]
        frame[f"gap_to_{name}"] = excess.astype("Float64").to_numpy(dtype=float, na_value=np.nan)
    return frame


def _conflict(rows: pd.DataFrame, makespans: pd.Series, bounds: pd.Series) -> str:
    planner = rows[makespans.eq(makespans.min()).fillna(False)].iloc[0]
    plan = (
        f"the plan of {planner['label']} (run {planner['key'][:12]}) was simulated at "
        f"{planner['makespan_ns']} ns"
    )
    infeasible = rows[rows["status"].eq("infeasible").fillna(False)]
    if len(infeasible):
        prover = infeasible.iloc[0]
        claim = f"{prover['label']} (run {prover['key'][:12]}) claims that no plan exists"
    else:
        prover = rows[bounds.eq(bounds.max()).fillna(False)].iloc[0]
        claim = (
            f"{prover['label']} (run {prover['key'][:12]}) claims that no plan is below "
            f"{prover['lower_bound_ns']} ns"
        )
    return f"conflict: {claim}, and {plan}; please report this instance"
