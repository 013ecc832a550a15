"""Check every claim about one instance again, from the files alone."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path

from slackopt.errors import CheckError, InfeasibleError, InputError, SlackoptError
from slackopt.files import BEST, read_instance
from slackopt.formulations.certificate import bound_from_weights, proves_infeasible, read_weights
from slackopt.formulations.window import WindowFormulation
from slackopt.instance import Instance
from slackopt.library.records import (
    BestEntry,
    BoundClaim,
    Certificate,
    PlanClaim,
    certified_gap,
)
from slackopt.library.store import read_claim
from slackopt.plan import Plan
from slackopt.simulation import check_timeline, simulate

RAISE_FROM = 1e-6
"""A fresh bound counts as better from this relative excess on: below it is a solver's rounding."""


@dataclass(frozen=True)
class CheckWork:
    """What one check needs.

    Attributes
    ----------
    folder
        The family's folder.
    path
        The instance file.
    entry
        The claims.
    lp_limit_s
        Seconds for a fresh LP bound; 0 for none.
    """

    folder: Path
    path: Path
    entry: BestEntry
    lp_limit_s: float


@dataclass
class Checked:
    """What a check found.

    Attributes
    ----------
    failures
        Claims that do not hold, one sentence each.
    notes
        What is true and should be known: a bound on a solver's word, a bound that can be raised.
    raised_to_ns
        A fresh LP bound above the one that is recorded, or None.
    on_word
        Whether the bound rests on a solver's word.
    seconds
        Processor time that it took.
    """

    failures: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    raised_to_ns: int | None = None
    on_word: bool = False
    seconds: float = 0.0


def check_entry(work: CheckWork) -> Checked:
    """Check an entry: the plan simulated again, the bounds added up again, a fresh LP bound.

    Nothing is raised but for bugs: what is wrong with a file is a failure like any other.
    """
    begun, found = time.process_time(), Checked()
    where = f"{work.folder / BEST}: {work.entry.instance!r}"
    try:
        instance = read_instance(work.path)
    except InputError as error:
        found.failures.append(" ".join(str(error).split()))
        return found
    checks = _Checks(work, instance, found)
    checks.run()
    found.failures = [f"{where}: {line}" for line in found.failures]
    found.notes = [f"{where}: {line}" for line in found.notes]
    found.seconds = time.process_time() - begun
    return found


class _Checks:
    def __init__(self, work: CheckWork, instance: Instance, found: Checked) -> None:
        self.work, self.entry, self.instance, self.found = work, work.entry, instance, found
        self._window: WindowFormulation | None = None

    def run(self) -> None:
        entry, instance = self.entry, self.instance
        self._equal("instance", entry.instance, instance.name)
        if entry.instance_sha256 != instance.sha256:
            self._fail(
                f"instance_sha256 is {entry.instance_sha256[:12]}, and {self.work.path} is the "
                f"instance {instance.sha256[:12]}: these claims are about another instance"
            )
            return
        self._equal("ideal_ns", entry.ideal_ns, instance.ideal_ns)
        self._equal("budget_bytes", entry.budget_bytes, instance.budget_bytes)
        self._equal("gap", entry.gap, certified_gap(entry.makespan_ns, entry.lower_bound_ns))
        if entry.plan is not None:
            self._guard("plan", lambda: self._plan(entry.plan))
        if entry.bound is not None:
            self._guard("bound", lambda: self._bound(entry.bound))
        self._guard("solver_bound", self._solver_bound)
        if entry.infeasible is not None:
            self._guard("infeasible", self._infeasible)
        self._crossing()
        self._history()
        if self.work.lp_limit_s > 0 and entry.infeasible is None:
            self._guard("fresh LP bound", self._fresh)

    # The claims, one by one.

    def _plan(self, claim: PlanClaim | None) -> None:
        assert claim is not None  # noqa: S101
        plan = read_claim(self.work.folder, claim.file, claim.sha256, Plan)
        assert isinstance(plan, Plan)  # noqa: S101
        timeline = simulate(self.instance, plan)
        if not timeline.feasible:
            self._fail(f"plan: it can't run: {timeline.explain()}")
            return
        check_timeline(timeline)
        self._equal("plan.makespan_ns", claim.makespan_ns, timeline.makespan_ns)

    def _bound(self, claim: BoundClaim | None) -> None:
        assert claim is not None  # noqa: S101
        proved = self.instance.ideal_ns
        if claim.file is not None:
            weights = self._weights(claim.file, claim.sha256, "bound")
            proved = max(proved, bound_from_weights(self._formulation(), weights))
        if claim.lower_bound_ns > proved:
            self._fail(
                f"bound.lower_bound_ns is claimed as {claim.lower_bound_ns}, and its certificate "
                f"proves {proved}"
            )

    def _solver_bound(self) -> None:
        word, bound = self.entry.solver_bound, self.entry.bound
        if word is None:
            return
        self.found.on_word = True
        if bound is not None and word.lower_bound_ns <= bound.lower_bound_ns:
            self._fail(
                f"solver_bound.lower_bound_ns {word.lower_bound_ns} is not above the proved bound "
                f"{bound.lower_bound_ns}, so it should not be there"
            )
        base = self.instance.ideal_ns if bound is None else bound.lower_bound_ns
        self.found.notes.append(
            f"the last {100 * (word.lower_bound_ns - base) / base:.6f} % of the bound rest on the "
            f"word of {word.origin.method}"
        )

    def _infeasible(self) -> None:
        claim = self.entry.infeasible
        assert claim is not None  # noqa: S101
        if claim.file is None:
            try:
                self.instance.check_working_set()
            except InfeasibleError:
                return
            self._fail("infeasible: no op exceeds the budget, and there is no certificate")
            return
        weights = self._weights(claim.file, claim.sha256, "infeasible")
        if not proves_infeasible(self._formulation(), weights):
            self._fail("infeasible: the rows of the certificate don't contradict each other")

    def _crossing(self) -> None:
        entry = self.entry
        makespan = entry.makespan_ns
        if makespan is None:
            return
        if entry.infeasible is not None:
            self._fail("a plan and a proof that no plan exists can't both be true")
        for name, claim in (("bound", entry.bound), ("solver_bound", entry.solver_bound)):
            if claim is not None and claim.lower_bound_ns > makespan:
                self._fail(f"{name} {claim.lower_bound_ns} is above plan.makespan_ns {makespan}")

    def _history(self) -> None:
        entry = self.entry
        last = {step.what: step for step in entry.history}
        for what, value, sha256 in (
            ("plan", entry.makespan_ns, entry.plan and entry.plan.sha256),
            (
                "bound",
                entry.bound and entry.bound.lower_bound_ns,
                entry.bound and entry.bound.sha256,
            ),
        ):
            step = last.get(what)  # type: ignore[call-overload]
            told = (None, None) if step is None else (step.value_ns, step.sha256)
            if told != (value, sha256):
                self._fail(
                    f"the last {what} in the history is {told[0]}, and the one that is recorded "
                    f"is {value}"
                )
        for step in entry.history:
            old, new = step.previous_ns, step.value_ns
            if old is not None and new is not None and (new < old) != (step.what == "plan"):
                self._fail(f"the history has a {step.what} of {new} after {old}, no improvement")

    def _fresh(self) -> None:
        from slackopt.solvers.window_lp import WindowLp  # brings HiGHS

        begun = time.monotonic()
        lp = WindowLp(self._formulation())
        fresh = lp.solve(deadline=begun + self.work.lp_limit_s)
        if fresh.infeasible:
            if fresh.contradiction:
                self._claims_no_plan()
            return
        known, makespan = self.entry.lower_bound_ns or 0, self.entry.makespan_ns
        if makespan is not None and fresh.lower_bound_ns > makespan:
            self._fail(
                f"a fresh LP proves that no plan is below {fresh.lower_bound_ns} ns, and "
                f"plan.makespan_ns is {makespan}"
            )
        elif fresh.lower_bound_ns > known * (1 + RAISE_FROM):
            self.found.raised_to_ns = fresh.lower_bound_ns
            self.found.notes.append(
                f"the bound can be raised from {known} to {fresh.lower_bound_ns} ns: that is what "
                "a fresh LP proves"
            )

    def _claims_no_plan(self) -> None:
        if self.entry.plan is not None:
            self._fail("a fresh LP proves that no plan exists, and there is one")
        else:
            self.found.notes.append("a fresh LP proves that no plan exists; update from `bound`")

    # Helpers.

    def _weights(self, file: str, sha256: str | None, proves: str) -> dict[str, Fraction]:
        if sha256 is None:
            raise InputError(f"{self.work.folder / file}: has no hash recorded")
        certificate = read_claim(self.work.folder, file, sha256, Certificate)
        assert isinstance(certificate, Certificate)  # noqa: S101
        if certificate.instance_sha256 != self.instance.sha256:
            raise InputError(
                f"{self.work.folder / file}: is a certificate for {certificate.instance!r} "
                f"({certificate.instance_sha256[:12]}), another instance"
            )
        if certificate.proves != proves:
            raise InputError(f"{self.work.folder / file}: is no certificate of {proves}")
        known = self._formulation()
        for entry in certificate.weights:
            try:
                known.row(entry.row)
            except (KeyError, ValueError, IndexError):
                raise InputError(
                    f"{self.work.folder / file}: names the row {entry.row!r}, which the window "
                    "formulation of this slackopt version does not have; make the bound again "
                    "with this version (method `bound`), and update"
                ) from None
        return read_weights((entry.row, entry.weight) for entry in certificate.weights)

    def _formulation(self) -> WindowFormulation:
        if self._window is None:
            self._window = WindowFormulation(self.instance)
        return self._window

    def _equal(self, name: str, claimed: object, found: object) -> None:
        if claimed != found:
            self._fail(f"{name} is claimed as {claimed}, and is {found}")

    def _fail(self, message: str) -> None:
        self.found.failures.append(message)

    def _guard(self, name: str, check: object) -> None:
        """Run one check; whatever it stumbles over is a failure, and the next one goes on."""
        try:
            check()  # type: ignore[operator]
        except CheckError as error:
            self.found.failures += [f"{name}: {line}" for line in error.failures]
        except (SlackoptError, KeyError, ValueError, ZeroDivisionError) as error:
            self._fail(f"{name}: {' '.join(str(error).split())}")
