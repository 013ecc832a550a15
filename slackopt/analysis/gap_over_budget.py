"""How far each method is from the best bound at each memory budget."""

from __future__ import annotations

import numpy as np
import pandas as pd

from slackopt.analysis.means import share_quantile
from slackopt.analysis.performance_profile import method_column
from slackopt.errors import InputError

SHARE_DIGITS = 4
"""Budgets are told apart by their share of the unlimited peak, rounded to this many digits."""


def gap_over_budget(
    frame: pd.DataFrame,
    *,
    column: str = "gap_to_bound",
    share: float = 0.5,
    by: str | None = None,
) -> pd.DataFrame:
    """Gap that a share of the runs of each method stays within, at each budget.

    The value at a budget is the smallest one that at least `share` of the method's runs at that
    budget stay within. A run without a value counts as infinite.

    Parameters
    ----------
    frame
        From `runs_frame`.
    column
        What is shown, smaller is better: ``gap_to_bound``, ``gap_to_best`` or ``gap``.
    share
        Above 0, at most 1.
    by
        Column that tells methods apart: ``label`` if there is one, or ``method``.

    Returns
    -------
    pandas.DataFrame
        Index ``budget_share`` (budget over unlimited peak), rising; one column per method, in
        alphabetical order; missing where fewer than `share` of the runs have a value. Methods
        without any are left out, as are runs whose budget share is unknown.

    Raises
    ------
    InputError
        For an unknown column, or a share out of range.
    """
    by = method_column(frame) if by is None else by
    for name in (column, "budget_share"):
        if name not in frame.columns:
            raise InputError(f"the table of runs has no column {name!r}; make it by runs_frame")
    rows = pd.DataFrame(
        {
            # The fraction as asked is exact; the share in bytes is rounded down to a byte.
            "budget_share": frame["budget_fraction"].fillna(frame["budget_share"])
            if "budget_fraction" in frame.columns
            else frame["budget_share"],
            "by": frame[by].astype(str),
            "value": frame[column].astype("Float64").to_numpy(dtype=float, na_value=np.inf),
        }
    ).dropna(subset=["budget_share"])
    rows["value"] = rows["value"].fillna(np.inf)
    rows["budget_share"] = rows["budget_share"].round(SHARE_DIGITS)
    cells: dict[tuple[float, str], float] = {}
    for budget in sorted(rows["budget_share"].unique().tolist()):
        for name, group in rows[rows["budget_share"] == budget].groupby("by"):
            values = group["value"].to_numpy(dtype=float)[:, np.newaxis]
            cells[budget, str(name)] = float(share_quantile(values, share)[0])
    index = sorted({budget for budget, _ in cells})
    columns: dict[str, list[float]] = {}
    for name in sorted({name for _, name in cells}):
        reached = [cells.get((budget, name), np.inf) for budget in index]
        if bool(np.isfinite(reached).any()):
            columns[name] = [value if np.isfinite(value) else np.nan for value in reached]
    return pd.DataFrame(columns, index=pd.Index(index, name="budget_share", dtype=float))
