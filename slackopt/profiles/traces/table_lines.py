"""The lines of a table: its comments, its separator, and where it stops being text."""

from __future__ import annotations

import codecs
import io
import json
from collections.abc import Iterator, Mapping
from typing import Any, cast

from slackopt.errors import InputError
from slackopt.profiles.traces.source import BoundedStream, open_trace

_SEPARATORS = (",", ";", "\t")
_BLOCK = 2**16


class TableLines:
    """The lines of a table from its header on; the comments above are read first.

    Parameters
    ----------
    path
        Named in errors.
    stream
        Where the lines come from.
    values
        Starts of comments that hold a JSON value (``# name: ``), with its type.

    Attributes
    ----------
    first
        Number of the header's line.
    found
        Values of the comments.
    """

    def __init__(self, path: str, stream: BoundedStream, values: Mapping[str, type]) -> None:
        self.first = 1
        self.found: dict[str, Any] = {}
        self._path, self._values = path, values
        raw = io.BufferedReader(cast("io.RawIOBase", stream))
        self._lines = iter(io.TextIOWrapper(raw, "utf-8", newline=""))
        self._header: str | None = None

    def separator(self, columns: set[str]) -> str:
        """Return what stands between the columns: what gives the header the most known names."""
        self._header = next(self._below_comments(), None)

        def known(sign: str) -> int:
            cells = (self._header or "").split(sign)
            return sum(cell.strip().strip('"') in columns for cell in cells)

        return max(_SEPARATORS, key=known)

    def __iter__(self) -> Iterator[str]:
        """Yield the lines, the header first."""
        if self._header is not None:
            yield self._header
        yield from self._lines

    def _below_comments(self) -> Iterator[str]:
        for line in self._lines:
            if not line.startswith("#"):
                yield line
                continue
            self._comment(line)
            self.first += 1

    def _comment(self, line: str) -> None:
        for start, kind in self._values.items():
            if not line.startswith(start):
                continue
            try:
                value = json.loads(line[len(start) :], parse_constant=_refuse)
            except (ValueError, RecursionError):
                value = None
            if not isinstance(value, kind):
                what = "a JSON string" if kind is str else "a JSON object"
                raise InputError(f"{self._path}: line {self.first}: {start.strip()} must be {what}")
            self.found[start] = value


def _refuse(text: str) -> None:
    raise ValueError(text)


def text_ends(path: str) -> int:
    """Return the position of the first byte of a file that is no UTF-8 text."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    with open_trace(path, whole=False) as stream:
        while data := stream.read(_BLOCK):
            stream.mark()
            waiting = len(decoder.getstate()[0])
            try:
                decoder.decode(data)
            except UnicodeDecodeError as error:
                return stream.position - len(data) - waiting + error.start
        return stream.position
