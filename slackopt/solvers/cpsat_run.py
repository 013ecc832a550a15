"""One solve of CP-SAT in a thread of its own, while the caller waits for messages.

Points and bounds so arrive in the caller's thread, Ctrl-C is heard at once, and a solve that
overruns its time limit is stopped.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any

import numpy as np
from ortools.sat.python import cp_model

from slackopt.errors import SolverError
from slackopt.solvers.cpsat_status import HOLDS_BOUND, HOLDS_POINT, cpsat_meaning
from slackopt.solvers.row_model import ModelRun, OnBound, OnPoint
from slackopt.solvers.scaling import Floats

if TYPE_CHECKING:
    from slackopt.solvers.cpsat_model import CpSatModel

GRACE_S = 0.3
"""Seconds after a time limit at which a solve that goes on is asked to stop."""

ABANDON_S = 0.8
"""Seconds after a time limit at which it is left to itself."""


class _Watcher(cp_model.CpSolverSolutionCallback):
    """Sends each solution to the thread that waits."""

    def __init__(self, messages: SimpleQueue[tuple[str, Any]]) -> None:
        super().__init__()
        self.messages = messages

    def on_solution_callback(self) -> None:
        """Take a solution."""
        self.messages.put(("point", list(self.response_proto.solution)))


class CpSatRun:
    """One solve in a thread of its own."""

    def __init__(self, model: CpSatModel, solver: cp_model.CpSolver) -> None:
        self.model = model
        self.solver = solver
        self.messages: SimpleQueue[tuple[str, Any]] = SimpleQueue()
        solver.best_bound_callback = lambda bound: self.messages.put(("bound", bound))
        self.ended = False
        self.native: str | None = None
        self.failure: Exception | None = None
        self.point: list[int] | None = None
        self.bound: int | None = None
        self.thread = threading.Thread(target=self._solve, name="cp-sat", daemon=True)

    def _solve(self) -> None:
        try:
            self.native = self.solver.solve(self.model.model, _Watcher(self.messages)).name
        except Exception as error:  # handed on to the thread that waits
            self.failure = error
        self.messages.put(("end", None))

    def wait(
        self,
        time_limit: float,
        on_point: OnPoint | None,
        on_bound: OnBound | None,
        is_done: Callable[[], bool] | None,
    ) -> None:
        """Hand on what comes, until the end, or a little after the time limit."""
        begun = time.monotonic()
        self.thread.start()
        try:
            while not self.ended:
                late = time.monotonic() - begun - time_limit
                if late > GRACE_S or (is_done is not None and is_done()):
                    self.solver.stop_search()
                if late > ABANDON_S:
                    return
                self._take(on_point, on_bound)
        except BaseException:
            self._stop()
            raise
        self.thread.join()

    def _stop(self) -> None:
        """End the solver after an exception, Ctrl-C for one, in the thread that waits."""
        until = time.monotonic() + ABANDON_S
        while self.thread.is_alive() and time.monotonic() < until:
            self.solver.stop_search()
            self.thread.join(0.05)

    def _take(self, on_point: OnPoint | None, on_bound: OnBound | None) -> None:
        """Wait for messages; hand on the last point and the best bound of those that are there."""
        latest: dict[str, Any] = {}
        with contextlib.suppress(Empty):
            kind, value = self.messages.get(timeout=0.1)
            while True:
                latest[kind] = value
                if kind == "bound":
                    self._raise_bound(value)
                kind, value = self.messages.get_nowait()
        self.ended = "end" in latest
        if "point" in latest:
            self.point = latest["point"]
            if on_point is not None:
                on_point(self._exact(latest["point"]))
        if "bound" in latest and on_bound is not None and self.bound is not None:
            on_bound(self.bound)

    def _exact(self, point: Sequence[int]) -> Floats:
        return np.array(self.model.integer.exact_point(point))

    def _raise_bound(self, objective_bound: float) -> None:
        bound = self.model.added_bound_ns(objective_bound)
        if bound is not None:
            self.bound = bound if self.bound is None else max(self.bound, bound)

    def outcome(self) -> ModelRun:
        """Make the outcome; values are read only where CP-SAT says that it has a solution."""
        if self.failure is not None:
            raise SolverError(f"CP-SAT failed: {self.failure}") from self.failure
        native = self.native or "UNKNOWN"
        meaning = cpsat_meaning(native)
        if self.native is not None:
            response = self.solver.response_proto
            self.model.work += self.solver.deterministic_time
            if native in HOLDS_POINT:
                self.point = list(response.solution)
            if native in HOLDS_BOUND:
                self._raise_bound(self.solver.best_objective_bound)
        if meaning.status == "error":
            return ModelRun("error", native_status=native, message=meaning.sentence)
        if meaning.status == "infeasible":
            # Stalls are capped: longer plans are left out of the model, and only those may exist.
            return ModelRun("infeasible", None, self.model.integer.cap_ns, native)
        x = None if self.point is None else self._exact(self.point)
        return ModelRun(meaning.status, x, self.bound, native)
