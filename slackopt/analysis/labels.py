"""Labels of methods: the name, and the settings in which runs of the method differ."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from slackopt.analysis.reading import RunSummary
from slackopt.batch.run import Run


def method_labels(runs: Sequence[Run | RunSummary]) -> list[str]:
    """Return one label a run; runs that differ in seed and instance only share it.

    A method that ran in one setting is labelled by its name. Otherwise the settings that differ
    between its runs follow: ``milp (solver=cbc, threads=4)``. A setting that was not given is
    left out.
    """
    settings = [_settings(run) for run in runs]
    by_method: dict[str, list[dict[str, str | None]]] = {}
    for run, values in zip(runs, settings, strict=True):
        by_method.setdefault(run.task.method, []).append(values)
    differing = {method: _differing(found) for method, found in by_method.items()}
    return [
        _label(run.task.method, differing[run.task.method], values)
        for run, values in zip(runs, settings, strict=True)
    ]


def _differing(settings: Sequence[Mapping[str, str | None]]) -> list[str]:
    """Return the names, in order, whose values are not the same in all settings."""
    names = dict.fromkeys(name for values in settings for name in values)
    return [name for name in names if len({values.get(name) for values in settings}) > 1]


def _label(method: str, names: Sequence[str], values: Mapping[str, str | None]) -> str:
    told = [f"{name}={values[name]}" for name in names if values.get(name) is not None]
    return f"{method} ({', '.join(told)})" if told else method


def _settings(run: Run | RunSummary) -> dict[str, str | None]:
    task = run.task
    given: dict[str, Any] = {
        "solver": task.solver,
        "time_limit_s": task.time_limit_s,
        "gap": task.gap,
        "threads": task.threads,
        "deterministic": task.deterministic,
        "memory_limit_bytes": task.memory_limit_bytes,
        **{f"options.{name}": value for name, value in sorted(task.options.items())},
        "slackopt": run.slackopt_version,
    }
    return {name: None if value is None else _shown(value) for name, value in given.items()}


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True)
