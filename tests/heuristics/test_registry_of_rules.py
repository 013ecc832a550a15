"""The registry: options, rules of other packages, the documented example."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest
from handmade import chain, instance

from slackopt import InputError, Plan, methods, solve
from slackopt.compare import compare
from slackopt.heuristics import NoPlanError, heuristic, heuristics, registry
from slackopt.instance import Instance

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "docs" / "own-heuristic.md"


@pytest.fixture(autouse=True)
def _own_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_REGISTRY", dict(registry._REGISTRY))
    monkeypatch.setattr(registry, "_SEEN_ENTRY_POINTS", set())


@pytest.fixture
def question() -> Instance:
    return instance(chain([100] * 6), 0.7)


def fenced(kind: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```$", EXAMPLE.read_text(), re.DOTALL | re.MULTILINE)


def package(folder: Path, entry_points: dict[str, str], modules: dict[str, str]) -> Path:
    """Write what pip would install: modules, and a .dist-info with entry points."""
    info = folder / "their_rules-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: their-rules\nVersion: 1.0\n")
    lines = [f"{name} = {value}" for name, value in entry_points.items()]
    (info / "entry_points.txt").write_text("\n".join(["[slackopt.heuristics]", *lines, ""]))
    for name, text in modules.items():
        (folder / f"{name}.py").write_text(text)
    return folder


@pytest.fixture
def on_path(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        if name.startswith("their_"):
            del sys.modules[name]


KEEPER = '''
from slackopt import Plan

def keeper(instance, *, seed=0):
    """Keep everything, as theirs."""
    return Plan.for_instance(instance, {}, provenance={"method": "keeper", "seed": seed})
'''
REGISTERING = '''
from slackopt import Plan
from slackopt.heuristics import heuristic

@heuristic("theirs")
def theirs(instance):
    """Their first rule."""
    return Plan.for_instance(instance, {})

@heuristic("theirs-too")
def theirs_too(instance):
    """Their second rule."""
    return Plan.for_instance(instance, {})
'''


@pytest.mark.usefixtures("on_path")
def test_entry_points_are_methods(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, question: Instance
) -> None:
    points = {"keeper": "their_keeper:keeper", "all": "their_rules", "theirs": "their_rules:theirs"}
    modules = {"their_keeper": KEEPER, "their_rules": REGISTERING}
    monkeypatch.syspath_prepend(package(tmp_path, points, modules))
    summaries = {method.name: method.summary for method in methods()}
    assert summaries["keeper"] == "Keep everything, as theirs."
    assert summaries["theirs"] == "Their first rule."
    assert summaries["theirs-too"] == "Their second rule."
    roomy = Instance.from_graph(question.graph, device=question.device, budget=1.0)
    assert solve(roomy, "keeper", seed=5).makespan_ns == roomy.ideal_ns
    assert heuristics()["keeper"](roomy, seed=5).provenance["seed"] == 5
    rows = compare([roomy], ["keeper", "theirs", "slackswap"])
    assert [row.result.status for row in rows] == ["feasible"] * 3


@pytest.mark.usefixtures("on_path")
def test_entry_points_that_fail_are_left_out_with_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    points = {
        "gone": "their_absent:rule",
        "bad": "their_bad:rule",
        "keep-all": "their_keeper:keeper",
    }
    modules = {"their_bad": "raise ValueError('no\\nluck')", "their_keeper": KEEPER}
    monkeypatch.syspath_prepend(package(tmp_path, points, modules))
    with pytest.warns(RuntimeWarning) as caught:
        known = heuristics()
    texts = sorted(str(warning.message) for warning in caught)
    assert len(texts) == 3
    assert "'bad' of another package (their_bad:rule) is left out" in texts[0]
    assert "ValueError: no luck" in texts[0]
    assert "No module named 'their_absent'" in texts[1]
    assert "registered already" in texts[2]
    assert "keep-all" in known
    assert "bad" not in known
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        heuristics()  # said once


def test_the_command_line_says_it_in_a_sentence(tmp_path: Path) -> None:
    package(tmp_path, {"bad": "their_bad:rule"}, {"their_bad": "raise ValueError('no luck')"})
    environment = os.environ | {"PYTHONPATH": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-m", "slackopt", "methods"],
        env=environment, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stderr.startswith("slackopt: warning: the heuristic 'bad' of another package")
    assert done.stderr.count("\n") == 1
    assert "slackswap" in done.stdout


def test_the_documented_example(tmp_path: Path) -> None:
    rule, use = fenced("python")
    (project,) = fenced("toml")
    points = tomllib.loads(project)["project"]["entry-points"]["slackopt.heuristics"]
    package(tmp_path, points, {"my_rules": rule})
    assert sum(bool(line.strip()) for line in rule.splitlines()) <= 15
    environment = os.environ | {"PYTHONPATH": str(tmp_path)}
    subprocess.run([sys.executable, "-c", use], env=environment, check=True)
    listed = subprocess.run(
        [sys.executable, "-m", "slackopt", "methods"],
        env=environment, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert "oldest-first" in listed.stdout


def test_unknown_options_are_refused_with_the_valid_names(question: Instance) -> None:
    with pytest.raises(
        InputError, match="'slackswap' has no option 'slck'; its options are: slack"
    ):
        solve(question, "slackswap", slck="timeline")
    with pytest.raises(InputError, match="'swap-all' has no option 'x'; it has no options"):
        solve(question, "swap-all", x=1)
    with pytest.raises(InputError, match="no option 'x'"):
        heuristics()["slackswap-timeline"](question, x=1)


def test_unknown_values_are_refused_with_the_valid_ones(question: Instance) -> None:
    with pytest.raises(
        InputError, match="ranking of method 'slackswap' is 'best'; give one of 'time"
    ):
        solve(question, "slackswap", ranking="best")


def test_seed_and_time_limit_go_to_rules_that_take_them(question: Instance) -> None:
    seen = {}

    @heuristic("takes-both")
    def takes_both(instance: Instance, *, seed: int = 0, time_limit: float | None = None) -> Plan:
        """Take both."""
        seen.update(seed=seed, time_limit=time_limit)
        raise NoPlanError("takes-both", instance)

    result = solve(question, "takes-both", seed=3, time_limit=2)
    assert seen == {"seed": 3, "time_limit": 2}
    assert result.status == "no_solution"


def test_a_plan_that_runs_out_of_memory_is_said(question: Instance) -> None:
    @heuristic("hopeful")
    def hopeful(instance: Instance) -> Plan:
        """Keep everything."""
        return Plan.for_instance(instance, {})

    result = solve(question, "hopeful")
    assert result.status == "no_solution"
    assert any("'hopeful' runs out of memory" in note for note in result.notes)


def test_a_summary_of_its_own_and_fixed_options(question: Instance) -> None:
    @heuristic("variant", summary="A variant.", way="b")
    @heuristic("plain")
    def rule(instance: Instance, *, way: Literal["a", "b"] = "a") -> Plan:
        """Do it."""
        return Plan.for_instance(instance, {}, provenance={"way": way})

    summaries = {method.name: method.summary for method in methods()}
    assert (summaries["plain"], summaries["variant"]) == ("Do it.", "A variant.")
    assert heuristics()["variant"](question).provenance["way"] == "b"
    assert heuristics()["variant"](question, way="a").provenance["way"] == "a"


def test_a_name_is_taken_once() -> None:
    with pytest.raises(InputError, match="'keep-all' is registered already"):
        heuristic("keep-all")(lambda instance: None)


def test_every_summary_is_one_line_of_its_own() -> None:
    summaries = [method.summary for method in methods()]
    assert len(set(summaries)) == len(summaries)
    assert all(0 < len(summary) <= 100 for summary in summaries)
