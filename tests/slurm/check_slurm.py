"""The Slurm executor against a real Slurm; started by run.sh.

check_slurm.py FOLDER [PART...]
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

from slackopt.batch import read_runs

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "instances" / "slackswap"
INSTANCES = [str(path) for path in sorted(FOLDER.glob("*.json")) if path.name != "best.json"]
SMALL = str(ROOT / "instances" / "slackswap" / "bert-large-flash.json")
LARGE = str(ROOT / "instances" / "slackswap" / "gpt2-xl-eager.json")
SLURM = ("--executor", "slurm")
MODULE = ("--import", "misbehaving_rules")


def command(folder: Path, *more: str) -> list[str]:
    return [sys.executable, "-m", "slackopt", "batch", "-o", str(folder), *more]


def environment() -> dict[str, str]:
    return os.environ | {"PYTHONPATH": str(ROOT / "tests")}


def batch(folder: Path, *more: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        command(folder, *more), env=environment(), text=True, capture_output=True, check=False
    )
    sys.stderr.write(done.stderr)
    return done


def answers(folder: Path) -> dict[str, tuple[object, ...]]:
    """What came out of every run: everything but times and places."""
    found = {}
    for run in read_runs(folder):
        result = run.result
        assert result is not None, run
        plan = None if result.plan is None else dict(result.plan.decisions)
        found[run.key] = (
            run.outcome,
            result.status,
            result.makespan_ns,
            result.lower_bound_ns,
            result.swapped_bytes,
            json.dumps(plan, sort_keys=True),
        )
    return found


def same(home: Path) -> None:
    """50 runs on the cluster and on this machine give the same."""
    asked = [*INSTANCES[:5], "--budgets", "0.4,0.6", "--time-limit", "120"]
    asked += ["-m", "slackswap,teraio,capuchin,dtr,bound"]
    for where, folder in ((("-j", "2"), home / "local"), (SLURM, home / "cluster")):
        begun = time.monotonic()
        done = batch(folder, *asked, *where)
        assert done.returncode == 0, done.stderr
        print(f"same: {folder.name}: {time.monotonic() - begun:.0f} s")
    local, cluster = answers(home / "local"), answers(home / "cluster")
    assert len(local) == 50, len(local)
    assert local == cluster
    hosts = {run.machine["host"] for run in read_runs(home / "cluster")}
    print(f"same: 50 runs as jobs on {hosts}: status, makespan, bound, plan equal to local runs")


def time_limit(home: Path) -> None:
    """A job beyond Slurm's time limit is recorded as such, with what it had found."""
    done = batch(
        home / "time", LARGE, "-m", "bad-hang", "--time-limit", "600", *MODULE, *SLURM,
        "--slurm", "time=00:01:00",
    )  # fmt: skip
    assert done.returncode == 5, done.stderr
    (run,) = read_runs(home / "time")
    assert run.outcome == "timeout", run
    assert "Slurm's time limit" in str(run.detail)
    assert run.result is not None
    assert run.result.plan is not None
    print(f"time_limit: {run.outcome}: {run.detail}; plan and bound kept")


def memory_limit(home: Path) -> None:
    """A job beyond Slurm's memory limit is recorded as such."""
    done = batch(
        home / "memory", SMALL, "-m", "bad-hang-greedy", *MODULE, *SLURM, "--slurm", "mem=900M"
    )
    assert done.returncode == 5, done.stderr
    (run,) = read_runs(home / "memory")
    assert run.outcome == "out_of_memory", run
    assert run.result is not None
    assert run.result.plan is not None
    assert not (home / "memory" / "checkpoints").exists()
    print(f"memory_limit: {run.outcome}: {run.detail}; plan and bound kept")


def own_limit(home: Path) -> None:
    """The batch's own limits hold in a job as well."""
    done = batch(
        home / "own", SMALL, "-m", "bad-hang-deaf", "--time-limit", "2", "--grace", "1",
        *MODULE, *SLURM,
    )  # fmt: skip
    assert done.returncode == 5, done.stderr
    (run,) = read_runs(home / "own")
    assert (run.outcome, run.signal) == ("timeout", "SIGKILL"), run
    print(f"own_limit: {run.outcome}: {run.detail}")


def preemption(home: Path) -> None:
    """A job that gives way to another is queued again by Slurm, and runs to its end."""
    folder = home / "preempted"
    process = subprocess.Popen(
        command(
            folder, "--study", str(slow_study(home)), *MODULE, *SLURM, "--partition", "low",
        ),
        env=environment(),
    )  # fmt: skip
    wait_for(folder, "started")
    time.sleep(8)
    high = ["sbatch", "-p", "high", "--exclusive", "-t", "1", "-o", "/dev/null"]
    subprocess.run([*high, "--wrap", "sleep 5"], check=True, stdout=subprocess.DEVNULL)
    assert process.wait() == 0
    (run,) = read_runs(folder)
    assert run.outcome == "done", run
    log = (folder / "slurm").glob("*.out")
    starts = sum(path.read_text().count("Starting with") for path in log)
    assert starts >= 2, starts
    print(f"preemption: {run.outcome} after {starts} starts of the job")


def killed(home: Path) -> None:
    """A batch killed while its jobs are queued: the next waits for them, and submits none twice."""
    folder = home / "killed"
    asked = [SMALL, "-m", "bad-quick", "--seeds", "0-7", *MODULE, *SLURM]
    process = subprocess.Popen(command(folder, *asked), env=environment())
    wait_for(folder, "submitted")
    process.kill()
    process.wait()
    done = batch(folder, *asked)
    assert done.returncode == 0, done.stderr
    assert "submitted" not in done.stderr
    runs = read_runs(folder)
    assert len(runs) == 8
    assert {run.attempt for run in runs} == {1}
    assert not (folder / "claims").exists()
    print("killed: 8 runs of a killed batch are there, none submitted twice")


def slow_study(home: Path) -> Path:
    path = home / "slow.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        f'instances = ["{SMALL}"]\n[[methods]]\nname = "bad-quick"\noptions = {{seconds = 25.0}}\n'
    )
    return path


def wait_for(folder: Path, event: str) -> None:
    until = time.monotonic() + 120
    while time.monotonic() < until:
        logs = folder / "logs"
        if logs.exists() and any(f'"{event}"' in path.read_text() for path in logs.iterdir()):
            return
        time.sleep(0.2)
    raise AssertionError(f"no {event} in {folder}")


PARTS = {
    part.__name__: part for part in (same, own_limit, memory_limit, killed, preemption, time_limit)
}


def main(home: Path, names: list[str]) -> None:
    for name in names or list(PARTS):
        PARTS[name](home)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
