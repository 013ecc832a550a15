"""Studies: what is read, what is refused, and the cross product."""

from pathlib import Path
from typing import Any

import pytest

from slackopt.batch.expand import Case, expand, link_device
from slackopt.batch.key import _own_versions, task_key
from slackopt.batch.study import instance_files, make_study, memory_bytes, parse_filter, read_study
from slackopt.errors import InputError
from slackopt.files import write_record
from slackopt.instance import Instance


def cases(tiny_file: Path, **asked: Any) -> list[Case]:
    return expand(make_study({"instances": [str(tiny_file)], "methods": ["slackswap"], **asked}))


def test_a_study_file(tmp_path: Path, tiny_file: Path, tiny: Instance) -> None:
    (tmp_path / "inst").mkdir()
    write_record(tiny, tmp_path / "inst" / "tiny.json")
    path = tmp_path / "study.toml"
    path.write_text(
        """
instances = ["inst/*.json"]
budgets = [0.9, "80%", "2MB"]
links = ["pcie3", "pcie5"]
seeds = [0, 1]
time_limit = 5
memory_limit = "2GiB"
tags = {paper = "figure 3"}

[[methods]]
name = "bound"

[[methods]]
name = "milp"
solver = "highs"
time_limit = 10
label = "MILP"

[[exclude]]
method = "milp"
budget = "0.9"
"""
    )
    found = expand(read_study(path))
    # 2 links x 3 budgets x 2 methods x 2 seeds, less milp at 0.9.
    assert len(found) == 2 * 3 * 2 * 2 - 2 * 2
    milp = next(case for case in found if case.task.method == "milp")
    assert milp.task.time_limit_s == 10
    assert milp.task.memory_limit_bytes == 2 * 2**30
    assert milp.task.tags["label"] == "MILP"
    assert milp.task.tags["paper"] == "figure 3"
    assert milp.task.tags["family"] == "inst"
    assert milp.task.tags["budget"] == "80%"
    assert milp.instance.device == link_device("pcie3")
    assert milp.instance.name == "two layers@pcie3@80%"
    assert milp.task.instance_sha256 == milp.instance.sha256


def test_an_instance_stays_itself_where_nothing_changes(tiny_file: Path, tiny: Instance) -> None:
    (found,) = cases(tiny_file, budgets=[2000000])
    assert found.instance == tiny
    (changed,) = cases(tiny_file, budgets=[1999999])
    assert changed.instance.sha256 != tiny.sha256


def test_graphs_need_budgets_and_devices(tmp_path: Path, tiny: Instance) -> None:
    path = tmp_path / "graph.json"
    write_record(tiny.graph, path)
    with pytest.raises(InputError, match="is a graph; give budgets, and devices or links"):
        cases(path, budgets=[0.5])
    (found,) = cases(path, budgets=[0.9], devices=["a100-pcie4"])
    assert found.instance.name == "two layers@a100-pcie4@0.9"


def test_a_rule_without_a_seed_runs_once(tiny_file: Path) -> None:
    found = cases(tiny_file, methods=["keep-all", "milp"], seeds=[0, 1, 2])
    assert [case.task.method for case in found] == ["keep-all", "milp", "milp", "milp"]


def test_keys(tiny_file: Path) -> None:
    (one,) = cases(tiny_file, methods=["milp"])
    assert len(one.key) == 32
    same = one.task.model_copy(update={"instance_path": "elsewhere", "tags": {"a": "b"}})
    assert task_key(same) == one.key
    for change in (
        {"instance_sha256": "0" * 64},
        {"method": "cpsat"},
        {"solver": "cbc"},
        {"time_limit_s": 61.0},
        {"time_limit_s": None},
        {"memory_limit_bytes": 2**30},
        {"gap": 1e-3},
        {"threads": 2},
        {"seed": 1},
        {"deterministic": True},
        {"options": {"a": 1}},
    ):
        assert task_key(one.task.model_copy(update=change)) != one.key, change


def test_a_rule_without_a_limit_has_one_key(tiny_file: Path) -> None:
    short, long = (cases(tiny_file, methods=["keep-all"], time_limit=s)[0] for s in (1, 2))
    assert short.key == long.key
    assert short.task.time_limit_s == 1


def test_versions_change_the_key(tiny_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (one,) = cases(tiny_file)
    monkeypatch.setattr("slackopt.batch.key.package_version", lambda name: "99")
    _own_versions.cache_clear()
    assert task_key(one.task) != one.key
    monkeypatch.undo()
    _own_versions.cache_clear()
    assert task_key(one.task) == one.key


def test_the_source_of_a_foreign_rule_is_in_the_key(
    tiny_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from slackopt.batch import key as keys
    from slackopt.heuristics.registry import _REGISTRY

    source = tmp_path / "foreign_rule.py"
    text = (
        "from slackopt.heuristics.registry import heuristic\n"
        "from slackopt.heuristics import heuristics\n"
        "@heuristic('foreign')\n"
        "def foreign(instance):\n    '''Rule.'''\n    return heuristics()['slackswap'](instance)\n"
    )
    source.write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    try:
        (one,) = cases(tiny_file, methods=["foreign"], modules=["foreign_rule"])
        source.write_text(text + "# changed\n")
        keys._foreign_versions.cache_clear()
        assert task_key(one.task) != one.key
    finally:
        _REGISTRY.pop("foreign", None)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"methods": []}, "methods"),
        ({"methods": ["nonsense"]}, "method 'nonsense' is unknown"),
        ({"methods": [{"name": "milp", "options": {"a": 1}}]}, "has no option 'a'"),
        ({"methods": [{"name": "slackswap", "options": {"a": 1}}]}, "has no option 'a'"),
        ({"methods": ["milp", "milp"]}, "stands twice"),
        ({"methods": [{"name": "milp", "solver": "nonsense"}]}, "'nonsense' is not available"),
        ({"methods": [{"nam": "milp"}]}, "methods"),
        ({"seeds": ["a"]}, "seeds"),
        ({"seeds": []}, "seeds"),
        ({"budgets": [0]}, "budget 0"),
        ({"budgets": ["1"]}, "could mean 1 byte or the whole peak"),
        ({"devices": ["x"]}, "unknown device 'x'"),
        ({"links": ["x"]}, "unknown link 'x'"),
        ({"links": ["pcie3"], "devices": ["a100-pcie4"]}, "devices or links, not both"),
        ({"time_limit": -1}, "time_limit"),
        ({"memory_limit": "much"}, "memory limit 'much': give bytes"),
        ({"memory_limit": 0.5}, "memory limit 0.5: give bytes"),
        ({"threads": 0}, "threads"),
        ({"modules": ["no_such_module"]}, "can't be imported"),
        ({"include": [{"metod": "milp"}]}, "filters by 'metod'"),
        ({"include": [{"method": "cpsat"}]}, "leave none of 1 runs"),
        ({"instances": ["no/*.json"]}, "no file matches"),
        ({"instances": ["no.json"]}, "no such file"),
        ({"speed": 1}, "speed"),
    ],
)
def test_bad_studies_are_refused(tiny_file: Path, change: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as caught:
        cases(tiny_file, **change)
    assert message in str(caught.value)


def test_a_study_file_names_itself(tmp_path: Path) -> None:
    path = tmp_path / "study.toml"
    path.write_text("instances = [")
    with pytest.raises(InputError, match=r"study\.toml: not TOML"):
        read_study(path)
    path.write_text('methods = ["milp"]')
    with pytest.raises(InputError, match=r"study\.toml: .*1 field is wrong") as caught:
        read_study(path)
    assert "instances" in str(caught.value)


def test_filters(tiny_file: Path) -> None:
    methods = ["slackswap", "milp", "cpsat"]
    found = cases(tiny_file, methods=methods, include=[{"method": "*p"}])
    assert [case.task.method for case in found] == ["slackswap", "milp"]
    found = cases(tiny_file, methods=methods, seeds=[0, 1], exclude=[{"seed": 1}])
    assert len(found) == 3
    assert parse_filter("method=a*, budget=0.5") == {"method": "a*", "budget": "0.5"}
    with pytest.raises(InputError, match="write FIELD=PATTERN"):
        parse_filter("method")


def test_memory_and_files(tmp_path: Path) -> None:
    assert memory_bytes("1.5GiB") == 3 * 2**29
    assert memory_bytes(10**9) == 10**9
    assert memory_bytes(None) is None
    (tmp_path / "a[1].json").write_text("")
    odd = str(tmp_path / "a[1].json")
    assert instance_files([odd, odd]) == [Path(odd)]
