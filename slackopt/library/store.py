"""The files of a family: ``best.json`` and, in ``best/``, plans and certificates.

Plans and certificates are named by their content and written before ``best.json``, which is
replaced in one step; files that it no longer names are removed after. So a reader, or a crash, at
any moment finds a whole state. Writers wait for each other by a lock on the folder.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import quote

from slackopt.errors import InputError
from slackopt.files import BEST, read_record, read_text, write_bytes, write_record
from slackopt.library.records import Best
from slackopt.plan import Plan
from slackopt.records import Record

CLAIMS = "best"
"""Name of the folder of plans and certificates beside it."""


def read_best(folder: str | os.PathLike[str]) -> Best:
    """Read the best-known solutions of a family; none if there is no file yet.

    Raises
    ------
    InputError
        If the file is damaged or names an instance twice.
    """
    path = Path(folder) / BEST
    if not path.exists():
        return Best(family=Path(folder).resolve().name)
    best = read_record(path, Best)
    names = [entry.instance for entry in best.entries]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InputError(f"{path}: instance {twice[0]!r} has two entries; remove one")
    return best


def find_best_files(folder: str | os.PathLike[str]) -> list[Path]:
    """Return the ``best.json`` files in a folder and below it, by path.

    Raises
    ------
    InputError
        If there is none.
    """
    root = Path(folder)
    if root.is_file() and root.name == BEST:
        return [root]
    if not root.is_dir():
        raise InputError(f"{folder}: no such folder; give that of a family, or one of families")
    found = sorted(root.rglob(BEST))
    if not found:
        raise InputError(f"{folder}: no {BEST} in it or below; `slackopt best update` makes one")
    return found


def claim_file(instance: str, kind: str, record: Record) -> tuple[str, str, str]:
    """Return the relative path, the hash and the text of a plan or a certificate.

    Parameters
    ----------
    instance
        Name of the instance; characters that file names can't have are escaped as in URLs.
    kind
        ``plan``, ``bound`` or ``infeasible``.
    record
        What is written.
    """
    text = record.model_dump_json() + "\n"
    sha256 = hashlib.sha256(text.encode()).hexdigest()
    # A name of 500 characters would be too long for a file; the hash tells such ones apart.
    name = quote(instance, safe=" ()+,=@")[:120]
    return f"{CLAIMS}/{name}.{kind}.{sha256[:12]}.json.gz", sha256, text


def read_claim(folder: Path, file: str, sha256: str, kind: type[Record]) -> Record:
    """Read a plan or a certificate beside ``best.json``.

    Raises
    ------
    InputError
        If it is missing or damaged, or is not the file that was recorded.
    """
    path = folder / file
    found = hashlib.sha256(read_text(path).encode()).hexdigest()
    if found != sha256:
        raise InputError(
            f"{path}: is not the file that was recorded: its hash is {found[:12]}, and "
            f"{sha256[:12]} is recorded"
        )
    return read_record(path, kind)


def read_best_plan(folder: str | os.PathLike[str], instance: str) -> Plan:
    """Read the best-known plan of an instance of a family.

    Raises
    ------
    InputError
        If there is none, or its file is not the one that was recorded.
    """
    entry = read_best(folder).entry(instance)
    if entry is None or entry.plan is None:
        raise InputError(f"{Path(folder) / BEST}: no plan of instance {instance!r} is known")
    plan = read_claim(Path(folder), entry.plan.file, entry.plan.sha256, Plan)
    assert isinstance(plan, Plan)  # noqa: S101
    return plan


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the lock of a family's folder; wait for whoever holds it."""
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError as error:
        raise InputError(f"{folder}: can't be opened: {error.strerror or error}") from None
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        except OSError as error:
            raise InputError(
                f"{folder}: can't be locked against other writers: {error.strerror or error}; "
                "update a copy on a local disk, and copy it back"
            ) from None
        yield
    finally:
        os.close(descriptor)


def write_best(folder: Path, best: Best, texts: Mapping[str, str]) -> None:
    """Write the best-known solutions of a family; the caller holds the lock.

    Parameters
    ----------
    folder
        The family's folder.
    best
        All entries; they are sorted by name.
    texts
        Relative path -> text of new plans and certificates.
    """
    import gzip

    before = {file for entry in read_best(folder).entries for file in entry.files}
    (folder / CLAIMS).mkdir(exist_ok=True)
    for file, text in sorted(texts.items()):
        write_bytes(gzip.compress(text.encode(), mtime=0), folder / file)
    entries = tuple(sorted(best.entries, key=lambda entry: entry.instance))
    write_record(best.model_copy(update={"entries": entries}), folder / BEST)
    for file in before - {file for entry in entries for file in entry.files}:
        (folder / file).unlink(missing_ok=True)
