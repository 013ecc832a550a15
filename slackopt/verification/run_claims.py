"""What a result tells of the run: it can't be proved afterwards, but must not contradict itself."""

from __future__ import annotations

from itertools import pairwise

from slackopt.result import Result, TrajectoryPoint
from slackopt.verification.findings import Findings, shown

_ROUNDING_S = 1e-6
"""Moments of the trajectory are rounded to this."""


def check_run(result: Result, found: Findings) -> None:
    """Check times, settings and the trajectory against each other."""
    _check_times(result, found)
    _check_settings(result, found)
    points = result.trajectory
    for i, (before, after) in enumerate(pairwise(points), 1):
        fault = _fault_between(before, after)
        if fault:
            found.fail(f"trajectory[{i}]: {fault}")
    for i, (_, makespan, bound) in enumerate(points):
        if makespan is not None and bound is not None and bound > makespan:
            if result.status != "error":
                found.fail(f"trajectory[{i}]: the bound {bound} is above the makespan {makespan}")
            break
    if points:
        _check_last(result, points[-1], found)


def _check_times(result: Result, found: Findings) -> None:
    wall = result.wall_s
    if wall is None:
        return
    for name in ("build_s", "solve_s"):
        part = getattr(result, name)
        if part is not None and part > wall + _ROUNDING_S:
            found.fail(f"{name} {part} is above wall_s {wall}")
    last = max((seconds for seconds, _, _ in result.trajectory), default=0.0)
    if last > wall + _ROUNDING_S:
        found.fail(f"wall_s is {wall}, and an end moved after {last} s")


def _check_settings(result: Result, found: Findings) -> None:
    options = result.options
    for name in ("seed", "threads"):
        asked, used = options.get(name), getattr(result, name)
        if asked is None or used is None or asked == used:
            continue
        if name == "threads" and used == 1 and options.get("deterministic") is True:
            continue
        found.fail(f"{name} is {used}, and options.{name} is {shown(asked)}")


def _fault_between(before: TrajectoryPoint, after: TrajectoryPoint) -> str | None:
    """Say what can't follow: time goes on, plans get better, bounds rise, nothing is lost."""
    if after[0] < before[0]:
        return f"{after[0]} s comes after {before[0]} s"
    for name, old, new, sign in (
        ("makespan", before[1], after[1], -1),
        ("bound", before[2], after[2], 1),
    ):
        if old is not None and (new is None or sign * new < sign * old):
            return f"the {name} {new} comes after {old}, which is better"
    return None


def _check_last(result: Result, last: TrajectoryPoint, found: Findings) -> None:
    found.equal("the last makespan of the trajectory", last[1], result.makespan_ns)
    if result.status != "error":  # a conflict gives the bound up
        found.equal("the last bound of the trajectory", last[2], result.lower_bound_ns)
