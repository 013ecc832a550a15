"""Knapsack: keep the activations with the most recompute time that fit, recompute the others.

Source: the memory-budget mode of PyTorch's min-cut partitioner (``torch._functorch.partitioners``,
``activation_memory_budget``) and its use for selective checkpointing (``sac_ilp``): a 0/1 knapsack
over the activations, with sizes as weights and recompute times as values; no swaps.

Parameters: *max_bytes*, the capacity. By default it starts at the bytes of all activations less
those by which the peak exceeds the budget, and is lowered until the step runs.

Chosen here:

- an activation's value is the time to rebuild it while all other activations are there, the ops
  between them that nothing saves included; it can't know that a rebuild may need dropped ones;
- activations that can't be rebuilt are kept and are no items;
- the capacity is lowered in steps of 1/20, and the last step refined by bisection, since the
  memory that reruns take is not in the knapsack;
- the knapsack is solved by CP-SAT (`solve_knapsack`), exactly but for the hardest few, on which it
  stops after a fixed count of work.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

from slackopt.clock import OutOfTimeError, seconds_left
from slackopt.errors import InputError
from slackopt.heuristics.common.idle import MemoryProfile, activations
from slackopt.heuristics.common.running import priced, runs
from slackopt.heuristics.rebuilding import drop, rebuild_ns
from slackopt.heuristics.registry import NoPlanError, heuristic
from slackopt.instance import Instance
from slackopt.plan import Plan
from slackopt.simulation.evaluator import Evaluator
from slackopt.simulation.sequence import KEEP, RECOMPUTE

STEPS = 20
REFINEMENTS = 6
WORK = 1.0
"""Most work of CP-SAT on one knapsack, in its own deterministic units, about a second each."""
LARGEST_SUM = 2**53
"""Sums in the units of a knapsack's model stay below this: CP-SAT wants them well within 64 bits,
and its LP relaxation holds them in doubles."""


@heuristic("knapsack")
def knapsack(instance: Instance, *, max_bytes: int | None = None) -> Plan:
    """Keep what takes longest to rebuild by a 0/1 knapsack, recompute the rest (PyTorch).

    Parameters
    ----------
    instance
        The instance.
    max_bytes
        Capacity: most bytes of activations kept; found by the rule by default.

    Raises
    ------
    NoPlanError
        If the step doesn't run with any capacity tried.
    InputError
        If *max_bytes* is below 0.
    """
    if max_bytes is not None and max_bytes < 0:
        raise InputError(f"option max_bytes is {max_bytes}; give a number of bytes from 0")
    life = instance.lifetimes
    costs = {t: rebuild_ns(life, t) for t in activations(life)}
    values = {t: ns for t, ns in costs.items() if ns is not None}
    items = list(values)
    memory = [life.sizes_bytes[t] for t in items]
    evaluator = Evaluator(instance)

    def decide(capacity: int) -> list[int]:
        _, kept = solve_knapsack(memory, list(values.values()), capacity)
        decisions = [KEEP] * life.num_tensors
        dropped = set(range(len(items))) - set(kept)
        drop(life, decisions, [items[i] for i in sorted(dropped)], RECOMPUTE)
        return decisions

    if max_bytes is not None:
        return priced(evaluator, "knapsack", decide(max_bytes), max_bytes=max_bytes)
    keep_all = [KEEP] * life.num_tensors
    if runs(evaluator, keep_all):
        return priced(evaluator, "knapsack", keep_all)
    full = max(0, sum(memory) - MemoryProfile(instance).excess_bytes)
    too_much = full
    for capacity in (full * i // STEPS for i in range(STEPS, -1, -1)):
        best = decide(capacity)
        if not runs(evaluator, best):
            too_much = capacity
            continue
        low = capacity
        try:
            for _ in range(REFINEMENTS if too_much > low else 0):
                middle = (low + too_much) // 2
                trial = decide(middle)
                if runs(evaluator, trial):
                    low, best = middle, trial
                else:
                    too_much = middle
        except OutOfTimeError:
            pass  # the last one that ran will do
        return priced(evaluator, "knapsack", best, max_bytes=low)
    raise NoPlanError("knapsack", instance, "with any share of the activations kept")


def solve_knapsack(
    memory: Sequence[float], runtimes: Sequence[float], capacity: float
) -> tuple[float, list[int]]:
    """Solve a 0/1 knapsack, with CP-SAT.

    CP-SAT and not OR-Tools' knapsack solvers, because it refuses numbers that overflow and takes
    equal items, of which a model with many layers is full, as one integer variable. It starts from
    the greedy filling (Dantzig 1957).

    Parameters
    ----------
    memory, runtimes
        Weight and value of each item, at least 0.
    capacity
        Most weight.

    Returns
    -------
    value
        Largest total runtime of items whose memory fits, 0 for none; that of a filling which
        fits, where `WORK` or the time limit (`slackopt.clock`) is used up before the proof, or
        numbers are rounded because their sum is above `LARGEST_SUM` times their common divisor.
    kept
        Indices of the items, ascending.
    """
    if capacity < 0 or not memory:
        return 0, []
    sizes, worths = [Fraction(m) for m in memory], [Fraction(r) for r in runtimes]
    size_unit, worth_unit = _unit(sizes), _unit(worths)
    # Rounded so that what fits in the model fits.
    weights = [math.ceil(size / size_unit) for size in sizes]
    room = math.floor(min(Fraction(capacity), sum(sizes)) / size_unit)
    values = [math.floor(worth / worth_unit) for worth in worths]
    kinds: dict[tuple[int, int], list[int]] = {}
    for i, kind in enumerate(zip(weights, values, strict=True)):
        kinds.setdefault(kind, []).append(i)
    from ortools.sat.python import cp_model  # takes most of a second, and few runs need it

    model = cp_model.CpModel()
    taken = [model.new_int_var(0, len(items), "") for items in kinds.values()]
    model.add(cp_model.LinearExpr.weighted_sum(taken, [w for w, _ in kinds]) <= room)
    model.maximize(cp_model.LinearExpr.weighted_sum(taken, [v for _, v in kinds]))
    counts = _greedy(kinds, room)
    for column, count in zip(taken, counts, strict=True):
        model.add_hint(column, count)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.catch_sigint_signal = False  # Ctrl-C stays Python's
    solver.parameters.cp_model_presolve = False  # on thousands of items it takes seconds
    solver.parameters.linearization_level = 2
    solver.parameters.max_time_in_seconds = min(seconds_left(), 1e9)
    solver.parameters.max_deterministic_time = WORK
    if solver.solve(model) in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        counts = [solver.value(column) for column in taken]
    kept = sorted(
        i for count, items in zip(counts, kinds.values(), strict=True) for i in items[:count]
    )
    return sum(runtimes[i] for i in kept), kept


def _greedy(kinds: dict[tuple[int, int], list[int]], room: int) -> list[int]:
    """How many items of each kind the greedy filling takes, by value per weight."""
    order = sorted(kinds, key=lambda kind: -kind[1] / kind[0] if kind[0] else -math.inf)
    counts = dict.fromkeys(kinds, 0)
    for kind in order:
        weight = kind[0]
        counts[kind] = min(len(kinds[kind]), room // weight) if weight else len(kinds[kind])
        room -= counts[kind] * weight
    return list(counts.values())


def _unit(numbers: Sequence[Fraction]) -> Fraction:
    """Return the largest unit in which all are whole; a larger one if their sum is too large."""
    whole = Fraction(
        math.gcd(*(f.numerator for f in numbers)) or 1, math.lcm(*(f.denominator for f in numbers))
    )
    return whole * max(1, math.ceil(sum(numbers) / whole / LARGEST_SUM))
