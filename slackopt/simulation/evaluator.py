"""Fast pricing of many plans of one instance, by decision vectors: for searches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from slackopt.instance import Instance
from slackopt.plan import Decision, Plan
from slackopt.simulation.engine import RunRecord, run
from slackopt.simulation.prefetch import default_triggers
from slackopt.simulation.sequence import (
    DECISION_CODES,
    KEEP,
    RECOMPUTE,
    SWAP,
    ComputeSequence,
    compute_sequence,
)

_NAMES: dict[int, Decision] = {KEEP: "keep", SWAP: "swap", RECOMPUTE: "recompute"}


class Evaluator:
    """Prices decision vectors (one code per tensor) exactly as `slackopt.simulation.simulate` does.

    Parameters
    ----------
    instance
        The instance.

    Attributes
    ----------
    evaluations
        How many plans were priced.
    """

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        self.life = instance.lifetimes
        self.evaluations = 0
        self._closure = frozenset(self.life.closure)

    def simulate(
        self, decisions: Sequence[int], given: Mapping[int, int] | None = None
    ) -> tuple[ComputeSequence, RunRecord]:
        """Simulate a decision vector; `given` fixes triggers by tensor, the policy the others."""
        self.evaluations += 1
        instance, life = self.instance, self.life
        sequence = compute_sequence(life, decisions)
        triggers = default_triggers(life, instance.device, instance.budget_bytes, sequence, given)
        record = run(life, instance.device, instance.budget_bytes, sequence, triggers)
        return sequence, record

    def run(self, decisions: Sequence[int], given: Mapping[int, int] | None = None) -> RunRecord:
        """Return the record of `simulate` alone."""
        return self.simulate(decisions, given)[1]

    def makespan_ns(
        self, decisions: Sequence[int], given: Mapping[int, int] | None = None
    ) -> int | None:
        """Makespan of a decision vector, or None if it runs out of memory."""
        return self.run(decisions, given).makespan_ns

    def options(self, t: int) -> list[int]:
        """Decisions that the instance allows for tensor `t`."""
        life = self.life
        if not (life.is_candidate(t) or t in self._closure):
            return [KEEP]
        return (
            [KEEP]
            + [SWAP] * (life.swappable[t] and life.last_forward_use[t] + 1 < life.num_ops)
            + [RECOMPUTE] * life.can_recompute(t)
        )

    def decisions(self, plan: Plan) -> list[int]:
        """Return the decision vector of a plan; tensors that it doesn't name are kept."""
        return [
            DECISION_CODES[plan.decisions.get(tensor.name, "keep")]
            for tensor in self.instance.graph.tensors
        ]

    def plan(
        self,
        decisions: Sequence[int],
        given: Mapping[int, int] | None = None,
        provenance: Mapping[str, object] | None = None,
    ) -> Plan:
        """Name a decision vector."""
        names = [tensor.name for tensor in self.instance.graph.tensors]
        named = {names[t]: _NAMES[d] for t, d in enumerate(decisions) if d != KEEP}
        triggers = {names[t]: g for t, g in (given or {}).items() if decisions[t] == SWAP}
        return Plan.for_instance(self.instance, named, triggers, provenance)
