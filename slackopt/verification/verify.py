"""Check every claim of a result against its instance."""

from __future__ import annotations

from pydantic import ValidationError

from slackopt.errors import CheckError, InputError
from slackopt.instance import Instance
from slackopt.result import Result
from slackopt.verification.bound_claims import BoundClaims
from slackopt.verification.findings import Findings, Verification, shown
from slackopt.verification.plan_claims import check_plan
from slackopt.verification.run_claims import check_run
from slackopt.verification.status_claims import check_status
from slackopt.violations import violation_lines


def verify(instance: Instance, result: Result) -> Verification:
    """Check a result against its instance.

    The plan is simulated again and its timeline checked; every number about it must agree. The
    bound is recomputed from its certificate in exact arithmetic, and so is infeasibility. What
    can't be checked without a solver is said. `slackopt.verification.FIELDS` has every field.

    Returns
    -------
    Verification
        What was proved, and what rests on a solver's word, one sentence each.

    Raises
    ------
    CheckError
        With every claim that does not hold.
    InputError
        If the result is for another instance, or a field has a value that its format excludes.
    """
    result = _validated(result)
    if result.instance_sha256 != instance.sha256:
        raise InputError(
            f"the result is for instance {shown(result.instance)} ({result.instance_sha256[:12]}), "
            f"not for {shown(instance.name)} ({instance.sha256[:12]}); give the instance it was "
            "made from"
        )
    found = Findings()
    found.equal("instance", result.instance, instance.name)
    found.equal("ideal_ns", result.ideal_ns, instance.ideal_ns)
    found.equal("budget_bytes", result.budget_bytes, instance.budget_bytes)
    timeline = check_plan(instance, result, found)
    claims = BoundClaims(instance, result, found)
    claims.check()
    if timeline is not None and timeline.makespan_ns is not None:
        proved, makespan = claims.proved_ns, timeline.makespan_ns
        if claims.proved_infeasible or (proved is not None and proved > makespan):
            found.fail(
                f"a certificate proves that no plan is at {makespan} ns, and the plan was "
                "simulated; please report this instance"
            )
    check_status(result, timeline, found)
    check_run(result, found)
    if found.failures:
        raise CheckError(found.failures)
    return Verification(tuple(found.proved), tuple(found.on_word))


def _validated(result: Result) -> Result:
    """Validate again: a record that was copied with changes is not what a reader would let in."""
    try:
        return Result.model_validate(result.model_dump(warnings=False))
    except ValidationError as error:
        lines = violation_lines(error)
        raise InputError("the result has fields with wrong values", lines) from None
