"""What a batch survives, and what isolation costs: the long versions of the tests in tests/batch.

    python benchmarks/batch_chaos.py              all of them
    python benchmarks/batch_chaos.py kill disk    some

Each part prints what it found and ends with an error if something was lost. Parts that need root
(mounts) are skipped without.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psutil

from slackopt.batch import read_runs

ROOT = Path(__file__).resolve().parent.parent
INSTANCE = ROOT / "instances" / "slackswap" / "bert-large-flash.json"
LARGE = str(ROOT / "instances" / "slackswap" / "gpt2-xl-eager.json")
MODULE = ("--import", "misbehaving_rules")


def command(folder: Path, *more: str) -> list[str]:
    return [sys.executable, "-m", "slackopt", "batch", "-o", str(folder), *more]


def environment(scratch: Path) -> dict[str, str]:
    path = os.pathsep.join(filter(None, [str(ROOT / "tests"), os.environ.get("PYTHONPATH", "")]))
    return os.environ | {"PYTHONPATH": path, "TMPDIR": str(scratch)}


def batch(folder: Path, scratch: Path, *more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(folder, *more),
        env=environment(scratch),
        text=True,
        capture_output=True,
        check=False,
    )


def start(folder: Path, scratch: Path, *more: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        command(folder, *more),
        env=environment(scratch),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def leftovers(folder: Path, scratch: Path, wait_s: float = 15.0) -> list[str]:
    """Processes, temporary files and claims that are still there after some seconds."""
    until = time.monotonic() + wait_s
    while True:
        left = [f"process {p.pid} {' '.join(p.cmdline())[:90]}" for p in alive(scratch)]
        left += [f"file {path}" for path in scratch.rglob("*")]
        left += [f"claim {path}" for path in folder.glob("claims*/**/*")]
        left += [f"half file {path}" for path in folder.glob("*/.*")]
        if not left or time.monotonic() > until:
            return left
        time.sleep(0.2)


def alive(scratch: Path) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.status() != psutil.STATUS_ZOMBIE and any(
                value.startswith(str(scratch)) for value in process.environ().values()
            ):
                found.append(process)
    return found


def check(folder: Path, scratch: Path, number: int, outcome: str | None = "done") -> None:
    """Every run there exactly once, readable, and nothing else anywhere."""
    runs = read_runs(folder)
    tasks = {(run.task.instance, run.task.method, run.task.seed) for run in runs}
    assert len(runs) == len(tasks) == number, f"{len(runs)} runs, {len(tasks)} tasks of {number}"
    if outcome is not None:
        assert {run.outcome for run in runs} == {outcome}, {run.outcome for run in runs}
    names = sorted(path.name for path in (folder / "runs").iterdir())
    assert names == sorted(f"{run.key}.json" for run in runs), "other files among the runs"
    left = leftovers(folder, scratch)
    assert not left, "left behind:\n" + "\n".join(left)


def kill(home: Path, scratch: Path, runs: int = 200, kills: int = 20, seed: int = 1) -> None:
    """``kill -9`` of the batch at random moments, then resume."""
    folder, dice = home / "kill", random.Random(seed)
    asked = [str(INSTANCE), "-m", "bad-quick", "--seeds", f"0-{runs - 1}", "-j", "2", *MODULE]
    moments: list[float] = []
    there: list[int] = []
    for _ in range(kills):
        process = start(folder, scratch, *asked)
        # One in four anywhere from the start on, the others when runs have begun.
        if len(moments) % 4:
            while process.poll() is None and "started" not in log_of(folder, process.pid):
                time.sleep(0.02)
        moments.append(round(dice.uniform(0.0, 4.0), 2))
        time.sleep(moments[-1])
        process.kill()
        process.wait()
        there.append(len(list((folder / "runs").glob("*.json"))))
    done = batch(folder, scratch, *asked)
    assert done.returncode == 0, done.stderr
    check(folder, scratch, runs)
    interrupted = sum(run.attempt > 1 for run in read_runs(folder))
    print(
        f"kill: killed {kills} times, {moments} s after the start or after the first run's; "
        f"{there} of {runs} runs were there then, {runs} after one more start; "
        f"{interrupted} had been cut short and were run again; "
        "none corrupt, no process, no temporary file left"
    )


def log_of(folder: Path, pid: int) -> str:
    return "".join(path.read_text() for path in folder.glob(f"logs/*-{pid}.jsonl"))


def parts(home: Path, scratch: Path) -> None:
    """``kill -9`` of the processes below the batch: the fork server, a warden, a run, a solver."""
    folder = home / "parts"
    asked = [str(INSTANCE), "-m", "milp,bad-quick", "--budgets", "0.4,0.45,0.5", *MODULE]
    asked += ["--time-limit", "8", "--gap", "0", "-j", "2"]
    process = start(folder, scratch, *asked)
    dice, killed = random.Random(2), []
    while "started" not in log_of(folder, process.pid):
        time.sleep(0.05)
    while process.poll() is None and len(killed) < 8:
        victims = [p for p in alive(scratch) if p.pid != process.pid]
        if victims:
            victim = dice.choice(victims)
            with contextlib.suppress(psutil.Error):
                words = " ".join(victim.cmdline())
                killed.append("solver" if "pulp" in words else "fork or its server")
                victim.kill()
        time.sleep(1.5)
    process.wait()
    done = batch(folder, scratch, *asked, "--retry", "failed")
    assert done.returncode == 0, done.stderr
    check(folder, scratch, 6)
    print(f"parts: killed {len(killed)} processes below the batch ({killed}); all 6 runs there")
    folder = home / "solver"
    process = start(folder, scratch, LARGE, "-m", "milp", "--time-limit", "30", "--gap", "0")
    while not (solvers := [p for p in alive(scratch) if "pulp_worker" in str(p.cmdline())]):
        time.sleep(0.05)
    time.sleep(5)
    for solver in solvers:
        solver.kill()
    process.wait()
    check(folder, scratch, 1, outcome=None)
    (run,) = read_runs(folder)
    print(f"parts: solver killed: {run.outcome}, {run.detail}; {run.result}")


def disk(home: Path, scratch: Path, runs: int = 60) -> None:
    """A disk that is full: a message, nothing corrupt, resume."""
    folder = home / "disk"
    folder.mkdir()
    asked = [str(INSTANCE), "-m", "bad-quick", "--seeds", f"0-{runs - 1}", "-j", "2", *MODULE]
    with mounted(folder, "-t", "tmpfs", "-o", "size=360k", "tmpfs"):
        done = batch(folder, scratch, *asked)
        assert done.returncode == 2, (done.returncode, done.stderr)
        kept = len(read_runs(folder))
        assert 0 < kept < runs
        left = leftovers(folder, scratch)
        assert not left, left
        print("disk:", done.stderr.strip().splitlines()[-1])
        subprocess.run(["mount", "-o", "remount,size=64m", str(folder)], check=True)
        again = batch(folder, scratch, *asked)
        assert again.returncode == 0, again.stderr
        check(folder, scratch, runs)
    print(f"disk: {kept} of {runs} runs kept on the full disk; all {runs} after making room")


def readonly(home: Path, scratch: Path) -> None:
    """A folder that can't be written: one sentence, exit code 2."""
    folder = home / "readonly"
    folder.mkdir()
    with mounted(folder, "-t", "tmpfs", "-o", "ro,size=1m", "tmpfs"):
        done = batch(folder, scratch, str(INSTANCE), "-m", "slackswap")
        assert done.returncode == 2, done.stderr
        assert "Traceback" not in done.stderr
        print("readonly:", done.stderr.strip())
    assert not leftovers(folder, scratch)


def gigabyte(home: Path, scratch: Path) -> None:
    """A run that prints a gigabyte."""
    folder, begun = home / "gigabyte", time.monotonic()
    done = batch(folder, scratch, str(INSTANCE), "-m", "bad-talker", *MODULE)
    assert done.returncode == 0, done.stderr
    check(folder, scratch, 1)
    (run,) = read_runs(folder)
    size = sum(path.stat().st_size for path in (folder / "runs").iterdir())
    print(
        f"gigabyte: printed 1 GiB in {run.wall_s:.1f} s ({time.monotonic() - begun:.1f} s in all); "
        f"{len(run.log_tail)} characters kept, record of {size} bytes"
    )


def together(home: Path, scratch: Path, runs: int = 100) -> None:
    """Two batches on one folder at once, one of them killed."""
    folder = home / "together"
    asked = [str(INSTANCE), "-m", "bad-quick", "--seeds", f"0-{runs - 1}", "-j", "1", *MODULE]
    first, second = start(folder, scratch, *asked), start(folder, scratch, *asked)
    time.sleep(8)
    first.kill()
    first.wait()
    assert second.wait() == 0
    check(folder, scratch, runs)
    lines = [
        json.loads(line)
        for path in (folder / "logs").iterdir()
        for line in path.read_text().splitlines()
    ]
    started = [line["key"] for line in lines if line["event"] == "started"]
    twice = len(started) - len(set(started))
    print(f"together: {runs} runs by two batches, one killed; {twice} runs were started twice")


def stop(home: Path, scratch: Path) -> None:
    """Ctrl-C: how soon it ends, and what it says."""
    folder = home / "stop"
    process = subprocess.Popen(
        command(folder, str(INSTANCE), "-m", "bad-hang,bad-hang-deaf", "-j", "2", *MODULE),
        env=environment(scratch),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    log = folder / "logs"
    while not log.exists() or sum(p.read_text().count('"started"') for p in log.iterdir()) < 2:
        time.sleep(0.1)
    time.sleep(1.5)
    begun = time.monotonic()
    process.send_signal(signal.SIGINT)
    said = process.communicate()[1].strip().splitlines()
    seconds = time.monotonic() - begun
    assert process.returncode == 130, process.returncode
    assert not leftovers(folder, scratch)
    kept = [run for run in read_runs(folder) if run.result is not None and run.result.plan]
    print(
        f"stop: ended {seconds:.1f} s after Ctrl-C (one of two runs ignores SIGTERM); "
        f"{len(kept)} runs kept with their plans; it said: {said[-1]}"
    )


def cost(home: Path, scratch: Path, runs: int = 40) -> None:
    """What isolation costs a run: time in the batch less time in the method."""
    folder = home / "cost"
    asked = [str(INSTANCE), "-m", "bad-quick", "--seeds", f"0-{runs - 1}", "-j", "1", *MODULE]
    done = batch(folder, scratch, *asked)
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in next((folder / "logs").iterdir()).open()]
    times = [stamp(line["time"]) for line in lines if line["event"] in ("started", "recorded")]
    inside = sum(run.result.wall_s for run in read_runs(folder) if run.result is not None)
    # From the first start to the last record: everything but the start of the fork server.
    each = (times[-1] - times[0] - inside) / runs
    startup = times[0] - stamp(lines[0]["time"])
    print(
        f"cost: {each:.3f} s a run beside the method's own {inside / runs:.3f} s "
        f"(reading the instance included), {startup:.1f} s once; load {load()}"
    )


def rate(home: Path, scratch: Path, runs: int = 1000) -> None:
    """Tiny runs a second, two at a time."""
    folder, begun = home / "rate", time.monotonic()
    asked = [str(INSTANCE), "-m", "bad-quick", "--seeds", f"0-{runs - 1}", "-j", "2", *MODULE]
    before, cpu = load(), cpu_s()
    done = batch(folder, scratch, *asked)
    seconds, cpu = time.monotonic() - begun, cpu_s() - cpu
    assert done.returncode == 0, done.stderr
    check(folder, scratch, runs)
    print(
        f"rate: {runs} runs with 2 jobs in {seconds:.0f} s, {runs / seconds:.2f} a second, "
        f"start included; {cpu / runs:.3f} s of processor time a run, method included; "
        f"load {before} before, {load()} after"
    )


def cpu_s() -> float:
    """Processor time of all processes that ended below this one."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def stamp(text: str) -> float:
    from datetime import datetime

    return datetime.fromisoformat(text).timestamp()


def load() -> str:
    return f"{os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"


@contextlib.contextmanager
def mounted(folder: Path, *arguments: str) -> Iterator[None]:
    done = subprocess.run(
        ["mount", *arguments, str(folder)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SkippedError(f"can't mount here: {done.stderr.strip()}")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=False)


class SkippedError(Exception):
    """A part that needs what this machine lacks."""


PARTS = {
    part.__name__: part
    for part in (kill, parts, disk, readonly, gigabyte, together, stop, cost, rate)
}


def main(names: list[str]) -> None:
    for name in names or list(PARTS):
        with tempfile.TemporaryDirectory(prefix="slackopt-chaos-") as home:
            scratch = Path(home) / "tmp"
            scratch.mkdir()
            begun = time.monotonic()
            try:
                PARTS[name](Path(home), scratch)
            except SkippedError as error:
                print(f"{name}: skipped: {error}")
            print(f"  ({time.monotonic() - begun:.0f} s)", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
