"""Reading and writing the JSON files of every record, plain or gzipped."""

from __future__ import annotations

import contextlib
import gzip
import json
import math
import os
import tempfile
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import IO, Any, NoReturn, TypeVar, cast

from pydantic import ValidationError

from slackopt.device import Device
from slackopt.errors import InputError
from slackopt.graph import Graph
from slackopt.instance import Instance
from slackopt.plan import Plan
from slackopt.records import SCHEMA_VERSION, Record
from slackopt.result import Result
from slackopt.violations import violation_lines

RecordT = TypeVar("RecordT", bound=Record)

BEST = "best.json"
"""Name of the file of best-known solutions in the folder of a family of instances."""

MAX_FILE_BYTES = 2 * 2**30
"""Largest file read, after decompression: a guard against gzip bombs."""

_CHUNK = 2**20


def read_record(path: str | os.PathLike[str], *kinds: type[RecordT]) -> RecordT:
    """Read a file as one of the record types `kinds`, told apart by its ``format`` field.

    Raises
    ------
    InputError
        Naming the file, and every violation with its place in it.
    """
    text = read_text(path)
    document = _parse(path, text)
    by_format = {str(kind.model_fields["format"].default): kind for kind in kinds}
    found = document.get("format")
    if not isinstance(found, str) or found not in by_format:
        wanted = " or ".join(map(repr, sorted(by_format)))
        what = "has no field 'format'" if found is None else f"format is {_cut(found)}"
        hint = "is it the right file?"
        if found == "slackopt/graph" and "slackopt/instance" in by_format:
            hint = "make an instance of it: slackopt instance GRAPH --device NAME --budget 0.5"
        raise InputError(f"{path}: {what}, expected {wanted}; {hint}")
    version = document.get("schema_version")
    if type(version) is not int or version != SCHEMA_VERSION:
        raise InputError(
            f"{path}: schema_version is {_cut(version)}, this slackopt reads {SCHEMA_VERSION}; "
            "remake the file or install the slackopt version that made it"
        )
    try:
        return by_format[found].model_validate_json(text)
    except ValidationError as error:
        lines = violation_lines(error, document)
        noun = "field is" if len(lines) == 1 else "fields are"
        raise InputError(f"{path}: {len(lines)} {noun} wrong", lines) from None
    except InputError as error:
        # A graph checks itself and gives places in itself; in an instance file it has a place too.
        prefix = "graph." if by_format[found] is Instance else ""
        raise error.in_file(path, prefix) from None


def without_best(paths: Iterable[str | os.PathLike[str]]) -> list[Path]:
    """Leave out ``best.json``, for which ``*.json`` in a family's folder stands as well.

    Alone it stays, so that whoever names it is told what is wrong.
    """
    given = [Path(path) for path in paths]
    return [path for path in given if path.name != BEST] or given


def read_graph(path: str | os.PathLike[str]) -> Graph:
    """Read a graph file."""
    return read_record(path, Graph)


def read_instance(path: str | os.PathLike[str]) -> Instance:
    """Read an instance file."""
    return read_record(path, Instance)


def read_plan(path: str | os.PathLike[str]) -> Plan:
    """Read a plan from a plan file, or from a result file that has one."""
    record: Record = read_record(path, Plan, Result)
    if isinstance(record, Plan):
        return record
    assert isinstance(record, Result)  # noqa: S101
    if record.plan is None:
        raise InputError(f"{path}: the result has no plan (status {record.status!r})")
    return record.plan


def read_result(path: str | os.PathLike[str]) -> Result:
    """Read a result file."""
    return read_record(path, Result)


def read_device(path: str | os.PathLike[str]) -> Device:
    """Read a device file: the fields of a `slackopt.Device`, as ``slackopt link`` writes them."""
    text = read_text(path)
    document = _parse(path, text)
    try:
        return Device.model_validate_json(text)
    except ValidationError as error:
        lines = violation_lines(error, document)
        noun = "field is" if len(lines) == 1 else "fields are"
        raise InputError(f"{path}: {len(lines)} {noun} wrong", lines) from None
    except InputError as error:
        raise error.in_file(path) from None


def write_record(record: Record, path: str | os.PathLike[str], *, durable: bool = False) -> None:
    """Write a record as JSON (gzipped if the name ends in ``.gz``), whole or not at all.

    The same record gives the same bytes. For `durable` see `write_bytes`.
    """
    data = (record.model_dump_json(indent=1) + "\n").encode()
    if os.fspath(path).endswith(".gz"):
        data = gzip.compress(data, mtime=0)
    write_bytes(data, path, durable=durable)


def write_bytes(data: bytes, path: str | os.PathLike[str], *, durable: bool = False) -> None:
    """Write bytes to a file through a temporary file beside it: no half file is ever seen.

    Parameters
    ----------
    data, path
        What to write, and where.
    durable
        Wait until the disk has it: it then survives a power cut.
    """
    target = Path(path)
    handle, temporary = -1, ""
    try:
        handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name[:100]}.")
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        umask = os.umask(0)
        os.umask(umask)
        Path(temporary).chmod(0o666 & ~umask)
        Path(temporary).replace(target)
        if durable:
            _sync_folder(target.parent)
    except OSError as error:
        if temporary:
            Path(temporary).unlink(missing_ok=True)
        raise InputError(f"{path}: can't be written: {error.strerror or error}") from None


def _sync_folder(folder: Path) -> None:
    """Make a rename last; a file system that can't is left at what it does by itself."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def check_writable(path: str | os.PathLike[str]) -> None:
    """Raise `InputError` if a file can't be written at `path`; for use before any long work.

    Nothing is left behind.
    """
    target = Path(path)
    if target.is_dir():
        raise InputError(f"{path}: can't be written: it is a directory; name a file in it")
    if not target.parent.is_dir():
        why = "is not a directory" if target.parent.exists() else "doesn't exist; make it first"
        raise InputError(f"{path}: can't be written: the folder {target.parent} {why}")
    try:
        with tempfile.TemporaryFile(dir=target.parent, prefix=f".{target.name[:100]}."):
            pass
    except OSError as error:
        raise InputError(f"{path}: can't be written: {error.strerror or error}") from None


def read_text(path: str | os.PathLike[str]) -> str:
    """Read a text file, plain or gzipped, of at most `MAX_FILE_BYTES`.

    Raises
    ------
    InputError
        If it is missing, unreadable, truncated, too large or not UTF-8.
    """
    try:
        with Path(path).open("rb") as raw:
            zipped = raw.read(2) == b"\x1f\x8b"
            raw.seek(0)
            stream = cast("IO[bytes]", gzip.GzipFile(fileobj=raw)) if zipped else raw
            data = _read_up_to(stream, MAX_FILE_BYTES + 1)
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except EOFError:
        raise InputError(f"{path}: the gzip stream is truncated; copy or remake the file") from None
    except (gzip.BadGzipFile, zlib.error) as error:
        raise InputError(f"{path}: damaged gzip file: {error}") from None
    except OSError as error:
        raise InputError(f"{path}: can't be read: {error.strerror or error}") from None
    if len(data) > MAX_FILE_BYTES:
        raise InputError(f"{path}: larger than {MAX_FILE_BYTES} bytes uncompressed; refused")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not UTF-8 text (byte {error.start})") from None


def _read_up_to(stream: IO[bytes], limit: int) -> bytes:
    """Read at most `limit` bytes; asked for at once, so many would be reserved for any file."""
    parts, left = [], limit
    while left and (part := stream.read(min(left, _CHUNK))):
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


def _parse(path: str | os.PathLike[str], text: str) -> dict[str, Any]:
    """Parse JSON strictly: no NaN, no infinity, no key twice."""
    try:
        document = json.loads(
            text,
            object_pairs_hook=_unique_keys,
            parse_constant=_no_constant,
            parse_float=_finite,
        )
    except json.JSONDecodeError as error:
        raise InputError(
            f"{path}: not JSON: {error.msg} at line {error.lineno}, column {error.colno}"
        ) from None
    except RecursionError:
        raise InputError(f"{path}: not JSON that can be read: it is nested too deeply") from None
    except InputError as error:
        raise error.in_file(path) from None
    except ValueError as error:
        raise InputError(f"{path}: not JSON that can be read: {error}") from None
    if not isinstance(document, dict):
        raise InputError(f"{path}: the top level must be a JSON object")
    return document


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                name = found.get("name")
                where = f" of {name!r}" if isinstance(name, str) and key != "name" else ""
                raise InputError(f"key {key!r}{where} stands twice in one JSON object; remove one")
            seen.add(key)
    return found


def _no_constant(text: str) -> NoReturn:
    raise InputError(f"{text} is not allowed; every number must be finite")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise InputError(f"the number {text} is too large; every number must be finite")
    return value


def _cut(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}..."
