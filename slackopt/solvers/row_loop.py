"""The loop that bounds and plans by models of window rows, whatever solves the models.

One loop serves both ends (docs/formulations.md). While the model holds relaxed rows only, its
bound is a lower bound for every plan. Each of its points is turned into decisions and simulated;
rows that the point violates, and rows that make the next point safe where the simulator waited or
ran out of memory, are found. In the first phase only relaxed rows are added, for the bound; in the
second those that make points safe as well, for plans.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from slackopt.formulations.linear import Row
from slackopt.formulations.window import WindowFormulation
from slackopt.progress import Progress
from slackopt.simulation.evaluator import Evaluator
from slackopt.solvers.decoding import decisions_of, earliest_swaps
from slackopt.solvers.options import SolveOptions
from slackopt.solvers.rounding import try_point
from slackopt.solvers.row_model import ModelLimits, ModelRun, RowModel
from slackopt.solvers.scaling import Floats

UNSAFE_FOR_BOUNDS = ("drained", "memory_margin", "no_rerun", "host_room")
"""Kinds of rows that cut off plans: with them a model bounds nothing."""

RELAXED_SHARE = 0.4
"""Share of the time, or of the work, that the first phase gets by default."""


class RowLoop:
    """Solve, simulate, add rows, repeat.

    Parameters
    ----------
    window, progress, evaluator, options
        As in the method that runs it.
    model
        What is solved.
    source
        Named with the plans found.
    bound_source
        Named with the bounds proved.
    work
        The most work of all solves together in a deterministic run; None in others.
    """

    def __init__(
        self,
        window: WindowFormulation,
        model: RowModel,
        progress: Progress,
        evaluator: Evaluator,
        options: SolveOptions,
        *,
        source: str,
        bound_source: str,
        work: float | None = None,
    ) -> None:
        self.window = window
        self.model = model
        self.progress = progress
        self.evaluator = evaluator
        self.options = options
        self.source = source
        self.bound_source = bound_source
        self.work_left = work
        self.names: set[str] = set()
        self.relaxed = True
        self.first_phase = True
        self.set_aside: dict[str, Row] = {}
        self.barren = 0
        self.runs: list[ModelRun] = []

    def run(
        self,
        memory_rows: Sequence[Row],
        *,
        incumbent: Callable[[], Floats | None] | None = None,
        relaxed_share: float = RELAXED_SHARE,
        rounds: int = 60,
        patience: float = 4.0,
    ) -> None:
        """Run both phases until the gap is closed, nothing new is found, or time is up.

        Parameters
        ----------
        memory_rows
            To start with, beside the static rows.
        incumbent
            Gives the point of the best plan: where to start when the last point has been cut off.
        relaxed_share
            Share of the time, or of the work, that the first phase gets at most.
        rounds
            Solves of a phase at most.
        patience
            Seconds for a solve; doubled whenever they did not suffice.
        """
        self._add([*self.window.static_rows(), *memory_rows])
        work = self.work_left
        if work is None:
            with self.progress.share(relaxed_share):
                self._phase(incumbent, rounds, patience)
        else:
            self.work_left = relaxed_share * work
            self._phase(incumbent, rounds, patience)
            self.work_left += (1 - relaxed_share) * work
        self.first_phase = False
        self._add(list(self.set_aside.values()))
        self._phase(incumbent, rounds, patience)

    def _phase(
        self, incumbent: Callable[[], Floats | None] | None, rounds: int, patience: float
    ) -> None:
        """Solve, simulate and add rows until nothing new is found at the finest tolerance.

        The first solves are coarse: their points show the missing rows sooner.
        """
        start = None if incumbent is None else incumbent()
        progress, ideal = self.progress, self.window.instance.ideal_ns
        gap = self.options.gap
        finest = max(gap / 10, 5e-6) if self.first_phase else max(gap / 2, 2e-5)
        tolerance = max(3e-4, finest)
        for _ in range(rounds):
            left = progress.seconds_left
            if progress.is_done() or left < 0.5 or self.work_left == 0:
                return
            found = self._solve(min(patience, left), tolerance * ideal, start)
            if found.x is None and found.status != "limit":
                words = found.message or f"it ended with {found.native_status!r}"
                progress.note(f"{self.bound_source}: {words}, without a point")
                return
            if found.x is not None:
                start = found.x
                if self._add(self._try_point(found.x)):
                    start = found.x if incumbent is None else incumbent()
                    continue
            if found.status == "limit":
                patience *= 2
            elif tolerance > finest:
                tolerance = max(tolerance / (10 if self.first_phase else 3), finest)
            else:
                return

    def _solve(self, seconds: float, gap_ns: float, start: Floats | None) -> ModelRun:
        """Solve once; plans, and bounds while all rows are relaxed, are offered as they come.

        Not so in a deterministic run: when a message comes depends on the machine's speed.
        """
        if self.work_left is None:
            found = self.model.solve(
                ModelLimits(seconds, gap_ns),
                start=start,
                on_point=self._offer_plans,
                on_bound=self._offer_bound if self.relaxed else None,
                is_done=self.progress.is_done,
            )
        else:
            work = min(seconds, self.work_left)
            self.work_left -= work
            limits = ModelLimits(self.progress.seconds_left, gap_ns, work)
            found = self.model.solve(limits, start=start)
        self.runs.append(found)
        self.progress.facts["num_variables"] = len(self.window.columns)
        self.progress.facts["num_constraints"] = self.model.num_rows
        if self.relaxed and found.added_bound_ns is not None:
            self._offer_bound(found.added_bound_ns)
        return found

    def _offer_bound(self, added_ns: int) -> None:
        self.progress.offer_bound(self.window.instance.ideal_ns + added_ns, self.bound_source)

    def _offer_plans(self, x: Floats) -> None:
        """Offer the plans at `x`; those that are no better are refused."""
        decisions = decisions_of(self.window, list(x))
        for plan in (earliest_swaps(self.window, decisions), decisions):
            makespan = self.evaluator.makespan_ns(plan)
            best = self.progress.makespan_ns
            if makespan is not None and (best is None or makespan < best):
                self.progress.offer_decisions(self.evaluator, plan, self.source)

    def _try_point(self, x: Floats) -> list[Row]:
        """Offer the best plan at `x`; return the rows that it, or its plans, violate."""
        tried = try_point(self.window, self.evaluator, x, insist=self.barren > 0)
        self.barren = 0 if tried.plans else self.barren + 1
        for makespan, decisions in tried.plans[:1]:
            if self.progress.makespan_ns is None or makespan < self.progress.makespan_ns:
                self.progress.offer_decisions(self.evaluator, decisions, self.source)
        return tried.rows

    def _add(self, rows: Sequence[Row]) -> int:
        """Add the new rows, those that cut off plans in the second phase only; return how many."""
        new = {row.name: row for row in rows if row.name not in self.names}
        unsafe = [name for name in new if name.startswith(UNSAFE_FOR_BOUNDS)]
        if self.first_phase:
            self.set_aside |= {name: new.pop(name) for name in unsafe}
        elif unsafe:
            self.relaxed = False
        self.names.update(new)
        self.model.add_rows(list(new.values()))
        return len(new)
