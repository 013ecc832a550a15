"""`main`: runs a command, prints its answer or its error, returns the exit code."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Sequence
from typing import TextIO

from slackopt.cli.app import app
from slackopt.cli.failures import (
    INTERRUPTED,
    Failure,
    print_error,
    print_failure,
)
from slackopt.cli.output import Answer, open_closed_streams, print_json, print_view


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line.

    Parameters
    ----------
    arguments
        Without the program's name; those of the process by default.

    Returns
    -------
    int
        0 done, 2 wrong usage or bad input, 3 proved infeasible, 4 nothing found within the
        limits, 5 a solver failed, 6 a check failed, 130 interrupted, 1 a bug.
    """
    open_closed_streams()
    given = list(sys.argv[1:] if arguments is None else arguments)
    options = given[: given.index("--")] if "--" in given else given
    as_json, debug = "--json" in options, "--debug" in options
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _print_warning
            return _run(given, as_json=as_json, debug=debug)
    except BrokenPipeError:
        # The reader has seen enough (`| head`); keep the interpreter from flushing into the pipe.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 0


def _print_warning(
    message: Warning | str,
    category: type[Warning],  # noqa: ARG001 - the signature of warnings.showwarning
    filename: str,  # noqa: ARG001
    lineno: int,  # noqa: ARG001
    file: TextIO | None = None,  # noqa: ARG001
    line: str | None = None,  # noqa: ARG001
) -> None:
    print_error(str(message), label="warning: ")


def _run(given: list[str], *, as_json: bool, debug: bool) -> int:
    try:
        answer = app(args=given, prog_name="slackopt", standalone_mode=False)
    except BrokenPipeError:
        raise
    except (Exception, KeyboardInterrupt) as error:
        return _fail(error, as_json=as_json, debug=debug)
    if answer == INTERRUPTED:  # the parser turns Ctrl-C into this exit code
        return _fail(KeyboardInterrupt(), as_json=as_json, debug=False)
    if not isinstance(answer, Answer):
        return answer if isinstance(answer, int) else 0
    if answer.message is not None:
        print_error(answer.message, answer.details)
    if as_json:
        print_json(answer.document)
    elif answer.view is not None:
        print_view(answer.view)
    return answer.exit_code


def _fail(error: BaseException, *, as_json: bool, debug: bool) -> int:
    failure = Failure.of(error)
    print_failure(failure, error, debug=debug)
    if as_json:
        print_json(failure.document())
    return failure.exit_code
