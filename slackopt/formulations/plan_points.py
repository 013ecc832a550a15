"""The point of a simulated plan in the window formulation (docs/formulations.md)."""

from __future__ import annotations

from collections.abc import Sequence

from slackopt.formulations.window import WindowFormulation
from slackopt.simulation.engine import RunRecord
from slackopt.simulation.sequence import RECOMPUTE, SWAP, ComputeSequence


def plan_point(
    window: WindowFormulation,
    decisions: Sequence[int],
    sequence: ComputeSequence,
    record: RunRecord,
) -> list[int]:
    """Return the point of a plan that ran: one value per column, stalls in ns.

    Parameters
    ----------
    window
        The formulation.
    decisions, sequence, record
        The plan, and what `slackopt.simulation.evaluator.Evaluator.simulate` says of it.
    """
    life = window.life
    x = [0] * len(window.columns)
    slot_of: dict[int, int] = {}
    read_later: set[int] = set()
    previous = 0
    for op, rerun, slot, start, end in zip(
        sequence.ops,
        sequence.reruns,
        sequence.slots,
        record.job_starts_ns,
        record.job_ends_ns,
        strict=True,
    ):
        x[window.stall[slot]] += start - previous
        previous = end
        if rerun:
            slot_of[op] = slot
        read_later.update(t for t in life.inputs[op] if rerun or op > life.last_forward_use[t])
    for t in read_later:
        columns = {SWAP: window.swap, RECOMPUTE: window.recompute}.get(decisions[t], window.keep)
        if t in columns:
            x[columns[t]] = 1
    for j, slot in slot_of.items():
        x[window.rerun[j]] = 1
        for b, column in window.before.get(j, ()):
            x[column] = int(slot < b)
    for (q, b), column in window.kept_early.items():
        (reader,) = window.slots.readers[q]
        x[column] = int(x[window.keep[q]] == 1 and slot_of.get(reader, b) < b)
    for (q, b), column in window.swapped_early.items():
        (reader,) = window.slots.readers[q]
        x[column] = int(x[window.swap[q]] == 1 and slot_of.get(reader, b) < b)
    _settle_residents(window, x)
    return x


def _settle_residents(window: WindowFormulation, x: list[int]) -> None:
    """Give the columns of residency, one in each of these rows, the least value it allows."""
    decided = {
        *window.swap.values(),
        *window.recompute.values(),
        *window.keep.values(),
        *window.rerun.values(),
        *window.kept_early.values(),
        *window.swapped_early.values(),
        *(column for pairs in window.before.values() for _, column in pairs),
    }
    for row in window.resident_rows:
        for own in [j for j in row.coefficients if j not in decided]:
            rest = sum(a * x[j] for j, a in row.coefficients.items() if j != own)
            x[own] = max(0, rest - row.upper)
