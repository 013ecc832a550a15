"""``methods``, ``versions``, ``schema``, ``cite``: about the toolkit itself."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from slackopt import schema as schemas
from slackopt.batch.run import Run
from slackopt.citing import cite as due_citations
from slackopt.citing import without_entry
from slackopt.cli.output import Answer, Data
from slackopt.cli.progress import say
from slackopt.environment import environment
from slackopt.errors import InputError
from slackopt.files import read_record
from slackopt.records import Record
from slackopt.result import Result
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
    return Answer(document, Data(json.dumps(document, indent=1, ensure_ascii=False)))


def cite(
    results: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[RESULT...]",
            show_default=False,
            help="Result files, runs of a batch, or folders of a batch.",
        ),
    ] = None,
) -> Answer:
    """Print BibTeX for the toolkit, the SlackSwap paper, and what results were made with.

    For each result: its solvers, and the papers of its rule. What has no entry here is said on
    standard error.
    """
    found = [result for path in results or () for result in _results(path)]
    citations = due_citations(found)
    missing = without_entry(found)
    for sentence in missing:
        say(sentence)
    document = {
        "entries": [
            {
                "key": citation.key,
                "type": citation.kind,
                "fields": dict(citation.fields),
                "cited_for": list(citation.cited_for),
                "bibtex": citation.bibtex,
            }
            for citation in citations
        ],
        "without_entry": list(missing),
    }
    return Answer(document, Data("\n\n".join(citation.bibtex for citation in citations)))


def _results(path: Path) -> list[Result]:
    """Read the results of a file or of a batch's folder; a run that found nothing has none."""
    if path.is_dir():
        runs = sorted((path / "runs").glob("*.json"))
        if not runs:
            raise InputError(f"{path}: a folder without runs/*.json; name a batch or a file")
        return [result for run in runs for result in _results(run)]
    record: Record = read_record(path, Result, Run)
    if isinstance(record, Run):
        return [] if record.result is None else [record.result]
    assert isinstance(record, Result)  # noqa: S101
    return [record]
