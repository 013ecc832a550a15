"""``slackopt report``: every format, what is skipped, and conflicts."""

import json
from pathlib import Path

import pytest
from cli.conftest import Cli
from made_runs import run

from slackopt.batch import write_run


@pytest.fixture
def batch(tmp_path: Path) -> Path:
    folder = tmp_path / "batch"
    write_run(folder, run("one", "milp", makespan=110, bound=100))
    write_run(folder, run("one", "slackswap", makespan=120))
    write_run(folder, run("two", "milp", outcome="timeout", detail="killed", result=False))
    return folder


def test_the_table_is_for_people(cli: Cli, batch: Path) -> None:
    ran = cli("report", batch)
    assert ran.code == 0
    assert ran.err == ""
    assert "110" not in ran.err
    lines = ran.out.splitlines()
    assert max(map(len, lines)) <= 120
    assert any(line.startswith("one") and "slackswap" in line for line in lines)
    assert "failed runs" in ran.out
    assert "killed" in ran.out


def test_json_is_one_document(cli: Cli, batch: Path) -> None:
    document = cli("report", batch, "--json").document
    assert document["runs"] == 3
    assert document["skipped"] == document["conflicts"] == document["written"] == []
    assert {row["method"] for row in document["methods"]} == {"milp", "slackswap"}
    assert len(document["instances"]) == 3
    assert document["failures"][0]["outcome"] == "timeout"


@pytest.mark.parametrize("form", ["table", "csv", "latex", "html", "parquet"])
def test_formats_go_to_files(cli: Cli, batch: Path, tmp_path: Path, form: str) -> None:
    if form == "parquet":
        pytest.importorskip("pyarrow")
    output = tmp_path / f"report.{form}"
    ran = cli("report", batch, "--format", form, "-o", output)
    assert ran.code == 0
    assert ran.out == f"written: {output}\n"
    data = output.read_bytes()
    marks = {
        "table": b"slackswap",
        "csv": b"key,instance",
        "latex": b"\\toprule",
        "html": b"<!doctype",
        "parquet": b"PAR1",
    }
    assert marks[form] in data
    cli("report", batch, "--format", form, "-o", output)
    assert output.read_bytes() == data


def test_text_formats_go_to_standard_output(cli: Cli, batch: Path) -> None:
    assert cli("report", batch, "-f", "csv", "-t", "methods").out.startswith("method,instances")
    assert cli("report", batch, "-f", "latex").out.startswith("% needs")
    assert cli("report", batch, "-f", "html").out.startswith("<!doctype html>")


def test_figures_are_listed(cli: Cli, batch: Path, tmp_path: Path) -> None:
    ran = cli("report", batch, "--figures", tmp_path / "figures", "--json")
    assert {Path(path).suffix for path in ran.document["written"]} == {".png", ".pdf", ".csv"}


def test_bad_files_are_named_counted_and_left_out(cli: Cli, batch: Path) -> None:
    (batch / "runs" / "notes.txt").write_text("mine")
    good = next((batch / "runs").glob("*.json"))
    good.write_text(good.read_text()[:200])
    ran = cli("report", batch, "--json")
    assert ran.code == 0
    assert "notes.txt: no file of a run" in ran.err
    assert f"{good}: 1 field is wrong" in ran.err
    assert "2 files skipped" in ran.err
    assert ran.document["runs"] == 2
    assert len(ran.document["skipped"]) == 2


def test_a_bound_above_a_plan_is_exit_code_6(cli: Cli, batch: Path) -> None:
    write_run(batch, run("one", "liar", bound=115))
    ran = cli("report", batch, "--json")
    assert ran.code == 6
    assert "liar" in ran.err
    assert "no plan is below 115 ns" in ran.err
    assert len(ran.document["conflicts"]) == 1


def test_labels_with_settings_can_be_chosen(cli: Cli, batch: Path) -> None:
    for solver in ("highs", "cbc"):
        task = {"solver": solver, "gap": 0.01}
        write_run(batch, run("one", "milp", makespan=110, task=task))
    rows = json.loads(cli("report", batch, "--json").out)["methods"]
    label = next(row["method"] for row in rows if "cbc" in row["method"])
    assert "," in label
    chosen = cli("report", batch, "--methods", f"{label},slackswap", "--json").document
    assert [row["method"] for row in chosen["methods"]] == [label, "slackswap"]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--format", "parquet"], "name a file with --output"),
        (["--format", "html", "--table", "runs"], "leave --table out"),
        (["--table", "runs"], "too wide to be read"),
        (["--format", "latex", "--table", "failures"], "failures are listed"),
        (["--methods", ","], "names no method"),
        (["--methods", "nobody"], "no runs of method 'nobody'"),
        (["-o", "/no/such/folder/x"], "can't be written"),
    ],
)
def test_wrong_use_is_told(cli: Cli, batch: Path, arguments: list[str], told: str) -> None:
    ran = cli("report", batch, *arguments)
    assert ran.code == 2
    assert told in ran.err
    assert ran.out == ""


def test_a_folder_that_is_no_batch_is_told(cli: Cli, tmp_path: Path) -> None:
    ran = cli("report", tmp_path)
    assert ran.code == 2
    assert "no folder of a batch" in ran.err
