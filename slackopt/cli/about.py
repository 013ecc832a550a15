"""``methods``, ``versions``, ``schema``: about the toolkit itself."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from slackopt import schema as schemas
from slackopt.cli.output import Answer
from slackopt.environment import environment
from slackopt.solve import methods as known_methods
from slackopt.tables import facts_view, list_view


def methods() -> Answer:
    """List the methods: exact ones, then heuristics."""
    found = known_methods()
    document = {"methods": [vars(method) for method in found]}
    rows = [(method.name, method.kind, method.summary) for method in found]
    return Answer(document, list_view(["method", "kind", "what it does"], rows))


def versions() -> Answer:
    """Print versions and machine facts, for bug reports."""
    facts = environment()
    shown = {key: "not installed" if value is None else str(value) for key, value in facts.items()}
    return Answer(dict(facts), facts_view("versions", shown))


def schema(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="[FORMAT]",
            show_default=False,
            help=f"{', '.join(schemas.FORMATS)}; all if left out.",
        ),
    ] = None,
) -> Answer:
    """Print the JSON Schema of a file format, or of all."""
    if name is None:
        document = {known: schemas.json_schema(known) for known in schemas.FORMATS}
    else:
        document = schemas.json_schema(name)
    return Answer(document, json.dumps(document, indent=1, ensure_ascii=False))
