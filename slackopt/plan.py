"""A plan: what happens to each tensor that does not stay, and when it may come back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from slackopt.errors import InputError
from slackopt.instance import Instance
from slackopt.lifetimes import ABSENT
from slackopt.records import SCHEMA_VERSION, Count, Name, Record, Sha256

Decision = Literal["keep", "swap", "recompute"]
OpIndex = Count


class Plan(Record):
    """Decisions by tensor name.

    Attributes
    ----------
    instance, instance_sha256
        The instance it was made for; it is refused for another one.
    decisions
        Tensor name -> ``keep``, ``swap`` or ``recompute``. A tensor that isn't named is kept.
    prefetch
        Swapped tensor name -> prefetch trigger: index of the op from whose turn on the swap-in
        may begin. Triggers that aren't named come from `slackopt.simulation.prefetch`.
    provenance
        Which method made it, with what options.
    """

    format: Literal["slackopt/plan"] = "slackopt/plan"
    schema_version: Annotated[int, Field(ge=SCHEMA_VERSION, le=SCHEMA_VERSION)] = SCHEMA_VERSION
    instance: Name
    instance_sha256: Sha256
    decisions: Mapping[str, Decision] = Field(default_factory=dict)
    prefetch: Mapping[str, OpIndex] = Field(default_factory=dict)
    provenance: Mapping[str, Any] = Field(default_factory=dict)

    @classmethod
    def for_instance(
        cls,
        instance: Instance,
        decisions: Mapping[str, Decision],
        prefetch: Mapping[str, int] | None = None,
        provenance: Mapping[str, Any] | None = None,
    ) -> Plan:
        """Make a plan bound to `instance` and check it; see `check`."""
        plan = cls(
            instance=instance.name,
            instance_sha256=instance.sha256,
            decisions=dict(decisions),
            prefetch=dict(prefetch or {}),
            provenance=dict(provenance or {}),
        )
        plan.check(instance)
        return plan

    def check(self, instance: Instance) -> None:
        """Raise `InputError` with every reason why this plan does not fit `instance`."""
        if self.instance_sha256 != instance.sha256:
            raise InputError(
                f"the plan was made for another instance: it is for {self.instance!r} "
                f"({self.instance_sha256[:12]}), not for {instance.name!r} "
                f"({instance.sha256[:12]}); solve this instance, or give the plan's own"
            )
        violations = list(self._violations(instance))
        if violations:
            raise InputError(f"the plan does not fit instance {instance.name!r}", violations)

    def _violations(self, instance: Instance) -> Iterator[str]:
        life = instance.lifetimes
        index = instance.graph.tensor_index
        for name, decision in self.decisions.items():
            where = f"decisions[{name!r}]"
            t = index.get(name)
            if t is None:
                yield f"{where}: no such tensor in the instance"
                continue
            if decision == "keep":
                continue
            if life.first_backward_use[t] != ABSENT and not life.is_candidate(t):
                yield f"{where}: the tensor is never idle, so it can only be kept"
            elif decision == "swap" and not life.swappable[t]:
                yield f"{where}: the tensor is not swappable"
            elif decision == "recompute" and not life.can_recompute(t):
                producer = life.producer[t]
                why = (
                    "it has no producer"
                    if producer == ABSENT
                    else f"op {instance.graph.ops[producer].name!r} is not recomputable"
                )
                yield f"{where}: the tensor can't be recomputed: {why}"
        for name, trigger in self.prefetch.items():
            where = f"prefetch[{name!r}]"
            t = index.get(name)
            if t is None:
                yield f"{where}: no such tensor in the instance"
            elif self.decisions.get(name) != "swap":
                yield f"{where}: the tensor is not decided swap"
            elif not life.last_forward_use[t] < trigger < life.num_ops:
                yield (
                    f"{where}: trigger {trigger} must be after the tensor's last forward use "
                    f"(op {life.last_forward_use[t]}) and below {life.num_ops}"
                )

    @property
    def counts(self) -> Counter[str]:
        """How many tensors are named for each decision."""
        return Counter(self.decisions.values())

    def __repr__(self) -> str:
        counts = self.counts
        return (
            f"Plan({self.instance!r}, {counts['swap']} swap, {counts['recompute']} recompute, "
            f"{counts['keep']} keep)"
        )
