"""Local search: change a plan a little, let the simulator judge, keep what is faster.

Ours. Anytime, seeded, from any plan. Moves: one decision; an exchange between two tensors; a
tensor dropped together with, or kept apart from, the inputs its rebuilding needs.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Sequence

from slackopt.lifetimes import ABSENT
from slackopt.simulation.evaluator import Evaluator
from slackopt.simulation.sequence import KEEP, RECOMPUTE


def local_search(
    evaluator: Evaluator,
    decisions: Sequence[int],
    *,
    seed: int = 0,
    deadline: float | None = None,
    max_evaluations: int | None = None,
) -> Iterator[list[int]]:
    """Yield ever faster decision vectors, the first one from `decisions` that runs included.

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
        Plans to price at most: a limit that does not depend on the machine's speed.
    """
    rng = random.Random(seed)  # noqa: S311 - no secret
    current = list(decisions)
    best = evaluator.makespan_ns(current)
    if best is None:
        return
    options = {
        t: evaluator.options(t)
        for t in (*evaluator.life.candidates, *evaluator.life.closure)
        if len(evaluator.options(t)) > 1
    }
    tensors = [t for t in options if evaluator.life.first_backward_use[t] != ABSENT]
    if not tensors:
        return
    count = 0
    while (deadline is None or time.monotonic() < deadline) and (
        max_evaluations is None or count < max_evaluations
    ):
        trial = list(current)
        for t in rng.sample(tensors, min(len(tensors), rng.choice((1, 1, 2, 2, 2, 3)))):
            choice = rng.choice([d for d in options[t] if d != trial[t]])
            _decide(evaluator, trial, t, choice, rng)
        makespan = evaluator.makespan_ns(trial)
        count += 1
        if makespan is not None and makespan <= best:
            current = trial
            if makespan < best:
                best = makespan
                yield list(current)


def _decide(
    evaluator: Evaluator, decisions: list[int], t: int, choice: int, rng: random.Random
) -> None:
    """Give tensor `t` a decision; if recompute, give its missing sources one as well."""
    decisions[t] = choice
    life = evaluator.life
    if choice != RECOMPUTE:
        return
    for q in life.inputs[life.producer[t]]:
        if life.first_backward_use[q] == ABSENT and rng.random() < 0.5:
            drop = life.can_recompute(q) and rng.random() < 0.7
            if drop:
                _decide(evaluator, decisions, q, RECOMPUTE, rng)
            else:
                decisions[q] = KEEP
