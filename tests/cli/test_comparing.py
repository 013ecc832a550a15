"""The comparison: gaps against the best of the table, failures as rows, the rendered table."""

from pathlib import Path

import pytest
from cli.conftest import Cli, question, write

from slackopt.compare import ComparisonRow, _rows, compare
from slackopt.errors import InputError
from slackopt.files import read_instance
from slackopt.heuristics import registry
from slackopt.instance import Instance
from slackopt.plan import Plan
from slackopt.published import published_ratio
from slackopt.result import Result

ROOT = Path(__file__).resolve().parents[2]
SEED = ROOT / "instances" / "slackswap" / "bert-large-flash.json"


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_REGISTRY", dict(registry._REGISTRY))

    @registry.heuristic("fails")
    def fails(instance: Instance) -> Plan:
        """Always fails."""
        raise RuntimeError("the solver\nhas [gone] away")


def test_gaps_are_against_the_best_of_the_table(instance_file: Path) -> None:
    instance = read_instance(instance_file)
    rows = compare([instance], ["swap-all", "slackswap", "milp"], time_limit=5)
    makespans = [row.result.makespan_ns for row in rows]
    best = min(makespan for makespan in makespans if makespan is not None)
    bound = rows[2].result.lower_bound_ns
    assert bound is not None
    for row, makespan in zip(rows, makespans, strict=True):
        assert makespan is not None
        assert row.best_makespan_ns == best
        assert row.best_lower_bound_ns == bound
        assert row.gap_to_best == (makespan - best) / best
        assert row.gap_to_bound == (makespan - bound) / bound
        assert row.conflict is None
        assert row.reason is None
    assert rows[0].result.gap is None  # a rule proves nothing itself


def test_a_failure_is_a_row(failing: None, cli: Cli, instance_file: Path) -> None:
    ran = cli("compare", instance_file, "--methods", "fails,keep-all,slackswap")
    assert ran.code == 5
    assert "chain, fails: error: RuntimeError: the solver has [gone] away" in ran.out
    assert "chain, keep-all: no solution: rule 'keep-all' finds no plan" in ran.out
    assert "[3/3] chain, slackswap: feasible" in ran.err
    rows = cli("compare", instance_file, "--methods", "fails,slackswap", "--json").document["rows"]
    assert [row["status"] for row in rows] == ["error", "feasible"]
    assert rows[0]["notes"] == ["RuntimeError: the solver has [gone] away"]


def test_rows_without_a_plan_are_no_failure(cli: Cli, instance_file: Path, tmp_path: Path) -> None:
    tight = write(tmp_path / "tight.json", question(budget_bytes=1000))
    ran = cli("compare", instance_file, tight, "--methods", "keep-all,slackswap")
    assert ran.code == 0
    assert ran.out.count("no plan  ") == 3
    label = f"chain [{read_instance(tight).sha256[:8]}]"  # two instances of one name
    assert f"{label}, slackswap: infeasible: instance 'chain' has no plan" in ran.out


def test_a_bound_above_a_plan_is_a_conflict(instance_file: Path) -> None:
    instance = read_instance(instance_file)
    (row,) = compare([instance], ["slackswap"])
    makespan = row.result.makespan_ns
    assert makespan is not None
    liar = row.result.model_copy(update={"method": "liar", "lower_bound_ns": makespan + 1})
    rows = _rows([(instance, row.result), (instance, liar)])
    assert all(r.conflict and "liar claims" in r.conflict for r in rows)
    assert all(r.gap_to_bound is None for r in rows)


def test_json_rows_hold_every_field_of_the_result(cli: Cli, instance_file: Path) -> None:
    (row,) = cli("compare", instance_file, "--methods", "slackswap", "--json").document["rows"]
    assert set(Result.model_fields) < set(row)
    added = set(row) - set(Result.model_fields)
    assert added == {
        "best_makespan_ns",
        "best_lower_bound_ns",
        "gap_to_bound",
        "gap_to_best",
        "paper_ratio",
        "conflict",
    }


def test_wrong_calls_raise_before_anything_is_run(instance_file: Path) -> None:
    instance = read_instance(instance_file)
    for instances, methods, words in (
        ([], ["slackswap"], "no instance"),
        ([instance], [], "no method"),
        ([instance], ["slackswap", "magic"], "'magic' is unknown"),
    ):
        with pytest.raises(InputError, match=words):
            compare(instances, methods, on_start=lambda *_: pytest.fail("it was run"))


def test_the_paper_stands_beside_its_own_rule_only(cli: Cli) -> None:
    instance = read_instance(SEED)
    assert published_ratio(instance, "slackswap") == 0.963
    assert published_ratio(instance, "slackswap-timeline") == 0.963
    assert published_ratio(instance, "milp") is None
    other = instance.model_copy(update={"budget_fraction": "0.4"})
    assert published_ratio(other, "slackswap") is None
    ran = cli("compare", SEED, "--methods", "slackswap,slackswap-timeline")
    assert ran.code == 0
    table = ran.out.split("\n\n")[0].splitlines()
    assert [line.split()[3] for line in table[4:]] == ["96.3", "96.3"]
    assert "arXiv 2610.13003" in ran.out


def test_the_table_is_aligned_and_fits_120_columns(cli: Cli, instance_file: Path) -> None:
    ran = cli("compare", SEED, "--methods", "keep-all,slackswap,slackswap-timeline")
    lines = ran.out.split("\n\n")[0].splitlines()
    header, rule, body = lines[:3], lines[3], lines[4:]
    assert set(rule) == {"─"}
    assert max(map(len, lines)) <= 120
    assert "slackswap-timeline" in body[2]
    assert [line.split()[0] for line in body] == ["bert-large-flash"] * 3
    # Every number ends in the column in which its unit ends.
    for unit in ("ms", "GiB", "%", "s"):
        end = header[2].rindex(unit) + len(unit)
        assert all(line[end - 1] != " " and line[end : end + 1] in ("", " ") for line in body)


def test_a_row_is_a_value() -> None:
    result = Result(
        instance="i",
        instance_sha256="0" * 64,
        method="m",
        status="no_solution",
        stopped_by="time",
        ideal_ns=1,
        budget_bytes=1,
        notes=("1.500 s: window LP: plan none, bound 1.000 ms",),
        slackopt_version="0",
    )
    row = ComparisonRow(result)
    assert row == ComparisonRow(result)
    assert row.reason == "stopped by time"
    assert row.gap_to_best is None


def test_an_option_that_one_method_refuses_is_its_row(instance_file: Path) -> None:
    instance = read_instance(instance_file)
    (row,) = compare([instance], ["slackswap"], no_such_option=1)
    assert row.result.status == "error"
    assert row.reason is not None
    assert "no_such_option" in row.reason
    with pytest.raises(InputError, match="time limit -1"):
        compare([instance], ["slackswap"], time_limit=-1)


def test_nothing_found_at_all_is_not_success(cli: Cli) -> None:
    ran = cli("compare", SEED, "--methods", "keep-all")
    assert ran.code == 4
    assert "no plan" in ran.out
    assert cli("compare", SEED, "--methods", "keep-all,slackswap").code == 0


def test_instances_of_one_name_are_told_apart(
    cli: Cli, instance_file: Path, tmp_path: Path
) -> None:
    first = read_instance(instance_file)
    other = write(tmp_path / "other.json", question(budget_bytes=first.budget_bytes + 1))
    told = cli("compare", instance_file, other, "-m", "swap-all").out
    for instance in (first, read_instance(other)):
        assert f"{first.name} [{instance.sha256[:8]}]" in told
