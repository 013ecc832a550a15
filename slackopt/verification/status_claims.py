"""Status and reason of the end: they must fit what the result holds, and each other."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from slackopt.result import Result, Status, StoppedBy
from slackopt.simulation import Timeline
from slackopt.verification.findings import Findings, shown
from slackopt.verification.kinds import kind_of

_CUT: frozenset[StoppedBy] = frozenset({"time", "memory", "signal", "error"})
"""What may end a run at any time, a batch's limits among them: whatever it held by then."""

STOPS: Mapping[Status, frozenset[StoppedBy]] = {
    "optimal": _CUT | {"proof", "gap"},
    "feasible": _CUT | {"heuristic", "exhausted"},
    "bounded": _CUT | {"proof", "exhausted"},
    "infeasible": _CUT | {"proof"},
    "no_solution": _CUT | {"heuristic", "exhausted"},
    "error": _CUT,
}
"""Status -> reasons for which a run with it may have stopped."""

_HAS_PLAN = ("optimal", "feasible")
_CONFLICT = "conflict: "


def check_status(result: Result, timeline: Timeline | None, found: Findings) -> None:
    """Check the status against plan and gap, and the reason of the end against the status."""
    tolerance = _tolerance(result, found)
    status, plan = result.status, result.plan
    if status in _HAS_PLAN:
        if plan is None:
            found.fail(f"status {status!r}, and there is no plan")
        else:
            _check_gap(result, tolerance, found)
    elif plan is not None and not _is_conflict(result):
        runs = "a plan that runs" if timeline is not None else "a plan"
        found.fail(f"status {status!r} beside {runs}")
    if status == "error" and (result.lower_bound_ns is not None and plan is not None):
        found.fail("status 'error' with a plan and a bound: after a conflict none is claimed")
    if status == "bounded":
        if result.lower_bound_ns is None:
            found.fail("status 'bounded', and there is no bound: lower_bound_ns is null")
        if kind_of(result.method) in ("rule", "exact"):
            found.fail(
                f"status 'bounded' is that of a method for bounds, and {shown(result.method)} "
                "looks for plans"
            )
    _check_stop(result, found)


def _is_conflict(result: Result) -> bool:
    """Whether a bound and a plan contradicted each other: the plan is kept, and both are told."""
    return result.status == "error" and any(note.startswith(_CONFLICT) for note in result.notes)


def _tolerance(result: Result, found: Findings) -> float | None:
    """Return the gap asked for; None where the file does not say it, or says nonsense."""
    value: Any = result.options.get("gap")
    if value is None:
        if "gap" in result.options:
            found.fail("options.gap must be a number, and is null")
        return None
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not (0 <= value < 1) or not math.isfinite(value):
        found.fail(f"options.gap must be a number from 0 to below 1, and is {shown(value)}")
        return None
    return float(value)


def _check_gap(result: Result, tolerance: float | None, found: Findings) -> None:
    closed = result.gap is not None and result.gap <= (tolerance or 0.0)
    if result.status == "optimal" and not closed:
        found.fail(f"status 'optimal' with gap {result.gap} above the tolerance {tolerance or 0.0}")
    if result.status == "feasible" and closed and tolerance is not None:
        found.fail(f"status 'feasible' with gap {result.gap} within the tolerance {tolerance}")


def _check_stop(result: Result, found: Findings) -> None:
    status, stop, kind = result.status, result.stopped_by, kind_of(result.method)
    allowed = STOPS[status]
    if kind == "bound" and status == "no_solution" and result.lower_bound_ns is not None:
        allowed = allowed | {"proof"}  # as `bound` had it before there was the status `bounded`
    if stop not in allowed:
        found.fail(f"stopped_by {stop!r} can't stand beside status {status!r}")
    elif stop == "proof" and status == "optimal" and result.gap != 0:
        found.fail(f"stopped_by 'proof' with gap {result.gap}: nothing is proved below it")
    elif stop == "heuristic" and kind in ("bound", "exact"):
        found.fail(f"stopped_by 'heuristic', and {shown(result.method)} is no rule")
