"""The claims about all plans: a lower bound, its gap, or that there is no plan."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from slackopt.errors import InfeasibleError
from slackopt.formulations.certificate import bound_from_weights, proves_infeasible, read_weights
from slackopt.formulations.window import WindowFormulation
from slackopt.instance import Instance
from slackopt.result import Result, WindowMultiplier
from slackopt.verification.findings import Findings, shown
from slackopt.verification.kinds import kind_of

_PROVES_NOTHING = {
    "rule": "a rule, which proves nothing about other plans",
    "bound": "`bound`, whose claim is its certificate",
}
"""Kinds of methods that have no solver whose word a claim could rest on."""


class BoundClaims:
    """Checks the claims of one result about all plans.

    Attributes
    ----------
    proved_ns
        Lower bound that is proved here: the ideal step, or what the certificate adds up to. None
        if the certificate can't be added up.
    proved_infeasible
        Whether it is proved here that no plan exists.
    """

    def __init__(self, instance: Instance, result: Result, found: Findings) -> None:
        self.instance, self.result, self.found = instance, result, found
        self._window: WindowFormulation | None = None
        self.proved_ns: int | None = instance.ideal_ns
        self.proved_infeasible = False

    def check(self) -> None:
        """Check all of them; without a plan that runs, infeasibility first."""
        if self.result.status == "infeasible":
            self._check_infeasible()
        elif self.result.infeasibility_certificate is not None:
            self.found.fail(
                f"infeasibility_certificate stands beside status {self.result.status!r}"
            )
        self._check_bound()

    def window(self) -> WindowFormulation:
        """Return the formulation that builds the rows, made once."""
        if self._window is None:
            self._window = WindowFormulation(self.instance)
        return self._window

    # No plan exists.

    def _check_infeasible(self) -> None:
        result, found = self.result, self.found
        given = result.infeasibility_certificate
        contradiction = given is not None and self._contradicts("infeasibility_certificate", given)
        try:
            self.instance.check_working_set()
        except InfeasibleError as error:
            self.proved_infeasible = True
            found.proved.append(f"infeasible: {error}")
            return
        if given is not None:
            if contradiction:
                self.proved_infeasible = True
                found.proved.append(
                    f"infeasible: {len(given)} rows contradict each other, exactly added up"
                )
            return
        # Files written before the two certificates were told apart have the proof in the other.
        old = result.bound_certificate
        if old is not None and self._is_contradiction(old):
            self.proved_infeasible = True
            found.proved.append(
                f"infeasible: {len(old)} rows of bound_certificate contradict each other, exactly "
                "added up (files of today have them in infeasibility_certificate)"
            )
            return
        without = _PROVES_NOTHING.get(kind_of(result.method))
        if without is not None:
            found.fail(
                f"status 'infeasible' is proved neither by the working set nor by a certificate, "
                f"and the method is {without}"
            )
            return
        found.on_word.append(
            "infeasible: neither the working set nor a certificate shows it; it rests on the "
            f"solver's word, that of {shown(result.method)}"
        )

    def _contradicts(self, name: str, weights: Sequence[WindowMultiplier]) -> bool:
        try:
            if proves_infeasible(self.window(), _read(weights)):
                return True
        except ValueError as error:
            self.found.fail(f"{name} can't be added up: {error}")
        else:
            self.found.fail(f"the rows of {name} don't contradict each other")
        return False

    def _is_contradiction(self, weights: Sequence[WindowMultiplier]) -> bool:
        try:
            return proves_infeasible(self.window(), _read(weights))
        except ValueError:  # it is told when the bound is checked
            return False

    # A lower bound.

    def _check_bound(self) -> None:
        result, found = self.result, self.found
        bound, makespan = result.lower_bound_ns, result.makespan_ns
        self._add_up()
        if bound is not None and bound < 1:
            found.fail(f"lower_bound_ns is {bound}; a step takes at least 1 ns")
            return
        if bound is not None and makespan is not None and bound > makespan:
            found.fail(f"lower_bound_ns {bound} is above makespan_ns {makespan}")
        gap = None if bound is None or makespan is None else (makespan - bound) / bound
        found.equal("gap", result.gap, gap)
        if bound is not None and self.proved_ns is not None:
            self._compare(bound, self.proved_ns)

    def _add_up(self) -> None:
        certificate = self.result.bound_certificate
        if certificate is None:
            return
        if self.result.lower_bound_ns is None and self.result.status != "infeasible":
            self.found.fail("bound_certificate is given, and no bound: lower_bound_ns is null")
        try:
            self.proved_ns = bound_from_weights(self.window(), _read(certificate))
        except ValueError as error:
            self.proved_ns = None
            self.found.fail(f"bound_certificate can't be added up: {error}")

    def _compare(self, bound: int, proved: int) -> None:
        result, found = self.result, self.found
        rows = len(result.bound_certificate or ())
        share = f"{shown(proved)} ns proved without a solver from {rows} rows"
        if bound <= proved:
            found.proved.append(f"lower bound {bound} ns checked: {share}")
            return
        if self.proved_infeasible:
            found.proved.append(f"lower bound {bound} ns: no plan exists, so every bound holds")
            return
        without = _PROVES_NOTHING.get(kind_of(result.method))
        if without is not None:
            found.fail(
                f"lower_bound_ns is claimed as {bound}, and {proved} is proved: the method is "
                f"{without}"
            )
            return
        found.on_word.append(
            f"lower bound {bound} ns: {share}; the last {percent(bound, proved)} rest on the "
            f"solver's word, that of {shown(result.method)}"
        )


def percent(bound: int, proved: int) -> str:
    """Write by how much a bound is above what is proved."""
    return f"{float(Fraction(100 * (bound - proved), proved)):.6f} %"


def _read(weights: Sequence[WindowMultiplier]) -> dict[str, Fraction]:
    return read_weights((entry.row, entry.weight) for entry in weights)
