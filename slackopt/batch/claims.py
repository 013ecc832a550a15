"""Claims: which batch does which run, when several write into one folder.

A claim ``claims/<key>`` is a hard link to its owner's file ``claims/<owner>.owner``. Making one is
atomic and fails if there is one, on network file systems too; no locks are used, as those often
don't work there. The owner's file names its processes and is touched every `HEARTBEAT_S` seconds.
A claim whose owner is dead is taken over: at once if the owner ran on this machine and its
processes are gone, after `STALE_S` seconds without a heartbeat otherwise. Only times of one clock,
the file server's, are compared.

Should two batches do one run nevertheless (one was suspended for minutes), both write the same
file, each whole: time is lost, nothing else.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import socket
import sys
import time
import uuid
from pathlib import Path
from typing import Any

import psutil

from slackopt.errors import InputError
from slackopt.files import write_bytes

CLAIMS = "claims"
HEARTBEAT_S = 15.0
STALE_S = 180.0
_OWNER = ".owner"
_NO_LINKS = (errno.EPERM, errno.EMLINK, errno.ENOTSUP, errno.ENOSYS, errno.EXDEV)


class Claims:
    """The claims of one batch process on the runs of one folder; a context manager.

    Parameters
    ----------
    folder
        The batch's folder; made if missing.
    heartbeat_s, stale_s
        For tests.

    Raises
    ------
    InputError
        If the folder can't be written.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        heartbeat_s: float = HEARTBEAT_S,
        stale_s: float = STALE_S,
    ) -> None:
        self.folder = Path(folder) / CLAIMS
        self.heartbeat_s, self.stale_s = heartbeat_s, stale_s
        self.owner = uuid.uuid4().hex
        self.held: set[str] = set()
        self._processes = [_identity(os.getpid())]
        self._beaten = -float("inf")

    def __enter__(self) -> Claims:
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._write_owner()
        except OSError as error:
            raise _unwritable(self.folder, error) from None
        return self

    def __exit__(self, *_: object) -> None:
        for key in tuple(self.held):
            self.release(key)
        with contextlib.suppress(OSError):
            self._owner_file(self.owner).unlink()
        with contextlib.suppress(OSError):  # others have claims: not empty
            self.folder.rmdir()

    def add_process(self, pid: int) -> None:
        """Count the claims as alive as long as this process of the same machine lives as well."""
        self._processes.append(_identity(pid))
        with contextlib.suppress(InputError):
            self._write_owner()

    def beat(self) -> None:
        """Say that this batch is alive, if it is time to; call it often."""
        if time.monotonic() - self._beaten < self.heartbeat_s:
            return
        self._beaten = time.monotonic()
        try:
            os.utime(self._owner_file(self.owner))
        except OSError:
            with contextlib.suppress(InputError):
                self._write_owner()

    def claim(self, key: str) -> bool:
        """Take a run for this batch; return False if a living batch has it.

        Raises
        ------
        InputError
            If the claim can't be written: the disk is full, or the folder gone.
        """
        path = self.folder / key
        for _ in range(3):
            try:
                self._make(path)
            except FileExistsError:
                # Over NFS a link can be made although the answer says that it was there.
                if _owner_in(path) != self.owner:
                    if not self._remove_if_stale(path):
                        return False
                    continue
            except OSError as error:
                raise _unwritable(path, error) from None
            self.held.add(key)
            return True
        return False

    def _make(self, path: Path) -> None:
        mine = self._owner_file(self.owner)
        try:
            os.link(mine, path)
        except FileNotFoundError:  # somebody tidied the folder by hand
            self.folder.mkdir(parents=True, exist_ok=True)
            self._write_owner()
            os.link(mine, path)
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            handle = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666)
            try:
                os.write(handle, mine.read_bytes())
            finally:
                os.close(handle)

    def release(self, key: str) -> None:
        """Give a claim back, unless another has taken it over."""
        path = self.folder / key
        self.held.discard(key)
        with contextlib.suppress(OSError):
            if _owner_in(path) == self.owner:
                path.unlink()

    def sweep(self) -> set[str]:
        """Remove what dead batches left; return the keys of their claims."""
        removed: set[str] = set()
        for path in sorted(self.folder.iterdir()):
            if path.suffix == _OWNER:
                if path.stem != self.owner and self._is_dead(path):
                    with contextlib.suppress(OSError):
                        path.unlink()
            elif self._remove_if_stale(path):
                removed.add(path.name.partition(".")[0])
        return removed

    # Who is alive.

    def _remove_if_stale(self, path: Path) -> bool:
        """Remove a claim of a dead owner; return whether it is gone."""
        owner = _owner_in(path)
        if owner == self.owner or not self._is_dead(path):
            return False
        # Two batches may be here at once. A rename has one winner; if a third claimed in between,
        # the file that moved is not the dead one's, and is put back.
        aside = path.with_name(f"{path.name}.{uuid.uuid4().hex}")
        try:
            path.rename(aside)
        except OSError:
            return not path.exists()
        if _owner_in(aside) != owner:
            with contextlib.suppress(OSError):
                os.link(aside, path)
        with contextlib.suppress(OSError):
            aside.unlink()
        return not path.exists()

    def _is_dead(self, path: Path) -> bool:
        """Whether the owner that a claim or an owner's file names is dead."""
        found = _read(path)
        if found is None:  # gone meanwhile
            return True
        with contextlib.suppress(KeyError, TypeError, ValueError, OverflowError):
            processes = found["processes"]
            if processes and all(process["machine"] == _machine() for process in processes):
                return not any(_lives(process) for process in processes)
        # Of another machine, or not readable: by the clock of the file server.
        mine = self._owner_file(self.owner)
        try:
            os.utime(mine)
            beats = [path.stat().st_mtime]
            with contextlib.suppress(OSError, ValueError):
                beats.append(self._owner_file(str(found.get("owner"))).stat().st_mtime)
            return mine.stat().st_mtime - max(beats) > self.stale_s
        except FileNotFoundError:
            return not path.exists()
        except OSError:
            return False

    def _owner_file(self, owner: str) -> Path:
        return self.folder / f"{owner}{_OWNER}"

    def _write_owner(self) -> None:
        about = {
            "owner": self.owner,
            "host": socket.gethostname(),
            "processes": self._processes,
        }
        write_bytes(json.dumps(about).encode(), self._owner_file(self.owner))


def _machine() -> str:
    """Name the space in which process ids mean something: this boot, this container."""
    with contextlib.suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot}/{os.readlink('/proc/self/ns/pid')}"  # noqa: PTH115
    return f"{socket.gethostname()}/{sys.platform}"


def _identity(pid: int) -> dict[str, Any]:
    try:
        begun = psutil.Process(pid).create_time()
    except psutil.Error:
        begun = 0.0
    return {"machine": _machine(), "pid": pid, "begun": begun}


def _lives(identity: dict[str, Any]) -> bool:
    try:
        process = psutil.Process(identity["pid"])
        # A process id is used again some day; its start tells the two apart.
        same = abs(process.create_time() - identity["begun"]) < 1.0
        return same and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def _owner_in(path: Path) -> str | None:
    found = _read(path)
    return None if found is None else str(found.get("owner"))


def _read(path: Path) -> dict[str, Any] | None:
    """Read a claim; None if there is none, empty if it says nothing."""
    try:
        found = json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    except OSError as error:
        # NFS: it was removed while we read it.
        return None if error.errno == errno.ESTALE else {}
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _unwritable(path: Path, error: OSError) -> InputError:
    return InputError(f"{path}: can't be written: {error.strerror or error}")
