"""Whatever a rule raises, returns, writes or changes: it is one run's record, and nothing else."""

import struct
import tempfile
from pathlib import Path

import pytest

from slackopt import simulate, solve
from slackopt.batch import Run, read_runs
from slackopt.batch.batch import Settings, run_batch
from slackopt.batch.expand import expand
from slackopt.batch.local import LocalExecutor
from slackopt.batch.study import make_study
from slackopt.batch.worker import MAX_MESSAGE_BYTES
from slackopt.errors import MOST_CHARACTERS
from slackopt.instance import Instance

THROWN = (
    *("keyboard", "exit", "exit text", "generator", "base", "mute", "surrogate", "long"),
    *("no plan", "solver", "recursion", "kill"),
)
ANSWERS = ("none", "surrogate", "types", "object")
CHANGES = ("ops", "budget", "device", "lifetimes", "cached")

HEADER = struct.Struct("<cQ")


def cut_off(kind: bytes, length: int, data: bytes = b"") -> str:
    return (HEADER.pack(kind, length) + data).hex()


WRITTEN = {
    "garbage": "ff" * 40,
    "zeros": "00" * 9,
    "one byte": "52",
    "huge": cut_off(b"R", 2**63),
    "a little too long": cut_off(b"C", MAX_MESSAGE_BYTES + 1),
    "swallows the result": cut_off(b"C", 2**20),
    "not text": cut_off(b"F", 3, b"\xff\xfe\x80"),
    "no JSON": cut_off(b"R", 4, b"{]\xff}"),
    "half a pickle": "80049512000000",
    "line without end": b"x".hex() * 60000,
}


@pytest.fixture(scope="module")
def runs(
    bad_methods: str, tiny_file: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Run]:
    folder = tmp_path_factory.mktemp("hostile")
    asked: dict[str, list[tuple[str, dict[str, object]]]] = {
        "bad-throw": [(what, {"what": what}) for what in THROWN],
        "bad-answer": [(what, {"what": what}) for what in ANSWERS],
        "bad-changer": [(what, {"what": what}) for what in CHANGES],
        "bad-writer": [
            ("others", {"data": "ff" * 40}),
            ("long order", {"data": "ff" * 70000}),
            *((name, {"data": data, "where": "all"}) for name, data in WRITTEN.items()),
        ],
        "bad-closer": [("", {})],
        "bad-fork": [("", {})],
        "slackswap": [("", {})],
    }
    methods = [
        {"name": name, "options": options, "label": f"{name} {label}".strip()}
        for name, cases in asked.items()
        for label, options in cases
    ]
    study = make_study(
        {"instances": [str(tiny_file)], "methods": methods, "modules": [bad_methods]}
    )
    cases = expand(study)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", str(folder))
        patch.setattr(tempfile, "tempdir", None)
        state = run_batch(
            cases,
            folder / "out",
            executor=LocalExecutor(2, [bad_methods]),
            settings=Settings(grace_s=0.5),
        )
    tempfile.tempdir = None
    assert not state.pending
    found = {run.task.tags["label"]: run for run in read_runs(folder / "out") if run.task.options}
    found |= {run.task.method: run for run in read_runs(folder / "out")}
    assert len(read_runs(folder / "out")) == len(cases)
    return found


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("keyboard", "the method raised KeyboardInterrupt, which ends a process"),
        ("exit", "the method raised SystemExit: 3, which ends a process"),
        ("exit text", "the method raised SystemExit: away, which ends a process"),
        ("generator", "the method raised GeneratorExit: closed, which ends a process"),
        ("base", "the method raised EndOfWorldError: over, which ends a process"),
        ("mute", "unexpected MuteError: (it can't say why: its __str__ raised ValueError)"),
        ("surrogate", "unexpected ValueError: half of a pair: \\ud800, and \x1b[2J"),
        ("long", "unexpected ValueError: xxxxxxxx"),
        ("solver", "\\udfffyyyyyyyyy"),
        ("recursion", "unexpected RecursionError: maximum recursion depth exceeded"),
    ],
)
def test_what_a_rule_raises_is_the_error_of_its_run(
    runs: dict[str, Run], what: str, said: str
) -> None:
    run = runs[f"bad-throw {what}"]
    assert run.outcome == "error"
    assert run.detail is not None
    assert run.detail.startswith(said)
    assert len(run.detail) <= MOST_CHARACTERS + 100
    assert run.attempt == 1


def test_other_ends(runs: dict[str, Run]) -> None:
    found = runs["bad-throw no plan"].result
    assert found is not None
    assert (found.status, found.stopped_by) == ("no_solution", "heuristic")
    assert str(found.reason).startswith("rule 'bad-throw' finds no plan")
    assert len(str(found.reason)) <= MOST_CHARACTERS
    killed = runs["bad-throw kill"]
    assert (killed.outcome, killed.signal) == ("crash", "SIGKILL")
    closed = runs["bad-closer"]
    assert closed.outcome == "crash"
    assert "without a result" in str(closed.detail)
    assert runs["bad-fork"].outcome in ("done", "error")  # as the two write into each other
    refused = runs["bad-writer long order"]
    assert refused.outcome == "error"
    assert refused.detail == "the options of a run are larger than 131072 bytes"
    assert runs["slackswap"].outcome == "done"


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("none", "rule 'bad-answer' returned a NoneType; it must return a slackopt.Plan"),
        ("surrogate", "the plan of rule 'bad-answer' can't be written"),
        ("types", "the plan of rule 'bad-answer' can't be written"),
        ("object", "the plan of rule 'bad-answer' can't be written"),
    ],
)
def test_what_is_no_plan_is_refused(runs: dict[str, Run], what: str, said: str) -> None:
    run = runs[f"bad-answer {what}"]
    assert run.outcome == "error"
    assert str(run.detail).startswith(said)


def test_the_descriptors_of_others_are_closed(runs: dict[str, Run]) -> None:
    run = runs["bad-writer others"]
    assert run.outcome == "done"
    assert run.result is not None
    assert run.result.plan is not None
    assert run.result.plan.provenance == {"open": 0}


@pytest.mark.parametrize("what", WRITTEN)
def test_what_can_not_be_read_is_one_lost_run(runs: dict[str, Run], what: str) -> None:
    run = runs[f"bad-writer {what}"]
    if what in ("no JSON", "not text"):  # whole messages, and the result comes after them
        assert run.outcome == "done"
        return
    assert run.outcome == "error"
    assert "does the method write to file descriptors of others?" in str(run.detail)


@pytest.mark.parametrize("what", CHANGES)
def test_a_plan_is_priced_on_the_instance_that_was_given(
    runs: dict[str, Run], tiny: Instance, what: str, bad_methods: str
) -> None:
    __import__(bad_methods)
    before = tiny.model_dump_json()
    result = solve(tiny, "bad-changer", what=what)
    assert tiny.model_dump_json() == before
    assert Instance.model_validate_json(before).sha256 == tiny.sha256
    stored = runs[f"bad-changer {what}"].result
    assert stored is not None
    for found in (result, stored):
        assert found.ideal_ns == sum(op.duration_ns for op in tiny.graph.ops)
        if what == "device":
            assert found.plan is not None
            timeline = simulate(Instance.model_validate_json(before), found.plan)
            assert found.makespan_ns == timeline.makespan_ns
        else:  # keeping everything does not fit, whatever the rule makes of the numbers
            assert (found.status, found.makespan_ns) == ("no_solution", None)
