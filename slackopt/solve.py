"""`solve`: one method on one instance, and the list of methods."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from slackopt.clock import OutOfTimeError
from slackopt.clock import time_limit as limited_time
from slackopt.errors import (
    MOST_CHARACTERS,
    InfeasibleError,
    InputError,
    SolverError,
    named,
    plain,
    told,
)
from slackopt.heuristics import NoPlanError, heuristics
from slackopt.heuristics.registry import check_options, option_names
from slackopt.instance import Instance
from slackopt.plan import Plan
from slackopt.progress import OnMove, OnState, Progress
from slackopt.result import Result, StoppedBy
from slackopt.solvers.options import SolveOptions


@dataclass(frozen=True)
class Method:
    """A way to solve an instance.

    Attributes
    ----------
    name
        As typed by users.
    kind
        ``exact`` (proves bounds) or ``heuristic`` (a rule that makes a plan).
    summary
        One line.
    """

    name: str
    kind: str
    summary: str


_EXACT = {
    "exact": ("slackopt.solvers.exact", "solve_exact"),
    "milp": ("slackopt.solvers.milp", "solve_milp"),
    "cpsat": ("slackopt.solvers.cpsat", "solve_cpsat"),
    "bound": ("slackopt.solvers.bound", "solve_bound"),
    "milp-schedule": ("slackopt.solvers.milp_schedule", "solve_milp_schedule"),
    "cpsat-schedule": ("slackopt.solvers.cpsat_schedule", "solve_cpsat_schedule"),
    "enumerate": ("slackopt.solvers.enumerate", "solve_by_enumeration"),
}
"""Method -> module, and function: imported when it is run, for OR-Tools and
HiGHS take most of a second."""

_Solve = Callable[[Instance, Progress, SolveOptions], StoppedBy]


def _exact_method(name: str) -> _Solve:
    module, function = _EXACT[name]
    found: _Solve = getattr(import_module(module), function)
    return found


def method_names() -> tuple[str, ...]:
    """List the names of all methods, in the order of `methods`."""
    return (*_EXACT, *sorted(heuristics()))


def methods() -> tuple[Method, ...]:
    """List all methods: exact ones, then heuristics by name."""
    exact = [Method(name, "exact", _first_line(_exact_method(name))) for name in _EXACT]
    rules = [
        Method(name, "heuristic", _first_line(rule)) for name, rule in sorted(heuristics().items())
    ]
    return (*exact, *rules)


def _first_line(function: Callable[..., object]) -> str:
    return (function.__doc__ or "").strip().split("\n")[0]


def solve(
    instance: Instance,
    method: str = "milp",
    *,
    time_limit: float | None = 60.0,
    gap: float = 1e-4,
    threads: int = 1,
    seed: int = 0,
    solver: str | None = None,
    deterministic: bool = False,
    identical_layers: bool = True,
    on_move: OnMove | None = None,
    on_state: OnState | None = None,
    **options: Any,
) -> Result:
    """Run one method on one instance.

    Parameters
    ----------
    instance
        The instance.
    method
        A name from `methods`.
    time_limit
        Seconds; None for no limit. It holds for rules as well: one that is cut short gives the
        best plan it has, and `Result.notes` says so.
    gap
        Stop at this certified gap, (makespan - bound) / bound; "optimal" is said within it.
    threads, seed
        For solvers and searches.
    solver
        Solver of a ``milp`` method: ``highs`` (default).
    deterministic
        Ask for results that do not depend on the machine's speed: exact methods count work
        (evaluations, nodes, solver's units), in proportion to `time_limit`, instead of seconds,
        and use one thread. `Result.deterministic` is False if the time limit cut a run short.
    identical_layers
        Whether models of window rows exploit that layers are alike; the optimum is the same.
    on_move
        Called as ``(seconds, makespan_ns, lower_bound_ns, source)`` whenever an end moved.
    on_state
        Called with the `slackopt.progress.Progress` whenever an end moved: its `result` is what is
        known until then, with the plan, for a checkpoint.
    **options
        Options of a heuristic. One that has options named ``seed`` or ``time_limit`` gets the
        values above.

    Returns
    -------
    Result
        Also when nothing was found, or infeasibility was proved: see `Result.status`.

    Raises
    ------
    InputError
        For an unknown method, solver or option.
    """
    settings = SolveOptions(
        time_limit=time_limit,
        gap=gap,
        threads=threads,
        seed=seed,
        solver=solver,
        deterministic=deterministic,
        identical_layers=identical_layers,
    )
    rules = heuristics()
    if method not in _EXACT and method not in rules:
        known = ", ".join(method_names())
        raise InputError(f"method {method!r} is unknown; choose one of: {known}")
    if method in rules:
        check_options(method, rules[method], options)
    progress = Progress(
        instance,
        method,
        time_limit=time_limit,
        gap=gap,
        options=settings.recorded() | options,
        on_move=on_move,
        on_state=on_state,
    )
    by_rule = method in rules and "time_limit" not in option_names(rules[method])
    progress.facts = {"threads": threads, "seed": seed, "deterministic": by_rule}
    try:
        instance.check_working_set()
    except InfeasibleError as error:
        progress.infeasible, progress.facts["deterministic"] = True, True
        progress.note(str(error))
        return progress.result("proof")
    try:
        if method in _EXACT:
            if options:
                raise InputError(f"method {method!r} has no option {sorted(options)[0]!r}")
            progress.offer_bound(instance.ideal_ns, "ideal step")
            with limited_time(progress.deadline):
                stopped_by = _exact_method(method)(instance, progress, settings)
        else:
            stopped_by = _run_rule(rules[method], instance, progress, settings, options)
    except OutOfTimeError:
        stopped_by = progress.reason()
    except SolverError as error:
        stopped_by = "error"
        progress.note(told(error))
    except KeyboardInterrupt:
        stopped_by = "signal"
        progress.note("interrupted; this is what was found until then")
    if deterministic and method in _EXACT:
        _say_whether_deterministic(progress, stopped_by)
    return progress.result(stopped_by)


def _say_whether_deterministic(progress: Progress, stopped_by: StoppedBy) -> None:
    """Record whether a run that was to be deterministic was: nothing but work ended any step."""
    cut = stopped_by == "signal" or progress.is_out_of_time()
    progress.facts |= {"deterministic": not cut, "threads": 1}
    if cut:
        progress.note("the run was cut short in time: its result depends on the machine's speed")


def _run_rule(
    rule: Callable[..., Any],
    instance: Instance,
    progress: Progress,
    settings: SolveOptions,
    options: dict[str, Any],
) -> StoppedBy:
    shared = {"seed": settings.seed, "time_limit": settings.time_limit}
    accepted = option_names(rule)
    options = {name: value for name, value in shared.items() if name in accepted} | options
    with limited_time(progress.deadline) as limit:
        try:
            # A copy, and the plan through its text: a rule that changes what it was given, or later
            # what it returned, changes nothing that its plan is priced on.
            plan = _as_text(rule(_copy(instance), **options), progress.method)
        except NoPlanError as error:
            progress.note(plain(error.told(progress.method))[:MOST_CHARACTERS])
        except OutOfTimeError:
            progress.note(f"the time limit ended {progress.method!r} before it had a plan")
        else:
            if not progress.offer_plan(plan, progress.method):
                progress.note(f"the plan of {progress.method!r} runs out of memory")
            if limit.cut_short:
                progress.note(f"the time limit cut {progress.method!r} short: its plan until then")
    if not limit.cut_short:
        return "heuristic"
    progress.facts["deterministic"] = False
    return "time"


def _copy(instance: Instance) -> Instance:
    """Return an equal instance that shares nothing: 80 ms for 8,000 ops, half of a deep copy."""
    return Instance.model_validate_json(instance.model_dump_json())


def _as_text(plan: object, method: str) -> Plan:
    """Return the plan that a rule's answer is once it is written and read."""
    if not isinstance(plan, Plan):
        raise InputError(
            f"rule {method!r} returned a {type(plan).__name__}; it must return a slackopt.Plan"
        )
    try:
        return Plan.model_validate_json(plan.model_dump_json())
    except (ValueError, TypeError) as error:
        raise InputError(f"the plan of rule {method!r} can't be written: {named(error)}") from None
