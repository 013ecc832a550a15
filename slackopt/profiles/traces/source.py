"""Opens trace files, plain, gzipped or in a tar archive: streamed, never beyond stated limits."""

from __future__ import annotations

import gzip
import io
import os
import tarfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, cast

from slackopt.errors import InputError

MAX_TRACE_BYTES = 2 * 2**30
"""Largest trace read, after decompression: a guard against gzip and tar bombs."""

MAX_ENTRY_BYTES = 16 * 2**20
"""Largest single entry (node, event, row): no one entry may fill the memory."""

MAX_DEPTH = 10_000
"""Deepest nesting of brackets in JSON: the parser's time grows with the square of it."""

_CHUNK = 2**16
_DEPTH_STEP = 2**13
_GZIP = b"\x1f\x8b"
_TAR_MAGIC, _TAR_MAGIC_AT = b"ustar", 257


class BoundedStream(io.RawIOBase):
    """A binary stream that counts what it hands out and refuses to go beyond its limits.

    Parameters
    ----------
    inner
        What is read.
    path
        Named in errors.

    Attributes
    ----------
    position
        Bytes handed out so far.
    is_json
        Set it to have the nesting of brackets limited, too.
    """

    def __init__(self, inner: IO[bytes], path: str) -> None:
        super().__init__()
        self._inner, self._path = inner, path
        self.position = self._marked = 0
        self.is_json = False
        self._depth = 0

    def readable(self) -> bool:
        """Return True."""
        return True

    def mark(self) -> None:
        """Note that an entry ended here: the next may be `MAX_ENTRY_BYTES` long."""
        self._marked = self.position

    def readinto(self, buffer: object) -> int:
        """Read into a buffer; raise `InputError` beyond a limit or on a damaged archive."""
        view = memoryview(cast("bytearray", buffer)).cast("B")
        with _readable(self._path):
            data = self._inner.read(min(len(view), _CHUNK))
        self.position += len(data)
        if self.position > MAX_TRACE_BYTES:
            raise InputError(
                f"{self._path}: larger than {MAX_TRACE_BYTES} bytes uncompressed; refused. "
                "Record fewer steps"
            )
        if self.position - self._marked > MAX_ENTRY_BYTES:
            raise InputError(
                f"{self._path}: more than {MAX_ENTRY_BYTES} bytes without the end of an entry, "
                f"before byte {self.position}; refused"
            )
        if self.is_json:
            self._check_depth(data)
        view[: len(data)] = data
        return len(data)

    def _check_depth(self, data: bytes) -> None:
        # Brackets within strings are counted too. They are mostly balanced, and the limit is far
        # above any trace, so that this cheap count is enough of a guard.
        for begin in range(0, len(data), _DEPTH_STEP):
            part = data[begin : begin + _DEPTH_STEP]
            opened = part.count(b"[") + part.count(b"{")
            self._depth = max(0, self._depth + opened - part.count(b"]") - part.count(b"}"))
            if self._depth > MAX_DEPTH:
                raise InputError(
                    f"{self._path}: not JSON that can be read: it is nested more than {MAX_DEPTH} "
                    f"deep (near byte {self.position})"
                )


@contextmanager
def open_trace(path: str | os.PathLike[str], *, whole: bool = True) -> Iterator[BoundedStream]:
    """Open a trace: a plain file, a gzipped one, or the only file in a tar archive.

    Nothing is unpacked to disk, and names within an archive are never used as paths.

    Parameters
    ----------
    path
        The file. What it is is told by its content, not by its name.
    whole
        Whether all of it will be read; an archive is then searched for a second file.

    Raises
    ------
    InputError
        If it is missing, a directory, unreadable, damaged, cut off or beyond a limit, or if an
        archive holds no file or more than one.
    """
    name = os.fspath(path)
    if Path(path).is_dir():
        raise InputError(f"{name}: is a directory; name the trace file in it")
    with _readable(name):
        raw = Path(path).open("rb")  # noqa: SIM115
    with raw:
        with _readable(name):
            zipped = raw.read(2) == _GZIP
            raw.seek(0)
        unzipped = cast("IO[bytes]", gzip.GzipFile(fileobj=raw)) if zipped else raw
        with unzipped:
            stream = BoundedStream(unzipped, name)
            head = _first_bytes(stream, _TAR_MAGIC_AT + len(_TAR_MAGIC))
            replayed = cast("IO[bytes]", Replayed(head, stream, passes_on=True))
            if head[_TAR_MAGIC_AT:] == _TAR_MAGIC:
                with _member(replayed, name, whole=whole) as member:
                    yield member
            else:
                yield BoundedStream(replayed, name)


def _first_bytes(stream: BoundedStream, number: int) -> bytes:
    data = b""
    while len(data) < number and (more := stream.read(number - len(data))):
        data += more
    stream.mark()
    return data


class Replayed(io.RawIOBase):
    """A stream whose first bytes were read already.

    Parameters
    ----------
    head, rest
        The bytes, and where the others come from.
    passes_on
        Whether it hands a whole archive to a stream on top, which counts the entries itself.
    """

    def __init__(self, head: bytes, rest: BoundedStream, *, passes_on: bool = False) -> None:
        super().__init__()
        self._head, self._rest, self._passes_on = head, rest, passes_on

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: object) -> int:
        """Read into a buffer: first the head, then the rest."""
        if self._passes_on:
            self._rest.mark()
        view = memoryview(cast("bytearray", buffer)).cast("B")
        if self._head:
            taken = min(len(view), len(self._head))
            view[:taken] = self._head[:taken]
            self._head = self._head[taken:]
            return taken
        return self._rest.readinto(view)


@contextmanager
def _member(stream: IO[bytes], path: str, *, whole: bool) -> Iterator[BoundedStream]:
    with _readable(path):
        buffered = io.BufferedReader(cast("io.RawIOBase", stream))
        archive = tarfile.open(fileobj=buffered, mode="r|")  # noqa: SIM115
    with archive:
        first = _next_file(archive, path)
        if first is None:
            raise InputError(f"{path}: the tar archive holds no file")
        with _readable(path):
            content = archive.extractfile(first)
        if content is None:
            raise InputError(f"{path}: the file in the tar archive can't be read")
        yield BoundedStream(content, path)
        if whole and _next_file(archive, path) is not None:
            raise InputError(
                f"{path}: the tar archive holds more than one file; unpack it and name the trace"
            )


def _next_file(archive: tarfile.TarFile, path: str) -> tarfile.TarInfo | None:
    while True:
        with _readable(path):
            found = archive.next()
        # Some systems put a hidden file with attributes beside each file.
        if found is None or (found.isreg() and not found.name.rpartition("/")[2].startswith(".")):
            return found


@contextmanager
def _readable(path: str) -> Iterator[None]:
    """Turn what can go wrong while reading into one sentence."""
    try:
        yield
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except EOFError:
        raise InputError(f"{path}: the gzip stream is truncated; copy or record it again") from None
    except (gzip.BadGzipFile, zlib.error) as error:
        raise InputError(f"{path}: damaged gzip file: {error}") from None
    except tarfile.TarError as error:
        raise InputError(f"{path}: damaged or truncated tar archive: {error}") from None
    except OSError as error:
        raise InputError(f"{path}: can't be read: {error.strerror or error}") from None
