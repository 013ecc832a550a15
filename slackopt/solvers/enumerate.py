"""The ``enumerate`` method: the true optimum of a tiny instance, by going through all its plans.

A plan is a decision vector and prefetch triggers. Decisions without effect are left out (a tensor
without a backward use counts only where a rerun reads it), and of all triggers one vector for
each distinct run (`slackopt.solvers.trigger_search`). No model, no solver and no heuristic takes
part: this is what the exact models are tested against.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from math import prod

from slackopt.errors import InputError
from slackopt.instance import Instance
from slackopt.lifetimes import Lifetimes
from slackopt.progress import Progress
from slackopt.result import StoppedBy
from slackopt.simulation.evaluator import Evaluator
from slackopt.simulation.sequence import KEEP, ComputeSequence, compute_sequence
from slackopt.solvers.options import SolveOptions
from slackopt.solvers.trigger_search import best_triggers

MAX_DECISION_VECTORS = 300_000
"""Default limit of `solve_by_enumeration`: room for three decisions on each of 11 tensors."""

_CHECK_EVERY = 256


def solve_by_enumeration(
    instance: Instance,
    progress: Progress,
    options: SolveOptions,  # noqa: ARG001 - same signature as every exact method
    *,
    max_decision_vectors: int = MAX_DECISION_VECTORS,
) -> StoppedBy:
    """Go through every plan of a tiny instance: the true optimum, without any model.

    Parameters
    ----------
    instance, progress, options
        As for every exact method.
    max_decision_vectors
        Refuse instances with more decision vectors.

    Raises
    ------
    InputError
        If there are more.
    """
    count = count_decision_vectors(instance)
    if count > max_decision_vectors:
        raise InputError(
            f"instance {instance.name!r} has {_about(count)} decision vectors, and enumeration "
            f"goes through at most {max_decision_vectors}; choose another exact method"
        )
    evaluator = Evaluator(instance)
    vectors: list[tuple[int, list[int]]] = []
    for i, (decisions, sequence) in enumerate(effective_decisions(evaluator)):
        if i % _CHECK_EVERY == 0 and progress.seconds_left <= 0:
            return "time"
        vectors.append((sequence_ns(instance.lifetimes, sequence), decisions))
    # Cheapest reruns first. Nothing shortens a step below the durations of its jobs: once these
    # alone reach the best makespan, no later vector can be below it.
    vectors.sort(key=lambda entry: entry[0])
    for least, decisions in vectors:
        best = progress.makespan_ns
        if best is not None and least >= best:
            break
        if progress.seconds_left <= 0:
            return "time"
        sequence = compute_sequence(instance.lifetimes, decisions)
        search = best_triggers(instance, sequence, cutoff_ns=best, deadline=progress.deadline)
        if search.triggers is not None:
            progress.offer_decisions(evaluator, decisions, "enumeration", search.triggers)
        if not search.complete:
            return "time"
    if progress.makespan_ns is None:
        progress.infeasible = True
        progress.note(f"none of the {len(vectors)} decision vectors runs, whatever the triggers")
    else:
        progress.offer_bound(progress.makespan_ns, "enumeration")
    return "error" if progress.conflict else "proof"


def count_decision_vectors(instance: Instance) -> int:
    """Return the number of decision vectors, those without effect included."""
    evaluator, life = Evaluator(instance), instance.lifetimes
    return prod(len(evaluator.options(t)) for t in range(life.num_tensors))


def effective_decisions(evaluator: Evaluator) -> Iterator[tuple[list[int], ComputeSequence]]:
    """Yield each decision vector in which every decision has an effect, and its sequence.

    A vector with decisions that have none runs exactly as the one in which those are keep.
    """
    life = evaluator.life
    choices = [evaluator.options(t) for t in range(life.num_tensors)]
    for vector in product(*choices):
        decisions = list(vector)
        sequence = compute_sequence(life, decisions)
        if all(decisions[t] == KEEP or is_read_again(life, sequence, t) for t in life.closure):
            yield decisions, sequence


def is_read_again(life: Lifetimes, sequence: ComputeSequence, t: int) -> bool:
    """Whether any job reads tensor `t` after its last forward use."""
    last = life.last_forward_use[t]
    return sequence.last_use[t] > (sequence.base_position[last] if last >= 0 else -1)


def without_effectless(
    life: Lifetimes, decisions: Sequence[int]
) -> tuple[list[int], ComputeSequence]:
    """Set decisions without effect to keep; return the vector and its sequence."""
    effective = list(decisions)
    sequence = compute_sequence(life, effective)
    for t in life.closure:
        if effective[t] != KEEP and not is_read_again(life, sequence, t):
            effective[t] = KEEP
    return effective, compute_sequence(life, effective)


def sequence_ns(life: Lifetimes, sequence: ComputeSequence) -> int:
    """Durations of all jobs of a sequence: no run of it is shorter."""
    return sum(life.durations_ns[op] for op in sequence.ops)


def _about(count: int) -> str:
    """Write a count, or its power of ten where it is too long to read."""
    return str(count) if count < 10**9 else f"about 10^{len(str(count)) - 1}"
