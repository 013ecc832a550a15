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
- the knapsack is solved exactly (`solve_knapsack`).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

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
        for _ in range(REFINEMENTS if too_much > low else 0):
            middle = (low + too_much) // 2
            trial = decide(middle)
            if runs(evaluator, trial):
                low, best = middle, trial
            else:
                too_much = middle
        return priced(evaluator, "knapsack", best, max_bytes=low)
    raise NoPlanError("knapsack", instance, "with any share of the activations kept")


def solve_knapsack(
    memory: Sequence[float], runtimes: Sequence[float], capacity: float
) -> tuple[Any, list[int]]:
    """Solve a 0/1 knapsack exactly.

    Undominated states (Nemhauser and Ullmann 1969), item by item in the order of runtime per
    memory; a state is dropped if even the fractional filling of what is left (Dantzig 1957) does
    not beat the best filling found so far. Activations come in few kinds, so few states survive.

    Parameters
    ----------
    memory, runtimes
        Weight and value of each item, at least 0.
    capacity
        Most weight.

    Returns
    -------
    value
        Largest total runtime of items whose memory fits, 0 for none.
    kept
        Indices of the items, ascending.
    """
    free = [i for i, weight in enumerate(memory) if weight == 0 and capacity >= 0]
    items = [i for i, weight in enumerate(memory) if 0 < weight <= capacity and runtimes[i] > 0]
    items.sort(key=lambda i: (-runtimes[i] / memory[i], memory[i], i))
    weights = [0, *accumulate(memory[i] for i in items)]
    values = [0, *accumulate(runtimes[i] for i in items)]

    def filled(i: int, room: float) -> int:
        """Index behind the last item of the greedy filling of `room` from item `i` on."""
        return bisect_right(weights, weights[i] + room) - 1

    # A state: weight, value, and the items taken, as nested pairs. Its best completion so far is
    # the greedy one: the items from `i` to `filled`.
    best_value: Any = -1
    best: tuple[tuple[Any, int] | None, int, int] = (None, 0, 0)
    states: list[tuple[Any, Any, tuple[Any, int] | None]] = [(0, 0, None)]
    for i in range(len(items) + 1):
        survivors = []
        bounds = []
        for weight, value, taken in states:
            end = filled(i, capacity - weight)
            lower = value + values[end] - values[i]
            if lower > best_value:
                best_value, best = lower, (taken, i, end)
            upper = lower
            if end < len(items):
                room = capacity - weight - (weights[end] - weights[i])
                upper += room * runtimes[items[end]] / memory[items[end]]
            survivors.append((weight, value, taken))
            bounds.append(upper)
        # The margin keeps rounding of the bound from cutting off a better filling.
        states = [
            s
            for s, upper in zip(survivors, bounds, strict=True)
            if upper * (1 + 1e-12) > best_value
        ]
        if i == len(items) or not states:
            break
        weight_i, value_i = memory[items[i]], runtimes[items[i]]
        added = [
            (weight + weight_i, value + value_i, (taken, i))
            for weight, value, taken in states
            if weight + weight_i <= capacity
        ]
        states = _undominated(states, added)
    taken, begin, end = best
    kept = [items[j] for j in range(begin, end)]
    while taken is not None:
        kept.append(items[taken[1]])
        taken = taken[0]
    kept = sorted(kept + free)
    return sum(runtimes[i] for i in kept), kept


def _undominated(
    old: list[tuple[Any, Any, Any]], new: list[tuple[Any, Any, Any]]
) -> list[tuple[Any, Any, Any]]:
    """Merge two lists of states; keep those that no lighter one equals in value."""
    merged: list[tuple[Any, Any, Any]] = []
    for state in sorted(old + new, key=lambda s: (s[0], -s[1])):
        if not merged or state[1] > merged[-1][1]:
            merged.append(state)
    return merged
