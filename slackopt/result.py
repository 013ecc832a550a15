"""A result: what one method found and proved on one instance."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from slackopt.plan import Plan
from slackopt.records import SCHEMA_VERSION, Count, Name, Record, Seconds, Sha256, Whole

Status = Literal["optimal", "feasible", "bounded", "infeasible", "no_solution", "error"]
StoppedBy = Literal["proof", "gap", "time", "memory", "heuristic", "exhausted", "signal", "error"]
TrajectoryPoint = tuple[Seconds, Count | None, Count | None]


class WindowMultiplier(Record):
    """One row of a certificate: which window row, and its weight.

    See `slackopt.formulations.certificate`.
    """

    row: Annotated[str, Field(min_length=1, max_length=200)]
    weight: Annotated[str, Field(pattern=r"^[0-9]+(/0*[1-9][0-9]*)?$", max_length=2000)]


class Result(Record):
    """Everything known after one run; unknown is None.

    Attributes
    ----------
    status
        What is held: ``optimal`` (a plan within the gap tolerance of a proved bound),
        ``feasible`` (a plan), ``bounded`` (a bound was asked for and proved, no plan),
        ``infeasible`` (proved: no plan exists), ``no_solution`` (no plan found), ``error``.
    stopped_by
        Why the method stopped: ``proof`` (nothing is left to prove), ``gap`` (the gap asked for is
        reached), ``time``, ``memory``, ``heuristic`` (a rule has made its plan, or has none),
        ``exhausted`` (nothing was left to try before the time was up), ``signal``, ``error``.
    makespan_ns, throughput_ratio, recompute_ns, stall_ns, peak_bytes, ...
        Of the plan, as simulated.
    lower_bound_ns
        Proved for every plan that the simulator accepts.
    gap
        Certified gap: (makespan - lower bound) / lower bound.
    bound_certificate
        Window rows and weights from which `slackopt.verify` recomputes a bound without a solver.
    infeasibility_certificate
        Window rows and weights that contradict each other: a proof that no plan exists.
    trajectory
        ``(seconds, makespan_ns, lower_bound_ns)`` whenever one of the ends moved.
    notes
        What a reader should know: which step moved which end, what a solver said.
    """

    format: Literal["slackopt/result"] = "slackopt/result"
    schema_version: Annotated[int, Field(ge=SCHEMA_VERSION, le=SCHEMA_VERSION)] = SCHEMA_VERSION
    instance: Name
    instance_sha256: Sha256
    method: Name
    solver: str | None = None
    solver_version: str | None = None
    status: Status
    stopped_by: StoppedBy
    ideal_ns: Count
    makespan_ns: Count | None = None
    throughput_ratio: float | None = None
    recompute_ns: Count | None = None
    stall_ns: Count | None = None
    swapped_bytes: Count | None = None
    recomputed_bytes: Count | None = None
    peak_bytes: Count | None = None
    budget_bytes: Count
    lower_bound_ns: Count | None = None
    gap: float | None = None
    build_s: Seconds | None = None
    solve_s: Seconds | None = None
    wall_s: Seconds | None = None
    peak_rss_bytes: Count | None = None
    threads: Count | None = None
    seed: Whole | None = None
    deterministic: bool | None = None
    num_variables: Count | None = None
    num_constraints: Count | None = None
    trajectory: tuple[TrajectoryPoint, ...] = ()
    options: Mapping[str, Any] = Field(default_factory=dict)
    notes: tuple[str, ...] = ()
    plan: Plan | None = None
    bound_certificate: tuple[WindowMultiplier, ...] | None = None
    infeasibility_certificate: tuple[WindowMultiplier, ...] | None = None
    slackopt_version: str
    environment: Mapping[str, Any] = Field(default_factory=dict)

    @property
    def reason(self) -> str | None:
        """Why there is no plan to trust, from the notes; None if there is one or none was asked."""
        if self.plan is not None and self.status != "error":
            return None
        if self.status == "bounded" and self.stopped_by != "error":
            return None
        # Every move of an end is noted as "<seconds> s: ..."; the reason is another note.
        told = [note for note in self.notes if re.match(r"[0-9.]+ s: ", note) is None]
        if told:
            return told[-1]
        if self.stopped_by == "exhausted":
            return "nothing was left to try"
        return f"stopped by {self.stopped_by}"

    def __repr__(self) -> str:
        share = self.throughput_ratio
        ratio = "no plan" if share is None else f"{100 * share:.3f} % of ideal"
        gap = "" if self.gap is None else f", certified gap {100 * self.gap:.4f} %"
        return f"Result({self.instance!r}, {self.method}, {self.status}: {ratio}{gap})"
