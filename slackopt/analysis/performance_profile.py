"""Performance profiles: which share of the instances a method solves within tau of the best."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pandas as pd

from slackopt.errors import InputError

Kind = Literal["ratio", "difference"]


def performance_profile(
    frame: pd.DataFrame,
    column: str,
    kind: Kind = "ratio",
    *,
    by: str | None = None,
    counts: str | None = None,
) -> pd.DataFrame:
    """Compute the performance profile of every method.

    With the value t(p, s) of method s on instance p (smaller is better), the performance is

        r(p, s) = t(p, s) / min_s t(p, s)      (kind "ratio"), or
        r(p, s) = t(p, s) - min_s t(p, s)      (kind "difference"),

    infinite if the run failed, and the profile is the share of the P instances

        rho_s(tau) = |{p : r(p, s) <= tau}| / P .

    Differences are for values that can be zero (a gap, an added time), where ratios mean nothing.
    Several runs of a method on an instance (seeds) share the weight of that instance equally.
    Instances that a method was never run on are left out for all methods, for a method can't be
    blamed for a run that was not asked for: see `common_instances`.

    Parameters
    ----------
    frame
        From `runs_frame`; the columns ``instance_sha256``, `by` and `column` are used.
    column
        A column of values of at least 0; missing, or infinite, where a run failed.
    kind
        ``ratio`` (Dolan and Moré) or ``difference``.
    by
        Column that tells methods apart: ``label`` if there is one, or ``method``.
    counts
        Column of truth values: runs where it is false or missing count as failed, whatever
        their value (``proved`` for a profile of times). By default every value counts.

    Returns
    -------
    pandas.DataFrame
        Index ``tau``: every place where some profile steps, from 1 (ratio) or 0 (difference)
        on; one column per method, in alphabetical order. Between two places the profiles keep
        the value of the left one; after the last they stay.

    Raises
    ------
    InputError
        For a column that is missing or holds a negative value, for ratios where a value is
        zero, or if no instance is common to all methods.

    References
    ----------
    E. D. Dolan, J. J. Moré, Benchmarking optimization software with performance profiles,
    Mathematical Programming 91 (2002), 201-213.
    """
    by = method_column(frame) if by is None else by
    for name in ("instance_sha256", by, column, *(() if counts is None else (counts,))):
        if name not in frame.columns:
            raise InputError(f"the table of runs has no column {name!r}; make it by runs_frame")
    rows = common_instances(frame, by)
    if rows.empty:
        raise InputError(
            "no instance was run by all methods, so there is nothing to compare; run the missing "
            "ones, or leave methods out"
        )
    values = rows[column].astype("Float64").to_numpy(dtype=float, na_value=np.inf)
    values = np.where(np.isnan(values), np.inf, values)
    if counts is not None:
        values = np.where(rows[counts].fillna(False).astype(bool), values, np.inf)
    if bool(np.any(values < 0)):
        raise InputError(f"column {column!r} has a value below 0; a profile needs costs of >= 0")
    work = pd.DataFrame(
        {"instance": rows["instance_sha256"].to_numpy(), "by": rows[by].to_numpy(), "value": values}
    )
    best = work.groupby("instance")["value"].transform("min")
    if kind == "ratio" and bool((best == 0).any()):
        raise InputError(
            f"column {column!r} has zeros, and a ratio to zero means nothing; use the kind "
            "'difference'"
        )
    nobody = np.isinf(best)  # a failed run is never within any tau, also where all runs failed
    with np.errstate(invalid="ignore"):
        performance = work["value"] / best if kind == "ratio" else work["value"] - best
    work["performance"] = performance.where(~nobody, np.inf)
    per_cell = work.groupby(["instance", "by"])["value"].transform("size")
    work["weight"] = 1.0 / (per_cell * work["instance"].nunique())
    return _steps(work, 1.0 if kind == "ratio" else 0.0)


def common_instances(frame: pd.DataFrame, by: str | None = None) -> pd.DataFrame:
    """Return the rows of the instances on which every method has at least one run."""
    by = method_column(frame) if by is None else by
    asked = frame.groupby("instance_sha256")[by].transform("nunique")
    return frame[asked == frame[by].nunique()]


def method_column(frame: pd.DataFrame) -> str:
    """Return the column that tells methods apart: ``label`` if there is one, or ``method``."""
    return "label" if "label" in frame.columns else "method"


def _steps(work: pd.DataFrame, first: float) -> pd.DataFrame:
    solved = work[np.isfinite(work["performance"])]
    taus = np.unique(np.append(solved["performance"].to_numpy(), first))
    columns = {}
    for name in sorted(work["by"].unique()):
        mine = solved[solved["by"] == name].sort_values("performance")
        reached = np.concatenate([[0.0], np.cumsum(mine["weight"].to_numpy())])
        at = np.searchsorted(mine["performance"].to_numpy(), taus, side="right")
        columns[str(name)] = np.minimum(reached[at], 1.0)
    return pd.DataFrame(columns, index=pd.Index(taus, name="tau"))
