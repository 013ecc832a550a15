"""Processes and what is below them: find, measure, kill; on Linux none can get away.

A process made a *subreaper* inherits every orphan below it, so that whatever a run started, in
whatever session or group, stays below the process that watches the run.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import time
from pathlib import Path

import psutil

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_LISTS_CHILDREN = Path(f"/proc/self/task/{os.getpid()}/children").exists()
"""Whether the kernel says which processes a process has started; a build option of Linux."""

_PAGE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096


def _prctl(option: int, value: int) -> None:
    if psutil.LINUX:
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def die_with_parent(parent: int, with_signal: signal.Signals) -> None:
    """Have the kernel send a signal to this process when its parent ends.

    Parameters
    ----------
    parent
        Process id of the parent; if it is gone already, the signal comes at once.
    with_signal
        The signal.
    """
    _prctl(_PR_SET_PDEATHSIG, int(with_signal))
    if os.getppid() != parent:
        os.kill(os.getpid(), with_signal)


def adopt_orphans() -> None:
    """Make this process the parent of every orphan below it (Linux)."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def first_to_be_killed() -> None:
    """Ask the kernel to kill this process, not its watchers, when memory runs out."""
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")


_KEPT: set[int] = set()
"""File descriptors that modules opened while they were imported."""


def open_descriptors() -> set[int]:
    """Return the file descriptors of this process above those of the standard streams."""
    found = {int(name) for name in os.listdir("/proc/self/fd")}  # noqa: PTH208 - no path is needed
    # That of the listing itself is in it, and closed by now.
    return {handle for handle in found if handle > 2 and _is_open(handle)}


def keep_open(handles: set[int]) -> None:
    """Have `close_inherited` leave descriptors open that a module may need (a log, a table)."""
    _KEPT.update(handles)


def close_inherited(*needed: int) -> None:
    """Close all descriptors but the standard streams, those named here and those of modules.

    A run must not be able to write to what the processes that watch it speak through.
    """
    for handle in open_descriptors() - _KEPT - set(needed):
        with contextlib.suppress(OSError):
            os.close(handle)


def _is_open(handle: int) -> bool:
    try:
        os.fstat(handle)
    except OSError:
        return False
    return True


def tree(pid: int) -> list[int]:
    """Return the ids of a process and of all below it."""
    found, todo = [], [pid]
    while todo:
        parent = todo.pop()
        found.append(parent)
        todo += _children(parent)
    return found


def _children(pid: int) -> list[int]:
    if _LISTS_CHILDREN:
        # psutil reads the state of every process of the machine for this.
        children: list[int] = []
        with contextlib.suppress(OSError):
            for thread in Path(f"/proc/{pid}/task").iterdir():
                with contextlib.suppress(OSError):
                    children += map(int, (thread / "children").read_text().split())
        return children
    try:
        return [child.pid for child in psutil.Process(pid).children()]
    except psutil.Error:
        return []


def resident_bytes(pids: list[int]) -> int:
    """Return the resident memory of processes together; those that are gone count nothing."""
    total = 0
    for pid in pids:
        if psutil.LINUX:
            # psutil reads the same file, three times slower; this is done ten times a second.
            with contextlib.suppress(OSError, IndexError, ValueError):
                total += int(Path(f"/proc/{pid}/statm").read_bytes().split()[1]) * _PAGE
        else:
            with contextlib.suppress(psutil.Error):
                total += psutil.Process(pid).memory_info().rss
    return total


def kill_descendants(spare: frozenset[int] = frozenset(), patience_s: float = 5.0) -> bool:
    """Kill and reap everything below this process; return whether nothing is left.

    Parameters
    ----------
    spare
        Children of this process to leave alone, with what is below them.
    patience_s
        A process in an uninterruptible wait (a dead network disk) is given up after that.
    """
    until = time.monotonic() + patience_s
    while True:
        children = [pid for pid in _children(os.getpid()) if pid not in spare]
        if not children:
            return True
        if time.monotonic() > until:
            return False
        for pid in [pid for child in children for pid in tree(child)]:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        for pid in children:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
        time.sleep(0.002)


def oom_kills() -> int | None:
    """Return how many processes the kernel has killed for memory so far; None if unknown."""
    for path in ("/sys/fs/cgroup/memory.events", "/proc/vmstat"):
        with contextlib.suppress(OSError, ValueError):
            for line in Path(path).read_text().splitlines():
                if line.startswith("oom_kill "):
                    return int(line.split()[1])
    return None


def signal_name(number: int) -> str:
    """Return ``SIGKILL`` for 9, and so on."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
