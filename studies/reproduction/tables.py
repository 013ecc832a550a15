"""The tables of the study: data frames of numbers, from the grid and from the optima."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
from closeness import NAMES, close, read_grid, setting_of
from grid import RESULTS
from house import Table
from optimum import numbered, stored_points
from settings import CHANGES, FULL, MODELS

from slackopt.published import SLACKSWAP_RATIOS

TITLES = {"bert-large": "BERT-Large", "gpt2-xl": "GPT-2 XL", "llama-7b": "Llama 7B"}
PUBLISHED = {model: 100 * ratio for model, ratio in SLACKSWAP_RATIOS.items()}
FACTORS = {
    "reading": "slack of the rule",
    "attention": "attention",
    "dropout": "dropout",
    "gradients": "gradients of activations",
}
"""Assumptions of the full grid with two levels; the figure has the two others."""

CHANGED = {
    "memory_traffic": "memory traffic",
    "batch": "batch, times ours",
    "sequence": "sequence, times ours, at equal tokens",
    "latency_us": "latency of a copy, us",
    "link": "link",
    "workspace_mib": "workspace of a product, MiB",
    "weight_gradients": "parameters' gradients",
    "ties": "ties of the rule: made",
}


def make_tables(results: Path = RESULTS) -> list[Table]:
    """Return all tables, in the order of the text."""
    rows = read_grid(results)
    return [
        closest_table(rows),
        effects_table(rows),
        changes_table(rows),
        headroom_table(rows, results),
    ]


def closest_table(rows: pd.DataFrame, number: int = 6) -> Table:
    """Return the closest settings of the full grid."""
    near = close(rows[rows["part"] == "full"], 1.0).head(number)
    found: list[dict[str, Any]] = [
        {"setting": "published", **{TITLES[m]: PUBLISHED[m] for m in MODELS}}
    ]
    found += [
        {
            "setting": told(row),
            **{TITLES[model]: row[model] for model in MODELS},
            "error": row["worst"],
            "not ours": row["changed"],
        }
        for _, row in near.iterrows()
    ]
    frame = pd.DataFrame(found)
    frame["not ours"] = frame["not ours"].astype("Int64")
    return Table(
        "closest",
        "The closest settings of the full grid: ratios in %, largest error in points, and how many "
        "assumptions about step and link are not ours.",
        frame,
        {**dict.fromkeys(TITLES.values(), 2), "error": 2, "not ours": 0},
    )


def told(row: pd.Series) -> str:
    """Return a setting of the full grid in words."""
    return (
        f"{row['attention']}, dropout {row['dropout']}, gradients {row['gradients']}, "
        f"{row['matmul_percent']} %, {row['link_gb_per_s']} GB/s, {row['reading']}"
    )


def effects_table(rows: pd.DataFrame) -> Table:
    """Return what each level of the full grid does, over all others."""
    full = rows[rows["part"] == "full"]
    found = []
    for name, title in FACTORS.items():
        for level in FULL[name]:
            own = full[full[name] == level]
            found.append(
                {
                    "assumption": title,
                    "level": str(level),
                    **{TITLES[model]: own[model].mean() for model in MODELS},
                    "median error": own["worst"].median(),
                    "smallest error": own["worst"].min(),
                    "within 1.0": int((own["worst"] <= 1.0).sum()),
                    "within 0.5": int((own["worst"] <= 0.5).sum()),
                    "of": len(own),
                }
            )
    return Table(
        "effects",
        "Full grid: mean ratio of each model in %, median and smallest of the largest error in "
        "points, and how many settings come within 1.0 and 0.5 points, for each level over all "
        "other assumptions.",
        pd.DataFrame(found),
        {
            **dict.fromkeys(TITLES.values(), 1),
            "median error": 2,
            "smallest error": 2,
            "within 1.0": 0,
            "within 0.5": 0,
            "of": 0,
        },
    )


def changes_table(rows: pd.DataFrame) -> Table:
    """Return what one more change does around the grid, against the same setting without it.

    With the slack along the step only: the other reading comes nowhere within a point.
    """
    full = rows[rows["part"] == "full"].set_index(list(NAMES))
    around = rows[(rows["part"] == "around") & (rows["reading"] == "timeline")]
    found = []
    for change in CHANGES:
        ((name, level),) = change.items()
        own = around[around[name] == level]
        base = own.assign(**{name: rows[rows["part"] == "full"][name].iloc[0]})
        before = full.reindex(pd.MultiIndex.from_frame(base[list(NAMES)]))
        moves = {m: (own[m].to_numpy() - before[m].to_numpy()) for m in MODELS}
        found.append(
            {
                "change": CHANGED[name],
                "to": str(level),
                **{TITLES[model]: pd.Series(moves[model]).mean() for model in MODELS},
                "smallest error": own["worst"].min(),
                "within 1.0": int((own["worst"] <= 1.0).sum()),
                "within 0.5": int((own["worst"] <= 0.5).sum()),
                "of": len(own),
            }
        )
    return Table(
        "changes",
        "One more change, around the grid: mean change of each model's ratio in points, smallest "
        "of the largest error, and how many settings come within 1.0 and 0.5 points.",
        pd.DataFrame(found),
        {
            **dict.fromkeys(TITLES.values(), 2),
            "smallest error": 2,
            "within 1.0": 0,
            "within 0.5": 0,
            "of": 0,
        },
    )


def against_optimum(rows: pd.DataFrame, results: Path = RESULTS) -> pd.DataFrame:
    """Return one row a close setting and model: the rule, the best plan and the bound.

    ``gap`` is (makespan of the rule - LB) / LB in percent, ``open`` that of the best plan; the
    best plan is that of `exact`, or the rule's where it is faster.
    """
    optima = pd.read_csv(results / "optimum.csv").set_index(["question", "model"])
    numbers = numbered()
    found = []
    for _, row in close(rows, stored_points(results)).iterrows():
        question = numbers[setting_of(row).question()]
        for model in MODELS:
            best = optima.loc[(question, model)]
            rule, bound = row[f"{model}_makespan_ns"], best["lower_bound_ns"]
            plan = min(rule, best["makespan_ns"])
            found.append(
                {
                    "question": question,
                    "model": model,
                    "part": row["part"],
                    "reading": row["reading"],
                    "worst": row["worst"],
                    "rule": row[model],
                    "best": 100 * best["ideal_ns"] / plan,
                    "at_most": 100 * best["ideal_ns"] / bound,
                    "gap": 100 * (rule - bound) / bound,
                    "open": 100 * (plan - bound) / bound,
                }
            )
    return pd.DataFrame(found)


def headroom_table(rows: pd.DataFrame, results: Path = RESULTS) -> Table:
    """Return what the optimum would have reached under the close settings, by model."""
    every = against_optimum(rows, results)
    found = []
    for points in sorted({0.5, stored_points(results)}):
        for model in MODELS:
            own = every[(every["model"] == model) & (every["worst"] <= points)]
            found.append(
                {
                    "within": f"{points} points",
                    "model": TITLES[model],
                    "settings": len(own),
                    "published": PUBLISHED[model],
                    "rule": _span(own["rule"]),
                    "optimum": _span(own["best"]),
                    "gap of the rule": _span(own["gap"]),
                    "median gap": own["gap"].median(),
                    "left open": own["open"].max(),
                    "out of reach": int((own["at_most"] < PUBLISHED[model]).sum()),
                }
            )
    return Table(
        "headroom",
        "Settings close to the published table: ratio of the rule and of the best plan in %, gap "
        "of the rule in % (to the proved lower bound), the most that is left open between best "
        "plan and bound in %, and in how many settings the published ratio is above what any plan "
        "reaches.",
        pd.DataFrame(found),
        {"settings": 0, "published": 1, "median gap": 2, "left open": 3, "out of reach": 0},
    )


def _span(values: pd.Series) -> str:
    return f"{values.min():.2f} to {values.max():.2f}"
