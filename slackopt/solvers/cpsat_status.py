"""What CP-SAT's own words for how it ended mean to us; see `slackopt.solvers.status`."""

from __future__ import annotations

from slackopt.solvers.status import INFEASIBLE, LIMIT, OPTIMAL, Meaning

CPSAT: dict[str, Meaning] = {
    "OPTIMAL": OPTIMAL,  # within the gap asked for
    "FEASIBLE": LIMIT,
    "UNKNOWN": LIMIT,
    "INFEASIBLE": INFEASIBLE,  # of the model; it caps stalls, so that is a bound, not a proof
    "MODEL_INVALID": Meaning("error", "CP-SAT finds the model invalid"),
}
"""By the name of ``CpSolverStatus``."""

HOLDS_POINT = ("OPTIMAL", "FEASIBLE")
HOLDS_BOUND = ("OPTIMAL", "FEASIBLE", "UNKNOWN")


def cpsat_meaning(native: str) -> Meaning:
    """Meaning of a CP-SAT status."""
    unknown = Meaning("error", f"CP-SAT ended with {native!r}, which this version doesn't know")
    return CPSAT.get(native, unknown)
