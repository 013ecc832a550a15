"""Plans from the window LP: round it with a small integer model, simulate, mend, repeat.

The LP has few rows that bind, so most of its decisions are integral; the others, and those that
could be exchanged at no loss, make an integer model that is solved in a tenth of a second. Its
point is simulated. Where the simulated plan waits for memory or runs out of it, rows that the
relaxed model lacks are added to the LP (they cut off plans, so they never serve a bound), and the
LP, warm, is solved again.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from dataclasses import dataclass

from slackopt.formulations.drained import most_violated_drained_row
from slackopt.formulations.host_rows import most_violated_host_room
from slackopt.formulations.linear import Row
from slackopt.formulations.separation import most_violated_keys
from slackopt.formulations.window import UNITS_PER_BYTE, MemoryKey, WindowFormulation
from slackopt.lifetimes import ABSENT
from slackopt.simulation.evaluator import Evaluator
from slackopt.simulation.sequence import SWAP, ComputeSequence
from slackopt.solvers.decoding import decisions_of, earliest_swaps, memory_stalls
from slackopt.solvers.scaling import Floats
from slackopt.solvers.tie_break import tie_break
from slackopt.solvers.window_lp import WindowLp

FREE_COLUMNS = 300
"""Integral decisions that stay free in the first integer models."""

MOST_BARREN = 2
"""Points in a row whose plans all ran out of memory after which each such point is cut off."""

PATIENCE = 6
"""Rounds without a faster plan after which more decisions stay free."""


@dataclass(frozen=True)
class TriedPoint:
    """What simulating the plans of one point gave.

    Attributes
    ----------
    plans
        ``(makespan, decisions)`` of the plans that run, the fastest first.
    rows
        Rows that the point or its plans violate.
    """

    plans: list[tuple[int, list[int]]]
    rows: list[Row]


def try_point(
    window: WindowFormulation, evaluator: Evaluator, x: Floats, *, insist: bool = False
) -> TriedPoint:
    """Simulate the decisions at `x`, as they are and with early swaps first.

    `insist` makes sure that a plan which runs out of memory is cut off; see `margin_row`.
    """
    rows: list[Row] = []
    plans: list[tuple[int, list[int]]] = []
    budget = window.instance.budget_bytes
    first = decisions_of(window, list(x))
    moved = earliest_swaps(window, first)
    for decisions in (first,) if moved == first else (moved, first):
        point = x.copy()
        for t, column in window.swap.items():
            point[column] = float(decisions[t] == SWAP)
        keys = [key for _, key in most_violated_keys(window, point, 1e-5 * budget, 20)]
        rows += [window.row(key.name) for key in keys]
        sequence, record = evaluator.simulate(decisions)
        if record.out_of_memory is not None:
            oom = record.out_of_memory
            job = len(record.job_starts_ns)
            margin = margin_row(
                window,
                sequence.slots[job],
                oom.asked_bytes - oom.free_bytes,
                point,
                rerun=sequence.ops[job] if sequence.reruns[job] else None,
                root=last_rerun(sequence, job),
                insist=insist,
            )
            # Where swaps overfill the host, a margin on the device would ask for more swaps.
            rows.append(most_violated_host_room(window, point) or margin)
            continue
        plans.append((record.job_ends_ns[-1], decisions))
        stalls = memory_stalls(sequence, record)[:3]
        room = most_violated_host_room(window, point) if stalls else None
        if room is not None:
            rows.append(room)
        for slot, _ in stalls:
            drained = most_violated_drained_row(window, dict(enumerate(point)), slot)
            if drained is not None:
                rows.append(drained)
    return TriedPoint(sorted(plans), rows)


def last_rerun(sequence: ComputeSequence, job: int) -> int:
    """Return the op of the last rerun in the slot of a job; `ABSENT` if there is none."""
    slot = sequence.slots[job]
    found = ABSENT
    for op, rerun, where in zip(
        sequence.ops[job:], sequence.reruns[job:], sequence.slots[job:], strict=True
    ):
        if where != slot:
            break
        found = op if rerun else found
    return found


def margin_row(
    window: WindowFormulation,
    slot: int,
    missing_bytes: int,
    x: Floats,
    *,
    rerun: int | None = None,
    root: int = ABSENT,
    insist: bool = False,
) -> Row:
    """Tighten the memory row of an op at which a plan ran out by the bytes that it lacked.

    Where it ran out in a rerun, the row does not count that rerun's outputs and workspace. Then
    `root`, the last rerun of the slot, for which the others of a long chain are made, is forbidden;
    a rerun alone pays, by as much as cuts off `x`, the plan's point. `insist` makes sure that `x`
    is cut off.
    """
    if rerun is not None and not insist and root != rerun:
        return Row(f"no_rerun[{root}]", {window.rerun[root]: 1}, 0)
    row = window.memory_row(MemoryKey(slot, at_end=False))
    used = int(sum(a * float(x[j]) for j, a in row.coefficients.items()))
    missing = max(missing_bytes, 1) * UNITS_PER_BYTE
    if rerun is not None and not insist:
        coefficients, column = dict(row.coefficients), window.rerun[rerun]
        pays = max(row.upper - used, 0) + missing
        coefficients[column] = coefficients.get(column, 0) + pays
        return Row(f"memory_margin[{slot},{rerun},{pays}]", coefficients, row.upper)
    upper = (min(row.upper, used) if insist else row.upper) - missing
    return Row(f"memory_margin[{slot},{upper}]", row.coefficients, upper)


def rounded_plans(
    lp: WindowLp,
    evaluator: Evaluator,
    *,
    gap_ns: float,
    deadline: float | None = None,
    enough: float | None = None,
    rounds: int = 40,
    max_nodes: int | None = None,
) -> Iterator[list[int]]:
    """Yield decision vectors that run, each faster than those before.

    Parameters
    ----------
    lp
        The LP; its bound should have been taken, since from here on it certifies nothing.
    evaluator
        Prices plans.
    gap_ns
        Tolerance of the integer models.
    deadline
        `time.monotonic` value at which to stop.
    enough
        The same, once a plan has been found.
    rounds
        LP solves at most.
    max_nodes
        Nodes of each integer model at most, in the place of two seconds: for runs that do not
        depend on the machine's speed.
    """
    window = lp.window
    lp.break_ties(tie_break(window))
    names = {row.name for row in lp.rows}
    best: int | None = None
    free, stuck, barren = FREE_COLUMNS, 0, 0
    rng = random.Random(0)  # noqa: S311 - no secret
    for _ in range(rounds):
        point = lp.solve(deadline=deadline)
        until = deadline if best is None or enough is None else enough
        left = 1e9 if until is None else until - time.monotonic()
        if point.infeasible or not point.converged or left <= 0:
            return
        x = lp.restricted_mip(
            point.x,
            free,
            gap_ns=gap_ns,
            time_limit=min(2.0, left) if max_nodes is None else left,
            max_nodes=max_nodes,
            rng=rng if stuck else None,
        )
        new: dict[str, Row] = {}
        stuck += 1
        if x is not None:
            tried = try_point(window, evaluator, x, insist=barren >= MOST_BARREN)
            barren = 0 if tried.plans else barren + 1
            new = {row.name: row for row in tried.rows if row.name not in names}
            for makespan, decisions in tried.plans[:1]:
                if best is None or makespan < best:
                    best, stuck = makespan, 0
                    yield decisions
        if stuck >= PATIENCE:
            # Other neighbourhoods of this size have not helped: let more decisions move.
            if not new and free >= len(window.columns):
                return
            free, stuck = min(2 * free, len(window.columns)), 0
        names.update(new)
        lp.add_rows(list(new.values()))
