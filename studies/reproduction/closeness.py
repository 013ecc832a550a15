"""How close each setting of the grid comes to the published table."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
from grid import RESULTS
from settings import MODELS, Setting, as_row

from slackopt.published import SLACKSWAP_RATIOS

NAMES = tuple(as_row("full", Setting()))[1:]
"""Columns that name a setting."""

TEXTS = {"batch": "string", "sequence": "string"}


def read_grid(results: Path = RESULTS) -> pd.DataFrame:
    """Read the grid: one row a setting, with its ratios and errors in percent and points.

    ``worst`` is the largest distance of the three models to the published ratios, missing where
    the rule has no plan for one of them; ``changed`` says how many assumptions are not ours.
    """
    rows = pd.read_csv(results / "grid.csv", dtype=TEXTS)
    for model in MODELS:
        rows[model] = 100 * rows[f"{model}_ideal_ns"] / rows[f"{model}_makespan_ns"]
    errors = [(rows[model] - 100 * SLACKSWAP_RATIOS[model]).abs() for model in MODELS]
    rows["worst"] = pd.concat(errors, axis=1).max(axis=1, skipna=False)
    rows["changed"] = [setting_of(row).changed for _, row in rows.iterrows()]
    return rows


def setting_of(row: pd.Series) -> Setting:
    """Return the setting of a row."""
    kinds = {"matmul_percent": int, "link_gb_per_s": int, "latency_us": int, "workspace_mib": int}
    return Setting(**{name: kinds.get(name, str)(row[name]) for name in NAMES})


def close(rows: pd.DataFrame, points: float) -> pd.DataFrame:
    """Return the settings that come within so many points of all three, the closest first."""
    near = rows[rows["worst"] <= points]
    return near.sort_values(["worst", "changed"], kind="stable")


def chosen(rows: pd.DataFrame) -> pd.Series:
    """Return the setting of the instances `-paper`; how close it comes has no further part in it.

    Of those within half a point, the one that changes the fewest of our own assumptions; of
    several, the one whose products are nearest to ours.
    """
    near = close(rows, 0.5)
    distance = (near["matmul_percent"] - Setting.matmul_percent).abs()
    order = near.assign(distance=distance).sort_values(["changed", "distance"], kind="stable")
    if order.iloc[:2][["changed", "distance"]].duplicated().any():
        raise ValueError("two settings change as few assumptions by as little")
    return order.iloc[0]
