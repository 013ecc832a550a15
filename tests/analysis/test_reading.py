"""The quick reader says what the careful one says, and names every file that it leaves out."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, get_args, get_origin

import pandas as pd
import pytest
from made_runs import chain_instance, run, solved
from pydantic import BaseModel

from slackopt.analysis import read_run_summaries, runs_frame
from slackopt.batch import read_runs, write_run
from slackopt.batch.run import Run
from slackopt.errors import InputError
from slackopt.report import csv_bytes, json_rows, make_report, report_view


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


def integers(record: type[BaseModel], place: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The places of all fields of a record, and of those inside, that take a whole number."""
    for name, info in record.model_fields.items():
        if name == "plan":
            continue
        for kind in (info.annotation, *get_args(info.annotation)):
            if kind is int or (get_origin(kind) is Annotated and get_args(kind)[0] is int):
                yield (*place, name)
            elif isinstance(kind, type) and issubclass(kind, BaseModel):
                yield from integers(kind, (*place, name))


DIGITS = {
    str(2**63): "2^63",
    str(-(2**63) - 1): "-2^63 - 1",
    f"1{'0' * 400}": "10^400",
    f"1{'0' * 5000}": "10^5000",
}
INTEGERS = [*integers(Run), ("result", "trajectory")]


@pytest.mark.parametrize("digits", DIGITS, ids=DIGITS.get)
def test_a_number_that_no_table_holds_makes_a_file_unsound(tmp_path: Path, digits: str) -> None:
    sound = run("a", makespan=120)
    write_run(tmp_path, sound)
    bad = json.loads(run("b", makespan=130, bound=100).model_dump_json())
    paths = {}
    for k, place in enumerate(INTEGERS):
        document = json.loads(json.dumps(bad)) | {"key": f"{k:032x}"}
        inner = document
        for part in place[:-1]:
            inner = inner[part]
        inner[place[-1]] = "NUMBER" if place[-1] != "trajectory" else [[0.5, "NUMBER", None]]
        path = tmp_path / "runs" / f"{k:032x}.json"
        path.write_text(json.dumps(document).replace('"NUMBER"', digits))
        paths[str(path)] = place
    report = make_report(tmp_path)
    assert report.runs["key"].tolist() == [sound.key]
    assert {line.partition(":")[0] for line in report.skipped} == set(paths)
    assert max(map(len, report.skipped)) < 1000
    report_view(report, ["instances", "methods", "failures"])


def test_every_whole_number_of_a_run_was_tried() -> None:
    assert len(INTEGERS) > 20
    assert {("peak_rss_bytes",), ("result", "num_constraints"), ("task", "seed")} <= set(INTEGERS)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("started_at", "2026-13-45T00:00:00Z"),
        ("finished_at", "0001-01-01T00:00:00Z"),
        ("finished_at", "9999-01-01T00:00:00Z"),
        ("started_at", "\u0662026-01-01T00:00:00Z"),
        ("features", {"num_ops": 2**63, "ideal_ns": 10**400, "budget_fraction": "1e999"}),
        ("features", {"budget_fraction": "9" * 5000, "device": 3, "unlimited_peak_bytes": -1}),
        ("task", None),
        ("result", {"status": "feasible"}),
    ],
)
def test_whatever_stands_in_a_file_a_report_is_made(
    tmp_path: Path, name: str, value: object
) -> None:
    write_run(tmp_path, run("a", makespan=120))
    path = write_run(tmp_path, run("b", makespan=130, bound=100))
    document = json.loads(path.read_text()) | {name: value}
    path.write_text(json.dumps(document))
    report = make_report(tmp_path)
    skipped = name != "features"  # features are free
    assert len(report.skipped) == skipped
    assert len(report.runs) == 2 - skipped
    report_view(report, ["instances", "methods", "failures"])
    csv_bytes(report.runs)
    json_rows(report.instances)


def test_a_result_of_another_method_is_refused(tmp_path: Path) -> None:
    made = run("a", makespan=120)
    assert made.result is not None
    mixed = made.result.model_copy(update={"method": "other"})
    write_run(tmp_path, made.model_copy(update={"result": mixed}))
    with pytest.raises(InputError, match=r"result\.method is not that of the task"):
        read_run_summaries(tmp_path)
