"""The process of one run: solves, and sends what it finds as soon as it finds it."""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import gc
import os
import signal
import struct
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType

from slackopt.batch.order import Order
from slackopt.batch.processes import close_inherited, die_with_parent, first_to_be_killed
from slackopt.errors import InputError, SlackoptError, named, told
from slackopt.files import read_instance
from slackopt.progress import Progress
from slackopt.solve import solve

CHECKPOINT, RESULT, FAILED, NO_MEMORY = b"C", b"R", b"F", b"M"
KINDS = frozenset({CHECKPOINT, RESULT, FAILED, NO_MEMORY})
HEADER = struct.Struct("<cQ")
"""In front of every message: its kind and length."""

MAX_MESSAGE_BYTES = 1 << 28
"""Longest message; results of 10,000 ops have some megabytes."""

Send = Callable[[bytes, str], None]

_FREE_S = 0.5
_SHARE = 0.05
"""Checkpoints may take this many seconds, and later this share of the time of the run."""

_THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "NUMEXPR_NUM_THREADS",
)


def thread_variables(threads: int) -> dict[str, str]:
    """Return environment variables that keep numerical libraries to a number of threads."""
    return dict.fromkeys(_THREAD_VARIABLES, str(threads))


def work(
    order: Order, messages: int, log: int, scratch: Path, cores: Sequence[int], parent: int
) -> int:
    """Carry out an order in this process; return its exit code.

    Parameters
    ----------
    order
        What to do.
    messages, log
        File descriptors: for messages to the watching process, and for everything printed.
    scratch
        Temporary folder of the run, and its working directory.
    cores
        Cores to stay on; none for all.
    parent
        Process id of the watching process.
    """
    heard = _settle_in(order, messages, log, scratch, cores, parent)

    def send(kind: bytes, text: str) -> None:
        data = text.encode("utf-8", "backslashreplace")
        if len(data) > MAX_MESSAGE_BYTES:
            raise InputError(f"the result has {len(data)} bytes, more than {MAX_MESSAGE_BYTES}")
        view = memoryview(HEADER.pack(kind, len(data)) + data)
        while view:
            view = view[os.write(messages, view) :]

    try:
        _solve(order, send, heard)
        return 0
    except MemoryError:
        send(NO_MEMORY, "")
    except SlackoptError as error:
        send(FAILED, told(error))
    except BaseException as error:  # whatever a method throws is an outcome of the run
        if isinstance(error, KeyboardInterrupt) and heard:
            # Before or after the method, which keeps what it has.
            send(FAILED, "interrupted")
        else:
            traceback.print_exc()
            send(FAILED, _unexpected(error))
    finally:
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
            ctypes.CDLL(None).fflush(None)
    return 1


def _unexpected(error: BaseException) -> str:
    """Say what a method raised that no method should."""
    if isinstance(error, Exception):
        return f"unexpected {named(error)}"
    return (
        f"the method raised {named(error)}, which ends a process and is no error of a method; it "
        "must return a plan or raise an Exception"
    )


def _solve(order: Order, send: Send, heard: Sequence[int]) -> None:
    task = order.task
    instance = read_instance(order.instance_file)
    if instance.sha256 != task.instance_sha256:
        raise InputError(
            f"{order.instance_file}: is not the instance of this run "
            f"({instance.sha256[:12]}, not {task.instance_sha256[:12]}); remove it and run again"
        )
    result = solve(
        instance,
        task.method,
        time_limit=task.time_limit_s,
        gap=task.gap,
        threads=task.threads,
        seed=task.seed,
        solver=task.solver,
        deterministic=task.deterministic,
        on_state=_Checkpoints(send),
        **task.options,
    )
    text = result.model_dump_json()
    if result.stopped_by == "signal" and not heard:
        # `solve` takes every KeyboardInterrupt for Ctrl-C; the method raised this one itself.
        send(CHECKPOINT, text)
        raise KeyboardInterrupt
    send(RESULT, text)


class _Checkpoints:
    """Sends what is known whenever it moved, as long as that costs next to nothing."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._begun = time.monotonic()
        self._spent = 0.0

    def __call__(self, progress: Progress) -> None:
        begun = time.monotonic()
        if self._spent > _FREE_S + _SHARE * (begun - self._begun):
            return
        self._send(CHECKPOINT, progress.result("signal").model_dump_json())
        self._spent += time.monotonic() - begun


def _settle_in(
    order: Order, messages: int, log: int, scratch: Path, cores: Sequence[int], parent: int
) -> Sequence[int]:
    """Make this process one of a run; return the list of the signals that asked it to stop."""
    heard: list[int] = []

    def stop(number: int, frame: FrameType | None) -> None:
        heard.append(number)
        signal.default_int_handler(number, frame)

    os.setsid()
    die_with_parent(parent, signal.SIGKILL)
    first_to_be_killed()
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    # Schedulers announce a kill with these, to every process; the default would be to die.
    for number in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    null = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((null, 0), (log, 1), (log, 2)):
        os.dup2(source, target)
    close_inherited(messages)
    faulthandler.enable(file=2)
    os.environ.update(thread_variables(order.task.threads))
    os.environ.update(dict.fromkeys(("TMPDIR", "TMP", "TEMP"), str(scratch)))
    tempfile.tempdir = None
    os.chdir(scratch)
    if cores and hasattr(os, "sched_setaffinity"):
        with contextlib.suppress(OSError):
            os.sched_setaffinity(0, cores)
    gc.enable()
    return heard
