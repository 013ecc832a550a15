"""``slackopt batch``: what users type, and what they read."""

import heapq
import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest
from cli.conftest import Cli

from slackopt.batch import read_runs
from slackopt.cli.batch_progress import duration
from slackopt.cli.batch_views import _longest_s
from slackopt.cli.batching import SLURM_JOBS

ROOT = Path(__file__).resolve().parents[2]


def test_dry_run_lists_and_estimates(cli: Cli, instance_file: Path, tmp_path: Path) -> None:
    asked = (instance_file, "-m", "slackswap,milp", "--budgets", "0.7,24MiB", "--time-limit", 30)
    ran = cli("batch", *asked, "--dry-run", "-j", 2)
    assert ran.code == 0
    assert "4 runs, 0 stored, 4 to do; at most 1.0 min with 2 at a time" in ran.out
    assert "chain@0.7" in ran.out
    document = cli("batch", *asked, "--dry-run", "--json").document
    assert (document["total"], document["to_do"], document["at_most_s"]) == (4, 4, 120.0)
    assert document["runs"][0]["tags"]["budget"] == "0.7"
    ran = cli("batch", *asked, "--exclude", "method=milp,budget=0.7", "--dry-run", "--json")
    assert ran.document["total"] == 3
    assert list(tmp_path.iterdir()) == [instance_file]


def test_a_batch_and_what_is_said(cli: Cli, instance_file: Path, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    ran = cli("batch", instance_file, "-m", "slackswap,keep-all,bound", "-o", folder, "--json")
    assert ran.code == 0
    assert ran.document["counts"] == {"done": 3}
    assert {Path(run["file"]) for run in ran.document["runs"]} == set((folder / "runs").iterdir())
    assert "slackopt: [3/3] chain, bound: done" in ran.err
    # Without instances it goes on with what the folder was asked.
    ran = cli("batch", "-o", folder)
    assert ran.code == 0
    assert "3 of 3 runs are stored already" in ran.err
    assert f"tables: slackopt report {folder}" in ran.out
    key = ran_key = read_runs(folder)[0].key
    ran = cli("batch", "-o", folder, "--only", key[:6], "--dry-run", "--json")
    assert [run["key"] for run in ran.document["runs"]] == [ran_key]
    assert "outcome" in cli("info", folder / "runs" / f"{key}.json").out


def test_failures_have_an_exit_code(cli: Cli, instance_file: Path, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    ran = cli(
        "batch", instance_file, "-m", "milp", "--memory-limit", "20MiB", "-o", folder, "--verbose"
    )
    assert ran.code == 5
    assert "out_of_memory (its processes held" in ran.err
    assert f"run them again with: slackopt batch -o {folder} --retry failed" in ran.err
    assert "started chain, milp" in ran.err
    assert cli("batch", "-o", folder).code == 5
    ran = cli("batch", "-o", folder, "--retry", "failed")
    assert ran.code == 5
    assert read_runs(folder)[0].attempt == 2


def test_commands_for_other_schedulers(cli: Cli, instance_file: Path, tmp_path: Path) -> None:
    folder = tmp_path / "a folder"
    ran = cli("batch", instance_file, "-m", "slackswap,keep-all", "-o", folder, "--print-commands")
    assert ran.code == 0
    commands = ran.out.splitlines()
    assert len(commands) == 2
    words = shlex.split(commands[0])
    assert words[:2] == ["slackopt", "batch"]
    done = subprocess.run(
        [sys.executable, "-m", *words], cwd=tmp_path, check=False, env=os.environ | {}
    )
    assert done.returncode == 0
    assert len(read_runs(folder)) == 1
    ran = cli("batch", "-o", folder, "--print-commands")
    assert ran.out.splitlines() == commands[1:]


def test_too_many_threads_are_said(cli: Cli, instance_file: Path, tmp_path: Path) -> None:
    ran = cli(
        "batch", instance_file, "-m", "bound", "--threads", 64, "-j", 9, "-o", tmp_path / "out"
    )
    assert "warning: 9 jobs with up to 64 threads each" in ran.err
    assert ran.code == 0


def test_the_study_of_the_documentation(cli: Cli) -> None:
    ran = cli("batch", "--study", ROOT / "docs" / "study.toml", "--dry-run", "--json")
    assert ran.code == 0
    assert ran.document["total"] == 48
    milp = [run for run in ran.document["runs"] if run["method"] == "milp"]
    assert {run["tags"]["device"] for run in milp} == {"pcie4"}
    ran = cli(
        "batch", "--study", ROOT / "docs" / "study.toml", "--dry-run", "--json", "-m", "bound",
        "--budgets", "0.5", "--devices", "a100-pcie4",
    )  # fmt: skip
    assert ran.document["total"] == 2


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--dry-run"], "name instances, a study file, or a folder to go on with"),
        (["INST"], "name the folder of the runs with -o DIR"),
        (["INST", "-j", "0", "-o", "x"], "--jobs 0: must be at least 1"),
        (["INST", "--grace", "-1", "-o", "x"], "--grace -1.0: must be at least 0"),
        (["INST", "--seeds", "a", "-o", "x"], "--seeds 'a': write numbers"),
        (["INST", "--include", "metod=x", "-o", "x"], "write FIELD=PATTERN"),
        (["INST", "-m", "nonsense", "-o", "x"], "method 'nonsense' is unknown"),
        (["INST", "--partition", "p", "-o", "x"], "--partition and --slurm are for"),
        (["INST", "--only", "zz", "-o", "x"], "no runs have a key that begins with 'zz'"),
        (["-o", "EMPTY"], "holds no batch to go on with"),
        (["-o", "EMPTY", "--time-limit", "3"], "--time-limit needs instances or a study file"),
        (["-o", "EMPTY/none/deep", "INST"], ""),
    ],
)
def test_wrong_usage(
    cli: Cli, instance_file: Path, tmp_path: Path, words: list[str], message: str
) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "none").write_text("a file")
    given = [
        str(instance_file) if word == "INST" else word.replace("EMPTY", str(tmp_path / "empty"))
        for word in words
    ]
    ran = cli("batch", *given)
    assert ran.code == 2
    assert message in ran.err
    assert "Traceback" not in ran.err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty", "instance.json"]


def test_spans_of_time() -> None:
    assert [duration(s) for s in (3, 90, 7200, 200000)] == ["3 s", "1.5 min", "2.0 h", "2.3 d"]
    assert SLURM_JOBS > 1


def test_the_log_is_one_object_a_line(cli: Cli, instance_file: Path, tmp_path: Path) -> None:
    cli("batch", instance_file, "-m", "slackswap", "-o", tmp_path / "out")
    (log,) = (tmp_path / "out" / "logs").iterdir()
    events = [json.loads(line)["event"] for line in log.read_text().splitlines()]
    assert events == ["batch", "started", "recorded", "end"]


def test_the_longest_time_of_a_batch_is_no_less_than_its_longest_run() -> None:
    assert _longest_s([], 3) == 0
    assert _longest_s([3600.0, 60.0], 100) == 3600
    assert _longest_s([30.0] * 4, 2) == 60
    assert _longest_s([30.0] * 5, 2) == 90
    rng = Random(0)
    for _ in range(300):
        limits = [rng.choice((1.0, 10.0, 60.0)) for _ in range(rng.randint(1, 9))]
        jobs = rng.randint(1, 5)
        free = [0.0] * jobs
        for limit in limits:  # any run may end sooner than its limit
            heapq.heapreplace(free, free[0] + limit * rng.choice((1.0, 1.0, rng.random())))
        assert max(free) <= _longest_s(limits, jobs) + 1e-9
