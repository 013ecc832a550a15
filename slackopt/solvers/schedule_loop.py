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
from slackopt.formulations.differs import differs_row
from slackopt.formulations.linear import Row
from slackopt.formulations.schedule import ScheduleFormulation, longest_makespan_ns
from slackopt.formulations.schedule_jobs import ScheduleJobs
from slackopt.heuristics import NoPlanError, heuristics
from slackopt.instance import Instance
from slackopt.lifetimes import Lifetimes
from slackopt.progress import Progress
from slackopt.result import StoppedBy
from slackopt.simulation.evaluator import Evaluator
from slackopt.simulation.prefetch import free_during_jobs
from slackopt.simulation.sequence import compute_sequence
from slackopt.solvers.enumerate import without_effectless
from slackopt.solvers.trigger_search import best_triggers

CUT_OFF = "decision vectors were priced and cut off"
"""End of the note that says how many rounds it took."""

MAX_OPS = 500
MAX_SIZE = MAX_OPS**2
"""Largest step taken, and largest model in the units of `schedule_size`."""

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
    size = schedule_size(instance.lifetimes)
    if size > MAX_SIZE:
        raise InputError(
            f"method {source!r} is for small instances: the schedule model of {instance.name!r} "
            f"would have some {size} terms, and {MAX_SIZE} are the limit; use exact, milp or cpsat"
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


def schedule_size(life: Lifetimes) -> int:
    """Return about how many terms the rows of the schedule model have.

    Rows of reruns count the slots of an op once per slot; where tensors can be swapped, each of
    them has columns at each job, and each pair of them an order.
    """
    if life.num_ops > MAX_OPS:
        return life.num_ops**2  # at least; finding the slots takes that long as well
    jobs = ScheduleJobs.from_lifetimes(life)
    swaps = sum(life.swappable[t] for t in jobs.decidable)
    reruns = sum(len(positions) ** 2 for positions in jobs.rerun_positions)
    return reruns + 2 * swaps * (len(jobs.jobs) + swaps)


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
        if not model.swap and _add_memory_rows(model, decisions):
            continue
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


def _add_memory_rows(model: ScheduleFormulation, decisions: Sequence[int]) -> int:
    """Add the rows of reruns at which a plan without swaps overfills the device."""
    life, instance = model.life, model.instance
    sequence = compute_sequence(life, decisions)
    free = free_during_jobs(life, instance.device, instance.budget_bytes, sequence)
    position = {(model.jobs.jobs[i].op, model.jobs.jobs[i].slot): i for i in model.rerun}
    overfull = [
        position[sequence.ops[job], sequence.slots[job]]
        for job in range(len(free))
        if free[job] < 0 and sequence.reruns[job]
    ]
    return model.add_memory_rows(overfull)


def _solve(
    solve: SolveSchedule,
    model: ScheduleFormulation,
    tested: Iterable[Sequence[int]],
    seconds: float,
) -> ScheduleAnswer:
    """Solve a model without the decision vectors in `tested`; rows without columns stay here."""
    rows = [*model.rows, *(differs_row(model.swap, model.recompute, v) for v in tested)]
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
