"""Make a plan fit, or a faster one: a guided search over decisions.

Ours. A plan is sought that fits the budget in every slot and takes less than a given time. Each of
these demands has a weight. A step looks at a job that does not fit (or at the time, where all
fit), changes one decision that holds memory there (or takes time), the one that leaves the least
weighted excess, and forbids its undoing for some steps (tabu search, Glover 1989, doi
10.1287/ijoc.1.3.190). Where no change helps, the weights of what is not met grow (the breakout
method, Morris 1993, AAAI-93).
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from random import Random

from slackopt.heuristics.rebuilding import recompute_step
from slackopt.simulation.evaluator import Evaluator
from slackopt.simulation.sequence import KEEP, RECOMPUTE, SWAP, ComputeSequence, compute_sequence

_MOST_MOVES = 64
"""Moves that a step tries at most; a random choice of them if there are more."""

_TENURE = 5
"""Steps for which a tensor's decision stays, at least; up to as many again are drawn."""

_GROWTH = 0.5
"""What a weight grows by."""

Move = tuple[tuple[int, int], ...]


_TIME = -1
"""Stands for the time among the slots that have weights."""


@dataclass(frozen=True)
class Fit:
    """How far a decision vector is from what is wanted.

    Attributes
    ----------
    sequence
        The compute sequence.
    over
        Position -> bytes above the budget, for the jobs that do not fit, copies aside.
    makespan_ns
        As simulated, if the jobs fit and the plan runs; None otherwise.
    late_ns
        Time from the wanted makespan on; without simulation, of the jobs alone. 0 is in time.
    """

    sequence: ComputeSequence
    over: dict[int, int]
    makespan_ns: int | None
    late_ns: int


class Fitting:
    """The search.

    Parameters
    ----------
    evaluator
        Of the instance.
    seed
        Of random choices.
    max_evaluations
        Decision vectors to look at, at most, in all calls of `search`.
    deadline
        `time.monotonic` value at which to stop, or None.

    Attributes
    ----------
    evaluations
        Decision vectors looked at.
    """

    def __init__(
        self, evaluator: Evaluator, seed: int, max_evaluations: int, deadline: float | None
    ) -> None:
        self.evaluator, self.life = evaluator, evaluator.life
        self.evaluations, self.max_evaluations, self.deadline = 0, max_evaluations, deadline
        self._rng = Random(seed)  # noqa: S311 - no secret
        options = {t: evaluator.options(t) for t in range(self.life.num_tensors)}
        self.options = {t: found for t, found in options.items() if len(found) > 1}
        self._ideal_ns = sum(self.life.durations_ns)
        self._steps = {
            t: tuple(recompute_step(self.life, t, RECOMPUTE).items())
            for t, found in self.options.items()
            if RECOMPUTE in found
        }

    def is_over(self) -> bool:
        """Return whether the evaluations or the time are used up."""
        late = self.deadline is not None and time.monotonic() >= self.deadline
        return late or self.evaluations >= self.max_evaluations

    def fit(self, decisions: Sequence[int], below_ns: int | None = None) -> Fit:
        """Look at a decision vector; a swapped tensor is away between its uses."""
        self.evaluations += 1
        life, instance = self.life, self.evaluator.instance
        sequence = compute_sequence(life, decisions)
        change = [
            allocated - freed
            for allocated, freed in zip(
                sequence.allocated_bytes, [0, *sequence.freed_bytes], strict=False
            )
        ]
        change[0] += sequence.batch_bytes
        for needed in sequence.needs.values():
            for t in needed:
                last = life.last_forward_use[t]
                change[sequence.base_position[last] + 1 if last >= 0 else 0] -= life.sizes_bytes[t]
                change[sequence.next_need[t]] += life.sizes_bytes[t]
        budget = instance.budget_bytes
        over = {i: used - budget for i, used in enumerate(accumulate(change)) if used > budget}
        least = sum(map(life.durations_ns.__getitem__, sequence.ops))
        makespan = None
        if not over:
            makespan = self.evaluator.makespan_ns(decisions) if sequence.needs else least
            if makespan is None:  # the copies get in each other's way: as bad as all copies in turn
                least += instance.device.swap_out_ns(sum(life.sizes_bytes))
        reached = least if makespan is None else makespan
        late = 0 if below_ns is None else max(0, reached - below_ns + 1)
        return Fit(sequence, over, makespan, late)

    def search(
        self, decisions: Sequence[int], max_steps: int, below_ns: int | None = None
    ) -> tuple[list[int], int] | None:
        """Search from `decisions` on.

        Parameters
        ----------
        decisions
            Where to start.
        max_steps
            Decisions to change at most.
        below_ns
            Makespan that the plan must be below; None for any.

        Returns
        -------
        tuple of list of int and int, or None
            The first decision vector found that runs, and its makespan.
        """
        current = list(decisions)
        state = self.fit(current, below_ns)
        weights: dict[int, float] = {}
        forbidden: dict[int, int] = {}
        for step in range(max_steps):
            if state.makespan_ns is not None and not state.late_ns:
                return current, state.makespan_ns
            if self.is_over():
                return None
            moves = [
                move for move in self._moves(current, state) if forbidden.get(move[0][0], -1) < step
            ]
            if len(moves) > _MOST_MOVES:
                moves = self._rng.sample(moves, _MOST_MOVES)
            best: tuple[float, Move, Fit] | None = None
            for move in moves:
                if self.is_over():
                    break
                trial = list(current)
                for t, code in move:
                    trial[t] = code
                found = self.fit(trial, below_ns)
                value = self._weighted(found, weights)
                if best is None or value < best[0]:
                    best = value, move, found
                if found.makespan_ns is not None and not found.late_ns:
                    break
            if best is None or best[0] >= self._weighted(state, weights):
                slots = {state.sequence.slots[i] for i in state.over}
                for slot in slots | ({_TIME} if state.late_ns else set()):
                    weights[slot] = weights.get(slot, 1.0) + _GROWTH
            if best is not None:
                _, move, state = best
                for t, code in move:
                    current[t] = code
                forbidden[move[0][0]] = step + _TENURE + self._rng.randrange(_TENURE)
        if state.makespan_ns is not None and not state.late_ns:
            return current, state.makespan_ns
        return None

    def _weighted(self, fit: Fit, weights: dict[int, float]) -> float:
        """Weighted excess, in parts of the budget and of the ideal time."""
        slots, instance = fit.sequence.slots, self.evaluator.instance
        over = sum(weights.get(slots[i], 1.0) * more for i, more in fit.over.items())
        late = weights.get(_TIME, 1.0) * fit.late_ns / self._ideal_ns
        unable = not fit.over and fit.makespan_ns is None
        return over / instance.budget_bytes + late + unable

    def _moves(self, decisions: Sequence[int], state: Fit) -> list[Move]:
        """Return changes of one decision that may lead to what is wanted."""
        if state.over:
            return self._moves_at(decisions, state, self._rng.choice(list(state.over)))
        return [
            ((t, code),)
            for t, found in self.options.items()
            if decisions[t] != KEEP
            for code in found
            if code != decisions[t]
        ]

    def _moves_at(self, decisions: Sequence[int], state: Fit, position: int) -> list[Move]:
        """Return changes of one decision that may lower the memory of the job at `position`."""
        life, sequence = self.life, state.sequence
        slot = sequence.slots[position]
        first_after: dict[int, int] = {}
        rebuilt: dict[int, int] = {}
        for i, op in enumerate(sequence.ops):
            for t in life.inputs[op]:
                last = life.last_forward_use[t]
                if t not in first_after and (last < 0 or i > sequence.base_position[last]):
                    first_after[t] = i
            if sequence.reruns[i]:
                for t in life.outputs[op]:
                    rebuilt.setdefault(t, i)
        moves: list[Move] = []
        for t, found in self.options.items():
            last = life.last_forward_use[t]
            begin = sequence.base_position[last] if last >= 0 else -1
            if decisions[t] == KEEP:
                if begin < position < first_after.get(t, -1):
                    if SWAP in found:
                        moves.append(((t, SWAP),))
                    if RECOMPUTE in found:
                        moves.append(((t, RECOMPUTE),))
                        if len(self._steps[t]) > 1:
                            moves.append(self._steps[t])
            elif decisions[t] == RECOMPUTE:
                i = rebuilt.get(t, -1)
                if (
                    i >= 0
                    and sequence.slots[i] <= slot
                    and (sequence.slots[i] == slot or sequence.last_use[t] >= position)
                ):
                    moves += [((t, code),) for code in found if code != RECOMPUTE]
            elif sequence.next_need[t] <= position <= sequence.last_use[t]:
                moves += [((t, code),) for code in found if code == RECOMPUTE]
        return moves
