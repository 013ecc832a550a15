"""What a result has to cite, and that every entry is whole and in step with methods and pages."""

import json
import re
from pathlib import Path

import pytest

import slackopt as so
from slackopt import citing
from slackopt.cli import main
from slackopt.solvers.pulp_solvers import available_solvers

ROOT = Path(__file__).resolve().parents[1]
# What BibTeX's standard styles ask for, by type.
REQUIRED = {
    "misc": {"title"},
    "article": {"title", "author", "journal", "year"},
    "inproceedings": {"title", "author", "booktitle", "year"},
}


@pytest.fixture(scope="module")
def instance() -> so.Instance:
    graph = so.profiles.transformer("bert-large", batch=4, num_layers=4)
    return so.Instance.from_graph(graph, device="a100-pcie4", budget=0.8)


def keys(*results: so.Result) -> list[str]:
    return [citation.key for citation in citing.cite(results)]


def test_every_method_of_ours_has_a_source_or_is_our_own() -> None:
    ours = {m.name for m in so.methods() if _is_ours(m)}
    assert ours == citing.OURS | set(citing.RULE_SOURCES)
    assert not citing.OURS & set(citing.RULE_SOURCES)


def _is_ours(method: so.Method) -> bool:
    from slackopt.heuristics import heuristics

    rule = heuristics().get(method.name)
    return rule is None or rule.__module__.startswith("slackopt.")


def test_every_entry_is_used_and_none_is_missing() -> None:
    named = {key for sources in citing.RULE_SOURCES.values() for key in sources}
    named |= {key for found in citing._SOLVER_ENTRIES.values() for key in found}
    assert named | {citing.PAPER} == set(citing.references())


@pytest.mark.parametrize("key", sorted(citing.references()))
def test_an_entry_is_whole(key: str) -> None:
    entry = citing.references()[key]
    assert REQUIRED[entry.kind] <= entry.fields.keys()
    assert entry.bibtex.count("{") == entry.bibtex.count("}")
    assert entry.fields.keys() & {"doi", "eprint", "url", "booktitle"}
    text = (ROOT / "slackopt" / "references.bib").read_text("utf-8")
    start = text.index(f"@{entry.kind}{{{key},")
    assert entry.bibtex == text[start : text.index("\n}", start) + 2], "all of it is read"


@pytest.mark.parametrize("rule", sorted(citing.RULE_SOURCES))
def test_the_page_of_the_rules_names_the_same_papers(rule: str) -> None:
    page = (ROOT / "docs" / "rules.md").read_text("utf-8")
    (section,) = re.findall(rf"^### `{rule}`\n(.*?)(?=^##|\Z)", page, re.M | re.S)
    for key in citing.RULE_SOURCES[rule]:
        fields = citing.references()[key].fields
        marks = [fields[name] for name in ("eprint", "doi", "url") if name in fields]
        title = re.sub(r"[{}$\\]", "", fields["title"])
        assert any(mark in section for mark in marks) or title[-30:] in section, key


def test_without_results_it_is_the_toolkit_and_the_paper() -> None:
    assert keys() == ["slackopt", "slackswap"]
    assert so.__version__ in citing.cite()[0].bibtex


def test_a_rule_brings_its_papers_and_no_solver(instance: so.Instance) -> None:
    result = so.solve(instance, "teraio")
    assert keys(result) == ["slackopt", "slackswap", "yuan2025teraio", "zhang2023g10"]
    assert citing.cite([result])[2].cited_for == ("method teraio",)


def test_solvers_come_with_the_versions_of_the_result(instance: so.Instance) -> None:
    result = so.solve(instance, "exact", time_limit=5, gap=0.01)
    environment = dict(result.environment) | {"highspy": "9.8.7", "ortools": "6.5.4"}
    result = result.model_copy(
        update={
            "solver": "highs+cpsat",
            "slackopt_version": "0.0.9",
            "environment": environment,
        }
    )
    found = {citation.key: citation for citation in citing.cite([result])}
    assert list(found) == ["slackopt", "slackswap", "cpsat", "highs", "pulp"]
    assert found["highs"].cited_for == ("HiGHS 9.8.7",)
    assert found["cpsat"].cited_for == ("OR-Tools CP-SAT 6.5.4",)
    assert "Version 0.0.9" in found["slackopt"].bibtex


@pytest.mark.skipif("cbc" not in available_solvers(), reason="CBC isn't installed")
def test_cbc_is_cited_where_it_ran(instance: so.Instance) -> None:
    result = so.solve(instance, "milp", solver="cbc", time_limit=5, gap=0.05)
    assert {"cbc", "pulp", "highs"} <= set(keys(result)), "the window LP is solved by HiGHS"


@pytest.mark.parametrize("method", ["round", "bound"])
def test_methods_on_the_window_lp_cite_highs(instance: so.Instance, method: str) -> None:
    assert "highs" in keys(so.solve(instance, method, time_limit=10))


def test_what_has_no_entry_is_said(instance: so.Instance) -> None:
    result = so.solve(instance, "slackswap")
    result = result.model_copy(update={"method": "my-rule", "solver": "gurobi"})
    told = citing.without_entry([result, result])
    assert len(told) == 2
    assert "'my-rule'" in told[0]
    assert "'gurobi'" in told[1]
    assert "pulp" in keys(result), "a solver we don't know ran through PuLP"


def test_the_command_reads_results_and_folders(
    instance: so.Instance, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "runs").mkdir()
    for method in ("memo", "dtr"):
        so.write_record(so.solve(instance, method), tmp_path / "runs" / f"{method}.json")
    assert main(["cite", str(tmp_path)]) == 0
    text = capfd.readouterr().out
    whole = [citation.bibtex for citation in citing.cite()]
    assert whole[0] in text, "no line is wrapped"
    assert "@article{zhao2025memo,\n" in text
    assert "@inproceedings{kirisame2021dtr,\n" in text

    assert main(["cite", str(tmp_path / "runs" / "memo.json"), "--json"]) == 0
    document = json.loads(capfd.readouterr().out)
    found = [entry["key"] for entry in document["entries"]]
    assert found == ["slackopt", "slackswap", "zhao2025memo"]
    assert document["without_entry"] == []


def test_the_command_refuses_other_files(
    instance: so.Instance, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    so.write_record(instance, tmp_path / "instance.json")
    assert main(["cite", str(tmp_path / "instance.json")]) == 2
    assert "instance.json: format is" in capfd.readouterr().err
    assert main(["cite", str(tmp_path)]) == 2
    assert "without runs/*.json" in capfd.readouterr().err
