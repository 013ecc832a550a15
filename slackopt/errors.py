"""The errors users meet, each with the exit code the command line gives it."""

from __future__ import annotations

from collections.abc import Sequence


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
