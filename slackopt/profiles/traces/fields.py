"""Typed fields of untrusted JSON, each error naming the file, the entry and the field."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from slackopt.errors import InputError

_MAX_SHOWN = 60
MAX_INTEGER = 2**64
"""Largest integer taken from a trace: beyond any id, address or size."""


def shown(value: object) -> str:
    """Write a value found in a file, cut short; a deeply nested one by its type only."""
    if isinstance(value, list | dict | tuple):
        return f"a {'list' if isinstance(value, list | tuple) else 'JSON object'}"
    text = (
        repr(value) if not isinstance(value, int) or abs(value) < MAX_INTEGER else "a huge number"
    )
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}..."


class Entry:
    """One entry of a trace with its place.

    Parameters
    ----------
    path, place
        The file, and where in it the entry stands (``nodes[17]``).
    value
        What was found there; must be a JSON object.
    """

    __slots__ = ("path", "place", "value")

    def __init__(self, path: str, place: str, value: object) -> None:
        self.path, self.place = path, place
        if not isinstance(value, dict):
            raise InputError(f"{path}: {place}: must be a JSON object, found {shown(value)}")
        self.value: Mapping[str, Any] = value

    def wrong(self, field: str, sentence: str) -> InputError:
        """Make the error that names the file, the entry and the field."""
        name = self.value.get("name")
        called = f" ({shown(name)})" if isinstance(name, str) else ""
        return InputError(f"{self.path}: {self.place}{called}: field {field!r} {sentence}")

    def get(self, field: str) -> Any:
        """Return a field that must be there."""
        try:
            return self.value[field]
        except KeyError:
            raise self.wrong(field, "is missing") from None

    def integer(self, field: str, *, minimum: int = 0, default: int | None = None) -> int:
        """Return a whole number of at least `minimum`; `default` stands for a missing field."""
        if default is not None and field not in self.value:
            return default
        return self.as_integer(field, self.get(field), minimum=minimum)

    def as_integer(self, field: str, value: object, *, minimum: int = 0) -> int:
        """Check a whole number that was found in `field`."""
        if type(value) is not int or abs(value) > MAX_INTEGER:
            raise self.wrong(field, f"must be a whole number, found {shown(value)}")
        if value < minimum:
            raise self.wrong(field, f"must be at least {minimum}, found {value}")
        return value

    def number(self, field: str, *, minimum: float = 0.0) -> float:
        """Return a finite number of at least `minimum`."""
        value = self.get(field)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.wrong(field, f"must be a number, found {shown(value)}")
        if abs(value) > MAX_INTEGER or not math.isfinite(value):
            raise self.wrong(field, "must be a finite number below 2^64")
        if value < minimum:
            raise self.wrong(field, f"must be at least {minimum:g}, found {value}")
        return float(value)

    def text(self, field: str, *, default: str | None = None) -> str:
        """Return a string; `default` stands for a missing field."""
        if default is not None and field not in self.value:
            return default
        value = self.get(field)
        if not isinstance(value, str):
            raise self.wrong(field, f"must be a string, found {shown(value)}")
        return value

    def flag(self, field: str, *, default: bool) -> bool:
        """Return true or false; `default` stands for a missing field."""
        value = self.value.get(field, default)
        if not isinstance(value, bool):
            raise self.wrong(field, f"must be true or false, found {shown(value)}")
        return value

    def items(self, field: str) -> list[Any]:
        """Return a list."""
        return self.as_items(field, self.get(field))

    def as_items(self, field: str, value: object) -> list[Any]:
        """Check a list that was found in `field`."""
        if not isinstance(value, list):
            raise self.wrong(field, f"must be a list, found {shown(value)}")
        return value
