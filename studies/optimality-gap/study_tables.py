"""The tables of the study: data frames of numbers, and how they are written."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
from study_plans import QUARTERS, decisions_table, reruns_table
from study_results import RESULTS, ROOT

from slackopt.report.latex import stacked_header

HEADROOM = ROOT / "studies" / "reproduction" / "results" / "headroom.csv"
BUDGETS = ("0.3", "0.4", "0.5", "0.6", "0.7", "0.8", "0.9")
READINGS = {"slackswap": "aggregate", "slackswap-timeline": "timeline"}
SEARCHES = ("exact", "local-search", "round")
JOINT = "slackswap-joint"
OURS = (*SEARCHES, JOINT)
"""Methods of this toolkit and of this study; all others are rules of the field."""

VARIANTS = (
    ("default", "as it is"),
    ("joint", "drop what one op makes together"),
    ("joint-early", "the same, and swap what is made first"),
    ("fixed-swaps", "same swaps, best recomputes"),
    ("fixed-recomputes", "same recomputes, best swaps"),
    ("all-slack", "swap all that the slack hides"),
    ("ties-last", "ties: made last first"),
    ("rebuild-time", "rank by rebuild time"),
    ("size", "rank by size"),
    ("production", "rank by order of production"),
    ("random", "rank at random"),
)
"""Variants of SlackSwap by the end of their label, and what each changes."""


@dataclass(frozen=True)
class Table:
    """One table.

    Attributes
    ----------
    name
        Name of its files, and of its label in LaTeX.
    caption
        What it shows, with its units.
    frame
        Text and numbers; missing is unknown.
    digits
        Digits behind the point of the columns of numbers; those not named are whole.
    """

    name: str
    caption: str
    frame: pd.DataFrame
    digits: dict[str, int]


_HEADER_LINES = r", |: |-(?=eager$|flash$|timeline$)"
"""Where a column header is broken into lines."""


def csv_text(table: Table) -> str:
    """Return a table as CSV with all digits that are shown, and two more."""
    frame = table.frame.copy()
    for name, digits in table.digits.items():
        frame[name] = [shown(value, digits + 2, "") for value in frame[name]]
    text: str = frame.to_csv(index=False, lineterminator="\n")
    return text


def latex_text(table: Table) -> str:
    """Return a table as LaTeX with booktabs; it needs that package only."""
    cells = table.frame.copy()
    for name in cells.columns:
        digits = table.digits.get(name)
        cells[name] = [shown(value, digits) for value in cells[name]]
    kinds = ["r" if pd.api.types.is_numeric_dtype(kind) else "l" for kind in table.frame.dtypes]
    cells.columns = pd.Index(
        [
            stacked_header(re.split(_HEADER_LINES, name), kind)
            for name, kind in zip(cells.columns, kinds, strict=True)
        ]
    )
    style = cells.style.format(escape="latex").hide(axis=0)
    text: str = style.to_latex(
        hrules=True,
        column_format="".join(kinds),
        caption=table.caption.replace("%", r"\%"),
        label=f"tab:{table.name}",
        position_float="centering",
    )
    return text


def shown(value: object, digits: int | None, unknown: str = "--") -> str:
    """Return a cell as it is printed; what rounds to zero has no sign."""
    if pd.isna(value):
        return unknown
    if digits is None:
        return str(value)
    return re.sub(r"^-(0\.?0*)$", r"\1", f"{value:.{digits}f}")


def make_tables(rows: pd.DataFrame, results: Path = RESULTS) -> list[Table]:
    """Return all tables, in the order of the text."""
    return [
        slackswap_table(rows),
        rules_table(rows),
        library_table(rows),
        parts_table(rows),
        *plan_tables(rows, results),
        reproduction_table(),
    ]


def reproduction_table() -> Table:
    """Gap where SlackSwap's published table comes out; from the study of that question."""
    frame = pd.read_csv(HEADROOM)
    frame.columns = pd.Index(["model", "within", "cases", "smallest", "median", "largest"])
    frame["within"] = [f"{points} points" for points in frame["within"]]
    return Table(
        "reproduction",
        "Optimality gap in % of SlackSwap (timeline) under the settings with which its published "
        "table comes out so closely, at half of the peak (studies/reproduction).",
        frame,
        {"cases": 0, **dict.fromkeys(frame.columns[3:], 2)},
    )


def slackswap_table(rows: pd.DataFrame) -> Table:
    """Gap of both readings, and of `exact`, by model and budget."""
    models = rows[rows["part"] == "models"]
    found = []
    for base in sorted(models["base"].unique()):
        for method in ("slackswap", "slackswap-timeline", "exact"):
            own = models[(models["base"] == base) & (models["method"] == method)]
            gaps = own.set_index("budget")["gap_to_bound"]
            cells = {f"{100 * float(b):.0f} %": 100 * gaps.get(b, float("nan")) for b in BUDGETS}
            found.append({"model": base, "method": method, **cells})
    frame = pd.DataFrame(found)
    return Table(
        "slackswap",
        "Optimality gap in % over the budget (of the unlimited peak): (makespan - LB) / LB with "
        "the best lower bound LB. The gap of exact is what is left open.",
        frame,
        dict.fromkeys(frame.columns[2:], 2),
    )


def rules_table(rows: pd.DataFrame) -> Table:
    """Every rule: how often it finds a plan, how far it is off, and how it loses its time."""
    parts = {part: rows[rows["part"] == part] for part in ("models", "library")}
    found = []
    for method in sorted(parts["models"]["method"].unique()):
        line: dict[str, object] = {"method": method}
        for part, of_part in parts.items():
            own = of_part[of_part["method"] == method]
            plans = own[own["has_plan"]]
            gaps = 100 * plans["gap_to_bound"]
            line |= {
                f"plans, {part}": f"{len(plans)}/{len(own)}",
                f"median, {part}": gaps.median(),
                f"max, {part}": gaps.max(),
            }
            if part == "models":
                over = plans["ideal_ns"].astype(float)
                line |= {
                    "rerun": 100 * (plans["recompute_ns"].astype(float) / over).median(),
                    "stall": 100 * (plans["stall_ns"].astype(float) / over).median(),
                }
        found.append(line)
    frame = pd.DataFrame(found)
    # Those that always have a plan first; then by the median on the models.
    all_found = frame["plans, models"].map(lambda text: len(set(text.split("/"))) == 1)
    frame = (
        frame.assign(_=~all_found)
        .sort_values(["_", "median, models", "method"], na_position="last")
        .drop(columns="_")
        .reset_index(drop=True)
    )
    numbers = [name for name in frame.columns if frame[name].dtype == float]
    return Table(
        "rules",
        "Rules on the models (6 at 7 budgets) and on the library's instances: plans found, "
        "optimality gap in % (median and largest, over the plans found), and rerun and stall time "
        "in % of the ideal step (medians, models).",
        frame,
        dict.fromkeys(numbers, 2),
    )


def library_table(rows: pd.DataFrame) -> Table:
    """Instances of the library: both readings, the best rule, and what exact leaves open."""
    library = rows[rows["part"] == "library"]
    found = []
    for (family, name), own in library.groupby(["family", "instance"]):
        gaps = (100 * own.set_index("method")["gap_to_bound"]).dropna()
        rules = gaps.drop(labels=list(OURS), errors="ignore")
        found.append(
            {
                "family": family,
                "instance": name,
                "exact": gaps.get("exact", float("nan")),
                "slackswap": gaps.get("slackswap", float("nan")),
                "slackswap-timeline": gaps.get("slackswap-timeline", float("nan")),
                "joint": gaps.get(JOINT, float("nan")),
                "best rule": rules.idxmin() if len(rules) else "--",
                "its gap": rules.min() if len(rules) else float("nan"),
            }
        )
    return Table(
        "library",
        "Optimality gap in % on instances of the library; joint is SlackSwap (timeline) that drops "
        "together what one op makes. The best rule is the one of the field with the smallest gap, "
        "the first by name where several share it. -- is no plan.",
        pd.DataFrame(found),
        dict.fromkeys(("exact", "slackswap", "slackswap-timeline", "joint", "its gap"), 2),
    )


def variants_frame(rows: pd.DataFrame) -> pd.DataFrame:
    """Gap of each variant of SlackSwap: one row a reading, variant, model and budget."""
    here = rows[rows["part"].isin(["models", "parts"])]
    found = []
    for method, reading in READINGS.items():
        for variant, _ in VARIANTS:
            if variant == "default":
                own = here[(here["part"] == "models") & (here["method"] == method)]
            else:
                own = here[here["label"] == f"{reading}/{variant}"]
            found.append(own.assign(reading=reading, variant=variant))
    return pd.concat(found, ignore_index=True)


def parts_table(rows: pd.DataFrame) -> Table:
    """Change of the gap by each variant of SlackSwap, by model; the mean over budgets."""
    frame = variants_frame(rows)
    questions = frame["instance_sha256"].nunique()
    found = []
    for reading in READINGS.values():
        of_reading = frame[frame["reading"] == reading]
        base_gaps = _gaps(of_reading, "default")
        models = of_reading.drop_duplicates("instance_sha256").set_index("instance_sha256")["base"]
        for variant, what in VARIANTS:
            gaps = _gaps(of_reading, variant)
            if not len(of_reading[of_reading["variant"] == variant]):
                continue  # asked for the other reading only
            # Only questions that both answer are compared.
            compared = gaps if variant == "default" else (gaps - base_gaps).dropna()
            means = 100 * compared.groupby(models.reindex(compared.index)).mean()
            found.append(
                {
                    "slack": reading,
                    "variant": what,
                    "plans": f"{len(gaps)}/{questions}",
                    **{base: means.get(base) for base in sorted(models.unique())},
                    "all": 100 * compared.mean(),
                }
            )
    result = pd.DataFrame(found)
    result = result.astype(dict.fromkeys(result.columns[3:], float))
    return Table(
        "parts",
        "SlackSwap with one choice changed. First row of a reading: mean optimality gap in % over "
        "the budgets. Other rows: mean change of the gap in percentage points, over the questions "
        "that both answer; below zero is better. Plans: questions with a plan.",
        result,
        dict.fromkeys(result.columns[3:], 2),
    )


def _gaps(frame: pd.DataFrame, variant: str) -> pd.Series:
    """Return the gaps of a variant by question, of those with a plan."""
    own = frame[frame["variant"] == variant].set_index("instance_sha256")["gap_to_bound"]
    return own.dropna()


def plan_tables(rows: pd.DataFrame, results: Path = RESULTS) -> list[Table]:
    """What plans of SlackSwap and of `exact` decide: by kind of tensor, by layer; their reruns."""
    models = rows[(rows["part"] == "models") & rows["has_plan"]]
    compared = models[models["method"].isin([*READINGS, "exact"])]
    tight = compared[compared["budget"].isin(["0.3", "0.4", "0.5", "0.6"])]
    decided = decisions_table(tight, results)
    return [
        Table(
            "kinds",
            "Share of bytes in % that SlackSwap (timeline) and exact swap and recompute, by kind "
            "of tensor, at budgets of 30 to 60 %. Mean of the models that have the kind.",
            _shares(decided, "kind"),
            dict.fromkeys(_SHARES, 0),
        ),
        Table(
            "layers",
            "Share of bytes in % that SlackSwap (timeline) and exact swap and recompute, by "
            "quarter of the layers in forward order, at budgets of 30 to 60 %. Mean of the models.",
            _shares(decided, "quarter", QUARTERS),
            dict.fromkeys(_SHARES, 0),
        ),
        _reruns(compared, results),
    ]


_SHOWN = {"slackswap-timeline": "SlackSwap", "exact": "exact"}
_SHARES = [f"{name}: {word}" for name in _SHOWN.values() for word in ("swap", "recompute")]


def _shares(decided: pd.DataFrame, by: str, order: Sequence[str] | None = None) -> pd.DataFrame:
    """Return shares of bytes, first over the budgets of a model, then the mean over models."""
    sizes = decided.groupby(["method", by, "base", "decision"])["size_bytes"].sum()
    totals = decided.groupby(["method", by, "base"])["size_bytes"].sum()
    places = list(order) if order is not None else list(dict.fromkeys(decided[by]))
    found = []
    for place in places:
        line: dict[str, object] = {by: place}
        if order is None:
            line["models"] = decided[decided[by] == place]["base"].nunique()
        for method, name in _SHOWN.items():
            for word in ("swap", "recompute"):
                bases = totals[method][place].index
                line[f"{name}: {word}"] = (
                    100
                    * pd.Series(
                        [
                            sizes.get((method, place, base, word), 0) / totals[method][place][base]
                            for base in bases
                        ]
                    ).mean()
                )
        found.append(line)
    return pd.DataFrame(found)


def _reruns(compared: pd.DataFrame, results: Path) -> Table:
    frame = reruns_table(compared, results)
    ways: dict[str, Callable[[pd.DataFrame], float]] = {
        "swapped": lambda own: 100 * (own["swapped_bytes"] / own["budget_bytes"]).mean(),
        "swaps": lambda own: own["swaps"].mean(),
        "reruns": lambda own: own["reruns"].mean(),
        "rerun time": lambda own: 100 * (own["rerun_ns"] / own["ideal_ns"]).mean(),
        "early reruns": lambda own: own["early"].mean(),
        "remade": lambda own: 100 * (own["remade_bytes"] / own["budget_bytes"]).mean(),
    }
    found = [
        {
            "model": base,
            "method": method,
            **{
                name: way(frame[(frame["base"] == base) & (frame["method"] == method)])
                for name, way in ways.items()
            },
        }
        for base in sorted(frame["base"].unique())
        for method in (*READINGS, "exact")
    ]
    return Table(
        "reruns",
        "What plans move and rerun, means over the budgets: bytes swapped (% of the budget), "
        "swaps, reruns, rerun time (% of the ideal step), reruns that run before the backward pass "
        "itself needs them, and bytes that a rerun makes again although the plan kept or swapped "
        "them (% of the budget).",
        pd.DataFrame(found),
        {"swapped": 0, "swaps": 0, "reruns": 0, "rerun time": 2, "early reruns": 1, "remade": 1},
    )
