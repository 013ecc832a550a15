"""The stored results of the study: one row a run, plans by decision codes, and the machine.

==================== ============================================================================
``runs.csv.gz``      one row a run: `COLUMNS`
``plans.jsonl.gz``   one line a plan, for the methods of `WITH_PLANS`: the run's key, one letter a
                     tensor (``k``, ``s``, ``r``) in the order of the instance, and the prefetch
                     triggers by the indices of tensors
``bounds.jsonl.gz``  one line a bound of `exact`: the run's key, and its certificate: rows, weights
``machine.json``     machine, versions, and when the runs were made
==================== ============================================================================

Instances are those of the repository, made again with the budget of a row. `instance_of` refuses
one whose content hash is not that of the row.
"""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Iterable
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import Any

import pandas as pd

from slackopt import InputError, Instance, Plan, read_instance
from slackopt.analysis import with_budget
from slackopt.formulations.certificate import bound_from_weights
from slackopt.formulations.window import WindowFormulation
from slackopt.result import WindowMultiplier

ROOT = Path(__file__).resolve().parents[2]
RESULTS = Path(__file__).resolve().parent / "results"

COLUMNS: dict[str, str] = {
    "key": "string",
    "part": "string",
    "base": "string",
    "family": "string",
    "budget": "string",
    "instance": "string",
    "instance_sha256": "string",
    "device": "string",
    "method": "string",
    "label": "string",
    "options": "string",
    "seed": "Int64",
    "time_limit_s": "float64",
    "gap_tolerance": "float64",
    "outcome": "string",
    "status": "string",
    "stopped_by": "string",
    "has_plan": "boolean",
    "ideal_ns": "Int64",
    "makespan_ns": "Int64",
    "lower_bound_ns": "Int64",
    "restricted_lower_bound_ns": "Int64",
    "recompute_ns": "Int64",
    "stall_ns": "Int64",
    "swapped_bytes": "Int64",
    "recomputed_bytes": "Int64",
    "peak_bytes": "Int64",
    "budget_bytes": "Int64",
    "unlimited_peak_bytes": "Int64",
    "num_ops": "Int64",
    "num_candidates": "Int64",
    "wall_s": "float64",
    "solver_version": "string",
    "slackopt_version": "string",
}
"""Columns of ``runs.csv.gz`` and their types."""

WITH_PLANS = (
    "exact",
    "slackswap",
    "slackswap-timeline",
    "slackswap-joint",
    "slackswap-fixed-swaps",
    "slackswap-fixed-recomputes",
)

_LETTERS = {"keep": "k", "swap": "s", "recompute": "r"}
_WORDS = {letter: word for word, letter in _LETTERS.items()}


def packed(text: str) -> bytes:
    """Compress text; the same text gives the same bytes."""
    buffer = io.BytesIO()
    with gzip.GzipFile(fileobj=buffer, mode="wb", compresslevel=9, mtime=0, filename="") as stream:
        stream.write(text.encode())
    return buffer.getvalue()


def plan_line(key: str, instance: Instance, plan: Plan) -> str:
    """Return a plan as one line of ``plans.jsonl.gz``."""
    index = instance.graph.tensor_index
    letters = ["k"] * len(instance.graph.tensors)
    for name, decision in plan.decisions.items():
        letters[index[name]] = _LETTERS[decision]
    triggers = {str(index[name]): trigger for name, trigger in plan.prefetch.items()}
    line = {"key": key, "decisions": "".join(letters), "prefetch": triggers}
    return json.dumps(line, separators=(",", ":"), sort_keys=True)


def bound_line(key: str, certificate: Iterable[WindowMultiplier]) -> str:
    """Return the certificate of a bound as one line of ``bounds.jsonl.gz``."""
    line = {"key": key, "weights": {entry.row: entry.weight for entry in certificate}}
    return json.dumps(line, separators=(",", ":"), sort_keys=True)


def read_runs_table(results: Path = RESULTS) -> pd.DataFrame:
    """Read the rows, with the gaps to the best bound and the best plan of each instance."""
    rows = pd.read_csv(results / "runs.csv.gz", dtype=dict(COLUMNS), keep_default_na=True)
    groups = rows["instance_sha256"]
    rows["best_lower_bound_ns"] = rows["lower_bound_ns"].groupby(groups).transform("max")
    rows["best_makespan_ns"] = (
        rows["makespan_ns"].where(rows["has_plan"]).groupby(groups).transform("min")
    )
    crossed = (rows["best_lower_bound_ns"] > rows["best_makespan_ns"]).fillna(False)
    if crossed.any():
        name = rows.loc[crossed, "instance"].iloc[0]
        raise InputError(f"{results}: a bound of {name} is above a plan; no gap can be trusted")
    for name, reference in (("bound", "best_lower_bound_ns"), ("best", "best_makespan_ns")):
        excess = (rows["makespan_ns"] - rows[reference]) / rows[reference]
        rows[f"gap_to_{name}"] = excess.where(rows["has_plan"]).astype("float64")
    rows["budget_share"] = (rows["budget_bytes"] / rows["unlimited_peak_bytes"]).astype("float64")
    rows["budget_fraction"] = pd.to_numeric(rows["budget"], errors="coerce")
    return rows


@lru_cache(maxsize=4)
def read_lines(results: Path, name: str = "plans.jsonl.gz") -> dict[str, dict[str, Any]]:
    """Return the lines of a file of plans or bounds, by key."""
    text = gzip.decompress((results / name).read_bytes()).decode()
    return {line["key"]: line for line in map(json.loads, text.splitlines())}


@lru_cache(maxsize=64)
def _base_instance(family: str, base: str) -> Instance:
    found = sorted((ROOT / "instances" / family).glob(f"{base}.json*"))
    if not found:
        raise InputError(f"instances/{family}: there is no instance {base!r}; run make instances")
    return read_instance(found[0])


@lru_cache(maxsize=64)
def _instance(family: str, base: str, name: str, budget_bytes: int, budget: str) -> Instance:
    instance = _base_instance(family, base)
    if instance.budget_bytes != budget_bytes:
        again = with_budget(instance, budget)
        instance = again.model_copy(update={"name": name})
    return instance


def instance_of(row: pd.Series) -> Instance:
    """Return the instance of a row: the one of the repository, with the budget of the row.

    Raises
    ------
    InputError
        If its content is not what the runs were made on.
    """
    instance = _instance(
        row["family"], row["base"], row["instance"], int(row["budget_bytes"]), row["budget"]
    )
    if instance.sha256 != row["instance_sha256"]:
        raise InputError(
            f"instance {row['instance']} has changed since the study was run: its hash is "
            f"{instance.sha256[:12]}, that of the stored results {row['instance_sha256'][:12]}; "
            "run the study again"
        )
    return instance


def plan_of(row: pd.Series, results: Path = RESULTS) -> Plan:
    """Return the stored plan of a row, for `instance_of` of it."""
    return plan_from_line(instance_of(row), read_lines(results)[row["key"]])


def plan_from_line(instance: Instance, line: dict[str, Any]) -> Plan:
    """Return the plan of a line that `plan_line` made for this instance."""
    tensors = instance.graph.tensors
    return Plan.for_instance(
        instance,
        {
            tensor.name: _WORDS[letter]
            for tensor, letter in zip(tensors, line["decisions"], strict=True)
            if letter != "k"
        },
        {tensors[int(t)].name: trigger for t, trigger in line["prefetch"].items()},
    )


def proved_ns(row: pd.Series, results: Path = RESULTS) -> int | None:
    """Return the bound that a row's stored certificate proves, added up anew; None without one."""
    line = read_lines(results, "bounds.jsonl.gz").get(row["key"])
    return None if line is None else proved_from_line(instance_of(row), line)


def proved_from_line(instance: Instance, line: dict[str, Any]) -> int:
    """Return the bound that the certificate of a line proves for this instance, added up anew."""
    weights = {name: Fraction(weight) for name, weight in line["weights"].items()}
    return bound_from_weights(WindowFormulation(instance), weights)
