"""Simulate a plan on its instance."""

from __future__ import annotations

from slackopt.instance import Instance
from slackopt.plan import Plan
from slackopt.simulation.engine import run
from slackopt.simulation.prefetch import default_triggers
from slackopt.simulation.sequence import DECISION_CODES, compute_sequence
from slackopt.simulation.timeline import Timeline


def simulate(instance: Instance, plan: Plan) -> Timeline:
    """Run one step of `instance` under `plan`.

    Parameters
    ----------
    instance, plan
        The plan must be one for this instance. Missing prefetch triggers come from
        `slackopt.simulation.prefetch.default_triggers`.

    Returns
    -------
    Timeline
        Also for a plan that runs out of memory: see `Timeline.out_of_memory`.

    Raises
    ------
    InputError
        If the plan does not fit the instance.

    Notes
    -----
    The semantics are those of docs/problem.md, to the nanosecond. There are no options: what lets
    a plan run sooner belongs to the instance, so that its bounds hold for every run.
    """
    plan.check(instance)
    life = instance.lifetimes
    names = [tensor.name for tensor in instance.graph.tensors]
    decisions = [DECISION_CODES[plan.decisions.get(name, "keep")] for name in names]
    sequence = compute_sequence(life, decisions)
    given = {t: plan.prefetch[name] for t, name in enumerate(names) if name in plan.prefetch}
    triggers = default_triggers(life, instance.device, instance.budget_bytes, sequence, given)
    record = run(life, instance.device, instance.budget_bytes, sequence, triggers)
    swapped = {t for tensors in sequence.needs.values() for t in tensors}
    prefetch = dict(plan.prefetch)
    prefetch.update({names[t]: triggers[t] for t in sorted(swapped)})
    complete = plan.model_copy(update={"prefetch": prefetch})
    return Timeline(instance, complete, sequence, record)
