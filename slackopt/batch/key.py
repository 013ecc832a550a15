"""The key of a task: a hash over what is asked and the versions that answer it."""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import inspect
import json
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

from slackopt.batch.run import Task
from slackopt.environment import package_version
from slackopt.heuristics import heuristics
from slackopt.heuristics.registry import Heuristic, option_names

SOLVER_PACKAGES = ("cbcbox", "highspy", "ortools", "pulp")
"""Packages whose version changes what a run may answer, beside this one."""

KEY_DIGITS = 32

Rules = Mapping[str, Heuristic]


def task_key(task: Task, rules: Rules | None = None) -> str:
    """Return the key of a task: the name of its run's file.

    It covers the instance's content, the method with its options, limits and seed, and the
    versions of this package and of the solvers; for a rule of another package or module also that
    one's version and source. Path and tags are left out. So is the time limit of a rule that
    has no such option: it only says when the rule is killed.

    Parameters
    ----------
    task
        The task.
    rules
        As of `slackopt.heuristics.heuristics`, which takes its time; for many keys.
    """
    content = task.model_dump(mode="json", exclude={"instance_path", "tags"})
    rule = (heuristics() if rules is None else rules).get(task.method)
    if rule is not None and "time_limit" not in _options(rule):
        del content["time_limit_s"]
    content["versions"] = dict(_own_versions())
    if rule is not None:
        content["versions"] |= _foreign_versions(inspect.unwrap(rule).__module__)
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()[:KEY_DIGITS]


def settled(task: Task, rules: Rules | None = None) -> Task:
    """Return the task with every setting that its method never reads at its default.

    So that five seeds of a rule without a seed are one task.
    """
    rule = (heuristics() if rules is None else rules).get(task.method)
    if rule is None:
        return task
    known = _options(rule)
    defaults: dict[str, Any] = {"solver": None, "gap": 1e-4, "threads": 1, "deterministic": False}
    if "seed" not in known:
        defaults["seed"] = 0
    return task.model_copy(update=defaults)


_options = functools.cache(option_names)
"""Asked for every run of a batch, and a signature takes its time."""


@functools.cache
def _own_versions() -> Mapping[str, str | None]:
    return {name: package_version(name) for name in ("slackopt", *SOLVER_PACKAGES)}


@functools.cache
def _foreign_versions(module: str) -> Mapping[str, str | None]:
    """Versions of the package that a rule of others comes from, and a hash of its source."""
    package = module.partition(".")[0]
    if package == "slackopt":
        return {}
    names = metadata.packages_distributions().get(package, [])
    versions: dict[str, str | None] = {name: package_version(name) for name in sorted(names)}
    spec = importlib.util.find_spec(module)
    if spec is not None and spec.origin is not None and Path(spec.origin).is_file():
        versions[module] = hashlib.sha256(Path(spec.origin).read_bytes()).hexdigest()
    return versions
