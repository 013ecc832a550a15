"""The Slurm executor: job arrays through submitit; each job is a batch of one run on its node.

A job uses the same isolation and the same store as a local batch, so the process that submits only
watches the store and the queue. It may be killed: jobs go on, and the next batch on the folder
waits for those that are still queued.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from slackopt.batch.claims import Claims
from slackopt.batch.events import Event, Observer
from slackopt.batch.expand import import_modules
from slackopt.batch.folder import stored
from slackopt.batch.local import MAX_STARTS, LocalExecutor, Pending
from slackopt.batch.order import Order
from slackopt.batch.outcome import unwatched_run
from slackopt.batch.run import Outcome
from slackopt.batch.store import read_run, run_path, write_run
from slackopt.batch.warden import LOG_BYTES, summary
from slackopt.errors import InputError

FOLDER = "slurm"
MAX_ARRAY = 1000
"""Most jobs of one array; Slurm's default limit is 1001."""

MARGIN_S = 120.0
"""Time asked for beyond the hard limit of a run, for start and end."""

MARGIN_BYTES = 2**30
"""Memory asked for beyond the limit of a run, for the processes that watch it."""

STOP_GRACE_S = 2.0
"""Between SIGTERM and SIGKILL, below the wait of any Slurm for the end of a job."""

_POLL_S = 2.0
_PATIENCE_S = 10.0
"""Seconds between a job's end and the moment its record must be visible (network disks)."""

_STATES: dict[str, tuple[Outcome, str]] = {
    "TIMEOUT": ("timeout", "killed by Slurm's time limit"),
    "DEADLINE": ("timeout", "killed by Slurm's deadline"),
    "OUT_OF_MEMORY": ("out_of_memory", "killed by Slurm's memory limit"),
}

_MEMORY_SIGNS = ("exceeded memory limit", "exceeded job memory limit", "oom-kill", "oom_kill")
"""What slurmstepd writes when it kills for memory; the state of the job is then often FAILED."""


class SlurmExecutor:
    """Carries out orders as jobs of a Slurm cluster.

    Parameters
    ----------
    jobs
        Runs at a time.
    partition
        Of the cluster; its default if None.
    extra
        Further options of sbatch, by name; they overrule what is asked for by itself (``time``,
        ``mem``, ``cpus-per-task``).
    modules
        Modules that register heuristics.

    Raises
    ------
    InputError
        If submitit or Slurm isn't there.
    """

    def __init__(
        self,
        *,
        jobs: int = 100,
        partition: str | None = None,
        extra: Mapping[str, str] | None = None,
        modules: Sequence[str] = (),
    ) -> None:
        self.jobs, self.partition, self.modules = jobs, partition, tuple(modules)
        self.extra = dict(extra or {})
        try:
            import submitit  # noqa: F401
        except ImportError:
            raise InputError(
                "the Slurm executor needs submitit: install slackopt with its extra 'slurm'"
            ) from None
        for program in ("sbatch", "squeue", "scontrol"):
            if shutil.which(program) is None:
                raise InputError(
                    f"{program} is not in PATH: run this on a machine that submits to Slurm, or "
                    "use --print-commands for another scheduler"
                )

    def run(
        self,
        folder: str,
        pending: Sequence[Pending],
        claims: Claims,
        observer: Observer,
        stopping: Callable[[], int],
    ) -> str | None:
        """Submit orders and wait for their records; see `LocalExecutor.run`.

        When asked to stop it stops waiting; jobs go on.
        """
        del claims  # every job makes its own, on its node
        return _Watch(self, folder, pending, observer).run(stopping)

    def submit(self, folder: Path, orders: Sequence[Order]) -> list[str]:
        """Submit one array of orders with equal needs; return the job ids."""
        import submitit

        first = orders[0]
        executor = submitit.SlurmExecutor(folder=folder)
        asked: dict[str, Any] = {
            "job_name": "slackopt",
            "cpus_per_task": first.task.threads,
            "array_parallelism": self.jobs,
            "stderr_to_stdout": True,
        }
        more: dict[str, Any] = dict(self.extra)
        if self.partition is not None:
            asked["partition"] = self.partition
        if first.kill_after_s is not None:
            asked["time"] = -int(-(first.kill_after_s + MARGIN_S) // 60)
        if first.task.memory_limit_bytes is not None:
            asked["mem"] = f"{-(-(first.task.memory_limit_bytes + MARGIN_BYTES) // 2**20)}M"
        if first.kill_after_s is None and "time" not in more:
            # submitit asks for five minutes by itself.
            more["time"] = "UNLIMITED"
        executor.update_parameters(**asked, additional_parameters=more)
        texts = [order.model_dump_json() for order in orders]
        jobs = executor.map_array(SlurmRun(self.modules, tuple(sys.path)), texts)
        return [str(job.job_id) for job in jobs]


class SlurmRun:
    """What a job does: one order, isolated as in a local batch.

    Parameters
    ----------
    modules
        To import first.
    path
        Where Python finds them.
    """

    def __init__(self, modules: Sequence[str], path: Sequence[str]) -> None:
        self.modules, self.path = tuple(modules), tuple(path)

    def __call__(self, text: str) -> str:
        """Carry out an order; return its key."""
        # Here and not above: this module is imported by what is imported there.
        from slackopt.batch.batch import stop_signals
        from slackopt.batch.scratch import remove_root, scratch_root, sweep

        # With this signal submitit has a job queued again a while before its end: the limit that
        # counts is the run's own, and SIGTERM comes in any case.
        warning = os.environ.get("SUBMITIT_PREEMPT_SIGNAL", "USR2")
        signal.signal(signal.Signals[f"SIG{warning}"], signal.SIG_IGN)
        sys.path += [entry for entry in self.path if entry not in sys.path]
        import_modules(self.modules)
        order = Order.model_validate_json(text)
        ends = _end_time(os.environ.get("SLURM_JOB_ID", ""))
        if ends is not None:
            os.environ["SLURM_JOB_END_TIME"] = str(int(ends))
        root = scratch_root()
        sweep(root)
        known = stored(order.folder, order.key, asked=order.task)
        with Claims(order.folder) as claims, stop_signals() as stopping:
            LocalExecutor(1, self.modules).run(
                order.folder, [Pending(order, known)], claims, lambda _: None, stopping
            )
        remove_root(root)
        return order.key


class _Watch:
    """Submits, and watches the store and the queue until every record is there."""

    def __init__(
        self, executor: SlurmExecutor, folder: str, pending: Sequence[Pending], observer: Observer
    ) -> None:
        self.executor, self.folder, self.observer = executor, folder, observer
        self.home = Path(folder) / FOLDER
        self.waiting = {found.order.key: found for found in pending}
        self.jobs: dict[str, str] = {}
        self.gone: dict[str, float] = {}
        self.started: set[str] = set()

    def run(self, stopping: Callable[[], int]) -> str | None:
        self.find_submitted()
        self.submit([p for key, p in self.waiting.items() if key not in self.jobs])
        while self.waiting:
            if stopping():
                self.tell("warning", None, why=self.farewell())
                return None
            self.look()
            until = time.monotonic() + _POLL_S
            while self.waiting and time.monotonic() < until and not stopping():
                time.sleep(0.1)
        # What submitit needs while jobs are queued; their logs stay.
        for pattern in ("*.pkl", "job-*.json", "*submission*.sh"):
            for path in self.home.glob(pattern):
                with contextlib.suppress(OSError):
                    path.unlink()
        return None

    def farewell(self) -> str:
        left = sorted({self.jobs[key].partition("_")[0] for key in self.waiting})
        return (
            f"{len(self.waiting)} runs stay in the queue as jobs {', '.join(left)} and are kept "
            f"when they end; `scancel {' '.join(left)}` ends them"
        )

    def find_submitted(self) -> None:
        """Find the jobs of earlier batches on this folder that are still in the queue."""
        known: dict[str, str] = {}
        for path in sorted(self.home.glob("job-*.json")):
            with contextlib.suppress(OSError, ValueError, TypeError, RecursionError):
                found = json.loads(path.read_text())
                known.update({str(key): str(job) for key, job in found.items()})
        active = queued({job.partition("_")[0] for job in known.values()})
        for key, job in known.items():
            if key in self.waiting and job in active:
                self.jobs[key] = job
                self.tell("waiting", self.waiting[key], job=job)

    def submit(self, pending: Sequence[Pending]) -> None:
        groups: dict[tuple[Any, ...], list[Pending]] = {}
        for found in pending:
            task = found.order.task
            needs = (task.threads, found.order.kill_after_s, task.memory_limit_bytes)
            groups.setdefault(needs, []).append(found)
        for group in groups.values():
            for start in range(0, len(group), MAX_ARRAY):
                self.submit_array(group[start : start + MAX_ARRAY])

    def submit_array(self, pending: Sequence[Pending]) -> None:
        changes = {"scheduler": "Slurm", "pin": False, "stop_grace_s": STOP_GRACE_S}
        orders = [found.order.model_copy(update=changes) for found in pending]
        try:
            ids = self.executor.submit(self.home, orders)
        except Exception as error:  # submitit raises what sbatch says, in several classes
            why = " ".join(str(error).split())
            raise InputError(f"Slurm refuses the jobs: {why}") from None
        table = {order.key: job for order, job in zip(orders, ids, strict=True)}
        job = ids[0].partition("_")[0]
        # For the next batch on this folder, should this one be killed.
        (self.home / f"job-{job}.json").write_text(json.dumps(table))
        self.jobs |= table
        for found in pending:
            found.starts += 1
        self.observer(Event("submitted", facts={"job": job, "number": len(ids)}))

    def look(self) -> None:
        """Take note of records that came, and of jobs that went without one."""
        active = queued({self.jobs[key].partition("_")[0] for key in self.waiting})
        again: list[Pending] = []
        for key, found in list(self.waiting.items()):
            there = stored(self.folder, key, asked=found.order.task)
            if there is not None and there != found.known and there.counts(retry=False):
                del self.waiting[key]
                with contextlib.suppress(InputError):
                    facts = summary(read_run(run_path(self.folder, key)))
                    self.tell("recorded", found, **facts)
                continue
            state = active.get(self.jobs[key])
            if state is not None:
                self.gone.pop(key, None)
                if state == "RUNNING" and key not in self.started:
                    self.started.add(key)
                    self.tell("started", found, job=self.jobs[key])
            elif time.monotonic() - self.gone.setdefault(key, time.monotonic()) > _PATIENCE_S:
                del self.gone[key]
                self.ended_without(found, again)
        if again:
            self.submit(again)

    def ended_without(self, found: Pending, again: list[Pending]) -> None:
        """Record why a job ended that left no record; submit it again if it was not its fault."""
        key = found.order.key
        job = self.jobs[key]
        state, log = final_state(job), self.log_of(job)
        if any(sign in log.lower() for sign in _MEMORY_SIGNS):
            state = "OUT_OF_MEMORY"
        known = _STATES.get(state)
        if known is None and found.starts < MAX_STARTS and state != "CANCELLED":
            self.tell("requeued", found, why=f"its job {job} ended as {state} without a record")
            again.append(found)
            return
        outcome, detail = known or ("crash", f"ended by Slurm as {state}")
        run = unwatched_run(found.order, outcome, f"{detail} (job {job})", log[-LOG_BYTES:])
        del self.waiting[key]
        try:
            write_run(self.folder, run)
        except InputError as error:
            self.tell("lost", found, why=str(error))
            return
        self.tell("recorded", found, **summary(run))

    def log_of(self, job: str) -> str:
        """Return what a job and its Slurm step wrote."""
        texts = []
        for path in sorted(self.home.glob(f"{job}_*log.*")):
            with contextlib.suppress(OSError):
                texts.append(path.read_bytes()[-LOG_BYTES:].decode(errors="replace"))
        return "".join(texts)

    def tell(self, kind: Any, pending: Pending | None, **facts: Any) -> None:
        order = None if pending is None else pending.order
        key, task = (None, None) if order is None else (order.key, order.task)
        facts.pop("key", None)
        self.observer(Event(kind, key, task, facts))


def queued(jobs: set[str]) -> dict[str, str]:
    """Return the state of every job, or element of an array, that is in the queue.

    Raises
    ------
    InputError
        If Slurm doesn't answer for two minutes.
    """
    if not jobs:
        return {}
    wanted = ",".join(sorted(jobs))
    command = ["squeue", "-h", "-r", "-o", "%i %T", "-j", wanted]
    said = ""
    for _ in range(12):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return dict(line.split() for line in done.stdout.splitlines() if " " in line)
        if "Invalid job id" in done.stderr:  # the only one left, and Slurm has forgotten it
            return {}
        said = done.stderr.strip()
        time.sleep(10.0)
    raise InputError(f"squeue does not answer: {said}; jobs go on")


def final_state(job: str) -> str:
    """Return the state in which a job ended, ``UNKNOWN`` if nobody knows any more."""
    for command in (
        ["scontrol", "show", "job", "-o", job],
        ["sacct", "-n", "-X", "-P", "-o", "State", "-j", job],
    ):
        with contextlib.suppress(OSError):
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            for word in done.stdout.split():
                name = word.removeprefix("JobState=")
                if command[0] == "sacct" or name != word:
                    return name.rstrip("+")
    return "UNKNOWN"


def _end_time(job: str) -> float | None:
    """Ask when this job's time limit ends, as seconds since 1970."""
    if not job:
        return None
    with contextlib.suppress(OSError, ValueError):
        command = ["squeue", "-h", "-o", "%e", "-j", job]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return datetime.fromisoformat(done.stdout.strip()).timestamp()
    return None
