"""What the runs of a batch can add to what is known of an instance, each claim checked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path

from slackopt.batch.run import Run
from slackopt.batch.store import read_run
from slackopt.errors import InfeasibleError, SlackoptError
from slackopt.formulations.certificate import bound_from_weights, proves_infeasible, read_weights
from slackopt.formulations.window import WindowFormulation
from slackopt.instance import Instance
from slackopt.library.records import (
    BestEntry,
    BoundClaim,
    Certificate,
    InfeasibleClaim,
    Origin,
    PlanClaim,
)
from slackopt.library.store import claim_file
from slackopt.records import Record
from slackopt.result import Result, WindowMultiplier
from slackopt.verification import verify


@dataclass(frozen=True)
class RunFacts:
    """What is known of a run before its file is read in full.

    Attributes
    ----------
    path
        Its file.
    makespan_ns, lower_bound_ns
        As claimed; None without a plan, or a bound.
    infeasible
        Whether it claims that no plan exists.
    """

    path: Path
    makespan_ns: int | None
    lower_bound_ns: int | None
    infeasible: bool


@dataclass
class Proposal:
    """The best that checked runs have on one instance, where it beats what is known.

    Attributes
    ----------
    plan, bound, solver_bound, infeasible
        Claims; None where there is nothing better.
    texts
        Relative path -> text of the files that the claims name.
    rejected
        Runs whose claims do not hold, one sentence each.
    """

    plan: PlanClaim | None = None
    bound: BoundClaim | None = None
    solver_bound: BoundClaim | None = None
    infeasible: InfeasibleClaim | None = None
    texts: dict[str, str] = field(default_factory=dict)
    rejected: list[str] = field(default_factory=list)


def propose(
    instance: Instance,
    runs: Sequence[RunFacts],
    known: BestEntry | None,
    *,
    by: str,
    proved_only: bool = False,
) -> Proposal:
    """Check the runs that claim something better than what is known, the best ones first.

    A result counts only if every claim in it holds (`slackopt.verify`). Of its bound, what adds
    up from the certificate is proved; what a solver claims beyond it rests on the solver's word
    and is kept apart.

    Parameters
    ----------
    instance
        The instance.
    runs
        Runs on it.
    known
        Its entry in the library, or None.
    by
        Who ran them.
    proved_only
        Take no bound on a solver's word.
    """
    maker = _Maker(instance, by)
    makespan = None if known is None else known.makespan_ns
    for facts in sorted(
        (run for run in runs if run.makespan_ns is not None),
        key=lambda run: (run.makespan_ns, run.path.name),
    ):
        assert facts.makespan_ns is not None  # noqa: S101
        if makespan is not None and facts.makespan_ns >= makespan:
            break
        if maker.take_plan(facts):
            break
    proved = 0 if known is None or known.bound is None else known.bound.lower_bound_ns
    word = 0 if known is None else known.lower_bound_ns or 0
    for facts in sorted(
        (run for run in runs if (run.lower_bound_ns or 0) > proved),
        key=lambda run: (-(run.lower_bound_ns or 0), run.path.name),
    ):
        maker.take_bound(facts, proved, word, proved_only=proved_only)
    if known is None or known.infeasible is None:
        for facts in sorted((run for run in runs if run.infeasible), key=lambda r: r.path.name):
            if maker.take_infeasible(facts):
                break
    return maker.proposal()


class _Maker:
    """Checks runs of one instance, each at most once, and turns them into claims."""

    def __init__(self, instance: Instance, by: str) -> None:
        self.instance, self.by = instance, by
        self.made = Proposal()
        self._checked: dict[Path, tuple[Run, Result] | None] = {}
        self._proved: dict[tuple[WindowMultiplier, ...], int] = {}
        self._window: WindowFormulation | None = None

    def proposal(self) -> Proposal:
        """Return what was made; a solver's word that a proof overtook is left out."""
        made = self.made
        word, bound = made.solver_bound, made.bound
        if word is not None and bound is not None and word.lower_bound_ns <= bound.lower_bound_ns:
            made.solver_bound = None
        return made

    def take_plan(self, facts: RunFacts) -> bool:
        """Take the plan of a run; return whether it holds."""
        found = self._sound(facts.path)
        if found is None:
            return False
        run, result = found
        if result.plan is None or result.makespan_ns is None:
            return False
        file, sha256 = self._file("plan", result.plan)
        seconds = next((t for t, m, _ in result.trajectory if m == result.makespan_ns), None)
        origin = self._origin(run, result, seconds)
        self.made.plan = PlanClaim(
            makespan_ns=result.makespan_ns, file=file, sha256=sha256, origin=origin
        )
        return True

    def take_bound(self, facts: RunFacts, proved: int, word: int, *, proved_only: bool) -> None:
        """Take the bound of a run: what is proved, and what rests on the solver's word."""
        if self.made.bound is not None:
            proved = max(proved, self.made.bound.lower_bound_ns)
        if self.made.solver_bound is not None:
            word = max(word, self.made.solver_bound.lower_bound_ns)
        if (facts.lower_bound_ns or 0) <= proved:
            return
        found = self._sound(facts.path)
        if found is None:
            return
        run, result = found
        claimed = result.lower_bound_ns
        if claimed is None:
            return
        certain = min(claimed, self._proved_bound(result))
        if certain > proved:
            self.made.bound = self._bound_claim(run, result, certain, proved=True)
        if claimed > max(certain, proved, word) and not proved_only:
            self.made.solver_bound = self._bound_claim(run, result, claimed, proved=False)

    def take_infeasible(self, facts: RunFacts) -> bool:
        """Take a proof that no plan exists; return whether it is one without a solver's word."""
        found = self._sound(facts.path)
        if found is None:
            return False
        run, result = found
        origin = self._origin(run, result, None)
        try:
            self.instance.check_working_set()
        except InfeasibleError:
            self.made.infeasible = InfeasibleClaim(origin=origin)
            return True
        # Files written before the two certificates were told apart have it in the other one.
        weights = result.infeasibility_certificate or result.bound_certificate
        if weights is None or not proves_infeasible(self._formulation(), _fractions(weights)):
            self.made.rejected.append(
                f"{facts.path}: that no plan exists rests on the solver's word; not taken"
            )
            return False
        file, sha256 = self._file("infeasible", self._certificate("infeasible", weights))
        self.made.infeasible = InfeasibleClaim(file=file, sha256=sha256, origin=origin)
        return True

    def _sound(self, path: Path) -> tuple[Run, Result] | None:
        """Read a run and check every claim of its result; None, and why, if one does not hold."""
        if path not in self._checked:
            self._checked[path] = None
            try:
                run = read_run(path)
                if run.result is not None:
                    verify(self.instance, run.result)
                    self._checked[path] = run, run.result
            except (SlackoptError, ValueError, ArithmeticError) as error:
                text = " ".join(str(error).split()) or type(error).__name__
                told = text if text.startswith(str(path)) else f"{path}: {text}"
                self.made.rejected.append(told)
        return self._checked[path]

    def _bound_claim(self, run: Run, result: Result, bound: int, *, proved: bool) -> BoundClaim:
        seconds = next((t for t, _, b in result.trajectory if b is not None and b >= bound), None)
        origin = self._origin(run, result, seconds)
        weights = result.bound_certificate
        if not proved or weights is None:
            return BoundClaim(lower_bound_ns=bound, origin=origin)
        file, sha256 = self._file("bound", self._certificate("bound", weights))
        return BoundClaim(lower_bound_ns=bound, file=file, sha256=sha256, origin=origin)

    def _proved_bound(self, result: Result) -> int:
        weights = result.bound_certificate
        if weights is None:
            return self.instance.ideal_ns
        if weights not in self._proved:  # methods share the certificate of the same LP
            self._proved[weights] = bound_from_weights(self._formulation(), _fractions(weights))
        return self._proved[weights]

    def _formulation(self) -> WindowFormulation:
        if self._window is None:
            self._window = WindowFormulation(self.instance)
        return self._window

    def _certificate(self, proves: str, weights: tuple[WindowMultiplier, ...]) -> Certificate:
        return Certificate(
            instance=self.instance.name,
            instance_sha256=self.instance.sha256,
            proves="bound" if proves == "bound" else "infeasible",
            weights=weights,
        )

    def _file(self, kind: str, record: Record) -> tuple[str, str]:
        file, sha256, text = claim_file(self.instance.name, kind, record)
        self.made.texts[file] = text
        return file, sha256

    def _origin(self, run: Run, result: Result, reached_s: float | None) -> Origin:
        return Origin(
            method=result.method,
            solver=result.solver,
            solver_version=result.solver_version,
            slackopt_version=result.slackopt_version,
            seed=result.seed,
            threads=result.threads,
            reached_s=reached_s,
            wall_s=result.wall_s,
            by=self.by,
            date=run.finished_at[:10],
            run=run.key,
        )


def _fractions(weights: Sequence[WindowMultiplier]) -> dict[str, Fraction]:
    return read_weights((entry.row, entry.weight) for entry in weights)
