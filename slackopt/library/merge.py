"""Put a checked proposal beside what is known: an improvement, nothing new, or a conflict."""

from __future__ import annotations

from dataclasses import dataclass, field

from slackopt.library.proposal import Proposal
from slackopt.library.records import (
    BestEntry,
    BoundClaim,
    Improvement,
    Origin,
    PlanClaim,
    What,
    certified_gap,
)


@dataclass
class Merged:
    """An entry after a proposal.

    Attributes
    ----------
    entry
        The new entry; the old one if there is a conflict.
    improvements
        What became better, oldest first.
    conflict
        Says which two claims can't both be true, each with its source; None as it should be.
    """

    entry: BestEntry
    improvements: list[Improvement] = field(default_factory=list)
    conflict: str | None = None


def merge(entry: BestEntry, proposal: Proposal) -> Merged:
    """Merge a proposal into an entry.

    A bound above a plan, or a proof that no plan exists beside a plan, is a conflict, whichever
    of the two is new: one of them is wrong, so neither is taken.
    """
    steps: list[Improvement] = []
    plan, bound, word = entry.plan, entry.bound, entry.solver_bound
    if proposal.plan and (plan is None or proposal.plan.makespan_ns < plan.makespan_ns):
        steps.append(_step("plan", proposal.plan, plan))
        plan = proposal.plan
    if proposal.bound and (bound is None or proposal.bound.lower_bound_ns > bound.lower_bound_ns):
        steps.append(_step("bound", proposal.bound, bound))
        bound = proposal.bound
    least = max(claim.lower_bound_ns if claim else 0 for claim in (bound, word))
    if proposal.solver_bound and proposal.solver_bound.lower_bound_ns > least:
        steps.append(_step("solver_bound", proposal.solver_bound, word))
        word = proposal.solver_bound
    if bound is not None and word is not None and word.lower_bound_ns <= bound.lower_bound_ns:
        word = None  # proved by now
    infeasible = entry.infeasible
    if infeasible is None and proposal.infeasible is not None:
        infeasible = proposal.infeasible
        steps.append(
            Improvement(what="infeasible", sha256=infeasible.sha256, origin=infeasible.origin)
        )
    largest = word or bound
    conflict = None
    if plan is not None and infeasible is not None:
        conflict = f"no plan exists ({_by(infeasible.origin)}), and {_plan(plan)}"
    elif plan is not None and largest is not None and largest.lower_bound_ns > plan.makespan_ns:
        trust = " on the solver's word" if largest is word else ""
        conflict = (
            f"no plan is below {largest.lower_bound_ns} ns{trust} ({_by(largest.origin)}), and "
            f"{_plan(plan)}"
        )
    if conflict is not None:
        return Merged(entry, conflict=f"conflict on {entry.instance!r}: {conflict}")
    if not steps:
        return Merged(entry)
    gap = certified_gap(
        None if plan is None else plan.makespan_ns,
        None if largest is None else largest.lower_bound_ns,
    )
    changed = entry.model_copy(
        update={
            "plan": plan,
            "bound": bound,
            "solver_bound": word,
            "infeasible": infeasible,
            "gap": gap,
            "history": (*entry.history, *steps),
        }
    )
    return Merged(changed, steps)


def _step(
    what: What, new: PlanClaim | BoundClaim, old: PlanClaim | BoundClaim | None
) -> Improvement:
    return Improvement(
        what=what,
        value_ns=_value(new),
        previous_ns=None if old is None else _value(old),
        sha256=new.sha256,
        origin=new.origin,
    )


def _value(claim: PlanClaim | BoundClaim) -> int:
    return claim.makespan_ns if isinstance(claim, PlanClaim) else claim.lower_bound_ns


def _plan(plan: PlanClaim) -> str:
    return f"a plan of {plan.makespan_ns} ns was simulated and checked ({_by(plan.origin)})"


def _by(origin: Origin) -> str:
    return f"{origin}, by {origin.by}"
