"""Streams the entries of large JSON documents, with every syntax error as one sentence."""

from __future__ import annotations

import io
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Any

import ijson

from slackopt.errors import InputError
from slackopt.profiles.traces.source import BoundedStream, open_trace

_TOP = 2
_BLOCK = 2**16
"""What the parser reads at once."""


def json_entries(path: str, prefix: str, *, alone: bool = True) -> Iterator[Any]:
    """Yield the entries below `prefix` (``nodes.item``) one by one; reads the file to its end.

    Parameters
    ----------
    path
        The file.
    prefix
        Where the entries are.
    alone
        Whether the rest of the document is small. Else entries elsewhere are told apart, too, so
        that each may be as large as the limit allows; this takes several times as long.

    Raises
    ------
    InputError
        If the file can't be read or is no JSON.
    """
    with open_trace(path) as stream, syntax(path, stream):
        if alone:
            entries = ijson.items(stream, prefix, use_float=True)
        else:
            entries = ijson.items(_marked(stream), prefix)
        for entry in entries:
            stream.mark()
            yield entry
            stream.mark()


def json_events(stream: io.RawIOBase) -> Iterator[tuple[str, str, Any]]:
    """Yield prefix, kind and value of each parsing event; errors are `syntax`'s."""
    yield from ijson.parse(stream)


def json_value(path: str, prefix: str) -> Any:
    """Return the value at `prefix`, or None; reads the file to its end."""
    found = None
    for value in json_entries(path, prefix, alone=False):
        found = value
    return found


def json_pairs(path: str, prefix: str) -> Iterator[tuple[str, Any]]:
    """Yield key and value of the object at `prefix` one by one; reads the file to its end."""
    with open_trace(path) as stream, syntax(path, stream):
        for pair in ijson.kvitems(_marked(stream), prefix):
            stream.mark()
            yield pair
            stream.mark()


def _marked(stream: BoundedStream) -> Iterator[tuple[str, str, Any]]:
    """Yield parsing events, and mark the end of every entry of every list and object on top."""
    depth = 0
    for prefix, event, value in ijson.parse(stream, use_float=True):
        depth += event.startswith("start_")
        depth -= event.startswith("end_")
        if depth <= _TOP:
            stream.mark()
        yield prefix, event, value


@contextmanager
def syntax(path: str, stream: BoundedStream) -> Iterator[None]:
    """Turn syntax errors of a JSON document into one sentence, which names the byte."""
    stream.is_json = True
    try:
        yield
    except ijson.IncompleteJSONError as error:
        text = _first_line(error)
        if "premature" in text or "Incomplete" in text:
            text = "it ends too early; copy or record it again"
        raise InputError(f"{path}: not JSON: {text} ({_near(path, stream)})") from None
    except ijson.JSONError as error:
        raise InputError(
            f"{path}: not JSON: {_first_line(error)} ({_near(path, stream)})"
        ) from None
    except UnicodeDecodeError:
        raise InputError(f"{path}: not UTF-8 text ({_near(path, stream)})") from None
    except (ValueError, OverflowError, RecursionError) as error:
        raise InputError(
            f"{path}: not JSON that can be read: {_first_line(error)} ({_near(path, stream)})"
        ) from None


def _near(path: str, stream: BoundedStream) -> str:
    """Say where the parser stopped: it was given blocks, so they are parsed again, byte by byte."""
    last = stream.position
    parser = ijson.basic_parse_coro(_nowhere(), use_float=True)
    try:
        with open_trace(path, whole=False) as again:
            while data := again.read(_BLOCK):
                begin = again.position - len(data)
                if again.position <= last - 2 * _BLOCK:
                    parser.send(data)
                    continue
                for at in range(len(data)):
                    try:
                        parser.send(data[at : at + 1])
                    except Exception:
                        return f"near byte {begin + at}"
            last = again.position
    except InputError:
        pass
    return f"near byte {last}"


def _nowhere() -> Generator[None, Any, None]:
    """Take parsing events and forget them."""

    def taking() -> Generator[None, Any, None]:
        while True:
            yield

    sink = taking()
    next(sink)
    return sink


def _first_line(error: Exception) -> str:
    argument = error.args[0] if error.args else ""
    text = argument.decode("utf-8", "replace") if isinstance(argument, bytes) else str(error)
    lines = text.strip().splitlines()
    return lines[0].strip() if lines else type(error).__name__
