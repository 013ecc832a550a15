"""What the loop over models of window rows asks of a back end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from slackopt.formulations.linear import Row
from slackopt.solvers.scaling import Floats
from slackopt.solvers.status import Status

OnPoint = Callable[[Floats], None]
OnBound = Callable[[int], None]


@dataclass(frozen=True)
class ModelRun:
    """What one solve of a model gave.

    Attributes
    ----------
    status
        ``optimal`` (within the gap asked for), ``limit``, ``infeasible`` or ``error``.
    x
        A point that satisfies the rows, in exact units, decisions integral; None if there is none.
    added_bound_ns
        Proved for the time added to the ideal step by every plan that satisfies the rows, with
        all corrections made; None if nothing was proved.
    native_status
        The solver's own word.
    message
        For an error, one sentence.
    """

    status: Status
    x: Floats | None = None
    added_bound_ns: int | None = None
    native_status: str = ""
    message: str = ""


@dataclass(frozen=True)
class ModelLimits:
    """When one solve of a model ends.

    Attributes
    ----------
    time_limit
        Seconds.
    gap_ns
        Absolute gap.
    deterministic_limit
        Solver's own count of work, for runs that do not depend on the machine's speed.
    """

    time_limit: float
    gap_ns: float
    deterministic_limit: float | None = None


class RowModel(Protocol):
    """A mixed-integer model whose rows change between solves."""

    @property
    def num_rows(self) -> int:
        """Number of rows."""

    def add_rows(self, rows: Sequence[Row]) -> None:
        """Append rows."""

    def clear_rows(self) -> None:
        """Remove all rows."""

    def solve(
        self,
        limits: ModelLimits,
        *,
        start: Floats | None = None,
        on_point: OnPoint | None = None,
        on_bound: OnBound | None = None,
        is_done: Callable[[], bool] | None = None,
    ) -> ModelRun:
        """Solve the model as it stands.

        `start` is a point to start from. `on_point` and `on_bound` are called while the solver
        runs, in the thread of the caller: with points that satisfy the rows, and with
        ``added_bound_ns``. The solver is stopped when `is_done` says so.
        """
