"""The state of one run: best plan, best bound, and how they moved; nothing unproved gets in."""

from __future__ import annotations

import contextlib
import resource
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

from slackopt.environment import environment, package_version
from slackopt.instance import Instance
from slackopt.plan import Plan
from slackopt.records import MAX_INT
from slackopt.result import Result, Status, StoppedBy, TrajectoryPoint, WindowMultiplier
from slackopt.simulation import Timeline, check_timeline, simulate
from slackopt.simulation.evaluator import Evaluator

OnMove = Callable[[float, int | None, int | None, str], None]
OnState = Callable[["Progress"], None]

LEAST_S = 0.5
"""Seconds without which no step of a method is begun."""


class Progress:
    """Collects what a method finds and proves, and makes the `Result`.

    A plan enters only through the simulator and its independent checks; a bound above a plan's
    makespan is a conflict, recorded with the names of both sides, and both ends are given up.

    Parameters
    ----------
    instance
        The instance.
    method
        Name of the method.
    time_limit
        Seconds; None for no limit.
    gap
        Certified gap at which a method may stop.
    options
        Options to record in the result.
    on_move
        Called as ``(seconds, makespan_ns, lower_bound_ns, source)`` whenever an end moved.
    on_state
        Called with this object whenever an end moved; `result` is what is known until then.
    """

    def __init__(
        self,
        instance: Instance,
        method: str,
        *,
        time_limit: float | None = None,
        gap: float = 1e-4,
        options: Mapping[str, Any] | None = None,
        on_move: OnMove | None = None,
        on_state: OnState | None = None,
    ) -> None:
        self.instance = instance
        self.method = method
        self.gap_tolerance = gap
        self.options = dict(options or {})
        self.on_move = on_move
        self.on_state = on_state
        self.begun = time.monotonic()
        self.deadline = None if time_limit is None else self.begun + time_limit
        self.timeline: Timeline | None = None
        self.plan_source = ""
        self.lower_bound_ns: int | None = None
        self.bound_source = ""
        self.certificate: dict[str, Fraction] | None = None
        self.certified_bound_ns: int | None = None
        self.bound_only = False  # no plan is looked for: a bound is a success
        self.infeasible = False
        self.contradiction: dict[str, Fraction] | None = None
        self.trajectory: list[TrajectoryPoint] = []
        self.notes: list[str] = []
        self.conflict = False
        self.facts: dict[str, Any] = {}

    # What is known.

    @property
    def seconds(self) -> float:
        """Seconds since the run began."""
        return time.monotonic() - self.begun

    @property
    def seconds_left(self) -> float:
        """Seconds until the time limit; infinite without one."""
        return float("inf") if self.deadline is None else self.deadline - time.monotonic()

    @property
    def makespan_ns(self) -> int | None:
        """Simulated makespan of the best plan."""
        return None if self.timeline is None else self.timeline.makespan_ns

    @property
    def gap(self) -> float | None:
        """Certified gap, or None while an end is missing."""
        if self.makespan_ns is None or self.lower_bound_ns is None:
            return None
        return (self.makespan_ns - self.lower_bound_ns) / self.lower_bound_ns

    def is_done(self) -> bool:
        """Whether nothing is left to do: gap closed, infeasible, or in conflict."""
        closed = self.gap is not None and self.gap <= self.gap_tolerance
        return closed or self.infeasible or self.conflict

    def is_out_of_time(self) -> bool:
        """Whether less time is left than any step needs."""
        limit = self.seconds + self.seconds_left
        return self.seconds_left <= min(LEAST_S, 0.1 * limit)

    def reason(self) -> StoppedBy:
        """Return why a method that ends now has stopped."""
        if self.conflict:
            return "error"
        if self.infeasible or self.gap == 0:
            return "proof"
        if self.is_done():
            return "gap"
        return "time" if self.is_out_of_time() else "exhausted"

    @contextlib.contextmanager
    def share(self, fraction: float) -> Iterator[None]:
        """Move the deadline so that a step gets `fraction` of the time left."""
        deadline = self.deadline
        if deadline is not None:
            self.deadline = time.monotonic() + fraction * max(self.seconds_left, 0.0)
        try:
            yield
        finally:
            self.deadline = deadline

    # What comes in.

    def offer_plan(self, plan: Plan, source: str) -> bool:
        """Simulate and check a plan; keep it if it is the best. Return whether it is."""
        timeline = simulate(self.instance, plan)
        makespan = timeline.makespan_ns
        if makespan is None or (self.makespan_ns is not None and makespan >= self.makespan_ns):
            return False
        if max(makespan, timeline.swapped_bytes, timeline.recomputed_bytes) > MAX_INT:
            self.note(f"the plan of {source} is left out: its figures are too large for a file")
            return False
        check_timeline(timeline)
        self.timeline, self.plan_source = timeline, source
        if self.infeasible:
            self.conflict, self.infeasible = True, False
            self.note(
                f"conflict: it was proved that no plan exists, and the plan of {source} was "
                "simulated and checked; please report this instance"
            )
        self._moved(source)
        return True

    def offer_decisions(
        self,
        evaluator: Evaluator,
        decisions: Sequence[int],
        source: str,
        given: Mapping[int, int] | None = None,
    ) -> bool:
        """Offer a decision vector; see `offer_plan`."""
        return self.offer_plan(evaluator.plan(decisions, given, {"source": source}), source)

    def offer_bound(
        self, bound_ns: int, source: str, certificate: Mapping[str, Fraction] | None = None
    ) -> bool:
        """Take a lower bound on the makespan of every plan; return whether it is the best."""
        if certificate is not None and bound_ns > (self.certified_bound_ns or 0):
            self.certificate, self.certified_bound_ns = dict(certificate), bound_ns
        bound_ns = min(max(bound_ns, self.instance.ideal_ns), MAX_INT)
        if self.lower_bound_ns is not None and bound_ns <= self.lower_bound_ns:
            return False
        self.lower_bound_ns, self.bound_source = bound_ns, source
        self._moved(source)
        return True

    def prove_infeasible(self, source: str, certificate: Mapping[str, Fraction]) -> None:
        """Take a proof, checked in exact arithmetic, that no plan exists."""
        if self.timeline is not None:
            self.conflict = True
            self.note(
                f"conflict: {source} claims that no plan exists, and the plan of "
                f"{self.plan_source} was simulated and checked; please report this instance"
            )
            return
        self.infeasible, self.contradiction = True, dict(certificate)
        self.note(
            f"{source}: no plan exists; {len(certificate)} rows of the window formulation "
            "contradict each other"
        )

    def note(self, text: str) -> None:
        """Add a note for the reader of the result."""
        self.notes.append(text)

    def _moved(self, source: str) -> None:
        makespan, bound = self.makespan_ns, self.lower_bound_ns
        self.note(f"{self.seconds:.3f} s: {source}: plan {_ms(makespan)}, bound {_ms(bound)}")
        if makespan is not None and bound is not None and bound > makespan:
            self.conflict = True
            self.note(
                f"conflict: {self.bound_source} claims that no plan is below {bound} ns, and the "
                f"plan of {self.plan_source} was simulated and checked at {makespan} ns; "
                "please report this instance"
            )
        self.trajectory.append((round(self.seconds, 6), makespan, bound))
        if self.on_move is not None:
            self.on_move(self.seconds, makespan, bound, source)
        if self.on_state is not None:
            self.on_state(self)

    # What goes out.

    def result(self, stopped_by: StoppedBy) -> Result:
        """Make the result of the run as it stands."""
        timeline, instance = self.timeline, self.instance
        bound = None if self.conflict else self.lower_bound_ns
        gap = None if self.conflict else self.gap
        return Result(
            instance=instance.name,
            instance_sha256=instance.sha256,
            method=self.method,
            status=self._status(stopped_by),
            stopped_by="error" if self.conflict else stopped_by,
            ideal_ns=instance.ideal_ns,
            makespan_ns=self.makespan_ns,
            throughput_ratio=None if timeline is None else timeline.throughput_ratio,
            recompute_ns=None if timeline is None else timeline.recompute_ns,
            stall_ns=None if timeline is None else timeline.stall_ns(),
            swapped_bytes=None if timeline is None else timeline.swapped_bytes,
            recomputed_bytes=None if timeline is None else timeline.recomputed_bytes,
            peak_bytes=None if timeline is None else timeline.peak_bytes,
            budget_bytes=instance.budget_bytes,
            lower_bound_ns=bound,
            gap=gap,
            wall_s=self.seconds,
            peak_rss_bytes=peak_rss_bytes(),
            trajectory=tuple(self.trajectory),
            options=self.options,
            notes=tuple(self.notes),
            plan=None if timeline is None else timeline.plan,
            bound_certificate=self._multipliers(self.certificate),
            infeasibility_certificate=self._multipliers(self.contradiction),
            slackopt_version=package_version("slackopt") or "unknown",
            environment=environment(),
            **self.facts,
        )

    def _status(self, stopped_by: StoppedBy) -> Status:
        if self.conflict:
            return "error"
        if self.timeline is None:
            if self.infeasible:
                return "infeasible"
            if self.bound_only and self.lower_bound_ns is not None:
                return "bounded"
            return "error" if stopped_by == "error" else "no_solution"
        closed = self.gap is not None and self.gap <= self.gap_tolerance
        return "optimal" if closed else "feasible"

    def _multipliers(
        self, weights: Mapping[str, Fraction] | None
    ) -> tuple[WindowMultiplier, ...] | None:
        if weights is None or self.conflict:
            return None
        return tuple(
            WindowMultiplier(row=name, weight=str(weight)) for name, weight in weights.items()
        )


def peak_rss_bytes() -> int:
    """Largest resident set of this process so far."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def _ms(duration_ns: int | None) -> str:
    return "none" if duration_ns is None else f"{duration_ns / 1e6:.3f} ms"
