"""The quick reader says what the careful one says, and names every file that it leaves out."""

import json
import re
from pathlib import Path

import pandas as pd
import pytest
from made_runs import chain_instance, run, solved

from slackopt.analysis import read_run_summaries, runs_frame
from slackopt.batch import read_runs, write_run
from slackopt.batch.run import Run
from slackopt.errors import InputError


@pytest.fixture
def batch(tmp_path: Path) -> Path:
    for method in ("swap-all", "milp", "keep-all", "bound"):
        made = solved(chain_instance(), method, task={"tags": {"study": "x"}}, log_tail="much")
        write_run(tmp_path, made)
    write_run(tmp_path, run("two", "milp", result=False, outcome="timeout"))
    return tmp_path


def test_both_readers_give_the_same_table(batch: Path) -> None:
    quick = runs_frame(read_run_summaries(batch))
    pd.testing.assert_frame_equal(quick, runs_frame(read_runs(batch)))
    assert quick["has_plan"].sum() == 2
    assert quick.loc[quick["method"] == "keep-all", "reason"].item().startswith("rule 'keep-all'")


def test_bad_files_are_named_and_left_out(batch: Path) -> None:
    runs = batch / "runs"
    (good, edited, cut, foreign_run, *_) = sorted(runs.glob("*.json"))
    assert good.exists()
    document = json.loads(edited.read_text())
    document["task"]["seed"] = "one"
    edited.write_text(json.dumps(document))
    cut.write_text(cut.read_text()[:-100])
    moved = runs / f"{'f' * 32}.json"
    foreign_run.rename(moved)
    (runs / "notes.txt").write_text("mine")
    (runs / ".hidden.json").write_text("being written")
    (runs / f"{'0' * 32}.json").write_text('{"format": "slackopt/plan"}')
    (runs / f"{'1' * 32}.json").mkdir()
    bad: list[InputError] = []
    found = read_run_summaries(batch, on_bad=bad.append)
    assert len(found) == 2
    told = "\n".join(map(str, bad))
    assert len(bad) == 6
    for path, what in (
        (edited, "task.seed: must be a whole number"),
        (cut, "file: Invalid JSON"),
        (moved, "holds the run"),
        (runs / "notes.txt", "no file of a run"),
        (runs / f"{'0' * 32}.json", "format: must be 'slackopt/run'"),
        (runs / f"{'1' * 32}.json", "can't be read"),
    ):
        assert re.search(rf"{re.escape(str(path))}.*(\n.*)*{re.escape(what)}", told), what
    with pytest.raises(InputError):
        read_run_summaries(batch)


@pytest.mark.parametrize("field", ["peak_rss_bytes", "num_constraints", "seed"])
def test_a_number_of_more_than_64_bits_is_one_bad_file(tmp_path: Path, field: str) -> None:
    good, bad = run("a", makespan=120), run("b", makespan=120)
    path = write_run(tmp_path, bad)
    write_run(tmp_path, good)
    document = json.loads(path.read_text())
    document["result"][field] = 2**63
    path.write_text(json.dumps(document))
    told: list[InputError] = []
    assert [found.key for found in read_run_summaries(tmp_path, on_bad=told.append)] == [good.key]
    assert f"result.{field}: must be at most {2**63 - 1}" in str(told[0])


def test_a_result_of_another_instance_is_refused(tmp_path: Path) -> None:
    made = run("a", makespan=120)
    assert made.result is not None
    mixed = made.result.model_copy(update={"instance_sha256": "0" * 64})
    write_run(tmp_path, made.model_copy(update={"result": mixed}))
    with pytest.raises(InputError, match="edited or mixed up"):
        read_run_summaries(tmp_path)


def test_a_folder_that_is_no_batch_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    for folder in (tmp_path, tmp_path / "missing", tmp_path / "file"):
        with pytest.raises(InputError, match="no folder of a batch"):
            read_run_summaries(folder)


def test_what_is_read_is_sorted(tmp_path: Path) -> None:
    for name, method in (("b", "milp"), ("a", "milp"), ("a", "bound")):
        write_run(tmp_path, run(name, method))
    found: list[Run] = read_run_summaries(tmp_path)
    assert [(r.task.instance, r.task.method) for r in found] == [
        ("a", "bound"),
        ("a", "milp"),
        ("b", "milp"),
    ]
