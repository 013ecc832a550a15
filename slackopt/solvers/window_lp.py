"""The linear relaxation of the window formulation, rows added lazily, solved with HiGHS.

highspy is used directly here, not through PuLP, because it keeps the basis between rounds.
"""

from __future__ import annotations

import os
import random
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path

import highspy
import numpy as np

from slackopt.clock import check_time
from slackopt.formulations.certificate import (
    bound_from_weights,
    proves_infeasible,
    weights_from_duals,
)
from slackopt.formulations.chain_memory_rows import ChainKey
from slackopt.formulations.linear import Row
from slackopt.formulations.rerun_memory_rows import RerunKey
from slackopt.formulations.separation import most_violated_keys
from slackopt.formulations.window import WindowFormulation, is_lazy
from slackopt.solvers.scaling import Floats, Scaling

OnRound = Callable[[int, dict[str, Fraction]], None]
"""Called with a bound and the weights that prove it."""

_ANSWERS = (
    highspy.HighsModelStatus.kOptimal,
    highspy.HighsModelStatus.kInfeasible,
    highspy.HighsModelStatus.kTimeLimit,
)


IDLE_COLUMNS = 6000
MOST_IDLE = 2
"""Rounds of rerun and chain rows that may pass without raising the bound: as many as make so many
columns in all, as small models are quickly solved, but at least the second number."""


@dataclass
class LpBound:
    """What the relaxation proved.

    Attributes
    ----------
    lower_bound_ns
        Proved for every plan, from the certificate, in exact arithmetic.
    weights
        The certificate: row name -> weight.
    x
        The last LP point, one value per column (stalls in ns).
    row_names
        Separated rows present at the end.
    objective_ns
        LP value as the solver reports it; for the log only.
    converged
        Whether no violated row was left; or only rerun and chain rows, which have not raised the
        bound for some rounds.
    infeasible
        Whether the solver claims that no point satisfies the rows.
    contradiction
        Row name -> weight: proves that claim in exact arithmetic; empty without a proof.
    failure
        Why the solver gave no answer in the last round; empty if it did. What the rounds before
        proved stands.
    """

    lower_bound_ns: int
    weights: dict[str, Fraction]
    x: Floats
    row_names: list[str] = field(default_factory=list)
    objective_ns: float = 0.0
    converged: bool = False
    infeasible: bool = False
    contradiction: dict[str, Fraction] = field(default_factory=dict)
    failure: str = ""
    rounds: int = 0
    seconds: float = 0.0


@dataclass
class WindowLp:
    """A lazily separated LP.

    Parameters
    ----------
    window
        The formulation.
    rows_per_round
        Most memory rows added in one round.

    Attributes
    ----------
    certifies
        Whether the objective and all rows are the formulation's; see `break_ties`.
    """

    window: WindowFormulation
    rows_per_round: int = 40
    certifies: bool = field(init=False, default=True)
    highs: highspy.Highs = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.scaling = Scaling.of(self.window)
        self.rows: list[Row] = []
        self._row_units: list[float] = []
        columns = self.window.columns
        self.highs = new_highs()
        infinity = highspy.kHighsInf
        upper = np.array([infinity if c.upper is None else float(c.upper) for c in columns])
        empty = np.array([], dtype=np.int32)
        self.highs.addCols(
            len(columns),
            self.scaling.costs(self.window),
            np.zeros(len(columns)),
            upper,
            0,
            empty,
            empty,
            np.array([]),
        )
        static = self.window.static_rows()
        check_time()
        self.add_rows(static)

    def break_ties(self, costs: Floats) -> None:
        """Add costs, in solver units, that choose among points of equal cost.

        From now on the LP serves plans: it may take rows that cut plans off, and certifies nothing.
        """
        self.certifies = False
        total = self.scaling.costs(self.window) + costs
        for j in np.nonzero(costs)[0]:
            self.highs.changeColCost(int(j), float(total[j]))

    def add_rows(self, rows: Sequence[Row]) -> None:
        """Append rows."""
        if not rows:
            return
        starts: list[int] = []
        indices: list[int] = []
        values: list[Floats] = []
        uppers: list[float] = []
        for row in rows:
            columns, coefficients, upper, unit = self.scaling.row(row)
            starts.append(len(indices))
            indices += columns
            values.append(coefficients)
            uppers.append(upper)
            self.rows.append(row)
            self._row_units.append(unit)
        self.highs.addRows(
            len(rows),
            np.full(len(rows), -highspy.kHighsInf),
            np.array(uppers),
            len(indices),
            np.array(starts, dtype=np.int32),
            np.array(indices, dtype=np.int32),
            np.concatenate(values),
        )

    def solve(self, *, deadline: float | None = None, on_round: OnRound | None = None) -> LpBound:
        """Solve, separate, repeat.

        Bounds are certified after rounds 1, 2, 4 and every fourth from there, and at the end. Where
        the deadline interrupts a round, the duals of the round before, and those that the solver
        has got to, are tried: any prove a bound.

        Parameters
        ----------
        deadline
            `time.monotonic` value at which to stop.
        on_round
            Called with the bound and its weights after each round that improved it.
        """
        begun = time.monotonic()
        tolerance = self.window.instance.budget_bytes * 1e-6
        found = LpBound(self.window.instance.ideal_ns, {}, np.zeros(len(self.window.columns)))
        present = {row.name for row in self.rows}
        last_duals: list[float] = []
        interrupted: list[float] = []
        settled, idle = -1.0, 0
        while True:
            if deadline is not None and time.monotonic() >= deadline:
                break
            status = self._run(deadline)
            if status == highspy.HighsModelStatus.kInfeasible:
                found.infeasible = True
                found.contradiction, last_duals = self._infeasibility_weights(), []
                break
            if status == highspy.HighsModelStatus.kTimeLimit:
                interrupted = self._duals()
                break
            if status != highspy.HighsModelStatus.kOptimal:
                found.failure = f"HiGHS ended the window LP with status {status.name}"
                break
            found.rounds += 1
            found.x = np.array(self.highs.getSolution().col_value) * self.scaling.column
            found.objective_ns = self.highs.getObjectiveValue() * self.scaling.time_ns
            keys = most_violated_keys(self.window, found.x, tolerance, self.rows_per_round)
            new = [key for _, key in keys if key.name not in present]
            if new and isinstance(new[0], RerunKey | ChainKey):
                # There are many, and most of them raise nothing.
                gained = found.objective_ns > settled + 1e-7 * self.window.instance.ideal_ns
                settled, idle = found.objective_ns, 0 if gained else idle + 1
                most = max(MOST_IDLE, IDLE_COLUMNS // len(self.window.columns))
                new = [] if idle > most else new
            certified = not self.certifies
            if not certified and (not new or found.rounds % 4 == 0 or found.rounds <= 2):
                self._certify(found, self._duals(), on_round)
                certified = True
            if not new:
                found.converged, last_duals = True, []
                break
            present.update(key.name for key in new)
            # What this round proved would be lost if time ran out in the next one.
            last_duals = [] if certified else self._duals()
            self.add_rows([self.window.row(key.name) for key in new])
        for duals in (last_duals, interrupted):
            if duals and self.certifies:
                self._certify(found, duals, on_round)
        found.row_names = [row.name for row in self.rows if is_lazy(row)]
        found.seconds = time.monotonic() - begun
        return found

    def _run(self, deadline: float | None) -> highspy.HighsModelStatus:
        """Run the solver; if it gives no answer, from scratch, and then by interior point.

        Where a link moves the whole budget in a blink, coefficients span sixteen orders of
        magnitude, and the simplex method can lose its way from the basis of the round before.
        """
        for attempt, solver in enumerate(("choose", "choose", "ipm")):
            if attempt:
                self.highs.clearSolver()
            self.highs.setOptionValue("solver", solver)
            left = 1e30 if deadline is None else max(deadline - time.monotonic(), 0.0)
            # HiGHS counts the time of all runs of one object.
            self.highs.setOptionValue("time_limit", self.highs.getRunTime() + left)
            run_highs(self.highs)
            if self.highs.getModelStatus() in _ANSWERS:
                break
        self.highs.setOptionValue("solver", "choose")
        return self.highs.getModelStatus()

    def _duals(self) -> list[float]:
        """Return the duals of the last run; empty if it has none."""
        solution = self.highs.getSolution()
        return list(solution.row_dual) if solution.dual_valid else []

    def _certify(self, found: LpBound, duals: Sequence[float], on_round: OnRound | None) -> None:
        """Prove a bound from the duals of a round; keep it if it is the best."""
        proposal = self._weights(duals)
        bound = bound_from_weights(self.window, proposal)
        if bound > found.lower_bound_ns or not found.weights:
            found.lower_bound_ns, found.weights = bound, proposal
            if on_round is not None:
                on_round(bound, proposal)

    def _infeasibility_weights(self) -> dict[str, Fraction]:
        """Weights that prove exactly that no plan exists; empty if there is no proof."""
        if not self.certifies:
            return {}
        self.highs.setOptionValue("presolve", "off")
        run_highs(self.highs)
        _, found, ray = self.highs.getDualRay()  # type: ignore[attr-defined]
        if not found:
            return {}
        least = 1e-9 * max(map(abs, ray), default=0.0)  # noise may stand on an unbounded column
        exact = {
            row.name: -value / unit
            for row, value, unit in zip(self.rows, ray, self._row_units, strict=False)
            if -value > least
        }
        largest = max(exact.values(), default=1.0)
        weights = {name: Fraction(value / largest) for name, value in exact.items()}
        try:
            proved = proves_infeasible(self.window, weights)
        except ValueError:
            proved = False
        return weights if proved else {}

    def restricted_mip(
        self,
        x: Floats,
        free_columns: int,
        *,
        gap_ns: float,
        time_limit: float,
        max_nodes: int | None = None,
        rng: random.Random | None = None,
    ) -> Floats | None:
        """Solve the integer model with most decisions fixed where they are integral in `x`.

        Parameters
        ----------
        x
            The last LP point.
        free_columns
            How many integral decisions stay free: those of the smallest reduced cost, which the
            LP could exchange at no loss. Fractional ones are always free.
        gap_ns, time_limit, max_nodes
            When to stop.
        rng
            If given, reduced costs are weighed at random, so that other decisions are free.

        Returns
        -------
        array or None
            An integer point that satisfies the rows present, or None if none was found.
        """
        cost = np.abs(np.array(self.highs.getSolution().col_dual))
        model = self.highs.getLp()
        columns = self.window.columns
        integral = [j for j, c in enumerate(columns) if c.integer]
        if rng is not None:
            cost = (cost + 0.1) * np.array([rng.random() for _ in columns])
        order = sorted(integral, key=lambda j: (float(cost[j]), j))
        free = set(order[:free_columns]) | {j for j in integral if 1e-6 < x[j] < 1 - 1e-6}
        lower, upper = np.zeros(len(columns)), np.array(model.col_upper_)
        for j in integral:
            if j not in free:
                lower[j] = upper[j] = round(float(x[j]))
        model.col_lower_, model.col_upper_ = lower, upper
        kinds = highspy.HighsVarType
        model.integrality_ = [kinds.kInteger if c.integer else kinds.kContinuous for c in columns]
        mip = new_highs()
        mip.passModel(model)
        mip.setOptionValue("mip_rel_gap", 0.0)
        mip.setOptionValue("mip_abs_gap", gap_ns / self.scaling.time_ns)
        mip.setOptionValue("time_limit", max(time_limit, 0.01))
        if max_nodes is not None:
            mip.setOptionValue("mip_max_nodes", max_nodes)
        run_highs(mip)
        feasible = highspy.SolutionStatus.kSolutionStatusFeasible
        if mip.getInfo().primal_solution_status != feasible:
            return None
        point: Floats = np.array(mip.getSolution().col_value) * self.scaling.column
        return point

    def _weights(self, duals: Sequence[float]) -> dict[str, Fraction]:
        """Weights in ns per unit of the exact rows, from the duals of the scaled model."""
        exact = {
            row.name: -dual * self.scaling.time_ns / scale
            for row, dual, scale in zip(self.rows, duals, self._row_units, strict=False)
            if dual < 0
        }
        return weights_from_duals(self.window, exact)


def run_highs(highs: highspy.Highs) -> None:
    """Run a solver, also where HiGHS ran with another number of threads in this process before.

    HiGHS keeps the scheduler of its first run, and refuses to run with other settings.
    """
    highs.run()
    if highs.getModelStatus() == highspy.HighsModelStatus.kNotset:
        highspy.Highs.resetGlobalScheduler(True)
        highs.run()


def new_highs() -> highspy.Highs:
    """Return a silent, single-threaded solver.

    HiGHS prints its banner when the object is made, before any option can silence it: file
    descriptor 1 points elsewhere meanwhile.
    """
    sys.stdout.flush()
    saved = os.dup(1)
    try:
        with Path(os.devnull).open("wb") as nowhere:
            os.dup2(nowhere.fileno(), 1)
            highs = highspy.Highs()
    finally:
        os.dup2(saved, 1)
        os.close(saved)
    for option, value in (("output_flag", False), ("threads", 1), ("random_seed", 0)):
        highs.setOptionValue(option, value)
    return highs
