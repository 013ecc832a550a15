"""Opens trace files, plain, gzipped or in an archive: streamed, never beyond stated limits."""

from __future__ import annotations

import gzip
import io
import os
import tarfile
import zipfile
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
_MAX_DETAIL = 200
_DEPTH_STEP = 2**13
_GZIP = b"\x1f\x8b"
_ZIP = (b"PK\x03\x04", b"PK\x05\x06")
_TAR_MAGIC, _TAR_MAGIC_AT = b"ustar", 257
_BOM, _UTF16 = b"\xef\xbb\xbf", (b"\xff\xfe", b"\xfe\xff")


class BoundedStream(io.RawIOBase):
    """A binary stream that counts what it hands out and refuses to go beyond its limits.

    Parameters
    ----------
    inner
        What is read.
    path
        Named in errors.
    skipped
        Bytes of the file before the first that is handed out.

    Attributes
    ----------
    position
        Bytes handed out so far, those skipped at the start included.
    is_json
        Set it to have the nesting of brackets limited, too.
    """

    def __init__(self, inner: IO[bytes], path: str, *, skipped: int = 0) -> None:
        super().__init__()
        self._inner, self._path = inner, path
        self.position = self._marked = skipped
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
            self.check_depth(data)
        view[: len(data)] = data
        return len(data)

    def check_depth(self, data: bytes) -> None:
        """Count the brackets of JSON that was just handed out; `is_json` has all of it counted."""
        # Brackets within strings are counted too. They are mostly balanced, and the limit is far
        # above any trace, so that this cheap count is enough of a guard.
        start = self.position - len(data)
        for begin in range(0, len(data), _DEPTH_STEP):
            part = data[begin : begin + _DEPTH_STEP]
            opened = part.count(b"[") + part.count(b"{")
            deepest = self._depth + opened
            if deepest > MAX_DEPTH:
                self._find_depth(part, start + begin)
            self._depth = max(0, deepest - part.count(b"]") - part.count(b"}"))

    def _find_depth(self, part: bytes, start: int) -> None:
        depth = self._depth
        for at, sign in enumerate(part):
            depth = max(0, depth + (sign in b"[{") - (sign in b"]}"))
            if depth > MAX_DEPTH:
                raise InputError(
                    f"{self._path}: not JSON that can be read: it is nested more than {MAX_DEPTH} "
                    f"deep (near byte {start + at})"
                )


@contextmanager
def open_trace(path: str | os.PathLike[str], *, whole: bool = True) -> Iterator[BoundedStream]:
    """Open a trace: a plain file, a gzipped one, or the only file in a tar or zip archive.

    A byte-order mark of UTF-8 at its start is skipped. Nothing is unpacked to disk, and names
    within an archive are never used as paths.

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
            magic = raw.read(4)
            raw.seek(0)
        if magic in _ZIP:
            with _zip_member(raw, name, whole=whole) as member:
                yield member
            return
        zipped = magic.startswith(_GZIP)
        unzipped = cast("IO[bytes]", gzip.GzipFile(fileobj=raw)) if zipped else raw
        with unzipped:
            stream = BoundedStream(unzipped, name)
            head = first_bytes(stream, _TAR_MAGIC_AT + len(_TAR_MAGIC))
            replayed = cast("IO[bytes]", Replayed(head, stream, passes_on=True))
            if head[_TAR_MAGIC_AT:] == _TAR_MAGIC:
                with _tar_member(replayed, name, whole=whole) as member:
                    yield member
            else:
                yield _text(replayed, name)


def _text(content: IO[bytes], path: str) -> BoundedStream:
    """Return what holds the text of a trace, behind a byte-order mark if there is one."""
    stream = BoundedStream(content, path)
    head = first_bytes(stream, len(_BOM))
    if head.startswith(_UTF16):
        raise InputError(f"{path}: is UTF-16 text; save it as UTF-8")
    skipped = len(_BOM) if head == _BOM else 0
    return BoundedStream(
        cast("IO[bytes]", Replayed(head[skipped:], stream, passes_on=True)), path, skipped=skipped
    )


def first_bytes(stream: BoundedStream, number: int) -> bytes:
    """Return the first bytes of a stream: so many, or all that it has."""
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
def _tar_member(stream: IO[bytes], path: str, *, whole: bool) -> Iterator[BoundedStream]:
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
        yield _text(content, path)
        if whole and _next_file(archive, path) is not None:
            raise InputError(
                f"{path}: the tar archive holds more than one file; unpack it and name the trace"
            )


def _next_file(archive: tarfile.TarFile, path: str) -> tarfile.TarInfo | None:
    while True:
        with _readable(path):
            found = archive.next()
        if found is None or (found.isreg() and not _is_hidden(found.name)):
            return found


def _is_hidden(name: str) -> bool:
    """Whether a member is one of the files with attributes that some systems put beside others."""
    return name.startswith("__MACOSX/") or name.rpartition("/")[2].startswith(".")


@contextmanager
def _zip_member(raw: IO[bytes], path: str, *, whole: bool) -> Iterator[BoundedStream]:
    with _readable(path):
        archive = zipfile.ZipFile(raw)
    with archive:
        members = [m for m in archive.infolist() if not (m.is_dir() or _is_hidden(m.filename))]
        if not members:
            raise InputError(f"{path}: the zip archive holds no file")
        if whole and len(members) > 1:
            raise InputError(
                f"{path}: the zip archive holds more than one file; unpack it and name the trace"
            )
        with _readable(path):
            content = archive.open(members[0])
        with content:
            yield _text(content, path)


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
        raise InputError(f"{path}: damaged gzip file: {_short(error)}") from None
    except (zipfile.BadZipFile, NotImplementedError) as error:
        raise InputError(
            f"{path}: damaged zip archive, or of a kind not read: {_short(error)}"
        ) from None
    except RuntimeError as error:  # zipfile's answer to a password
        raise InputError(f"{path}: the zip archive can't be read: {_short(error)}") from None
    except tarfile.TarError as error:
        raise InputError(f"{path}: damaged or truncated tar archive: {_short(error)}") from None
    except OSError as error:
        raise InputError(f"{path}: can't be read: {error.strerror or error}") from None


def _short(error: Exception) -> str:
    """Return what an error says, in one short line: it may quote names within an archive."""
    text = " ".join(str(error).split())
    return text if len(text) <= _MAX_DETAIL else f"{text[:_MAX_DETAIL]}..."
