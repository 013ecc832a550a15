"""Methods that do what a method must not, for tests of batches; imported by their processes.

Tests import it through the fixture `bad_methods`, which takes them out of the registries again.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from slackopt.batch import worker
from slackopt.errors import SolverError
from slackopt.heuristics import NoPlanError, heuristics
from slackopt.heuristics.registry import heuristic
from slackopt.instance import Instance
from slackopt.plan import Plan
from slackopt.progress import Progress
from slackopt.result import StoppedBy
from slackopt.solvers.options import SolveOptions

OWN_MESSAGES: list[int] = []
"""The descriptor through which a run's process tells what it has found."""

_settle_in = worker._settle_in


def _noting(order: Any, messages: int, *more: Any) -> Any:
    OWN_MESSAGES.append(messages)
    return _settle_in(order, messages, *more)


worker._settle_in = _noting


def plan_of(instance: Instance) -> Plan:
    return heuristics()["slackswap"](instance)


@heuristic("bad-quick")
def quick(instance: Instance, seconds: float = 0.0, seed: int = 0) -> Plan:
    """Take some time."""
    time.sleep(seconds)
    return plan_of(instance)


@heuristic("bad-deaf")
def deaf(instance: Instance) -> Plan:
    """Ignore every signal that can be ignored."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    while True:
        time.sleep(1)


@heuristic("bad-greedy")
def greedy(instance: Instance, in_child: bool = False) -> Plan:
    """Eat memory: in this process, or in one that it starts."""
    eat = "food = []\nwhile True: food.append(bytearray(b'x') * 2**24)"
    if in_child:
        subprocess.run([sys.executable, "-c", eat], check=False)
    exec(eat)
    raise AssertionError


@heuristic("bad-out-of-memory")
def out_of_memory(instance: Instance) -> Plan:
    """Fail to allocate."""
    raise MemoryError


@heuristic("bad-talker")
def talker(instance: Instance, mib: int = 1024) -> Plan:
    """Print without end, then work."""
    block = b"x" * 1023 + b"\n"
    for _ in range(mib):
        os.write(1, block * 1024)
    os.write(2, b"the last line\n")
    return plan_of(instance)


@heuristic("bad-crash")
def crash(instance: Instance) -> Plan:
    """Die from a signal."""
    os.kill(os.getpid(), signal.SIGSEGV)
    raise AssertionError


@heuristic("bad-exit")
def leave(instance: Instance) -> Plan:
    """End without a word."""
    os._exit(7)


@heuristic("bad-raise")
def throw(instance: Instance) -> Plan:
    """Raise."""
    raise ValueError("this rule is broken")


@heuristic("bad-parent")
def parent(instance: Instance, note: str = "") -> Plan:
    """Leave a process in a session of its own, which ignores signals, and files behind."""
    sleeper = "import signal, time\nsignal.signal(15, signal.SIG_IGN)\ntime.sleep(600)"
    started = subprocess.Popen([sys.executable, "-c", sleeper], start_new_session=True)
    Path("leftover").write_text("x")
    Path(os.environ["TMPDIR"], "another").mkdir()
    if note:
        Path(note).write_text(f"{started.pid} {os.environ['TMPDIR']}")
    return plan_of(instance)


@heuristic("bad-settings")
def settings(instance: Instance, note: str = "") -> Plan:
    """Write down what this process was given."""
    affinity = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    threads = os.environ["OMP_NUM_THREADS"]
    Path(note).write_text(f"{threads}\n{affinity}\n{os.environ['TMPDIR']}\n{Path.cwd()}")
    return plan_of(instance)


class MuteError(Exception):
    """Its text can't be had."""

    def __str__(self) -> str:
        raise ValueError("no text")


class EndOfWorldError(BaseException):
    """No Exception."""


RAISED: dict[str, BaseException] = {
    "keyboard": KeyboardInterrupt(),
    "exit": SystemExit(3),
    "exit text": SystemExit("away"),
    "generator": GeneratorExit("closed"),
    "base": EndOfWorldError("over"),
    "mute": MuteError(),
    "surrogate": ValueError("half of a pair: \ud800, and \x1b[2J"),
    "long": ValueError("x" * 10_000_000),
    "solver": SolverError("\udfff" + "y" * 1_000_000),
}


@heuristic("bad-throw")
def throw_any(instance: Instance, what: str = "") -> Plan:
    """Raise what no method should."""
    if what == "no plan":
        raise NoPlanError("bad-throw", instance, "\ud800" + "z" * 1_000_000)
    if what == "recursion":
        return throw_any(instance, what)
    if what == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    raise RAISED[what]


@heuristic("bad-answer")
def answer(instance: Instance, what: str = "") -> Any:
    """Return what is no plan, or one that can't be written."""
    plan = plan_of(instance)
    if what == "none":
        return None
    if what == "surrogate":
        return plan.model_copy(update={"provenance": {"x": "\ud800"}})
    if what == "types":
        return plan.model_copy(update={"decisions": {"a0": "vanish"}})
    return plan.model_copy(update={"provenance": {"x": object()}})


@heuristic("bad-writer")
def writer(instance: Instance, data: str = "ff", where: str = "others") -> Plan:
    """Write bytes to every file descriptor that is open: to others' or, with its own, to all."""
    own, found = OWN_MESSAGES[-1], 0
    for handle in range(3, 256):
        if handle == own and where != "all":
            continue
        with contextlib.suppress(OSError):
            os.set_blocking(handle, True)
            found += 1
            os.write(handle, bytes.fromhex(data))
    return plan_of(instance).model_copy(update={"provenance": {"open": found}})


@heuristic("bad-closer")
def closer(instance: Instance) -> Plan:
    """Close everything, the standard streams too."""
    os.closerange(0, 256)
    return plan_of(instance)


@heuristic("bad-fork")
def fork(instance: Instance) -> Plan:
    """Come back twice."""
    os.fork()
    return plan_of(instance)


@heuristic("bad-changer")
def changer(instance: Instance, what: str = "ops") -> Plan:
    """Make the instance easy, and answer that one."""
    plan = Plan.for_instance(instance, {})
    life = instance.lifetimes
    if what == "ops":
        for op in instance.graph.ops:
            object.__setattr__(op, "duration_ns", 1)
    elif what == "budget":
        object.__setattr__(instance, "budget_bytes", 10**15)
    elif what == "device":
        object.__setattr__(instance.device, "h2d_bytes_per_s", 10**15)
        object.__setattr__(instance.device, "d2h_bytes_per_s", 10**15)
        plan = plan_of(instance)
    elif what == "lifetimes":
        object.__setattr__(life, "sizes_bytes", (1,) * life.num_tensors)
        for name in ("live_bytes", "working_set_bytes"):
            vars(life).pop(name, None)
    elif what == "cached":
        vars(instance.graph)["ideal_ns"] = 1
        vars(instance)["sha256"] = "0" * 64
    return plan


def hang(instance: Instance, progress: Progress, options: SolveOptions) -> StoppedBy:
    """Find a plan and a bound, and go on for ever."""
    progress.offer_bound(instance.ideal_ns, "test")
    progress.offer_plan(plan_of(instance), "test")
    while True:
        time.sleep(0.05)


def hang_deaf(instance: Instance, progress: Progress, options: SolveOptions) -> StoppedBy:
    """Find a plan and a bound, and go on for ever, whatever the signal."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    return hang(instance, progress, options)


def hang_greedy(instance: Instance, progress: Progress, options: SolveOptions) -> StoppedBy:
    """Find a plan and a bound, and then eat memory."""
    progress.offer_bound(instance.ideal_ns, "test")
    progress.offer_plan(plan_of(instance), "test")
    greedy(instance)
    raise AssertionError


def fail(instance: Instance, progress: Progress, options: SolveOptions) -> StoppedBy:
    """Fail as a solver does."""
    from slackopt.errors import SolverError

    progress.offer_bound(instance.ideal_ns, "test")
    raise SolverError("the solver has no licence")


EXACT: dict[str, Any] = {
    "bad-hang": hang,
    "bad-hang-deaf": hang_deaf,
    "bad-hang-greedy": hang_greedy,
    "bad-solver": fail,
}
# `slackopt.solve` is the function; the module of that name is found here.
sys.modules["slackopt.solve"]._EXACT.update(  # type: ignore[attr-defined]
    {name: (__name__, run.__name__) for name, run in EXACT.items()}
)
