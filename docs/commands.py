"""Write docs/commands.md, the reference of the command line, from the commands themselves.

Usage: ``python docs/commands.py``; a test says when the page is out of date.
"""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import typer.main

from slackopt.cli import main
from slackopt.cli.app import app

PAGE = Path(__file__).resolve().with_name("commands.md")

HEAD = """\
# Commands

*Written by `python docs/commands.py` from `slackopt COMMAND --help`.*

Every command takes `--json` and `--debug`. With `--json` it prints one JSON document on standard
output and nothing else there. Progress and errors go to standard error. An error is one sentence:
the file, the field, and what to do.

| exit code | means |
|---:|---|
| 0 | done |
| 2 | wrong usage, or a file that can't be read or is wrong |
| 3 | infeasible, proved |
| 4 | nothing found within the limits; that proves nothing |
| 5 | a solver failed, or its claim was refuted |
| 6 | a check failed: a claim in a result does not hold |
| 7 | `verify --strict`: no claim is refuted, and part rests on a solver's word |
| 130 | interrupted by Ctrl-C |
| 1 | anything else: a bug, please report it |
"""


def commands(group: Any = None, before: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield the words of every command, subcommands after their group."""
    group = typer.main.get_command(app) if group is None else group
    for name, command in group.commands.items():
        if getattr(command, "hidden", False):
            continue
        yield (*before, name)
        if hasattr(command, "commands"):
            yield from commands(command, (*before, name))


def help_text(*words: str) -> str:
    """Return what ``slackopt WORDS --help`` prints, 98 columns wide."""
    out = io.StringIO()
    with mock.patch.dict(os.environ, {"COLUMNS": "100"}), contextlib.redirect_stdout(out):
        main([*words, "--help"])
    return "\n".join(line.rstrip() for line in out.getvalue().strip().splitlines())


def page() -> str:
    """Return the page."""
    parts = [HEAD]
    for words in commands():
        level = "#" * (1 + len(words))
        parts.append(f"{level} {' '.join(words)}\n\n```text\n{help_text(*words)}\n```\n")
    return "\n".join(parts)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(PAGE.name)
