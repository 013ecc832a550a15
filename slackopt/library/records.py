"""Best-known solutions: what is claimed about each instance of a family, and who found it."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from slackopt.records import SCHEMA_VERSION, Count, Name, Record, Seconds, Sha256, Whole
from slackopt.result import WindowMultiplier

Day = Annotated[str, Field(pattern=r"^\d{4}-\d\d-\d\d$")]
RelativePath = Annotated[str, Field(pattern=r"^best/[^/\\]+\.json\.gz$")]
What = Literal["plan", "bound", "solver_bound", "infeasible"]


class Origin(Record):
    """Where a claim comes from.

    Attributes
    ----------
    method, solver, solver_version, slackopt_version, seed, threads
        Of the run.
    reached_s
        Seconds into the run when this end was reached; None where the run does not say.
    wall_s
        Seconds that the whole run took.
    by
        Who found it: a free text.
    date
        Day on which the run ended, UTC.
    run
        Key of the run in its batch, or None.
    """

    method: Name
    solver: str | None = None
    solver_version: str | None = None
    slackopt_version: str
    seed: Whole | None = None
    threads: Count | None = None
    reached_s: Seconds | None = None
    wall_s: Seconds | None = None
    by: Name
    date: Day
    run: str | None = None

    def __str__(self) -> str:
        solver = "" if self.solver is None else f" ({self.solver} {self.solver_version or ''})"
        run = "" if self.run is None else f", run {self.run[:12]}"
        return f"{self.method}{solver}, slackopt {self.slackopt_version}, {self.date}{run}"


class PlanClaim(Record):
    """The best plan known.

    Attributes
    ----------
    makespan_ns
        As simulated.
    file, sha256
        The plan file beside ``best.json``, and the hash of its uncompressed text.
    origin
        Who found it, when and how.
    """

    makespan_ns: Count
    file: RelativePath
    sha256: Sha256
    origin: Origin


class BoundClaim(Record):
    """A lower bound on the makespan of every plan.

    Attributes
    ----------
    lower_bound_ns
        The bound.
    file, sha256
        The certificate beside ``best.json``, and the hash of its uncompressed text; None for a
        bound without one: the ideal step time, or one that rests on a solver's word.
    origin
        Who found it, when and how.
    """

    lower_bound_ns: Count
    file: RelativePath | None = None
    sha256: Sha256 | None = None
    origin: Origin


class InfeasibleClaim(Record):
    """That no plan exists: the working set of an op exceeds the budget, or by a certificate."""

    file: RelativePath | None = None
    sha256: Sha256 | None = None
    origin: Origin


class Improvement(Record):
    """One step in the history of an instance.

    Attributes
    ----------
    what
        ``plan``, ``bound`` (proved without a solver), ``solver_bound`` (a solver's word) or
        ``infeasible``.
    value_ns, previous_ns
        New makespan or bound, and the one before; None if there was none.
    sha256
        Hash of the plan or certificate, which names it also after a better one replaced its file.
    origin
        Who found it, when and how.
    """

    what: What
    value_ns: Count | None = None
    previous_ns: Count | None = None
    sha256: Sha256 | None = None
    origin: Origin


class BestEntry(Record):
    """What is known of one instance.

    Attributes
    ----------
    instance, instance_sha256
        Name and identity.
    ideal_ns, budget_bytes
        Of the instance.
    plan
        The fastest plan known.
    bound
        The largest bound that adds up from its certificate in exact arithmetic, no solver trusted.
    solver_bound
        A bound above it that rests on a solver's word; None if there is none above it.
    infeasible
        A proof that no plan exists.
    gap
        (makespan - lower bound) / lower bound, with the larger of the two bounds.
    history
        All improvements, oldest first.
    """

    instance: Name
    instance_sha256: Sha256
    ideal_ns: Count
    budget_bytes: Count
    plan: PlanClaim | None = None
    bound: BoundClaim | None = None
    solver_bound: BoundClaim | None = None
    infeasible: InfeasibleClaim | None = None
    gap: float | None = None
    history: tuple[Improvement, ...] = ()

    @property
    def makespan_ns(self) -> int | None:
        """Makespan of the best plan."""
        return None if self.plan is None else self.plan.makespan_ns

    @property
    def best_bound(self) -> BoundClaim | None:
        """The larger of the two bounds."""
        return self.solver_bound or self.bound

    @property
    def lower_bound_ns(self) -> int | None:
        """The larger of the two bounds, in ns."""
        return None if self.best_bound is None else self.best_bound.lower_bound_ns

    @property
    def files(self) -> dict[str, Sha256]:
        """Files beside ``best.json`` that belong to the entry, with their hashes."""
        claims = (self.plan, self.bound, self.infeasible)
        return {c.file: c.sha256 for c in claims if c and c.file and c.sha256}


class Best(Record):
    """The file ``best.json`` of a family: one entry an instance, by name.

    Attributes
    ----------
    family
        Name of the folder.
    entries
        What is known of each instance.
    """

    format: Literal["slackopt/best"] = "slackopt/best"
    schema_version: Annotated[int, Field(ge=SCHEMA_VERSION, le=SCHEMA_VERSION)] = SCHEMA_VERSION
    family: Name
    entries: tuple[BestEntry, ...] = ()

    def entry(self, instance: str) -> BestEntry | None:
        """Return the entry of an instance, or None."""
        return next((entry for entry in self.entries if entry.instance == instance), None)


class Certificate(Record):
    """The certificate of a bound, or of a proof that no plan exists, as a file of its own.

    Attributes
    ----------
    instance, instance_sha256
        The instance that the rows are of.
    proves
        ``bound`` or ``infeasible``.
    weights
        Rows of the window formulation and their weights; see
        `slackopt.formulations.certificate`.
    """

    format: Literal["slackopt/certificate"] = "slackopt/certificate"
    schema_version: Annotated[int, Field(ge=SCHEMA_VERSION, le=SCHEMA_VERSION)] = SCHEMA_VERSION
    instance: Name
    instance_sha256: Sha256
    proves: Literal["bound", "infeasible"]
    weights: tuple[WindowMultiplier, ...]


def certified_gap(makespan_ns: int | None, lower_bound_ns: int | None) -> float | None:
    """Return (makespan - lower bound) / lower bound, or None while an end is missing."""
    if makespan_ns is None or lower_bound_ns is None:
        return None
    return (makespan_ns - lower_bound_ns) / lower_bound_ns
