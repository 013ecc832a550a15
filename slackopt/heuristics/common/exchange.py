"""The engine of `local-search`: change a plan a little, simulate, keep what is faster.

Ours. Anytime, seeded, from any plan. A move gives one to three tensors another *action*: keep;
swap; recompute with the sources that only a rerun reads kept, or dropped as well. Most moves can't
help, so each is first estimated: it must take less time in reruns (or, where the plan stalls, in
copies), and must fit into the memory that the current plan leaves free at its scarcest ops. Only
then is it simulated, exactly.
"""

from __future__ import annotations

import random
import time
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import comb

from slackopt.heuristics.rebuilding import rerun_ops
from slackopt.lifetimes import ABSENT
from slackopt.simulation.evaluator import Evaluator
from slackopt.simulation.prefetch import free_during_jobs
from slackopt.simulation.sequence import KEEP, RECOMPUTE, SWAP

_SEGMENTS = 48
"""The scarcest op of each of so many stretches of the step stands for it in estimates."""


@dataclass(frozen=True)
class _Action:
    """What a tensor can be given: decisions, time in reruns and copies, bytes it keeps."""

    decisions: tuple[tuple[int, int], ...]
    rerun_ns: int
    copy_ns: int
    kept: tuple[tuple[int, int, int], ...]  # first op, op after the last, bytes


@dataclass
class _State:
    """The current plan, and where its memory is scarce."""

    decisions: list[int]
    makespan: int
    stall_ns: int
    scarce: list[tuple[int, int]] = field(default_factory=list)  # op, free bytes


def local_search(
    evaluator: Evaluator,
    decisions: Sequence[int],
    *,
    seed: int = 0,
    deadline: float | None = None,
    max_evaluations: int | None = None,
    max_idle_moves: int | None = None,
) -> Iterator[list[int]]:
    """Yield ever faster decision vectors.

    Parameters
    ----------
    evaluator
        Prices plans.
    decisions
        Where to start; must run.
    seed
        Of the random moves.
    deadline
        `time.monotonic` value at which to stop.
    max_evaluations
        Plans to simulate at most: a limit that does not depend on the machine's speed.
    max_idle_moves
        Stop after so many moves in a row that were not worth simulating; by default 200,000, or
        ten times as many as there are moves if that is less.
    """
    rng = random.Random(seed)  # noqa: S311 - no secret
    actions = {t: _actions(evaluator, t) for t in evaluator.life.candidates}
    actions = {t: found for t, found in actions.items() if len(found) > 1}
    tensors = list(actions)
    state = _priced(evaluator, decisions)
    if state is None or not tensors:
        return
    if max_idle_moves is None:
        number = sum(map(len, actions.values()))
        max_idle_moves = min(200_000, 10 * (number + comb(number, 2) + comb(number, 3)))
    simulated = idle = 0
    while idle < max_idle_moves:
        if max_evaluations is not None and simulated >= max_evaluations:
            return
        if deadline is not None and idle % 64 == 0 and time.monotonic() >= deadline:
            return
        chosen = rng.sample(tensors, min(len(tensors), rng.choice((1, 2, 2, 2, 3))))
        move = [(t, rng.choice(actions[t])) for t in chosen]
        old = [(_current(actions[t], state.decisions), new) for t, new in move]
        if not _worth_simulating(state, old):
            idle += 1
            continue
        idle = 0
        trial = list(state.decisions)
        for _, new in move:
            for t, code in new.decisions:
                trial[t] = code
        simulated += 1
        makespan = evaluator.makespan_ns(trial)
        if makespan is None or makespan > state.makespan or trial == state.decisions:
            continue
        faster = makespan < state.makespan
        state = _priced(evaluator, trial) or state
        if faster:
            yield list(state.decisions)


def _actions(evaluator: Evaluator, t: int) -> list[_Action]:
    """List the actions of a candidate."""
    life, device = evaluator.life, evaluator.instance.device
    size = life.sizes_bytes[t]
    options = evaluator.options(t)
    first, use = life.last_forward_use[t] + 1, life.first_backward_use[t]
    found = [_Action(((t, KEEP),), 0, 0, ((first, use, size),))]
    if SWAP in options:
        found.append(_Action(((t, SWAP),), 0, device.swap_out_ns(size), ()))
    if RECOMPUTE in options:
        j = life.producer[t]
        sources = [q for q in life.inputs[j] if life.first_backward_use[q] == ABSENT]
        kept = tuple((life.last_forward_use[q] + 1, use, life.sizes_bytes[q]) for q in sources)
        codes = ((t, RECOMPUTE), *((q, KEEP) for q in sources))
        found.append(_Action(codes, life.durations_ns[j], 0, kept))
        chain = rerun_ops(life, t)
        if sources and chain is not None:
            read = {q for k in chain for q in life.inputs[k]}
            passed = sorted(q for q in read if life.first_backward_use[q] == ABSENT)
            codes = ((t, RECOMPUTE),)
            kept = ()
            for q in passed:
                if life.can_recompute(q):
                    codes += ((q, RECOMPUTE),)
                else:  # the batch, say: a rerun can read it only if it stays
                    codes += ((q, KEEP),)
                    kept += ((life.last_forward_use[q] + 1, use, life.sizes_bytes[q]),)
            found.append(_Action(codes, sum(life.durations_ns[k] for k in chain), 0, kept))
    return found


def _current(actions: Sequence[_Action], decisions: Sequence[int]) -> _Action:
    """Return the action that a tensor has now; of two that differ in sources, the one they have."""
    fitting = [a for a in actions if decisions[a.decisions[0][0]] == a.decisions[0][1]]
    exact = [a for a in fitting if all(decisions[t] == code for t, code in a.decisions)]
    return (exact or fitting or [actions[0]])[0]


def _priced(evaluator: Evaluator, decisions: Sequence[int]) -> _State | None:
    """Simulate a plan and find its scarce ops; None if it runs out of memory."""
    sequence, record = evaluator.simulate(decisions)
    if record.out_of_memory is not None:
        return None
    life, instance = evaluator.life, evaluator.instance
    makespan = record.job_ends_ns[-1]
    busy = sum(life.durations_ns[k] for k in sequence.ops)
    free = free_during_jobs(life, instance.device, instance.budget_bytes, sequence)
    at_op = [free[position] for position in sequence.base_position]
    scarce = []
    for i in range(_SEGMENTS):
        begin, end = len(at_op) * i // _SEGMENTS, len(at_op) * (i + 1) // _SEGMENTS
        if begin < end:
            k = min(range(begin, end), key=at_op.__getitem__)
            scarce.append((k, at_op[k]))
    return _State(list(decisions), makespan, makespan - busy, scarce)


def _worth_simulating(state: _State, changes: Sequence[tuple[_Action, _Action]]) -> bool:
    """Whether a move can make the step faster, and may fit."""
    rerun = sum(new.rerun_ns - old.rerun_ns for old, new in changes)
    copy = sum(new.copy_ns - old.copy_ns for old, new in changes)
    if all(old == new for old, new in changes):
        return False
    # Without stalls only fewer reruns help; with stalls, fewer copies may.
    if rerun >= 0 and not (state.stall_ns > rerun and copy < 0):
        return False
    ops = [k for k, _ in state.scarce]
    added = [0] * len(ops)
    for old, new in changes:
        for sign, action in ((-1, old), (1, new)):
            for first, end, size in action.kept:
                for i in range(bisect_left(ops, first), bisect_left(ops, end)):
                    added[i] += sign * size
    return all(more <= max(free, 0) for more, (_, free) in zip(added, state.scarce, strict=True))
