"""The loop that bounds and plans by models of window rows, whatever solves the models.

One loop serves both ends (docs/formulations.md). While the model holds relaxed rows only, its
bound is a lower bound for every plan. Each of its points is turned into decisions and simulated;
rows that the point violates, and rows that make the next point safe where the simulator waited or
ran out of memory, are found.

In the first phase only relaxed rows are added, for the bound. In the second those that make points
safe as well, for plans: they cut off plans, so they serve the search alone. Where they leave no
point, or nothing new is found, they are dropped, and the search begins again: from the relaxed
rows, with each decision vector that was simulated cut off, and nothing else. Safe rows and bare
cuts take turns until the gap is closed, or time is up.

A decision vector without swaps has one run. While all vectors that were cut off are such, every
plan was simulated, and is not below the best makespan, or is a point of the model: so the lower of
the best makespan and the model's bound is a lower bound for every plan.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

from slackopt.formulations.differs import differs_row
from slackopt.formulations.linear import Row
from slackopt.formulations.window import WindowFormulation
from slackopt.progress import LEAST_S, Progress
from slackopt.simulation.evaluator import Evaluator
from slackopt.solvers.decoding import decisions_of, earliest_swaps
from slackopt.solvers.options import SolveOptions
from slackopt.solvers.rounding import try_point
from slackopt.solvers.row_model import ModelLimits, ModelRun, RowModel
from slackopt.solvers.scaling import Floats

UNSAFE_FOR_BOUNDS = ("drained", "memory_margin", "no_rerun", "host_room")
"""Kinds of rows that cut off plans which were not simulated: with them a model bounds nothing."""

RELAXED_SHARE = 0.4
"""Share of the time, or of the work, that the first phase gets by default."""

TURNS = 20
"""Times that the search begins again at most where there is no time limit."""


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
        self.relaxed_rows: dict[str, Row] = {}
        self.safe_rows: dict[str, Row] = {}
        self.set_aside: dict[str, Row] = {}
        self.cuts: dict[str, Row] = {}
        self.cuts_are_exact = True
        self.first_phase = True
        self.bare_cuts = False
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
        persist: bool = True,
    ) -> None:
        """Run both phases until the gap is closed, time is up, or the model has no point.

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
        persist
            Whether to begin again where nothing new is found, though there is a plan.
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
        unlimited = self.progress.deadline is None and work is None
        for _ in range(TURNS) if unlimited else itertools.count():
            last = self._phase(incumbent, rounds, patience)
            if self._is_over() or last.status == "error":
                return
            if last.status == "infeasible" and not self.safe_rows:
                return  # no point is left that was not simulated
            if not persist and self.progress.makespan_ns is not None:
                return
            self._begin_again()

    def _is_over(self) -> bool:
        progress = self.progress
        return progress.is_done() or progress.seconds_left < LEAST_S or self.work_left == 0

    def _begin_again(self) -> None:
        """Drop the safe rows; from now on bare cuts, or safe rows again, take turns."""
        self.bare_cuts = not self.bare_cuts
        self.safe_rows.clear()
        self.barren = 0
        self.model.clear_rows()
        self.model.add_rows([*self.relaxed_rows.values(), *self.cuts.values()])

    def _phase(
        self, incumbent: Callable[[], Floats | None] | None, rounds: int, patience: float
    ) -> ModelRun:
        """Solve, simulate and add rows until nothing new is found at the finest tolerance.

        The first solves are coarse: their points show the missing rows sooner. Returns the last.
        """
        start = None if incumbent is None else incumbent()
        progress, ideal = self.progress, self.window.instance.ideal_ns
        gap = self.options.gap
        finest = max(gap / 10, 5e-6) if self.first_phase else max(gap / 2, 2e-5)
        tolerance = max(3e-4, finest)
        found = ModelRun("limit")
        for _ in range(rounds):
            if self._is_over():
                return found
            seconds = min(patience, progress.seconds_left)
            found = self._solve(seconds, tolerance * ideal, start)
            if found.x is None and found.status != "limit":
                if found.status == "error" or not self.safe_rows:
                    words = found.message or f"it ended with {found.native_status!r}"
                    progress.note(f"{self.bound_source}: {words}, without a point")
                return found
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
                break
        return found

    @property
    def _bounds(self) -> bool:
        """Whether the model's bound, or the best makespan, is a lower bound for every plan."""
        return not self.safe_rows and self.cuts_are_exact

    def _solve(self, seconds: float, gap_ns: float, start: Floats | None) -> ModelRun:
        """Solve once; plans, and bounds where the rows allow them, are offered as they come.

        Not so in a deterministic run: when a message comes depends on the machine's speed.
        """
        if self.work_left is None:
            found = self.model.solve(
                ModelLimits(seconds, gap_ns),
                start=start,
                on_point=self._offer_plans,
                on_bound=self._offer_bound if self._bounds else None,
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
        if self._bounds and found.added_bound_ns is not None:
            self._offer_bound(found.added_bound_ns)
        return found

    def _offer_bound(self, added_ns: int) -> None:
        bound, best = self.window.instance.ideal_ns + added_ns, self.progress.makespan_ns
        if self.cuts and best is not None:
            bound = min(bound, best)
        self.progress.offer_bound(bound, self.bound_source)

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
        if self.first_phase:
            return tried.rows
        # Needed where this point would come again, without safe rows.
        decisions = decisions_of(self.window, list(x))
        cut = differs_row(self.window.swap, self.window.recompute, decisions)
        if cut.name not in self.cuts:
            self.cuts[cut.name] = cut
            self.cuts_are_exact &= not any(x[column] > 0.5 for column in self.window.swap.values())
            if self.bare_cuts:
                self.model.add_rows([cut])
                self._add(tried.rows)
                return [cut]
        return tried.rows

    def _add(self, rows: Sequence[Row]) -> int:
        """Add the rows that are new and wanted now; return how many."""
        unsafe = {row.name: row for row in rows if row.name.startswith(UNSAFE_FOR_BOUNDS)}
        relaxed = {row.name: row for row in rows if row.name not in unsafe}
        new = {name: row for name, row in relaxed.items() if name not in self.relaxed_rows}
        self.relaxed_rows |= new
        if self.first_phase:
            self.set_aside |= unsafe
        elif not self.bare_cuts:
            safe = {name: row for name, row in unsafe.items() if name not in self.safe_rows}
            self.safe_rows |= safe
            new |= safe
        self.model.add_rows(list(new.values()))
        return len(new)
