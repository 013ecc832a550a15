"""Accounts for every call of a step: in an op, left out for a reason, or without own work."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from slackopt.errors import InputError
from slackopt.profiles.traces.fields import shown
from slackopt.profiles.traces.mending import warn
from slackopt.profiles.traces.nodes import Node
from slackopt.profiles.traces.operators import ANNOTATION_SCOPE
from slackopt.profiles.traces.storages import Use


def account(
    where: str,
    window: Sequence[Node],
    uses: Sequence[Use],
    left_out: Mapping[str, Sequence[Use]],
    durations: object,
) -> dict[str, Any]:
    """Return how many calls went where, and warn of time on the device that belongs to no op.

    Parameters
    ----------
    where
        File and step, for messages.
    window
        The nodes of the step without those of the optimizer.
    uses
        Every op that was found, in the order of execution.
    left_out
        Those of them that are not in the graph, by reason.
    durations
        What timed the ops; asked by ``left(nodes)``, if it can tell, for the time it gave to none.

    Returns
    -------
    dict
        ``calls`` is the sum of ``in_ops``, ``left_out`` and ``without_work``: views, allocations,
        queries, and calls whose work is done by those below them.

    Raises
    ------
    InputError
        If a call belongs to two ops.
    """
    reason = {id(use): why for why, group in left_out.items() for use in group}
    owner: dict[int, str] = {}
    for use in uses:
        for node in use.calls:
            if node.id in owner:
                raise InputError(f"{where}: node {node.id} ({shown(node.name)}) is in two ops")
            owner[node.id] = reason.get(id(use), "")
    calls = [node for node in window if node.scope != ANNOTATION_SCOPE]
    found: dict[str, Any] = {
        "calls": len(calls),
        "in_ops": sum(owner.get(node.id) == "" for node in calls),
        "left_out": {why: sum(owner.get(n.id) == why for n in calls) for why in left_out},
        "without_work": sum(node.id not in owner for node in calls),
    }
    left = getattr(durations, "left", None)
    if left is not None:
        outside = [node for node in calls if node.id not in owner]
        lost = left(outside)
        found["time_in_no_op_ns"] = sum(lost.values())
        if lost:
            first = next(node for node in outside if left([node]))
            warn(
                f"{where}: {found['time_in_no_op_ns']} ns on the device are of {len(lost)} calls "
                f"(the first: {shown(first.name)}) of which no tensor is known, so that they are "
                "in no op"
            )
    return found
