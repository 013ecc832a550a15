"""A study: which methods on which instances, with what limits; read from a TOML file."""

from __future__ import annotations

import fnmatch
import json
import os
import tomllib
from collections.abc import Mapping, Sequence
from glob import glob
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, ValidationError, model_validator

from slackopt.errors import InputError, plain
from slackopt.files import read_text, without_best
from slackopt.instance import parse_budget
from slackopt.records import Name, Record
from slackopt.violations import violation_lines

Budget = Annotated[str | int | float, Field(union_mode="left_to_right")]
Limit = Annotated[float, Field(gt=0)]

FILTER_FIELDS = ("instance", "method", "solver", "device", "budget", "seed")


class StudyMethod(Record):
    """One method of a study, with what is its own: options, solver, limits.

    Attributes
    ----------
    name
        See `slackopt.methods`.
    label
        For tables, where one method stands twice with different options; the name by default.
    solver, time_limit, memory_limit, gap, threads, deterministic
        Those of the study by default. A time limit of 0 is none.
    options
        Options of a heuristic.
    """

    name: Name
    label: str | None = None
    solver: str | None = None
    time_limit: Annotated[float, Field(ge=0)] | None = None
    memory_limit: Budget | None = None
    gap: Annotated[float, Field(ge=0, lt=1)] | None = None
    threads: Annotated[int, Field(ge=1)] | None = None
    deterministic: bool | None = None
    options: Mapping[str, Any] = Field(default_factory=dict)


class Study(Record):
    """Everything that is crossed: instances, budgets, devices, methods, seeds.

    Attributes
    ----------
    instances
        Instance or graph files; patterns such as ``instances/*.json`` are fine. In a study file,
        relative to that file.
    methods
        Names, or tables with a ``name`` and settings (`StudyMethod`).
    budgets, devices, links
        Instances are made again from their graphs with each of these; their own if none is
        given. Devices or links, not both; see `slackopt.profiles`.
    seeds
        A method without a seed runs once.
    time_limit
        Seconds for each run; 0 for none.
    memory_limit
        Bytes for each run, as a number or as text such as ``"8GiB"``.
    gap, threads, deterministic, solver
        As in `slackopt.solve`.
    modules
        Python modules to import first, which register heuristics.
    tags
        Free labels that go with every run.
    include, exclude
        Filters: tables of patterns over `FILTER_FIELDS`. A run stays if it matches one of
        ``include`` (or there is none) and none of ``exclude``.
    """

    instances: tuple[str, ...] = Field(min_length=1)
    methods: tuple[StudyMethod, ...] = Field(min_length=1)
    budgets: tuple[Budget, ...] = ()
    devices: tuple[str, ...] = ()
    links: tuple[str, ...] = ()
    seeds: tuple[int, ...] = Field(default=(0,), min_length=1)
    time_limit: Annotated[float, Field(ge=0)] = 60.0
    memory_limit: Budget | None = None
    gap: Annotated[float, Field(ge=0, lt=1)] = 1e-4
    threads: Annotated[int, Field(ge=1)] = 1
    deterministic: bool = False
    solver: str | None = None
    modules: tuple[str, ...] = ()
    tags: Mapping[str, str] = Field(default_factory=dict)
    include: tuple[Mapping[str, str | int | float], ...] = ()
    exclude: tuple[Mapping[str, str | int | float], ...] = ()

    @model_validator(mode="after")
    def _check(self) -> Study:
        if self.devices and self.links:
            raise InputError("give devices or links, not both: a device is a link with a name")
        for where in ("include", "exclude"):
            for i, wanted in enumerate(getattr(self, where)):
                for name in wanted:
                    if name not in FILTER_FIELDS:
                        raise InputError(
                            f"{where}[{i}] filters by {name!r}; "
                            f"choose from: {', '.join(FILTER_FIELDS)}"
                        )
        return self

    def keeps(self, facts: Mapping[str, str]) -> bool:
        """Whether the filters let a run with these facts through."""
        included = not self.include or any(_matches(facts, wanted) for wanted in self.include)
        return included and not any(_matches(facts, wanted) for wanted in self.exclude)


def read_study(path: str | os.PathLike[str]) -> Study:
    """Read a study file (TOML); its paths are taken relative to it.

    Raises
    ------
    InputError
        Naming the file and every field that is wrong.
    """
    text = read_text(path)
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{path}: not TOML: {error}") from None
    try:
        study = make_study(document)
    except InputError as error:
        raise error.in_file(path) from None
    parent = Path(path).parent
    instances = tuple(os.fspath(parent / pattern) for pattern in study.instances)
    return study.model_copy(update={"instances": instances})


def make_study(document: Mapping[str, Any]) -> Study:
    """Make a study from plain values, as of a TOML file."""
    names = document.get("methods")
    if isinstance(names, list | tuple):
        tables = [{"name": item} if isinstance(item, str) else item for item in names]
        document = {**document, "methods": tables}
    for name in document.get("instances") or ():
        if isinstance(name, str) and name != plain(name):
            raise InputError(f"{plain(name)}: its name is no UTF-8; rename it, or give a pattern")
    try:
        # Through JSON, where a list is good enough for a tuple and all else is strict.
        return Study.model_validate_json(json.dumps(document, default=str))
    except ValidationError as error:
        lines = violation_lines(error, document)
        noun = "field is" if len(lines) == 1 else "fields are"
        raise InputError(f"the study can't be used: {len(lines)} {noun} wrong", lines) from None


def instance_files(patterns: Sequence[str]) -> list[Path]:
    """Return the files that names and patterns stand for, each once, in order.

    Raises
    ------
    InputError
        For a pattern that stands for nothing.
    """
    found: dict[str, Path] = {}
    for pattern in patterns:
        if Path(pattern).exists() or not any(sign in pattern for sign in "*?["):
            paths = [pattern]
        else:
            paths = sorted(glob(pattern, recursive=True))  # noqa: PTH207 - of any root
            if not paths:
                raise InputError(f"{pattern}: no file matches this pattern")
        for path in paths:
            found.setdefault(os.path.realpath(path), Path(path))
    return without_best(found.values())


def memory_bytes(limit: str | int | float | None) -> int | None:
    """Read a memory limit: bytes, or text such as ``"8GiB"``."""
    if limit is None:
        return None
    hint = f"memory limit {limit!r}: give bytes, such as 8GiB or 8000000000"
    try:
        size, fraction = parse_budget(limit, 10**9)
    except InputError:
        raise InputError(hint) from None
    if fraction is not None:
        raise InputError(hint)
    return size


def parse_filter(text: str) -> dict[str, str]:
    """Read a filter of the command line, ``method=milp*,budget=0.5``."""
    wanted = {}
    for part in text.split(","):
        name, equals, pattern = part.partition("=")
        if not equals or name.strip() not in FILTER_FIELDS:
            raise InputError(
                f"filter {text!r}: write FIELD=PATTERN, separated by commas, with fields from: "
                f"{', '.join(FILTER_FIELDS)}"
            )
        wanted[name.strip()] = pattern.strip()
    return wanted


def _matches(facts: Mapping[str, str], wanted: Mapping[str, str | int | float]) -> bool:
    return all(
        fnmatch.fnmatchcase(facts.get(name, ""), str(pattern)) for name, pattern in wanted.items()
    )
