"""From a study to its runs: the cross product, filtered, each run once."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slackopt.batch.key import settled, task_key
from slackopt.batch.run import Task
from slackopt.batch.study import Study, StudyMethod, instance_files, memory_bytes
from slackopt.compare import check_methods
from slackopt.device import Device
from slackopt.errors import InputError, plain
from slackopt.files import read_record
from slackopt.graph import Graph
from slackopt.heuristics import heuristics
from slackopt.heuristics.registry import check_options
from slackopt.instance import Instance, parse_budget
from slackopt.profiles.devices import LINKS, get_device
from slackopt.records import Record
from slackopt.solvers.options import SolveOptions
from slackopt.solvers.pulp_solvers import check_solver


@dataclass(frozen=True)
class Case:
    """A run to be done: its task, its key and its instance."""

    key: str
    task: Task
    instance: Instance


def expand(study: Study) -> list[Case]:
    """Return the runs of a study, in the order instance, device, budget, method, seed.

    Raises
    ------
    InputError
        For anything that would make a run fail from the start: a file that can't be read, an
        unknown method, device, option or solver, a filter that leaves nothing.
    """
    import_modules(study.modules)
    _check_methods(study)
    rules = heuristics()
    cases: dict[str, Case] = {}
    number = 0
    for path in instance_files(study.instances):
        for instance, tags in _variants(path, study):
            for method in study.methods:
                for seed in study.seeds:
                    number += 1
                    task = settled(_task(path, instance, study, method, seed, tags), rules)
                    facts = {
                        "instance": task.instance,
                        "method": task.method,
                        "solver": task.solver or "",
                        "seed": str(seed),
                        "device": tags["device"],
                        "budget": tags["budget"],
                    }
                    if study.keeps(facts):
                        key = task_key(task, rules)
                        cases.setdefault(key, Case(key, task, instance))
    if not cases:
        raise InputError(
            f"include and exclude leave none of {number} runs; `--dry-run` without them lists all"
        )
    return list(cases.values())


def import_modules(modules: Sequence[str]) -> None:
    """Import the modules that register heuristics."""
    for module in modules:
        try:
            importlib.import_module(module)
        except ImportError as error:
            raise InputError(
                f"module {module!r} can't be imported: {error}; its folder must be in PYTHONPATH"
            ) from None


def features(instance: Instance) -> dict[str, Any]:
    """Return the facts about an instance that go into its runs."""
    life = instance.lifetimes
    return {
        "num_ops": life.num_ops,
        "num_tensors": life.num_tensors,
        "num_candidates": len(life.candidates),
        "unlimited_peak_bytes": instance.graph.unlimited_peak_bytes,
        "budget_bytes": instance.budget_bytes,
        "budget_fraction": instance.budget_bytes / instance.graph.unlimited_peak_bytes,
        "ideal_ns": instance.ideal_ns,
        "device": instance.device.name,
        "graph": instance.graph.name,
    }


def _check_methods(study: Study) -> None:
    check_methods(list(dict.fromkeys(method.name for method in study.methods)))
    rules = heuristics()
    for i, method in enumerate(study.methods):
        if method in study.methods[:i]:
            raise InputError(f"method {method.name!r} stands twice with the same settings")
        if method.name in rules:
            check_options(method.name, rules[method.name], dict(method.options))
        elif method.options:
            option = sorted(method.options)[0]
            raise InputError(f"method {method.name!r} has no option {option!r}")
        elif (solver := method.solver or study.solver) is not None:
            check_solver(solver)


def _task(
    path: Path,
    instance: Instance,
    study: Study,
    method: StudyMethod,
    seed: int,
    tags: Mapping[str, str],
) -> Task:
    def chosen(name: str) -> Any:
        own = getattr(method, name)
        return getattr(study, name) if own is None else own

    limit = float(chosen("time_limit")) or None
    # Refuses here what `solve` would refuse in every run.
    SolveOptions(limit, chosen("gap"), chosen("threads"), seed)
    return Task(
        instance_path=plain(str(path)),
        instance=instance.name,
        instance_sha256=instance.sha256,
        method=method.name,
        solver=chosen("solver"),
        time_limit_s=limit,
        memory_limit_bytes=memory_bytes(chosen("memory_limit")),
        gap=chosen("gap"),
        threads=chosen("threads"),
        seed=seed,
        deterministic=chosen("deterministic"),
        options=dict(method.options),
        tags={**tags, **study.tags, **({"label": method.label} if method.label else {})},
    )


def _variants(path: Path, study: Study) -> Iterator[tuple[Instance, dict[str, str]]]:
    """Make the instances of a file: its own, or its graph with each device and budget."""
    record: Record = read_record(path, Instance, Graph)
    given, graph = None, record
    if isinstance(record, Instance):
        given, graph = record, record.graph
    assert isinstance(graph, Graph)  # noqa: S101
    if given is None and not (study.budgets and (study.devices or study.links)):
        raise InputError(f"{path}: is a graph; give budgets, and devices or links, or an instance")
    own_device = [] if given is None else [(given.device.name, given.device)]
    devices = [(name, get_device(name)) for name in study.devices]
    devices += [(name, link_device(name)) for name in study.links]
    for device_name, device in devices or own_device:
        for budget in study.budgets or (None,):
            instance = _variant(given, graph, device, budget)
            tags = {
                "base": graph.name if given is None else given.name,
                "family": plain(path.resolve().parent.name),
                "device": device_name,
                "budget": _budget_text(instance, budget),
            }
            yield instance, tags


def _variant(
    given: Instance | None, graph: Graph, device: Device, budget: str | int | float | None
) -> Instance:
    if budget is None:
        assert given is not None  # noqa: S101 - a graph has budgets
        size, fraction = given.budget_bytes, given.budget_fraction
    else:
        size, fraction = parse_budget(budget, graph.unlimited_peak_bytes)
    same_link = given is not None and _figures(device) == _figures(given.device)
    if given is not None and same_link and size == given.budget_bytes:
        return given
    name = graph.name if given is None else given.name
    if not same_link:
        name += f"@{device.name}"
    if given is None or size != given.budget_bytes:
        name += f"@{budget}"
    return Instance(
        name=name,
        budget_bytes=size,
        budget_fraction=fraction,
        device=device,
        graph=graph,
        provenance={} if given is None else given.provenance,
    )


def _figures(device: Device) -> dict[str, Any]:
    """Return what a device does, whatever it is called."""
    return device.model_dump(exclude={"name", "source"})


def link_device(name: str) -> Device:
    """Return a device with a host link of the catalogue and nothing else.

    Raises
    ------
    InputError
        Listing the known links.
    """
    link = LINKS.get(name)
    if link is None:
        raise InputError(f"unknown link {name!r}; known links: {', '.join(sorted(LINKS))}")
    shared = set(Device.model_fields) & set(type(link).model_fields)
    return Device(**{field: getattr(link, field) for field in shared})


def _budget_text(instance: Instance, budget: str | int | float | None) -> str:
    if budget is not None:
        return str(budget)
    return instance.budget_fraction or str(instance.budget_bytes)
