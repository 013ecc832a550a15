"""Labels of methods: the name, and the settings in which runs of the method differ."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from slackopt.batch.run import Run
from slackopt.batch.summary import RunSummary


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
