"""The loop that ``milp-schedule`` and ``cpsat-schedule`` share: solve, simulate, cut, repeat.

The schedule formulation is a relaxation: a swap-in may start when the simulator would not start
it, and a shared link is as fast as an idle one. So each decision vector that the model proposes is
priced exactly, with its best triggers (`slackopt.solvers.trigger_search`), and then cut off. The
horizon is one nanosecond below the best makespan: the model is asked for a plan that is better.

At any time every plan that is accepted has a decision vector that was priced, and is not below the
best makespan; or it ends after the horizon, and is not below it either; or it is a point of the
model, and not below its bound. So min(best makespan, bound) is a lower bound, and when the model is
infeasible the best plan is optimal, or, if there is none, no plan runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from slackopt.errors import InputError
from slackopt.formulations.linear import Row
from slackopt.formulations.schedule import ScheduleFormulation, longest_makespan_ns
from slackopt.heuristics import NoPlanError, heuristics
from slackopt.instance import Instance
from slackopt.progress import Progress
from slackopt.result import StoppedBy
from slackopt.simulation.evaluator import Evaluator
from slackopt.solvers.enumerate import without_effectless
from slackopt.solvers.trigger_search import best_triggers

CUT_OFF = "decision vectors were priced and cut off"
"""End of the note that says how many rounds it took."""

MAX_OPS = 120
"""Largest instance taken: the model grows with the square of the ops, and so does its building."""

STARTING_RULES = ("slackswap", "keep-all", "swap-all", "recompute-all")


@dataclass(frozen=True)
class ScheduleAnswer:
    """What a solver says about a schedule model.

    Attributes
    ----------
    status
        ``infeasible`` (proved), ``point``, ``limit`` (time, without a point) or ``error``.
    x
        A feasible point, in ns, or None.
    bound_ns
        Proved lower bound on the makespan of all points, or None.
    native_status
        The solver's own word.
    """

    status: Literal["infeasible", "point", "limit", "error"]
    x: Sequence[float] | None = None
    bound_ns: int | None = None
    native_status: str = ""


SolveSchedule = Callable[[ScheduleFormulation, Sequence[Row], float], ScheduleAnswer]
"""Solves the columns of a formulation with the rows given, within so many seconds."""


def solve_schedule(
    instance: Instance, progress: Progress, solve: SolveSchedule, source: str
) -> StoppedBy:
    """Run the loop until optimality or infeasibility is proved, or time is up.

    Parameters
    ----------
    instance, progress
        As for every exact method.
    solve
        The solver.
    source
        Name for bounds and plans in the trajectory.
    """
    num_ops = instance.lifetimes.num_ops
    if num_ops > MAX_OPS:
        raise InputError(
            f"method {source!r} is for small instances, of at most {MAX_OPS} ops; "
            f"{instance.name!r} has {num_ops}: use exact, milp or cpsat"
        )
    _offer_starting_plans(instance, progress)
    progress.offer_bound(instance.ideal_ns, "ideal time")
    tested: dict[tuple[int, ...], list[int]] = {}
    reason = ""
    try:
        stopped_by, reason = _run(instance, progress, solve, source, tested)
    finally:
        progress.note(f"{len(tested)} {CUT_OFF}")
        if reason:
            progress.note(reason)
    return stopped_by


def _run(
    instance: Instance,
    progress: Progress,
    solve: SolveSchedule,
    source: str,
    tested: dict[tuple[int, ...], list[int]],
) -> tuple[StoppedBy, str]:
    """Run the loop; return why it ended, and if that is no proof of a plan, in words."""
    evaluator = Evaluator(instance)
    model: ScheduleFormulation | None = None
    while not progress.is_done() and progress.makespan_ns != instance.ideal_ns:
        best = progress.makespan_ns
        if progress.seconds_left <= 0:
            return "time", ""
        horizon = longest_makespan_ns(instance) if best is None else best - 1
        if model is None or model.horizon_ns != horizon:
            model = ScheduleFormulation(instance, horizon)
        progress.facts["num_variables"] = len(model.columns)
        progress.facts["num_constraints"] = len(model.rows) + len(tested)
        answer = _solve(solve, model, tested.values(), progress.seconds_left)
        if answer.status == "infeasible":
            if best is None:
                progress.infeasible = True
                return "proof", f"{source}: the schedule model is infeasible: no plan runs"
            progress.offer_bound(best, source)
            break
        if answer.bound_ns is not None:
            bound = answer.bound_ns if best is None else min(best, answer.bound_ns)
            progress.offer_bound(bound, source)
        if answer.x is None:
            if answer.status == "limit":
                return "time", ""
            return "error", f"{source} ended with {answer.native_status!r} and without a point"
        if progress.is_done():
            break
        decisions = model.decisions_of(answer.x)
        if tuple(decisions) in tested:
            return "error", f"{source} ended with a point that had been cut off"
        effective, sequence = without_effectless(instance.lifetimes, decisions)
        triggers = model.triggers_of(answer.x)
        if set(triggers) == {t for ts in sequence.needs.values() for t in ts}:
            progress.offer_decisions(evaluator, effective, source, triggers)
        search = best_triggers(
            instance, sequence, cutoff_ns=progress.makespan_ns, deadline=progress.deadline
        )
        if search.triggers is not None:
            progress.offer_decisions(evaluator, effective, source, search.triggers)
        if not search.complete:
            return "time", ""
        tested[tuple(decisions)] = decisions
    return _reason(progress), ""


def _solve(
    solve: SolveSchedule,
    model: ScheduleFormulation,
    tested: Iterable[Sequence[int]],
    seconds: float,
) -> ScheduleAnswer:
    """Solve a model without the decision vectors in `tested`; rows without columns stay here."""
    rows = [*model.rows, *map(model.no_good_row, tested)]
    false = [row.name for row in rows if not row.coefficients and row.upper < 0]
    if false:
        return ScheduleAnswer("infeasible", native_status=f"row {false[0]} can't hold")
    return solve(model, [row for row in rows if row.coefficients], seconds)


def _offer_starting_plans(instance: Instance, progress: Progress) -> None:
    rules = heuristics()
    for name in STARTING_RULES:
        try:
            progress.offer_plan(rules[name](instance), name)
        except NoPlanError:
            continue


def _reason(progress: Progress) -> StoppedBy:
    if progress.conflict:
        return "error"
    if progress.infeasible or progress.makespan_ns == progress.lower_bound_ns:
        return "proof"
    return "gap"
