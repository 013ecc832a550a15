"""The errors users meet, each with the exit code the command line gives it."""

from __future__ import annotations

from collections.abc import Sequence

MOST_CHARACTERS = 2000
"""Of what a foreign error says; the rest is cut."""


def told(error: BaseException) -> str:
    """Return what an error says, on one line, whatever the error is.

    One whose ``__str__`` raises is named; what can't be written as UTF-8 (a lone surrogate) becomes
    an escape, and a text of megabytes is cut.
    """
    try:
        text = str(error)
    except BaseException as second:
        text = f"(it can't say why: its __str__ raised {type(second).__name__})"
    return plain(" ".join(text.split()))[:MOST_CHARACTERS]


def named(error: BaseException) -> str:
    """Return the type of an error, and what it says."""
    text = told(error)
    return f"{plain(type(error).__name__)}: {text}" if text else plain(type(error).__name__)


def plain(text: str) -> str:
    """Return text that every file and stream takes: a lone surrogate becomes an escape."""
    return text.encode("utf-8", "backslashreplace").decode()


class SlackoptError(Exception):
    """Base of every error this package raises on purpose."""

    exit_code = 1


class InputError(SlackoptError):
    """A file, a value or an option is wrong.

    Parameters
    ----------
    message
        One sentence: what is wrong and what to do.
    violations
        Every violation found, each starting with its place (``ops[3].inputs[0]: ...``).
    """

    exit_code = 2

    def __init__(self, message: str, violations: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.message = message
        self.violations = tuple(violations)

    def __str__(self) -> str:
        return "\n".join([self.message, *(f"  - {line}" for line in self.violations)])

    def in_file(self, path: object, prefix: str = "") -> InputError:
        """Return the same error with the file's name in front, and `prefix` before every place."""
        return InputError(
            f"{path}: {self.message}", [f"{prefix}{line}" for line in self.violations]
        )


class InfeasibleError(SlackoptError):
    """No plan can exist, or the given plan cannot run; proved, not guessed."""

    exit_code = 3


class NothingFoundError(SlackoptError):
    """A method ended within its limits without a plan, and without a proof that none exists."""

    exit_code = 4


class SolverError(SlackoptError):
    """A solver failed, or claimed something that the independent checks refute."""

    exit_code = 5


class OnWordError(SlackoptError):
    """What was to be proved rests in part on a solver's word."""

    exit_code = 7


class CheckError(SlackoptError):
    """An independent check refutes a claim.

    Parameters
    ----------
    failures
        Every check that failed, one sentence each.
    """

    exit_code = 6

    def __init__(self, failures: Sequence[str]) -> None:
        super().__init__("; ".join(failures))
        self.failures = tuple(failures)


class MendedWarning(UserWarning):
    """Something in a trace or a model is wrong or unusual; the graph was made all the same.

    The sentence names the place, how much it is about, and what was done.
    """
