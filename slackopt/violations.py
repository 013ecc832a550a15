"""Violations of a file's format as sentences: the place, what is wrong, the value found."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pydantic import ValidationError

_MAX_SHOWN = 60
_WHOLE = "must be a whole number, written without point or exponent"

# pydantic's error type -> sentence, given the context of the error.
_SENTENCES: dict[str, Callable[[Mapping[str, Any]], str]] = {
    "missing": lambda _: "is missing; add it",
    "extra_forbidden": lambda _: "is no field of this format; remove it or correct its name",
    "int_type": lambda _: _WHOLE,
    "int_parsing": lambda _: _WHOLE,
    "int_from_float": lambda _: _WHOLE,
    "int_parsing_size": lambda _: "is far too large",
    "float_type": lambda _: "must be a number",
    "float_parsing": lambda _: "must be a number",
    "enum": lambda context: f"must be {context['expected']}",
    "finite_number": lambda _: "must be a finite number",
    "bool_type": lambda _: "must be true or false",
    "string_type": lambda _: "must be a string",
    "string_too_short": lambda _: "must not be empty",
    "string_too_long": lambda context: f"must have at most {context['max_length']} characters",
    "string_pattern_mismatch": lambda context: f"must match {context['pattern']}",
    "literal_error": lambda context: f"must be {context['expected']}",
    "greater_than": lambda context: f"must be above {context['gt']}",
    "greater_than_equal": lambda context: f"must be at least {context['ge']}",
    "less_than": lambda context: f"must be below {context['lt']}",
    "less_than_equal": lambda context: f"must be at most {context['le']}",
    "tuple_type": lambda _: "must be a list",
    "list_type": lambda _: "must be a list",
    "model_type": lambda _: "must be a JSON object",
    "model_attributes_type": lambda _: "must be a JSON object",
    "dict_type": lambda _: "must be a JSON object",
    "mapping_type": lambda _: "must be a JSON object",
}


def violation_lines(error: ValidationError, document: object = None) -> list[str]:
    """Write every violation as one line: place, sentence, the value found.

    Parameters
    ----------
    error
        What pydantic found.
    document
        The document it was found in, if at hand: ops and tensors are then named, not only numbered.
    """
    return [_line(entry, document) for entry in error.errors(include_url=False)]


def place(loc: Sequence[str | int]) -> str:
    """Write a location as in JSON paths: ``ops[3].inputs[0]``."""
    text = ""
    for part in loc:
        if isinstance(part, int):
            text += f"[{part}]"
        elif part.isidentifier() and len(part) <= _MAX_SHOWN:
            text += f".{part}" if text else part
        else:
            text += f"[{_shown(part)}]"
    return text or "file"


def sentences(error: ValidationError) -> list[str]:
    """Write every violation without its place, for a value that has none in a file."""
    return [_sentence(entry) for entry in error.errors(include_url=False)]


def _line(entry: Any, document: object) -> str:
    return f"{place(entry['loc'])}{_owner(entry['loc'], document)}: {_sentence(entry)}"


def _sentence(entry: Any) -> str:
    if entry["type"] == "value_error":  # a validator's own sentence, which names the value
        return str(entry["ctx"]["error"]).rstrip(".")
    known = _SENTENCES.get(entry["type"])
    sentence: str = entry["msg"] if known is None else known(entry.get("ctx", {}))
    return sentence if entry["type"] == "missing" else f"{sentence}, found {_shown(entry['input'])}"


def _shown(value: object) -> str:
    if isinstance(value, dict):
        return "a JSON object"
    if isinstance(value, (list, tuple)):
        return "a list"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    try:
        text = repr(value)
    except ValueError:
        return "a number of thousands of digits"
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}... ({len(text)} characters)"


def _owner(loc: Sequence[str | int], document: object) -> str:
    """Name the innermost list item that the location is in: `` of 'layer 0/mlp'``."""
    name, node = "", document
    for part in loc[:-1]:
        try:
            node = node[part]  # type: ignore[index]
        except (KeyError, IndexError, TypeError):
            break
        if (
            isinstance(part, int)
            and isinstance(node, dict)
            and isinstance(node.get("name"), str)
            and node["name"]
        ):
            name = f" of {_shown(node['name'])}"
    return name
