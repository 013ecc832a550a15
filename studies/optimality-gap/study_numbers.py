"""The numbers and tables that the text quotes, by name; computed from the stored results."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
from study_results import RESULTS
from study_tables import (
    JOINT,
    OURS,
    READINGS,
    Table,
    shown,
    variants_frame,
)

TIGHT = ("0.3", "0.4")
LOOSE = ("0.7", "0.8", "0.9")


def numbers(rows: pd.DataFrame, tables: list[Table], results: Path = RESULTS) -> dict[str, str]:
    """Return every number of the text as it stands there."""
    by_name = {table.name: table for table in tables}
    found = _questions(rows, results)
    found |= _slackswap(rows)
    found |= _field(rows)
    found |= _library(rows)
    found |= _parts(rows)
    found |= _plans(by_name)
    every = by_name["reproduction"].frame.set_index("model").loc["all"]
    found["reproduction_within"] = every["within"]
    found["reproduction_settings"] = str(every["cases"] // 3)
    own = rows[(rows["part"] == "models") & (rows["budget"] == "0.5")]
    half = own[own["method"] == "slackswap-timeline"]["gap_to_bound"]
    found |= {"half_smallest": _percent(half.min()), "half_largest": _percent(half.max())}
    for name in ("smallest", "median", "largest"):
        found[f"reproduction_{name}"] = f"{every[name]:.2f}"
    for name in ("slackswap", "rules", "parts", "reproduction"):
        found[f"table_{name}"] = markdown(by_name[name])
    return found


def markdown(table: Table) -> str:
    """Return a table in Markdown, with its name in a comment: a test looks it up again."""
    frame = table.frame
    columns = list(frame.columns)
    numeric = [pd.api.types.is_numeric_dtype(frame[name]) for name in columns]
    lines = [
        f"<!-- table: {table.name} -->",
        "| " + " | ".join(columns) + " |",
        "|" + "".join("---:|" if number else "---|" for number in numeric),
    ]
    for _, row in frame.iterrows():
        cells = [shown(row[name], table.digits.get(name), "-") for name in columns]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _percent(value: float, digits: int = 2) -> str:
    return f"{100 * value:.{digits}f}"


def _gaps(rows: pd.DataFrame, part: str, method: str) -> pd.Series:
    own = rows[(rows["part"] == part) & (rows["method"] == method)]
    return own.set_index("instance")["gap_to_bound"]


def _questions(rows: pd.DataFrame, results: Path) -> dict[str, str]:
    machine = json.loads((results / "machine.json").read_text(encoding="utf-8"))
    found = {
        "runs": f"{len(rows):,}",
        "processor": str(machine["processor"]),
        "slackopt_version": machine["slackopt_version"][0],
        "highs_version": str(machine["highspy"]),
        "ortools_version": str(machine["ortools"]),
        "done": f"{int((rows['outcome'] == 'done').sum()):,}",
    }
    for part in ("models", "library"):
        gaps = _gaps(rows, part, "exact")
        found |= {
            f"questions_{part}": str(len(gaps)),
            f"exact_median_{part}": _percent(gaps.median(), 3),
            f"exact_max_{part}": _percent(gaps.max()),
        }
    return found


def _slackswap(rows: pd.DataFrame) -> dict[str, str]:
    found: dict[str, str] = {}
    models = rows[(rows["part"] == "models")]
    for method, reading in READINGS.items():
        own = models[models["method"] == method]
        gaps = own["gap_to_bound"]
        worst = own.loc[gaps.idxmax()]
        found |= {
            f"{reading}_mean": _percent(gaps.mean()),
            f"{reading}_median": _percent(gaps.median()),
            f"{reading}_max": _percent(gaps.max()),
            f"{reading}_worst": f"{worst['base']} at {100 * float(worst['budget']):.0f} %",
            f"{reading}_within_tenth": str(int((gaps <= 0.001).sum())),
            f"{reading}_within_one": str(int((gaps <= 0.01).sum())),
        }
        for name, budgets in (("tight", TIGHT), ("loose", LOOSE)):
            found[f"{reading}_{name}"] = _percent(gaps[own["budget"].isin(budgets)].mean())
        for base, of_base in own.groupby("base"):
            key = str(base).replace("-", "_")
            found[f"{reading}_{key}"] = _percent(of_base["gap_to_bound"].mean())
        stalls = (own["stall_ns"].astype(float) / own["ideal_ns"].astype(float)).mean()
        found[f"{reading}_stall"] = _percent(stalls)
        llama = own[own["base"].str.startswith("llama") & ~own["budget"].isin(LOOSE)]
        found[f"{reading}_llama_stall"] = _percent(
            (llama["stall_ns"].astype(float) / llama["ideal_ns"].astype(float)).mean()
        )
        found[f"{reading}_llama"] = _percent(llama["gap_to_bound"].mean())
    found["llama_gain"] = _percent(
        _llama(models, "slackswap") - _llama(models, "slackswap-timeline")
    )
    return found


def _llama(models: pd.DataFrame, method: str) -> float:
    own = models[(models["method"] == method) & models["base"].str.startswith("llama")]
    return float(own["gap_to_bound"].mean())


def _field(rows: pd.DataFrame) -> dict[str, str]:
    models = rows[(rows["part"] == "models") & rows["has_plan"]]
    rules = models[~models["method"].isin(OURS)]
    medians = 100 * rules.groupby("method")["gap_to_bound"].median()
    largest = 100 * rules.groupby("method")["gap_to_bound"].max()
    found = {}
    for method in sorted(medians.index):
        key = method.replace("-", "_")
        found[f"median_{key}"] = f"{medians[method]:.2f}"
        found[f"max_{key}"] = f"{largest[method]:.2f}"
    exact = models[models["method"] == "exact"].set_index("instance_sha256")
    for method in ("capuchin", "mu-two", "teraio"):
        own = rules[rules["method"] == method]
        worst = own.loc[own["gap_to_bound"].idxmax()]
        other = exact.loc[worst["instance_sha256"]]
        key = method.replace("-", "_")
        found |= {
            f"worst_{key}": f"{worst['base']} at {100 * float(worst['budget']):.0f} %",
            f"worst_{key}_rerun": f"{100 * worst['recompute_ns'] / worst['ideal_ns']:.1f}",
            f"worst_{key}_stall": f"{100 * worst['stall_ns'] / worst['ideal_ns']:.1f}",
            f"worst_{key}_exact_rerun": f"{100 * other['recompute_ns'] / other['ideal_ns']:.1f}",
        }
    for method in ("local-search", "round"):
        gaps = 100 * models[models["method"] == method]["gap_to_bound"]
        key = method.replace("-", "_")
        found |= {f"median_{key}": f"{gaps.median():.2f}", f"max_{key}": f"{gaps.max():.2f}"}
    # Which rule is nearest to the bound, question by question; equal ones share the place.
    least = rules.groupby("instance_sha256")["gap_to_bound"].transform("min")
    nearest = rules[rules["gap_to_bound"] <= least]
    for method in ("slackswap", "slackswap-timeline", "capuchin", "mu-two", "teraio"):
        found[f"nearest_{method.replace('-', '_')}"] = str(
            nearest[nearest["method"] == method]["instance_sha256"].nunique()
        )
    best = 100 * rules.groupby("instance_sha256")["gap_to_bound"].min()
    found |= {"best_rule_mean": f"{best.mean():.2f}", "best_rule_max": f"{best.max():.2f}"}
    return found


def _library(rows: pd.DataFrame) -> dict[str, str]:
    found: dict[str, str] = {}
    library = rows[(rows["part"] == "library") & rows["has_plan"]]
    for method, reading in READINGS.items():
        own = library[library["method"] == method]
        gaps = own["gap_to_bound"]
        worst = own.loc[gaps.idxmax()]
        found |= {
            f"library_{reading}_plans": str(len(own)),
            f"library_{reading}_median": _percent(gaps.median()),
            f"library_{reading}_max": _percent(gaps.max(), 1),
            f"library_{reading}_worst": str(worst["instance"]),
        }
        for family, of_family in own.groupby("family"):
            key = str(family).replace("-", "_")
            found[f"library_{reading}_{key}"] = _percent(of_family["gap_to_bound"].median())
    joint = library[library["method"] == JOINT]["gap_to_bound"]
    found |= {
        "library_joint_plans": str(len(joint)),
        "library_joint_median": _percent(joint.median()),
        "library_joint_max": _percent(joint.max(), 1),
    }
    rules = library[~library["method"].isin(OURS)]
    best = rules.groupby("instance_sha256")["gap_to_bound"].min()
    found |= {
        "library_best_rule_median": _percent(best.median()),
        "library_best_rule_max": _percent(best.max(), 1),
    }
    return found


def _parts(rows: pd.DataFrame) -> dict[str, str]:
    frame = variants_frame(rows)
    found: dict[str, str] = {}
    table = frame.pivot_table(
        index=["base", "instance_sha256"],
        columns=["reading", "variant"],
        values="gap_to_bound",
        aggfunc="first",
    )
    timeline = table["timeline"]
    split = timeline[["default", "joint", "fixed-swaps", "fixed-recomputes"]].dropna()
    found["split_questions"] = str(len(split))
    for variant in split.columns:
        found[f"split_{variant.replace('-', '_')}"] = _percent(split[variant].mean())
    for name, chosen in (
        ("eager_dropout", ["bert-large-eager", "gpt2-xl-eager"]),
        ("flash", ["bert-large-flash", "gpt2-xl-flash"]),
        ("llama", ["llama-7b-eager", "llama-7b-flash"]),
    ):
        own = split[split.index.get_level_values("base").isin(chosen)]
        for variant in split.columns:
            found[f"{name}_{variant.replace('-', '_')}"] = _percent(own[variant].mean())
    own = frame[frame["variant"].isin(["fixed-swaps", "fixed-recomputes"]) & frame["has_plan"]]
    bounds = own["restricted_lower_bound_ns"].astype(float)
    left_open = own["makespan_ns"].astype(float) / bounds - 1
    found |= {
        "split_open_median": _percent(left_open.median()),
        "split_open_max": _percent(left_open.max()),
    }
    joint = table["timeline"]["joint"].dropna()
    found["joint_mean"] = _percent(joint.mean())
    found["joint_max"] = _percent(joint.max())
    for variant in sorted(set(timeline.columns) - {"default"}):
        both = timeline[["default", variant]].dropna()
        found[f"change_{variant.replace('-', '_')}"] = shown(
            100 * (both[variant] - both["default"]).mean(), 2
        )
        found[f"plans_{variant.replace('-', '_')}"] = str(len(both))
    return found


def _plans(tables: dict[str, Table]) -> dict[str, str]:
    found: dict[str, str] = {}
    layers = tables["layers"].frame.set_index("quarter")
    for quarter in ("first", "last"):
        for name in ("SlackSwap", "exact"):
            for word in ("swap", "recompute"):
                key = f"{quarter}_{name.lower()}_{word}"
                found[key] = f"{layers.loc[quarter, f'{name}: {word}']:.0f}"
    kinds = tables["kinds"].frame.set_index("kind")
    for kind in kinds.index:
        for name in ("SlackSwap", "exact"):
            for word in ("swap", "recompute"):
                key = f"{kind}_{name.lower()}_{word}".replace(".", "_").replace("-", "_")
                found[key] = f"{kinds.loc[kind, f'{name}: {word}']:.0f}"
    reruns = tables["reruns"].frame
    for _, row in reruns.iterrows():
        key = f"{row['model']}_{row['method']}".replace("-", "_")
        found |= {
            f"{key}_remade": f"{row['remade']:.1f}",
            f"{key}_reruns": f"{row['reruns']:.0f}",
            f"{key}_rerun_time": f"{row['rerun time']:.2f}",
            f"{key}_swaps": f"{row['swaps']:.0f}",
            f"{key}_early": f"{row['early reruns']:.1f}",
            f"{key}_swapped": f"{row['swapped']:.0f}",
        }
    return found
