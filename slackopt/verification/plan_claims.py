"""The claims about the plan: it runs, and every number of it is right."""

from __future__ import annotations

from slackopt.errors import CheckError, InputError
from slackopt.instance import Instance
from slackopt.result import Result
from slackopt.simulation import Timeline, check_timeline, simulate
from slackopt.verification.findings import Findings

FIGURES = (
    *("makespan_ns", "throughput_ratio", "recompute_ns", "stall_ns"),
    *("swapped_bytes", "recomputed_bytes", "peak_bytes"),
)
"""Fields that describe a plan, and are null where there is none."""


def check_plan(instance: Instance, result: Result, found: Findings) -> Timeline | None:
    """Simulate the plan and compare its figures; return its timeline if it runs."""
    plan = result.plan
    if plan is None:
        claimed = [name for name in FIGURES if getattr(result, name) is not None]
        if claimed:
            found.fail(f"there is no plan, and figures of one are given: {', '.join(claimed)}")
        return None
    found.equal("plan.instance", plan.instance, instance.name)
    try:
        timeline = simulate(instance, plan)
    except InputError as error:
        found.fail(f"the plan does not fit: {error.message}")
        found.failures += [f"plan.{line}" for line in error.violations]
        return None
    if not timeline.feasible:
        found.fail(f"the plan can't run: {timeline.explain()}")
        return None
    try:
        check_timeline(timeline)
    except CheckError as error:
        found.failures += error.failures
    for name in FIGURES:
        value = getattr(timeline, name)
        found.equal(name, getattr(result, name), value() if callable(value) else value)
    found.proved.append(f"plan simulated and checked: {timeline.explain()}")
    return timeline
