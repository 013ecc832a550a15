"""Batches: resumed after any end, shared, full disks; every run there once and whole."""

import json
import os
import re
import resource
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest

from slackopt.batch import Run, Task, read_runs, write_run
from slackopt.batch.batch import Settings, look, run_batch, run_study
from slackopt.batch.claims import Claims
from slackopt.batch.events import Event
from slackopt.batch.expand import Case, expand
from slackopt.batch.folder import instance_path, load, prepare, stored
from slackopt.batch.local import LocalExecutor
from slackopt.batch.store import run_path
from slackopt.batch.study import make_study
from slackopt.errors import InputError
from slackopt.files import write_record
from slackopt.instance import Instance

ROOT = Path(__file__).resolve().parents[2]


def cases(tiny_file: Path, module: str, number: int, **options: float) -> list[Case]:
    methods = [{"name": "bad-quick", "options": options}]
    asked = {"instances": [str(tiny_file)], "methods": methods, "seeds": list(range(number))}
    return expand(make_study({**asked, "modules": [module]}))


def outcomes(folder: Path) -> list[str]:
    return [run.outcome for run in read_runs(folder)]


def assert_whole(folder: Path, number: int) -> None:
    runs = read_runs(folder)
    assert sorted(run.task.seed for run in runs) == list(range(number))
    assert {run.outcome for run in runs} == {"done"}
    assert {path.name for path in (folder / "runs").iterdir()} == {f"{r.key}.json" for r in runs}
    assert not (folder / "claims").exists()


def processes_in(folder: Path) -> list[psutil.Process]:
    """Living processes whose temporary folder is below a folder."""
    found = []
    for process in psutil.process_iter():
        try:
            inside = process.environ().get("TMPDIR", "").startswith(str(folder))
            if inside and process.pid != os.getpid() and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except psutil.Error:
            continue
    return found


def wait_until(condition, seconds: float = 60.0) -> None:  # type: ignore[no-untyped-def]
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "did not happen"
        time.sleep(0.02)


def start(folder: Path, tiny_file: Path, module: str, *more: str) -> subprocess.Popen[str]:
    words = [sys.executable, "-m", "slackopt", "batch", str(tiny_file), "-o", str(folder)]
    return subprocess.Popen(
        [*words, "--import", module, *more],
        env=os.environ | {"PYTHONPATH": str(ROOT / "tests")},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_a_rerun_skips_what_is_there(bad_methods: str, tiny_file: Path, tmp_path: Path) -> None:
    asked = cases(tiny_file, bad_methods, 3)
    folder = tmp_path / "out"
    executor = LocalExecutor(2, [bad_methods])
    events: list[Event] = []
    state = run_batch(
        asked, folder, executor=executor, modules=[bad_methods], observer=events.append
    )
    assert (state.counts, state.pending) == ({"done": 3}, ())
    assert [event.kind for event in events].count("recorded") == 3
    assert_whole(folder, 3)
    before = {path: path.stat().st_mtime_ns for path in (folder / "runs").iterdir()}
    run_batch(asked, folder, executor=executor)
    assert before == {path: path.stat().st_mtime_ns for path in (folder / "runs").iterdir()}

    # What was asked is in the folder: no other file is needed to go on.
    loaded, modules = load(folder)
    assert [case.key for case in loaded] == [case.key for case in asked]
    assert modules == (bad_methods,)

    # A damaged file is run again; so is a failed one on demand, and everything by force.
    run_path(folder, asked[0].key).write_text('{"format": "slackopt/run"')
    failed = read_runs(folder, on_bad=lambda _: None)[-1]
    write_run(folder, failed.model_copy(update={"outcome": "timeout", "attempt": 4}))
    assert look(folder, asked).pending == (asked[0].key,)
    assert set(look(folder, asked, Settings(retry=True)).pending) == {asked[0].key, failed.key}
    assert len(look(folder, asked, Settings(force=True)).pending) == 3
    run_batch(asked, folder, executor=executor, settings=Settings(retry=True))
    assert_whole(folder, 3)
    again = stored(folder, failed.key)
    assert again is not None
    assert again.attempt == 5

    # One event a line.
    logs = sorted((folder / "logs").iterdir())
    lines = [json.loads(line) for path in logs for line in path.read_text().splitlines()]
    kinds = {line["event"] for line in lines}
    assert kinds == {"batch", "started", "recorded", "end", "warning"}
    (warned,) = [line["why"] for line in lines if line["event"] == "warning"]
    assert str(run_path(folder, asked[0].key)) in warned
    assert warned.endswith("; it is run again")
    assert all({"key", "outcome", "wall_s"} <= set(x) for x in lines if x["event"] == "recorded")


def test_kill_9_and_resume(bad_methods: str, tiny_file: Path, tmp_path: Path) -> None:
    folder, number = tmp_path / "out", 12
    asked = ("-m", "bad-quick", "--seeds", f"0-{number - 1}", "-j", "2")
    for share in (0.2, 0.6):
        process = start(folder, tiny_file, bad_methods, *asked)
        runs = folder / "runs"
        wait_until(
            lambda share=share, runs=runs: (
                runs.exists() and len(list(runs.glob("*.json"))) >= share * number
            )
        )
        process.kill()
        process.communicate()
    # Its runs end by themselves; the next batch need not wait for that.
    process = start(folder, tiny_file, bad_methods, *asked)
    said = process.communicate()[1]
    assert process.returncode == 0, said
    assert_whole(folder, number)
    wait_until(lambda: not processes_in(tmp_path))
    assert not list((tmp_path / "tmp").iterdir())


def test_ctrl_c(bad_methods: str, tiny_file: Path, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    process = start(folder, tiny_file, bad_methods, "-m", "bad-hang,bad-hang-deaf", "-j", "2")
    logs = folder / "logs"
    wait_until(
        lambda: (
            logs.exists() and sum(path.read_text().count("started") for path in logs.iterdir()) == 2
        )
    )
    time.sleep(1.0)  # long enough to have found something
    process.send_signal(signal.SIGINT)
    said = process.communicate(timeout=60)[1]
    assert process.returncode == 130
    assert f"go on with: slackopt batch -o {folder} --jobs 2" in said
    assert not processes_in(tmp_path)
    assert not list((tmp_path / "tmp").iterdir())
    assert not (folder / "claims").exists()
    runs = read_runs(folder)
    assert [run.outcome for run in runs] == ["interrupted"] * 2
    for run in runs:
        assert run.result is not None
        assert run.result.stopped_by == "signal"
    # They are no results: the next batch runs them again.
    asked, _ = load(folder)
    assert len(look(folder, asked).pending) == 2


def test_two_batches_in_one_folder(bad_methods: str, tiny_file: Path, tmp_path: Path) -> None:
    asked = {"instances": [str(tiny_file)], "methods": ["bad-quick"], "modules": [bad_methods]}
    study = make_study({**asked, "seeds": list(range(10))})
    folder = tmp_path / "out"
    kinds: dict[int, list[str]] = {0: [], 1: []}
    threads = [
        threading.Thread(
            target=run_study,
            args=(study, folder),
            kwargs={
                "executor": LocalExecutor(1, [bad_methods]),
                "observer": lambda event, found=found: found.append(event.kind),
            },
        )
        for found in kinds.values()
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert_whole(folder, 10)
    assert kinds[0].count("started") + kinds[1].count("started") == 10


def test_processes_killed_below_the_batch(
    bad_methods: str, tiny_file: Path, tmp_path: Path
) -> None:
    asked = cases(tiny_file, bad_methods, 3, seconds=0.7)
    folder, killed = tmp_path / "out", []

    def kill_once(event: Event) -> None:
        # The first run: its own process. The second: what watches it. The third: the fork server.
        if event.kind != "started" or len(killed) > 2:
            return
        server = next(p for p in psutil.Process().children() if "zygote" in " ".join(p.cmdline()))
        wait_until(lambda: server.children() and server.children()[0].children())
        warden = server.children()[0]
        victim = (warden.children()[0], warden, server)[len(killed)]
        killed.append(victim.pid)
        victim.kill()

    state = run_batch(asked, folder, executor=LocalExecutor(1, [bad_methods]), observer=kill_once)
    assert not state.pending
    runs = {run.task.seed: run for run in read_runs(folder)}
    assert (runs[0].outcome, runs[0].signal) == ("crash", "SIGKILL")
    assert (runs[1].outcome, runs[2].outcome) == ("done", "done")
    assert not [p for p in psutil.Process().children(recursive=True) if "zygote" in str(p)]


def test_a_full_disk(bad_methods: str, tiny_file: Path, tmp_path: Path) -> None:
    folder, number = tmp_path / "out", 4
    asked = cases(tiny_file, bad_methods, number)
    executor = LocalExecutor(2, [bad_methods])
    prepare(folder, asked)
    # No file may grow beyond what a claim needs: records are refused as on a full disk, with
    # another error number.
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
    try:
        with pytest.raises(InputError, match=r"can't be written: .*4 are left: make room"):
            run_batch(asked, folder, executor=executor, settings=Settings(write_patience_s=0.2))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
    assert not list((folder / "runs").iterdir())
    assert not (folder / "claims").exists()
    run_batch(asked, folder, executor=executor)
    assert_whole(folder, number)


def test_a_folder_that_cannot_be_made(tiny_file: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    asked = expand(make_study({"instances": [str(tiny_file)], "methods": ["slackswap"]}))
    with pytest.raises(InputError, match="can't be made"):
        run_batch(asked, tmp_path / "file")


def test_an_interrupted_run_never_replaces_a_better_one(tmp_path: Path, tiny_file: Path) -> None:
    from slackopt.batch.store import write_finished

    (case,) = expand(make_study({"instances": [str(tiny_file)], "methods": ["slackswap"]}))

    def made(outcome: str, begun: int, ended: int) -> Run:
        return Run.model_validate(
            {
                "key": case.key,
                "task": case.task,
                "outcome": outcome,
                "started_at": f"2026-01-01T00:00:{begun:02}Z",
                "finished_at": f"2026-01-01T00:00:{ended:02}Z",
                "wall_s": 1.0,
                "slackopt_version": "0",
            }
        )

    assert write_finished(tmp_path, made("interrupted", 0, 1))
    assert write_finished(tmp_path, made("interrupted", 2, 3))
    assert write_finished(tmp_path, made("done", 4, 9))
    assert not write_finished(tmp_path, made("interrupted", 5, 10))
    assert outcomes(tmp_path) == ["done"]
    assert write_finished(tmp_path, made("interrupted", 11, 12))  # forced, later
    assert outcomes(tmp_path) == ["interrupted"]


def test_files_that_are_no_runs(tmp_path: Path, tiny_file: Path) -> None:
    with pytest.raises(InputError, match="no folder of a batch"):
        read_runs(tmp_path)
    (case,) = expand(make_study({"instances": [str(tiny_file)], "methods": ["slackswap"]}))
    run = Run(
        key=case.key,
        task=case.task,
        outcome="error",
        started_at="2026-01-01T00:00:00Z",
        finished_at="2026-01-01T00:00:01Z",
        wall_s=1.0,
        slackopt_version="0",
    )
    path = write_run(tmp_path, run)
    assert read_runs(tmp_path) == [run]
    (path.parent / "notes.txt").write_text("mine")
    path.rename(path.with_name("f" * 32 + ".json"))
    with pytest.raises(InputError, match=r"a run's file is named <key>\.json"):
        read_runs(tmp_path)
    bad: list[InputError] = []
    assert read_runs(tmp_path, on_bad=bad.append) == []
    assert len(bad) == 1


def test_options_must_be_finite() -> None:
    with pytest.raises(InputError, match="must be finite"):
        Task(
            instance_path="x",
            instance="x",
            instance_sha256="0" * 64,
            method="x",
            options={"a": float("inf")},
        )


def test_a_claim_of_a_living_batch_is_waited_for(
    bad_methods: str, tiny_file: Path, tmp_path: Path
) -> None:
    asked = cases(tiny_file, bad_methods, 1)
    folder = tmp_path / "out"
    kinds: list[str] = []
    with Claims(folder) as claims:
        assert claims.claim(asked[0].key)
        thread = threading.Timer(1.0, lambda: claims.release(asked[0].key))
        thread.start()
        run_batch(
            asked,
            folder,
            executor=LocalExecutor(1, [bad_methods]),
            observer=lambda event: kinds.append(event.kind),
        )
        thread.join()
    assert kinds == ["batch", "waiting", "started", "recorded", "end"]


def test_what_is_no_sound_run_is_run_again(
    bad_methods: str, tiny_file: Path, tmp_path: Path
) -> None:
    asked = cases(tiny_file, bad_methods, 8)
    folder = tmp_path / "out"
    executor = LocalExecutor(2, [bad_methods])
    run_batch(asked, folder, executor=executor)
    texts = [run_path(folder, case.key).read_text() for case in asked]

    def damage(number: int, **changes: object) -> None:
        document = json.loads(texts[number]) | changes
        run_path(folder, asked[number].key).write_text(json.dumps(document))

    damage(0, task={"instance": "x"})
    damage(1, result={"status": "optimal"})
    damage(2, key="f" * 32)
    damage(3, attempt=2**63)
    run_path(folder, asked[4].key).write_text('{"outcome": "done", "attempt": 1}')
    # A sound run, of another task.
    damage(5, task=json.loads(texts[6])["task"])
    run_path(folder, asked[7].key).unlink()
    run_path(folder, asked[7].key).mkdir()

    state = look(folder, asked)
    assert state.pending == tuple(asked[k].key for k in (0, 1, 2, 3, 4, 5, 7))
    assert len(state.unsound) == 7
    run_path(folder, asked[7].key).rmdir()
    events: list[Event] = []
    state = run_batch(asked, folder, executor=executor, observer=events.append)
    assert not state.pending
    assert_whole(folder, 8)
    warned = [event.facts["why"] for event in events if event.kind == "warning"]
    assert len(warned) == 6
    for why, k in zip(warned, range(6), strict=True):
        assert why.startswith(str(run_path(folder, asked[k].key)))
        assert why.endswith("; it is run again")


def test_a_stored_instance_that_is_another(
    bad_methods: str, tiny: Instance, tiny_file: Path, tmp_path: Path
) -> None:
    asked = cases(tiny_file, bad_methods, 1)
    folder = tmp_path / "out"
    prepare(folder, asked, [bad_methods])
    path = instance_path(folder, tiny.sha256)
    other = Instance.model_validate_json(
        tiny.model_copy(update={"budget_bytes": tiny.budget_bytes + 1}).model_dump_json()
    )
    write_record(other, path)
    with pytest.raises(InputError, match=f"^{re.escape(str(path))}: holds another instance"):
        load(folder)
    # With the instance at hand, the run's error names the bad file too.
    run_batch(asked, folder, executor=LocalExecutor(1, [bad_methods]))
    (run,) = read_runs(folder)
    assert run.outcome == "error"
    assert str(run.detail).startswith(f"{path}: is not the instance of this run")


def test_paths_that_are_no_text(bad_methods: str, tiny_file: Path, tmp_path: Path) -> None:
    """File names of Linux are bytes; the records and messages of a run are UTF-8."""
    folder = tmp_path / os.fsdecode(b"family \xff")
    folder.mkdir()
    odd = folder / os.fsdecode(b"tiny \xfe.json")
    odd.write_bytes(tiny_file.read_bytes())
    with pytest.raises(InputError, match="is no UTF-8; rename it"):
        cases(odd, bad_methods, 1)
    asked = cases(tmp_path / "family*" / "tiny*.json", bad_methods, 1)
    out = tmp_path / "out"
    state = run_batch(asked, out, executor=LocalExecutor(1, [bad_methods]))
    assert state.counts == {"done": 1}
    (run,) = read_runs(out)
    assert run.task.instance_path.endswith("tiny \\udcfe.json")
    assert run.task.tags["family"] == "family \\udcff"
    with pytest.raises(InputError, match="is no UTF-8, as messages are"):
        run_batch(asked, folder / "out", executor=LocalExecutor(1, [bad_methods]))
