"""What solvers' own words for how they ended mean to us.

``optimal`` means within the gap asked for; ``limit`` that the solver stopped early, with or
without a point; ``infeasible`` that it proved so; ``error`` is everything that says nothing
about the model. A word that isn't in a table is an error too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

Status = Literal["optimal", "limit", "infeasible", "error"]


class Meaning(NamedTuple):
    """A status, and for an error a sentence that says what happened."""

    status: Status
    sentence: str = ""


OPTIMAL = Meaning("optimal")
LIMIT = Meaning("limit")
INFEASIBLE = Meaning("infeasible")
UNBOUNDED = Meaning("error", "the solver claims that the model is unbounded, which it can't be")

HIGHS: dict[str, Meaning] = {
    "kOptimal": OPTIMAL,
    "kInfeasible": INFEASIBLE,
    "kTimeLimit": LIMIT,
    "kIterationLimit": LIMIT,
    "kSolutionLimit": LIMIT,
    "kMemoryLimit": LIMIT,
    "kInterrupt": LIMIT,
    "kHighsInterrupt": LIMIT,
    "kObjectiveBound": LIMIT,
    "kObjectiveTarget": LIMIT,
    "kUnbounded": UNBOUNDED,
    "kUnboundedOrInfeasible": Meaning("error", "HiGHS can't tell infeasible from unbounded"),
    "kNotset": Meaning("error", "HiGHS did not run"),
    "kModelEmpty": Meaning("error", "HiGHS got an empty model"),
    "kLoadError": Meaning("error", "HiGHS could not load the model"),
    "kModelError": Meaning("error", "HiGHS finds the model invalid"),
    "kPresolveError": Meaning("error", "HiGHS failed in presolve"),
    "kSolveError": Meaning("error", "HiGHS failed while solving"),
    "kPostsolveError": Meaning("error", "HiGHS failed in postsolve"),
    "kUnknown": Meaning("error", "HiGHS ended without knowing how"),
}
"""By the name of highspy's ``HighsModelStatus``."""

CBC_INFEASIBLE = ("Infeasible", "Integer infeasible")
"""Words in CBC's solution file that it also uses when it ran out of time: `cbc_log` decides."""

CBC: tuple[tuple[str, Meaning], ...] = (
    ("Optimal", OPTIMAL),
    ("Stopped on time", LIMIT),
    ("Stopped on iterations", LIMIT),  # node and solution limits, too
    ("Stopped on ctrl-c", LIMIT),
    ("Stopped on user event", LIMIT),
    ("Stopped on difficulties", Meaning("error", "CBC stopped on numerical difficulties")),
    ("Unbounded", UNBOUNDED),
    *((words, INFEASIBLE) for words in CBC_INFEASIBLE),
    ("Status unknown", Meaning("error", "CBC ended without knowing how")),
)
"""By the beginning of the first line of CBC's solution file."""

PULP: dict[str, Meaning] = {
    # PuLP 3.3: why it stopped, and what it holds. "Infeasible" is no proof there: PuLP says it
    # of runs out of time as well.
    "Optimal, Optimal Solution Found": OPTIMAL,
    "Optimal, Solution Found": LIMIT,
    "Not Solved, Solution Found": LIMIT,
    "Not Solved, No Solution Found": LIMIT,
    "Not Solved, No Solution Exists": LIMIT,
    "Infeasible, No Solution Found": LIMIT,
    "Infeasible, No Solution Exists": LIMIT,
    "Unbounded, Solution is Unbounded": UNBOUNDED,
    "Undefined, No Solution Found": Meaning("error", "PuLP can't tell how the solver ended"),
    "Undefined, No Solution Exists": Meaning("error", "PuLP can't tell how the solver ended"),
    # PuLP 4: the name of its LpSolveStatus.
    "Optimal": OPTIMAL,
    "Infeasible": INFEASIBLE,
    "GapLimit": OPTIMAL,
    "TimeLimit": LIMIT,
    "MemoryLimit": LIMIT,
    "NodeLimit": LIMIT,
    "IterationLimit": LIMIT,
    "SolutionLimit": LIMIT,
    "Interrupted": LIMIT,
    "Stopped": LIMIT,
    "NotSolved": Meaning("error", "the solver did not run"),
    "Undefined": Meaning("error", "PuLP can't tell how the solver ended"),
    "NumericalError": Meaning("error", "the solver met numerical trouble"),
    "Unbounded": UNBOUNDED,
}
"""By PuLP's own words, for solvers of which nothing better is known."""


def highs_meaning(native: str) -> Meaning:
    """Meaning of a HiGHS model status."""
    return HIGHS.get(native) or _unknown("HiGHS", native)


def cbc_meaning(native: str) -> Meaning:
    """Meaning of the first line of a CBC solution file."""
    return _first(CBC, native) or _unknown("CBC", native)


def pulp_meaning(native: str) -> Meaning:
    """Meaning of what PuLP says of any other solver."""
    return PULP.get(native) or _unknown("PuLP", native)


def _first(table: Sequence[tuple[str, Meaning]], text: str) -> Meaning | None:
    return next((meaning for words, meaning in table if text.startswith(words)), None)


def _unknown(speaker: str, native: str) -> Meaning:
    return Meaning("error", f"{speaker} ended with {native!r}, which this version doesn't know")
