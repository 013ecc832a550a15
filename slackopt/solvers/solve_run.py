"""One solve as the parent sees it: moves while it runs, and a checked report at its end."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from slackopt.solvers.cbc_log import CbcLog, rounded_down
from slackopt.solvers.linear_model import LinearModel
from slackopt.solvers.scaling import Floats
from slackopt.solvers.status import LIMIT, Meaning, Status, highs_meaning, pulp_meaning

Move = tuple[float, float | None, float | None]
OnMove = Callable[[float, float | None, float | None], None]


@dataclass
class Report:
    """What one solve gave, in solver units; see `slackopt.solvers.pulp_model.MilpOutcome`."""

    status: Status
    sentence: str = ""
    native: str = ""
    x: Floats | None = None
    objective: float | None = None
    bound: float | None = None
    trajectory: list[Move] = field(default_factory=list)
    version: str | None = None


class SolveRun:
    """Collects the moves of one solve and makes the report.

    Parameters
    ----------
    model
        What is solved.
    folder
        Where the solver's files are.
    begun
        `time.monotonic` value of the beginning.
    time_limit
        Seconds.
    gap
        Absolute gap asked for.
    on_move
        Called whenever an end moved.
    """

    def __init__(
        self,
        model: LinearModel,
        folder: Path,
        begun: float,
        time_limit: float,
        gap: float,
        on_move: OnMove | None,
    ) -> None:
        self.model = model
        self.folder = folder
        self.begun = begun
        self.time_limit = time_limit
        self.gap = gap
        self.on_move = on_move
        self.log = CbcLog()
        self.x: Floats | None = None
        self.objective: float | None = None
        self.bound: float | None = None
        self.trajectory: list[Move] = []

    def take(
        self, seconds: float, objective: float | None, bound: float | None, x: Floats | None = None
    ) -> None:
        """Keep a move if it is one; a point is checked before it counts."""
        if x is not None:
            objective = None
            settled, _ = self.model.settle(x)
            if settled is not None:
                objective = self.model.objective(settled)
                if self.objective is None or objective < self.objective:
                    self.x, self.objective = settled, objective
        before = self.trajectory[-1][1:] if self.trajectory else (None, None)
        best = _best(min, before[0], objective)
        self.bound = _best(max, self.bound, bound)
        if (best, self.bound) != before:
            self.trajectory.append((seconds, best, self.bound))
            if self.on_move is not None:
                self.on_move(time.monotonic() - self.begun, best, self.bound)

    def poll(self) -> None:
        """Look into the log of a solver that doesn't send moves."""
        seen = len(self.log.moves)
        self.log.update(self.folder / "solver.log")
        for move in self.log.moves[seen:]:
            self.take(*move)

    def report(self, final: tuple[Any, ...] | None, last_words: str) -> Report:
        """Make the report from the last message, which is None if the child was killed."""
        if final is None:
            self.poll()
            return self._finish(LIMIT, "killed: it overran its time limit", None, None)
        if final[0] == "died":
            sentence = f"the solver process ended with code {final[1]}: {last_words}"
            return self._finish(Meaning("error", sentence), "died", None, None)
        if final[0] == "failed":
            return self._finish(Meaning("error", final[1]), "failed", None, None)
        return self._done(final[1])

    def _done(self, done: dict[str, Any]) -> Report:
        if done["kind"] == "late":
            return self._finish(LIMIT, "not begun: no time was left", None, None)
        if done["kind"] == "highs":
            meaning = highs_meaning(done["native"])
        elif done["kind"] == "other":
            meaning = pulp_meaning(done["native"])
            if done["bound"] is not None:  # PuLP 4 may have read it off a log
                done["bound"] = rounded_down(done["bound"])
        else:
            self.poll()
            path = self.folder / "slackopt-pulp.sol"
            with contextlib.suppress(OSError), path.open(errors="replace") as file:
                done["native"] = file.readline().strip()
            meaning, claimed = self.log.verdict(done.setdefault("native", ""), late=done["late"])
            done["x"] = done["x"] if claimed else None
            done["bound"] = self.log.bound
            done["version"] = self.log.version or None
        x = done["x"] if meaning.status in ("optimal", "limit") else None
        report = self._finish(meaning, done["native"], x, done["bound"])
        report.version = done["version"]
        if done["kind"] == "cbc" and report.status == "optimal" and report.objective is not None:
            # CBC prints no bound when it has closed the gap; its proof is up to that gap.
            proved = rounded_down(report.objective - max(self.gap, 1e-5))
            report.bound = _best(max, report.bound, proved)
        return report

    def _finish(
        self, meaning: Meaning, native: str, x: Floats | None, bound: float | None
    ) -> Report:
        """Check the final point, and put the best of it and the moves together."""
        if x is not None:
            settled, fault = self.model.settle(x)
            if settled is None:
                meaning = Meaning("error", f"the solver's point breaks the model: {fault}")
            else:
                self.take(time.monotonic() - self.begun, None, bound, settled)
        elif meaning.status == "optimal":
            meaning = Meaning("error", f"the solver says {native!r} and has no point")
        report = Report(meaning.status, meaning.sentence, native, trajectory=self.trajectory)
        if meaning.status in ("optimal", "limit"):
            self.bound = _best(max, self.bound, bound)
            report.x, report.objective, report.bound = self.x, self.objective, self.bound
            if self.bound is not None and self.objective is not None:
                allowed = 1e-6 * max(1.0, abs(self.objective))
                if self.bound > self.objective + allowed:
                    sentence = (
                        f"the solver's bound {self.bound:.9g} is above its own point's "
                        f"{self.objective:.9g}"
                    )
                    return Report("error", sentence, native, trajectory=self.trajectory)
        return report


def _best(choose: Callable[..., float], *values: float | None) -> float | None:
    """Return the best of the numbers; a solver's infinity is none."""
    known = [v for v in values if v is not None and math.isfinite(v) and abs(v) < 1e20]
    return choose(known) if known else None
