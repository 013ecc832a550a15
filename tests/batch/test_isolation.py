"""Whatever a run does to itself, it ends, is recorded, and leaves nothing."""

import json
import os
import tempfile
from pathlib import Path

import psutil
import pytest

from slackopt.batch import Run, read_runs
from slackopt.batch.batch import Settings, run_batch
from slackopt.batch.expand import expand
from slackopt.batch.local import LocalExecutor
from slackopt.batch.study import make_study
from slackopt.batch.warden import LOG_BYTES
from slackopt.instance import Instance
from slackopt.verification import verify

SHORT = {"time_limit": 1.0}
METHODS: list[dict[str, object]] = [
    {"name": "slackswap"},
    {"name": "bad-deaf", **SHORT},
    {"name": "bad-greedy", "memory_limit": "600MiB", "label": "greedy"},
    {
        "name": "bad-greedy",
        "memory_limit": "600MiB",
        "label": "greedy child",
        "options": {"in_child": True},
    },
    {"name": "bad-out-of-memory"},
    {"name": "bad-talker", "options": {"mib": 64}},
    {"name": "bad-crash"},
    {"name": "bad-exit"},
    {"name": "bad-raise"},
    {"name": "bad-hang", **SHORT},
    {"name": "bad-hang-deaf", **SHORT},
    {"name": "bad-hang-greedy", "memory_limit": "600MiB"},
    {"name": "bad-solver"},
]


@pytest.fixture(scope="module")
def runs(
    bad_methods: str, tiny_file: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Run]:
    folder = tmp_path_factory.mktemp("batch")
    note = folder / "note"
    settled = folder / "settled"
    more = [
        {"name": "bad-parent", "options": {"note": str(note)}},
        {"name": "bad-settings", "options": {"note": str(settled)}},
    ]
    study = make_study(
        {"instances": [str(tiny_file)], "methods": METHODS + more, "modules": [bad_methods]}
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
    found = {run.task.tags.get("label", run.task.method): run for run in read_runs(folder / "out")}
    assert len(found) == len(cases)
    return found


def test_a_run_that_behaves(runs: dict[str, Run], tiny: Instance) -> None:
    run = runs["slackswap"]
    assert (run.outcome, run.detail, run.exit_code, run.signal) == ("done", None, 0, None)
    assert run.result is not None
    assert verify(tiny, run.result)
    assert run.features["num_ops"] == 4
    assert run.features["ideal_ns"] == tiny.ideal_ns
    assert run.peak_rss_bytes is not None
    assert run.peak_rss_bytes > 2**20


@pytest.mark.parametrize("name", ["bad-hang", "bad-hang-deaf", "bad-hang-greedy"])
def test_the_best_plan_and_bound_before_a_kill_are_kept(
    runs: dict[str, Run], tiny: Instance, name: str
) -> None:
    result = runs[name].result
    assert result is not None
    assert result.plan is not None
    assert result.lower_bound_ns == tiny.ideal_ns
    assert result.status == "feasible"
    assert result.stopped_by == ("memory" if "greedy" in name else "time")
    assert verify(tiny, result)


def test_late_runs_are_killed_whatever_they_ignore(runs: dict[str, Run]) -> None:
    for name in ("bad-deaf", "bad-hang-deaf"):
        assert runs[name].outcome == "timeout"
        assert runs[name].signal == "SIGKILL"
        assert "SIGKILL, as SIGTERM was not enough" in str(runs[name].detail)
    assert runs["bad-hang"].outcome == "timeout"
    assert runs["bad-hang"].exit_code == 0  # SIGTERM was enough


@pytest.mark.parametrize("name", ["greedy", "greedy child", "bad-hang-greedy"])
def test_memory_is_capped_over_all_processes(runs: dict[str, Run], name: str) -> None:
    run = runs[name]
    assert run.outcome == "out_of_memory"
    assert "above the limit of 629145600 bytes" in str(run.detail)
    assert run.peak_rss_bytes is not None
    assert run.peak_rss_bytes > 600 * 2**20


def test_memory_that_python_cannot_get(runs: dict[str, Run]) -> None:
    assert runs["bad-out-of-memory"].outcome == "out_of_memory"


def test_output_without_end_is_cut(runs: dict[str, Run]) -> None:
    run = runs["bad-talker"]
    assert run.outcome == "done"
    assert len(run.log_tail) <= LOG_BYTES
    assert run.log_tail.endswith("the last line\n")


def test_a_crash_is_named(runs: dict[str, Run]) -> None:
    crash = runs["bad-crash"]
    assert (crash.outcome, crash.signal, crash.exit_code) == ("crash", "SIGSEGV", None)
    assert "Segmentation fault" in crash.log_tail  # with the stack, for a report
    left = runs["bad-exit"]
    assert (left.outcome, left.signal, left.exit_code) == ("crash", None, 7)


def test_an_error_is_a_sentence(runs: dict[str, Run]) -> None:
    broken = runs["bad-raise"]
    assert broken.outcome == "error"
    assert broken.detail == "unexpected ValueError: this rule is broken"
    assert "Traceback" in broken.log_tail
    solver = runs["bad-solver"]
    assert (solver.outcome, solver.detail) == ("error", "the solver has no licence")
    assert solver.result is not None
    assert solver.result.status == "error"


def test_nothing_is_left(runs: dict[str, Run]) -> None:
    run = runs["bad-parent"]
    assert run.outcome == "done"
    pid, scratch = Path(str(run.task.options["note"])).read_text().split(maxsplit=1)
    assert not psutil.pid_exists(int(pid))
    assert not Path(scratch).exists()
    assert not list(Path(scratch).parent.parent.glob("slackopt-batch-*"))


def test_each_run_has_its_own_folder_and_threads(runs: dict[str, Run]) -> None:
    text = Path(str(runs["bad-settings"].task.options["note"])).read_text()
    threads, affinity, scratch, folder = text.split("\n")
    assert threads == "1"
    assert scratch == folder
    assert Path(folder).name.startswith("run-")
    if hasattr(os, "sched_getaffinity"):
        cores = json.loads(affinity)
        # One core, or all if other batches of this machine hold them.
        assert len(cores) == 1 or set(cores) == os.sched_getaffinity(0)
