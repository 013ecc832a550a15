"""Errors as users meet them: one sentence, at most twenty violations, an exit code."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import typer
from pydantic import ValidationError

from slackopt.cli.output import print_line, print_traceback
from slackopt.errors import CheckError, InputError, SlackoptError, told
from slackopt.violations import sentences, violation_lines

MAX_LINES = 20
"""Violations printed; the rest is counted."""

INTERRUPTED = 130
_UNEXPECTED = 1
_USAGE = 2


@dataclass(frozen=True)
class Failure:
    """One error: its type, sentence, details and exit code."""

    kind: str
    message: str
    details: tuple[str, ...]
    exit_code: int

    @classmethod
    def of(cls, error: BaseException) -> Failure:
        """Describe any exception."""
        kind = type(error).__name__
        if isinstance(error, InputError):
            return cls(kind, error.message, error.violations, error.exit_code)
        if isinstance(error, CheckError):
            number = len(error.failures)
            noun = "claim does" if number == 1 else "claims do"
            return cls(kind, f"{number} {noun} not hold", error.failures, error.exit_code)
        if isinstance(error, SlackoptError):
            return cls(kind, str(error), (), error.exit_code)
        if isinstance(error, ValidationError):
            lines = violation_lines(error)
            return cls(
                "InputError",
                f"{error.title.lower()} can't be made: a value is wrong",
                tuple(lines),
                InputError.exit_code,
            )
        if is_usage_error(error):
            return cls("UsageError", _usage_sentence(error), (), _USAGE)
        if isinstance(error, KeyboardInterrupt):
            return cls(kind, "interrupted", (), INTERRUPTED)
        if isinstance(error, MemoryError):
            return cls(kind, "this machine has too little memory for it", (), _UNEXPECTED)
        text = told(error) or "no message"
        sentence = f"unexpected {kind}: {text}; run again with --debug, and please report it"
        return cls(kind, sentence, (), _UNEXPECTED)

    def document(self) -> dict[str, Any]:
        """Return the JSON document of the error."""
        return {
            "error": {
                "type": self.kind,
                "message": self.message,
                "details": list(self.details),
                "exit_code": self.exit_code,
            }
        }


def is_usage_error(error: BaseException) -> bool:
    """Whether the command-line parser refused the arguments.

    Typer carried click before it took it in, so the class is found through one that both have.
    """
    return isinstance(error, typer.BadParameter.__mro__[2])


def print_failure(failure: Failure, error: BaseException, *, debug: bool) -> None:
    """Print an error to standard error, with its traceback if asked for."""
    if debug:
        print_traceback(error)
    if failure.exit_code == INTERRUPTED:
        print_error(failure.message, label="")
        return
    print_error(failure.message, failure.details)


def print_error(message: str, details: Sequence[str] = (), label: str = "error: ") -> None:
    """Print one sentence and a list below it to standard error."""
    shown = list(details[:MAX_LINES])
    if len(details) > MAX_LINES:
        shown.append(f"and {len(details) - MAX_LINES} more")
    print_line(f"slackopt: {label}{message}", *shown)


def _usage_sentence(error: BaseException) -> str:
    described = getattr(error, "format_message", error.__str__)()
    if isinstance(error.__cause__, ValidationError):  # newer typer reads values with pydantic
        described = described.split(": ")[0] + f": {'; '.join(sentences(error.__cause__))}"
    sentence = " ".join(described.split()).rstrip(".")
    sentence = sentence[:1].lower() + sentence[1:]
    context = getattr(error, "ctx", None)
    where = f"; see {context.command_path} --help" if context is not None else ""
    return sentence + where
