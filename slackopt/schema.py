"""JSON Schemas of the file formats, made from the records that read them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from slackopt.batch.run import Run
from slackopt.errors import InputError
from slackopt.graph import Graph
from slackopt.instance import Instance
from slackopt.library.records import Best, Certificate
from slackopt.plan import Plan
from slackopt.records import SCHEMA_VERSION, Record
from slackopt.result import Result

FORMATS: Mapping[str, type[Record]] = MappingProxyType(
    {
        "graph": Graph,
        "instance": Instance,
        "plan": Plan,
        "result": Result,
        "run": Run,
        "best": Best,
        "certificate": Certificate,
    }
)
"""Every file format, by name."""

_DIALECT = "https://json-schema.org/draft/2020-12/schema"


def json_schema(name: str) -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of a file format.

    It holds what can be said of one field; what ties fields together (a tensor used before it
    is produced) is checked by the reader only.

    Parameters
    ----------
    name
        ``graph``, ``instance``, ``plan``, ``result``, ``run``, ``best`` or ``certificate``.

    Raises
    ------
    InputError
        Listing the known names.
    """
    record = FORMATS.get(name)
    if record is None:
        raise InputError(f"file format {name!r} is unknown; choose one of: {', '.join(FORMATS)}")
    made = record.model_json_schema(mode="validation")
    properties = made["properties"]
    required = ["format", "schema_version", *made.get("required", [])]
    properties["schema_version"] = {"const": SCHEMA_VERSION, "title": "Schema Version"}
    properties["format"] = {"const": f"slackopt/{name}", "title": "Format"}
    head = {
        "$schema": _DIALECT,
        "$id": f"urn:slackopt:schema:{name}:{SCHEMA_VERSION}",
        "title": f"slackopt {name} file",
        "schema_version": SCHEMA_VERSION,
    }
    body = {key: value for key, value in made.items() if key not in (*head, "required")}
    return head | body | {"required": list(dict.fromkeys(required))}


def write_schemas(folder: Path) -> list[Path]:
    """Write every schema as ``<name>.schema.json`` into a folder; return the paths."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for name in FORMATS:
        path = folder / f"{name}.schema.json"
        path.write_text(json.dumps(json_schema(name), indent=2, ensure_ascii=False) + "\n", "utf-8")
        paths.append(path)
    return paths
