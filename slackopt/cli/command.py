"""What every command has: an example in its help, ``--json``, ``--debug``, quiet output."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Annotated, Any

import typer

from slackopt.cli.output import Answer, noise_to_stderr

_SHARED = {
    "as_json": Annotated[
        bool, typer.Option("--json", help="Print one JSON document and nothing else.")
    ],
    "debug": Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")],
}


def add_command(
    app: typer.Typer, function: Callable[..., Answer], example: str, name: str | None = None
) -> None:
    """Add a function as a command of the same name, or of another one.

    Parameters
    ----------
    app
        The application.
    function
        Returns the answer; errors are raised. Its docstring is the help.
    example
        A whole command line, shown in the help.
    name
        Name of the command; that of the function by default.
    """

    @wraps(function)
    def command(as_json: bool, debug: bool, **arguments: Any) -> Answer:
        # Both are read from the command line by `main`, which needs them when parsing fails.
        del as_json, debug
        with noise_to_stderr():
            return function(**arguments)

    signature = inspect.signature(function, eval_str=True)
    shared = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=False, annotation=kind)
        for name, kind in _SHARED.items()
    ]
    parameters = [*signature.parameters.values(), *shared]
    vars(command)["__signature__"] = signature.replace(parameters=parameters)
    command.__annotations__ = {p.name: p.annotation for p in parameters}
    app.command(name=name or function.__name__, epilog=f"Example: {example}")(command)
