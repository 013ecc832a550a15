"""Values of the right type and wrong: made from the JSON Schema of a result."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from slackopt.schema import json_schema

SCHEMA = json_schema("result")
"""Schema of a result; its ``properties`` are all fields."""


def forgeries(field: str, value: Any) -> Iterator[Any]:
    """Values of a field that differ from a true one, and that its type allows."""
    for made in _forged(SCHEMA["properties"][field], value):
        if made != value:
            yield made


def _forged(schema: dict[str, Any], value: Any) -> Iterator[Any]:
    if "$ref" in schema:
        schema = SCHEMA["$defs"][schema["$ref"].rpartition("/")[2]]
    if "anyOf" in schema:
        for part in schema["anyOf"]:
            yield from _forged(part, value)
        return
    if "const" in schema:
        yield f"{schema['const']}x"
        return
    if "enum" in schema:
        yield from schema["enum"]
        return
    kind = schema.get("type")
    if kind == "null":
        yield None
    elif kind == "boolean":
        yield from (True, False)
    elif kind in ("integer", "number"):
        base = value if isinstance(value, int | float) and not isinstance(value, bool) else 1
        whole = kind == "integer"
        yield from (base + 1, base - 1 if base else 0, base // 2 if whole else base / 2, 0)
        yield 2**63 - 1 if whole else 1e308
    elif kind == "string":
        base = value if isinstance(value, str) else "made up"
        yield from (f"{base}x", base[::-1], "0" * 64)
    elif kind == "array":
        yield from _arrays(schema, list(value) if isinstance(value, list) else [])
    elif kind == "object":
        yield from _objects(schema, dict(value) if isinstance(value, dict) else {})


def _arrays(schema: dict[str, Any], value: list[Any]) -> Iterator[Any]:
    yield []
    if value:
        yield value[:-1]
        yield [*value, value[-1]]
        items = schema.get("prefixItems")
        for i, entry in enumerate(value):
            part = items[i] if items else schema.get("items", {})
            for made in _forged(part, entry):
                yield [*value[:i], made, *value[i + 1 :]]


def _objects(schema: dict[str, Any], value: dict[str, Any]) -> Iterator[Any]:
    yield {}
    for name in value:
        yield {key: entry for key, entry in value.items() if key != name}
        part = schema.get("properties", {}).get(name) or schema.get("additionalProperties")
        if isinstance(part, dict):
            for made in _forged(part, value[name]):
                yield value | {name: made}
