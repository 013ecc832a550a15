"""``slackopt best``: from a batch to a table, and exit codes for what does not hold."""

import json
from pathlib import Path

import pytest
from cli.conftest import Cli
from made_runs import chain_instance, solved

from slackopt.batch import write_run
from slackopt.files import write_record


@pytest.fixture(scope="module")
def solved_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    batch = tmp_path_factory.mktemp("best") / "batch"
    for method in ("swap-all", "bound"):
        write_run(batch, solved(chain_instance("first"), method))
    return batch


@pytest.fixture
def family(tmp_path: Path) -> Path:
    folder = tmp_path / "chains"
    folder.mkdir()
    write_record(chain_instance("first"), folder / "first.json")
    return folder


def test_from_a_batch_to_a_table(cli: Cli, solved_once: Path, family: Path, tmp_path: Path) -> None:
    ran = cli("best", "update", solved_once, family, "--by", "our lab", "-j", 1)
    assert ran.code == 0
    assert "chains/first: plan 93.983232 ms by swap-all (new)" in ran.out
    assert "1 instance: 2 improvements, 0 conflicts, 0 runs rejected" in ran.out
    assert "[1/1] first" in ran.err
    again = cli("best", "update", solved_once, family, "-j", 1, "--json").document
    assert again["improvements"] == []

    listed = cli("best", "list", family.parent)
    assert listed.code == 0
    assert "93.983" in listed.out
    assert "1 instance: 1 open" in listed.out
    (entry,) = cli("best", "list", family, "--json").document["entries"]
    assert (entry["hardness"], entry["plan"]["origin"]["by"]) == ("open", "our lab")
    assert cli("best", "list", family, "--class", "easy", "--json").document["entries"] == []

    checked = cli("best", "verify", family, "-j", 1, "--json")
    assert checked.code == 0
    assert checked.document["holds"]
    assert (checked.document["entries"], checked.document["checked"]) == (1, 1)

    exported = cli("best", "export", family)
    assert exported.out.startswith("=best= chains/first 93983232\n=bestdual= chains/first ")
    output = tmp_path / "best.solu"
    assert cli("best", "export", family, "-o", output).code == 0
    assert output.read_text() == exported.out


def test_a_claim_that_does_not_hold_is_exit_code_6(
    cli: Cli, solved_once: Path, family: Path
) -> None:
    cli("best", "update", solved_once, family, "-j", 1)
    path = family / "best.json"
    text = path.read_text()
    path.write_text(text.replace("93983232", "19983232"))
    ran = cli("best", "verify", family, "-j", 1)
    assert ran.code == 6
    assert "plan.makespan_ns is claimed as 19983232, and is 93983232" in ran.err
    path.write_text(text[:-9])
    assert cli("best", "verify", family, "-j", 1).code == 2
    assert cli("best", "list", family).code == 2


def test_a_conflict_is_exit_code_6(cli: Cli, solved_once: Path, family: Path) -> None:
    folder = family.parent / "batch"
    for path in (solved_once / "runs").iterdir():
        document = json.loads(path.read_text())
        if document["task"]["method"] == "bound":
            # A bound of `bound` is checked; that of a method with solvers rests on their word.
            document["task"]["method"] = document["result"]["method"] = "milp"
            document["result"] |= {"status": "no_solution", "stopped_by": "time"}
            document["result"]["lower_bound_ns"] = 93983233
            document["result"]["trajectory"][-1][2] = 93983233
        (folder / "runs").mkdir(parents=True, exist_ok=True)
        (folder / "runs" / path.name).write_text(json.dumps(document))
    ran = cli("best", "update", folder, family, "-j", 1)
    assert ran.code == 6
    assert "conflict on 'first': no plan is below 93983233 ns on the solver's word" in ran.out
    assert not (family / "best.json").exists()
    assert cli("best", "update", folder, family, "-j", 1, "--proved-only").code == 0


def test_wrong_use_is_told(cli: Cli, solved_once: Path, tmp_path: Path) -> None:
    for arguments, told in (
        (["update", solved_once, tmp_path], "no instance file in"),
        (["update", solved_once, tmp_path / "none"], "no such file or folder"),
        (["update", tmp_path, tmp_path], "no folder of a batch"),
        (["update", solved_once, tmp_path, "--by", " "], "--by is empty"),
        (["verify", tmp_path], "no best.json in it or below"),
        (["list", tmp_path / "none"], "no such folder"),
        ([], "missing command"),
    ):
        ran = cli("best", *arguments)
        assert ran.code == 2, arguments
        assert told in ran.err
        assert ran.out == ""
