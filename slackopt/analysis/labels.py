"""Labels of methods and instances: the name, and in what those differ that share it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from slackopt.batch.run import Run
from slackopt.batch.summary import RunSummary
from slackopt.naming import distinct_names

SHARE_DIGITS = 3
"""Budgets are told apart as tables show them: in percent, with one digit."""


def method_labels(runs: Sequence[Run | RunSummary]) -> list[str]:
    """Return one label a run; runs that differ in seed and instance only share it.

    A method that ran in one setting is labelled by its name, or by the label that the study file
    gives it. Otherwise the settings that differ between the runs of that name follow: ``milp
    (solver=cbc, threads=4)``. A setting that was not given is left out.
    """
    names = [run.task.tags.get("label", run.task.method) for run in runs]
    settings = [_settings(run) for run in runs]
    by_name: dict[str, list[dict[str, str | None]]] = {}
    for name, values in zip(names, settings, strict=True):
        by_name.setdefault(name, []).append(values)
    differing = {name: _differing(found) for name, found in by_name.items()}
    return [
        _label(name, differing[name], values) for name, values in zip(names, settings, strict=True)
    ]


def instance_labels(frame: pd.DataFrame) -> pd.Series:
    """Return one label a row of a table of runs; rows share it whose instances have equal content.

    It is the name of the instance. Where several contents share name, budget and device, the first
    digits of the content's hash follow: ``two layers [8d65737b]``.
    """
    columns = ["instance", "instance_sha256", "budget_share", "device"]
    known = frame[columns].groupby("instance_sha256", as_index=False, sort=False).first()
    names = distinct_names(
        (name, sha256, (_or_none(round(share, SHARE_DIGITS)), _or_none(device)))
        for name, sha256, share, device in known[columns].itertuples(index=False)
    )
    labels: pd.Series = frame["instance_sha256"].map(names).astype("string")
    return labels


def _or_none(value: Any) -> Any:
    return None if pd.isna(value) else value


def _differing(settings: Sequence[Mapping[str, str | None]]) -> list[str]:
    """Return the names, in order, whose values are not the same in all settings."""
    names = dict.fromkeys(name for values in settings for name in values)
    return [name for name in names if len({values.get(name) for values in settings}) > 1]


def _label(name: str, settings: Sequence[str], values: Mapping[str, str | None]) -> str:
    told = [f"{key}={values[key]}" for key in settings if values.get(key) is not None]
    return f"{name} ({', '.join(told)})" if told else name


def _settings(run: Run | RunSummary) -> dict[str, str | None]:
    task = run.task
    given: dict[str, Any] = {
        "solver": task.solver,
        "time_limit_s": task.time_limit_s,
        "gap": task.gap,
        "threads": task.threads,
        "deterministic": task.deterministic,
        "memory_limit_bytes": task.memory_limit_bytes,
    }
    for name, value in sorted(task.options.items()):
        given[name if name not in given else f"option {name}"] = value
    given["slackopt"] = run.slackopt_version
    return {name: None if value is None else _shown(value) for name, value in given.items()}


def _shown(value: Any) -> str:
    if isinstance(value, str):
        return value
    # What json.dumps gives, without its start for every number of every run.
    return repr(value) if type(value) in (int, float) else json.dumps(value, sort_keys=True)
