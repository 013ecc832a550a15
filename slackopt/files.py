"""Reading and writing the JSON files of every record, plain or gzipped."""

from __future__ import annotations

import gzip
import json
import os
import tempfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from slackopt.errors import InputError
from slackopt.graph import Graph
from slackopt.instance import Instance
from slackopt.plan import Plan
from slackopt.records import SCHEMA_VERSION, Record
from slackopt.result import Result

RecordT = TypeVar("RecordT", bound=Record)

MAX_FILE_BYTES = 2 * 2**30
"""Largest file read, after decompression: a guard against gzip bombs."""


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
    if found not in by_format:
        wanted = " or ".join(sorted(by_format))
        raise InputError(f"{path}: format is {found!r}, expected {wanted}; is it the right file?")
    version = document.get("schema_version")
    if version != SCHEMA_VERSION:
        raise InputError(
            f"{path}: schema_version is {version!r}, this slackopt reads {SCHEMA_VERSION}; "
            "remake the file or install the slackopt version that made it"
        )
    try:
        return by_format[found].model_validate_json(text)
    except ValidationError as error:
        lines = [_violation_line(entry) for entry in error.errors(include_url=False)]
        raise InputError(f"{path}: {len(lines)} field(s) are wrong", lines) from None
    except InputError as error:
        raise error.in_file(path) from None


def read_graph(path: str | os.PathLike[str]) -> Graph:
    """Read a graph file."""
    return read_record(path, Graph)


def read_instance(path: str | os.PathLike[str]) -> Instance:
    """Read an instance file."""
    return read_record(path, Instance)


def read_plan(path: str | os.PathLike[str]) -> Plan:
    """Read a plan from a plan file, or from a result file that has one."""
    record = read_record(path, Plan, Result)
    if isinstance(record, Plan):
        return record
    if record.plan is None:
        raise InputError(f"{path}: the result has no plan (status {record.status!r})")
    return record.plan


def read_result(path: str | os.PathLike[str]) -> Result:
    """Read a result file."""
    return read_record(path, Result)


def write_record(record: Record, path: str | os.PathLike[str]) -> None:
    """Write a record as JSON (gzipped if the name ends in ``.gz``), whole or not at all.

    The same record gives the same bytes.
    """
    data = (record.model_dump_json(indent=1) + "\n").encode()
    if os.fspath(path).endswith(".gz"):
        data = gzip.compress(data, mtime=0)
    write_bytes(data, path)


def write_bytes(data: bytes, path: str | os.PathLike[str]) -> None:
    """Write bytes to a file through a temporary file beside it, so that no half file is ever seen."""
    target = Path(path)
    handle, temporary = -1, ""
    try:
        handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(temporary, 0o666 & ~umask)
        os.replace(temporary, target)
    except OSError as error:
        if temporary:
            Path(temporary).unlink(missing_ok=True)
        raise InputError(f"{path}: can't be written: {error.strerror or error}") from None


def read_text(path: str | os.PathLike[str]) -> str:
    """Read a text file, plain or gzipped, of at most `MAX_FILE_BYTES`.

    Raises
    ------
    InputError
        If it is missing, unreadable, truncated, too large or not UTF-8.
    """
    try:
        with open(path, "rb") as raw:
            zipped = raw.read(2) == b"\x1f\x8b"
            raw.seek(0)
            stream = gzip.GzipFile(fileobj=raw) if zipped else raw
            data = stream.read(MAX_FILE_BYTES + 1)
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
        return data.decode()
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not UTF-8 text (byte {error.start})") from None


def _parse(path: str | os.PathLike[str], text: str) -> dict[str, Any]:
    try:
        document = json.loads(text)
    except json.JSONDecodeError as error:
        raise InputError(
            f"{path}: not JSON: {error.msg} at line {error.lineno}, column {error.colno}"
        ) from None
    except (RecursionError, ValueError) as error:
        raise InputError(f"{path}: not JSON that can be read: {error}") from None
    if not isinstance(document, dict):
        raise InputError(f"{path}: the top level must be a JSON object")
    return document


def _violation_line(entry: Any) -> str:
    value = entry.get("input")
    shown = "" if isinstance(value, (dict, list)) else f" (found {value!r})"
    return f"{place(entry['loc'])}: {entry['msg']}{shown}"


def place(loc: Sequence[str | int]) -> str:
    """Write a location as in JSON paths: ``ops[3].inputs[0]``."""
    text = ""
    for part in loc:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text or "file"
