"""`compare`: several methods on several instances, each against the best of all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any

from slackopt.environment import environment, package_version
from slackopt.errors import InputError, SlackoptError
from slackopt.instance import Instance
from slackopt.published import published_ratio
from slackopt.result import Result
from slackopt.solve import method_names, solve
from slackopt.solvers.options import SolveOptions

OnStart = Callable[[Instance, str], None]
OnResult = Callable[[Result], None]


@dataclass(frozen=True)
class ComparisonRow:
    """One method on one instance, beside the best that any method of the comparison found.

    Attributes
    ----------
    result
        What the method found and proved.
    best_makespan_ns, best_lower_bound_ns
        Smallest makespan and largest lower bound on this instance in this comparison; None if
        no method has one, or if a bound is above a makespan (`conflict`).
    paper_ratio
        Throughput ratio that the paper of the method publishes for this question, if it does.
    conflict
        Says which method's bound is above which method's plan; None as it should be.
    """

    result: Result
    best_makespan_ns: int | None = None
    best_lower_bound_ns: int | None = None
    paper_ratio: float | None = None
    conflict: str | None = None

    @property
    def gap_to_bound(self) -> float | None:
        """Upper end of the optimality gap: (makespan - best bound) / best bound."""
        return _excess(self.result.makespan_ns, self.best_lower_bound_ns)

    @property
    def gap_to_best(self) -> float | None:
        """Lower end of the optimality gap: (makespan - best makespan) / best makespan."""
        return _excess(self.result.makespan_ns, self.best_makespan_ns)

    @property
    def reason(self) -> str | None:
        """Why there is no plan to trust, in one sentence; None if there is one."""
        return self.result.reason if self.conflict is None else self.conflict

    def document(self) -> dict[str, Any]:
        """Return JSON values: every field of the result, and what the comparison adds."""
        return self.result.model_dump(mode="json") | {
            "best_makespan_ns": self.best_makespan_ns,
            "best_lower_bound_ns": self.best_lower_bound_ns,
            "gap_to_bound": self.gap_to_bound,
            "gap_to_best": self.gap_to_best,
            "paper_ratio": self.paper_ratio,
            "conflict": self.conflict,
        }


def compare(
    instances: Sequence[Instance],
    methods: Sequence[str],
    *,
    on_start: OnStart | None = None,
    on_result: OnResult | None = None,
    **options: Any,
) -> list[ComparisonRow]:
    """Run methods on instances and set every result beside the best of its instance.

    A method that fails is a row with status ``error``; it does not end the comparison. Ctrl-C
    during a method ends it after that method.

    Parameters
    ----------
    instances, methods
        Every pair is run, instance by instance, in the order given.
    on_start, on_result
        Called before and after each run.
    **options
        For `slackopt.solve`.

    Returns
    -------
    list of ComparisonRow
        In the order of the runs.

    Raises
    ------
    InputError
        For an unknown method, a limit out of range, or if there is nothing to compare; before
        anything is run.
    """
    check_methods(methods)
    if not instances:
        raise InputError("there is no instance to compare methods on; give at least one")
    known = {field.name for field in fields(SolveOptions)}
    SolveOptions(**{name: value for name, value in options.items() if name in known})
    pairs: list[tuple[Instance, Result]] = []
    for instance in instances:
        for method in methods:
            if on_start is not None:
                on_start(instance, method)
            result = _solved(instance, method, options)
            pairs.append((instance, result))
            if on_result is not None:
                on_result(result)
            if result.stopped_by == "signal":
                return _rows(pairs)
    return _rows(pairs)


def check_methods(methods: Sequence[str]) -> None:
    """Raise `InputError` for an unknown method, one named twice, or none at all."""
    known = method_names()
    choices = f"choose from: {', '.join(known)}"
    if not methods:
        raise InputError(f"no method is named; {choices}")
    for i, name in enumerate(methods):
        if name not in known:
            raise InputError(f"method {name!r} is unknown; {choices}")
        if name in methods[:i]:
            raise InputError(f"method {name!r} is named twice; name it once")


def _solved(instance: Instance, method: str, options: dict[str, Any]) -> Result:
    try:
        return solve(instance, method, **options)
    except SlackoptError as error:
        return _failed(instance, method, str(error))
    except Exception as error:  # whatever a solver throws is a row, not the end of the table
        return _failed(instance, method, f"{type(error).__name__}: {error}")


def _failed(instance: Instance, method: str, why: str) -> Result:
    return Result(
        instance=instance.name,
        instance_sha256=instance.sha256,
        method=method,
        status="error",
        stopped_by="error",
        ideal_ns=instance.ideal_ns,
        budget_bytes=instance.budget_bytes,
        notes=(" ".join(why.split()) or "no reason given",),
        slackopt_version=package_version("slackopt") or "unknown",
        environment=environment(),
    )


def _rows(pairs: Sequence[tuple[Instance, Result]]) -> list[ComparisonRow]:
    by_instance: dict[str, list[Result]] = {}
    for _, result in pairs:
        by_instance.setdefault(result.instance_sha256, []).append(result)
    best = {sha256: _best(results) for sha256, results in by_instance.items()}
    return [
        ComparisonRow(
            result,
            *best[result.instance_sha256][:2],
            published_ratio(instance, result.method),
            best[result.instance_sha256][2],
        )
        for instance, result in pairs
    ]


def _best(results: Sequence[Result]) -> tuple[int | None, int | None, str | None]:
    """Return the best makespan, the best bound, and the conflict between them if there is one."""
    plans = [(r.makespan_ns, r.method) for r in results if r.makespan_ns is not None]
    bounds = [(r.lower_bound_ns, r.method) for r in results if r.lower_bound_ns is not None]
    makespan, planner = min(plans, default=(None, ""))
    bound, prover = max(bounds, default=(None, ""))
    if makespan is not None and bound is not None and bound > makespan:
        conflict = (
            f"conflict: {prover} claims that no plan is below {bound} ns, and the plan of "
            f"{planner} was simulated at {makespan} ns; please report this instance"
        )
        return None, None, conflict
    return makespan, bound, None


def _excess(value: int | None, reference: int | None) -> float | None:
    return None if value is None or reference is None else (value - reference) / reference
