"""`verify`: an independent check of every claim in a result; knows no solver."""

from __future__ import annotations

from fractions import Fraction

from slackopt.errors import CheckError, InfeasibleError, InputError
from slackopt.formulations.certificate import bound_from_weights, proves_infeasible
from slackopt.formulations.window import WindowFormulation
from slackopt.instance import Instance
from slackopt.result import Result
from slackopt.simulation import check_timeline, simulate


def verify(instance: Instance, result: Result) -> list[str]:
    """Check a result against its instance.

    The plan is simulated again and its timeline checked; every number about it must agree. The
    bound is recomputed from its certificate in exact arithmetic. What can't be checked without a
    solver is said.

    Returns
    -------
    list of str
        What was checked, one sentence each.

    Raises
    ------
    CheckError
        With every claim that does not hold.
    InputError
        If the result is for another instance.
    """
    if result.instance_sha256 != instance.sha256:
        raise InputError(
            f"the result is for instance {result.instance!r} ({result.instance_sha256[:12]}), not "
            f"for {instance.name!r} ({instance.sha256[:12]}); give the instance it was made from"
        )
    failures: list[str] = []
    checked: list[str] = []

    def compare(name: str, claimed: object, found: object) -> None:
        if claimed != found:
            failures.append(f"{name} is claimed as {claimed}, and is {found}")

    compare("ideal_ns", result.ideal_ns, instance.ideal_ns)
    compare("budget_bytes", result.budget_bytes, instance.budget_bytes)
    if result.plan is not None:
        timeline = simulate(instance, result.plan)
        if not timeline.feasible:
            failures.append(f"the plan can't run: {timeline.explain()}")
        else:
            try:
                check_timeline(timeline)
            except CheckError as error:
                failures += error.failures
            compare("makespan_ns", result.makespan_ns, timeline.makespan_ns)
            compare("throughput_ratio", result.throughput_ratio, timeline.throughput_ratio)
            compare("recompute_ns", result.recompute_ns, timeline.recompute_ns)
            compare("stall_ns", result.stall_ns, timeline.stall_ns())
            compare("swapped_bytes", result.swapped_bytes, timeline.swapped_bytes)
            compare("recomputed_bytes", result.recomputed_bytes, timeline.recomputed_bytes)
            compare("peak_bytes", result.peak_bytes, timeline.peak_bytes)
            checked.append(f"plan simulated and checked: {timeline.explain()}")
    elif result.makespan_ns is not None or result.status in ("optimal", "feasible"):
        failures.append(f"status {result.status!r} with a makespan, but without a plan")
    _verify_bound(instance, result, failures, checked)
    if result.status == "infeasible":
        _verify_infeasible(instance, result, failures, checked)
    if failures:
        raise CheckError(failures)
    return checked


def _verify_bound(
    instance: Instance, result: Result, failures: list[str], checked: list[str]
) -> None:
    bound, makespan = result.lower_bound_ns, result.makespan_ns
    if bound is not None and makespan is not None and bound > makespan:
        failures.append(f"lower_bound_ns {bound} is above makespan_ns {makespan}")
    expected = None if bound is None or makespan is None else (makespan - bound) / bound
    if result.gap != expected:
        failures.append(f"gap is claimed as {result.gap}, and is {expected}")
    if result.status == "optimal":
        tolerance = result.options.get("gap", 0.0)
        if isinstance(tolerance, bool) or not isinstance(tolerance, int | float):
            failures.append(f"options.gap must be a number, and is {tolerance!r}")
            tolerance = 0.0
        if expected is None or expected > tolerance:
            failures.append(f"status 'optimal' with gap {expected} above the tolerance {tolerance}")
    if bound is None:
        return
    proved = instance.ideal_ns
    if result.bound_certificate is not None:
        weights = {entry.row: Fraction(entry.weight) for entry in result.bound_certificate}
        try:
            proved = bound_from_weights(WindowFormulation(instance), weights)
        except (KeyError, ValueError, ZeroDivisionError) as error:
            failures.append(f"the bound certificate can't be added up: {error}")
            return
    share = f"{proved} ns proved without a solver from {len(result.bound_certificate or ())} rows"
    if bound <= proved:
        checked.append(f"lower bound {bound} ns checked: {share}")
    else:
        excess = (bound - proved) / proved
        checked.append(
            f"lower bound {bound} ns: {share}; the last {100 * excess:.6f} % rest on the "
            "solver's word"
        )


def _verify_infeasible(
    instance: Instance, result: Result, failures: list[str], checked: list[str]
) -> None:
    try:
        instance.check_working_set()
    except InfeasibleError as error:
        checked.append(str(error))
        return
    if result.bound_certificate is None:
        checked.append("infeasible: the working-set check does not show it; it rests on the solver")
        return
    weights = {entry.row: Fraction(entry.weight) for entry in result.bound_certificate}
    try:
        proved = proves_infeasible(WindowFormulation(instance), weights)
    except (KeyError, ValueError, ZeroDivisionError) as error:
        failures.append(f"the proof of infeasibility can't be added up: {error}")
        return
    if proved:
        checked.append(f"infeasible: {len(weights)} rows contradict each other, exactly added up")
    else:
        failures.append("the rows given as proof of infeasibility don't contradict each other")
