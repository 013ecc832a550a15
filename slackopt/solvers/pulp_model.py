"""Mixed-integer models of window rows, solved through PuLP: rows in, a checked outcome out.

PuLP runs in a child process (`slackopt.solvers.pulp_worker`), so that time limits hold, solvers
print nothing here, and a crash is an outcome. docs/solvers.md says why it is all needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType

import numpy as np

from slackopt.clock import check_time
from slackopt.formulations.linear import Row
from slackopt.formulations.window import WindowFormulation
from slackopt.solvers.linear_model import LinearModel
from slackopt.solvers.pulp_process import PulpProcess
from slackopt.solvers.pulp_solvers import available_solvers, check_solver, pulp_name
from slackopt.solvers.scaling import Floats, Scaling
from slackopt.solvers.solve_run import Move, OnMove
from slackopt.solvers.status import Status

__all__ = ["MilpOutcome", "PulpModel", "available_solvers", "check_solver"]


@dataclass(frozen=True)
class MilpOutcome:
    """What one solve gave.

    Attributes
    ----------
    status
        ``optimal`` (within the gap asked for), ``limit``, ``infeasible`` (proved) or ``error``.
    x
        A feasible point, one value per column in exact units, decisions rounded and every row
        checked; None if the solver has none.
    objective_ns, bound_ns
        Objective of `x` and proved lower bound on it, tie-break costs included; None if unknown.
    native_status
        The solver's own word.
    message
        For an error, one sentence.
    trajectory
        ``(seconds, objective_ns, bound_ns)`` whenever one moved, as the solver reported them;
        seconds since the call of `PulpModel.solve`, for CBC since it began.
    solver_version
        The solver's own version, if it says.
    """

    status: Status
    x: Floats | None
    objective_ns: float | None
    bound_ns: float | None
    native_status: str
    message: str = ""
    trajectory: tuple[Move, ...] = ()
    solver_version: str | None = None


class PulpModel:
    """A mixed-integer model of window rows, rebuilt for every solve in one child process.

    Parameters
    ----------
    window
        Gives the columns.
    tie_break
        Cost per column in solver units, added to the objective.
    solver
        A canonical name from `check_solver`.

    Notes
    -----
    A context manager; `close`, or the end of the object's life, ends the child.
    """

    def __init__(self, window: WindowFormulation, tie_break: Floats, solver: str = "highs") -> None:
        self.window = window
        self.scaling = Scaling.of(window)
        self.costs = self.scaling.costs(window) + tie_break
        self._integer = np.array([c.integer for c in window.columns], dtype=bool)
        upper = [np.inf if c.upper is None else float(c.upper) for c in window.columns]
        self._upper = np.array(upper) / self.scaling.column
        self._rows: list[tuple[list[int], Floats, float]] = []
        self._process = PulpProcess(pulp_name(solver))

    def __enter__(self) -> PulpModel:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the child process and remove its files."""
        self._process.close()

    def add_rows(self, rows: Sequence[Row]) -> None:
        """Append rows."""
        for row in rows:
            check_time()
            columns, coefficients, upper, _ = self.scaling.row(row)
            self._rows.append((columns, coefficients, upper))

    def clear_rows(self) -> None:
        """Remove all rows."""
        self._rows.clear()

    @property
    def num_rows(self) -> int:
        """Number of rows."""
        return len(self._rows)

    def linear_model(self) -> LinearModel:
        """Return the model as arrays in solver units."""
        none = np.zeros(0)
        return LinearModel(
            costs=self.costs,
            upper=self._upper,
            integer=self._integer,
            starts=np.cumsum([0, *(len(columns) for columns, _, _ in self._rows)]),
            columns=np.array([j for columns, _, _ in self._rows for j in columns], dtype=np.int64),
            values=np.concatenate([none, *(values for _, values, _ in self._rows)]),
            right=np.array([upper for _, _, upper in self._rows], dtype=np.float64),
        )

    def solve(
        self,
        *,
        time_limit: float,
        gap_ns: float,
        threads: int,
        seed: int,
        max_nodes: int | None = None,
        start: Floats | None = None,
        on_move: OnMove | None = None,
    ) -> MilpOutcome:
        """Solve the model as it stands.

        Parameters
        ----------
        time_limit
            Seconds, start of the child and building of the model included; exceeded by at most
            `slackopt.solvers.pulp_process.GRACE_S`.
        gap_ns
            Stop at this absolute gap.
        threads, seed
            For the solver.
        max_nodes
            Nodes at most, for solvers that count them: a limit that does not depend on speed.
        start
            A point in exact units to start from.
        on_move
            Called as ``(seconds, objective_ns, bound_ns)`` while the solver runs, whenever it
            reports that one moved.
        """
        unit = self.scaling.time_ns

        def scaled(value: float | None) -> float | None:
            return None if value is None else value * unit

        def on_solver_move(seconds: float, objective: float | None, bound: float | None) -> None:
            if on_move is not None:
                on_move(seconds, scaled(objective), scaled(bound))

        report = self._process.solve(
            self.linear_model(),
            time_limit=time_limit,
            gap=gap_ns / unit,
            threads=threads,
            seed=seed,
            max_nodes=max_nodes,
            start=None if start is None else start / self.scaling.column,
            on_move=on_solver_move,
        )
        return MilpOutcome(
            status=report.status,
            x=None if report.x is None else report.x * self.scaling.column,
            objective_ns=scaled(report.objective),
            bound_ns=scaled(report.bound),
            native_status=report.native,
            message=report.sentence,
            trajectory=tuple((s, scaled(o), scaled(b)) for s, o, b in report.trajectory),
            solver_version=report.version,
        )
