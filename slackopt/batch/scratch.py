"""What runs share on one machine: the temporary folder of each, and the cores each may use.

Both are guarded by something that the kernel drops when its holder dies, however it dies (a lock,
a socket's name), so that leftovers are told from what is in use.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import socket
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psutil

_PREFIX = "run-"
_NEW = "new-"
_NEW_S = 60.0
"""A folder that is still without its own name after so long was left by a kill."""


def scratch_root() -> Path:
    """Return the folder below which all batches of this user keep temporary files, made if needed.

    It is below the machine's folder for temporary files (``TMPDIR``).
    """
    user = os.getuid() if hasattr(os, "getuid") else 0
    root = Path(tempfile.gettempdir()) / f"slackopt-batch-{user}"
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    if hasattr(os, "getuid") and root.stat().st_uid != user:
        # Another user made it to be in the way: a folder of our own is as good, but for the sweep.
        root = Path(tempfile.mkdtemp(prefix=f"slackopt-batch-{user}-"))
    return root


@contextlib.contextmanager
def run_folder(root: Path, key: str) -> Iterator[Path]:
    """Make a temporary folder for a run, and remove it with everything in it."""
    made = Path(tempfile.mkdtemp(dir=root, prefix=_NEW))
    handle = _lock(made)
    # Under its own name only when locked: `sweep` of another batch never sees it unlocked.
    folder = made.rename(root / f"{_PREFIX}{key[:8]}-{made.name.removeprefix(_NEW)}")
    try:
        yield folder
    finally:
        _remove(folder)
        if handle is not None:
            os.close(handle)


def sweep(root: Path) -> int:
    """Remove the folders of runs that nobody holds any more; return how many."""
    removed = 0
    for folder in root.glob(f"{_PREFIX}*"):
        handle = _lock(folder)
        if handle is not None:
            _remove(folder)
            os.close(handle)
            removed += 1
    for folder in root.glob(f"{_NEW}*"):
        with contextlib.suppress(OSError):
            if time.time() - folder.stat().st_mtime > _NEW_S:
                folder.rmdir()
    return removed


def remove_root(root: Path) -> None:
    """Remove the folder of all batches, if it is empty."""
    with contextlib.suppress(OSError):
        root.rmdir()


@contextlib.contextmanager
def own_cores(threads: int) -> Iterator[tuple[int, ...]]:
    """Reserve as many cores as threads, if so many are free; yield them, or nothing (Linux).

    Runs of all batches on this machine reserve theirs here, so that no two share cores while
    others idle.
    """
    with contextlib.ExitStack() as stack:
        held: list[int] = []
        for core in sorted(os.sched_getaffinity(0)) if psutil.LINUX else ():
            if len(held) == threads:
                break
            # A name in the abstract space has one holder and leaves no file.
            holder = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
            with contextlib.suppress(OSError):
                holder.bind(f"\0slackopt-batch-core-{core}")
                held.append(core)
        yield tuple(held) if len(held) == threads else ()


def _lock(path: Path) -> int | None:
    """Lock a folder; None if another holds it or it can't be locked."""
    try:
        handle = os.open(path, os.O_RDONLY)
    except OSError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        return None
    return handle


def _remove(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    if folder.exists():  # a read-only folder inside
        for inner in folder.rglob("*"):
            with contextlib.suppress(OSError):
                if inner.is_dir() and not inner.is_symlink():
                    inner.chmod(0o700)
        shutil.rmtree(folder, ignore_errors=True)
