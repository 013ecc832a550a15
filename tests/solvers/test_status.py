"""Every entry of the status tables; the tables name every status that can come."""

import json
import subprocess
import sys

import highspy
import pytest

from slackopt.solvers.status import (
    CBC,
    HIGHS,
    PULP,
    cbc_meaning,
    highs_meaning,
    pulp_meaning,
)

HIGHS_EXPECTED = {
    "optimal": {"kOptimal"},
    "infeasible": {"kInfeasible"},
    "limit": {
        "kTimeLimit",
        "kIterationLimit",
        "kSolutionLimit",
        "kMemoryLimit",
        "kInterrupt",
        "kHighsInterrupt",
        "kObjectiveBound",
        "kObjectiveTarget",
    },
    "error": {
        "kUnbounded",
        "kUnboundedOrInfeasible",
        "kNotset",
        "kModelEmpty",
        "kLoadError",
        "kModelError",
        "kPresolveError",
        "kSolveError",
        "kPostsolveError",
        "kUnknown",
    },
}


@pytest.mark.parametrize(
    ("native", "status"),
    [(native, status) for status, natives in HIGHS_EXPECTED.items() for native in sorted(natives)],
)
def test_highs_status(native: str, status: str) -> None:
    meaning = highs_meaning(native)
    assert meaning.status == status
    assert bool(meaning.sentence) == (status == "error")


def test_highs_table_has_every_status_of_highspy() -> None:
    assert set(HIGHS) == set().union(*HIGHS_EXPECTED.values())
    # The names in the table that an older highspy lacks do no harm; the other way would.
    assert set(highspy.HighsModelStatus.__members__) <= set(HIGHS)


@pytest.mark.parametrize(
    ("words", "status"),
    [
        ("Optimal", "optimal"),
        ("Optimal (within gap tolerance)", "optimal"),
        ("Stopped on time", "limit"),
        ("Stopped on time (no integer solution - continuous used)", "limit"),
        ("Stopped on iterations", "limit"),
        ("Stopped on ctrl-c", "limit"),
        ("Stopped on user event", "limit"),
        ("Stopped on difficulties", "error"),
        ("Unbounded", "error"),
        ("Infeasible", "infeasible"),
        ("Integer infeasible", "infeasible"),
        ("Status unknown", "error"),
    ],
)
def test_cbc_status(words: str, status: str) -> None:
    meaning = cbc_meaning(f"{words} - objective value 3.00000000")
    assert meaning.status == status
    assert bool(meaning.sentence) == (status == "error")
    assert any(words.startswith(known) for known, _ in CBC)


PULP_EXPECTED = {
    "Optimal, Optimal Solution Found": "optimal",
    "Optimal, Solution Found": "limit",
    "Not Solved, No Solution Found": "limit",
    "Not Solved, Solution Found": "limit",
    "Not Solved, No Solution Exists": "limit",
    "Infeasible, No Solution Found": "limit",
    "Infeasible, No Solution Exists": "limit",
    "Unbounded, Solution is Unbounded": "error",
    "Undefined, No Solution Found": "error",
    "Undefined, No Solution Exists": "error",
    "Optimal": "optimal",
    "GapLimit": "optimal",
    "Infeasible": "infeasible",
    "TimeLimit": "limit",
    "MemoryLimit": "limit",
    "NodeLimit": "limit",
    "IterationLimit": "limit",
    "SolutionLimit": "limit",
    "Interrupted": "limit",
    "Stopped": "limit",
    "NotSolved": "error",
    "Undefined": "error",
    "NumericalError": "error",
    "Unbounded": "error",
}


@pytest.mark.parametrize(("native", "status"), PULP_EXPECTED.items())
def test_pulp_status(native: str, status: str) -> None:
    meaning = pulp_meaning(native)
    assert meaning.status == status
    assert bool(meaning.sentence) == (status == "error")


def test_pulp_table_has_every_status_of_this_pulp() -> None:
    assert set(PULP) == set(PULP_EXPECTED)
    # In a process of its own: PuLP 4 must be imported before highspy.
    code = (
        "import json, pulp; new = getattr(pulp.constants, 'LpSolveStatus', None); "
        "print(json.dumps([s.name for s in new] if new else "
        "[f'{pulp.LpStatus[s]}, {pulp.LpSolution[k]}' "
        "for s, k in pulp.constants.LpStatusToSolution.items()]))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert set(json.loads(run.stdout)) <= set(PULP)


@pytest.mark.parametrize("meaning", [highs_meaning, cbc_meaning, pulp_meaning])
def test_unknown_words_are_an_error_that_quotes_them(meaning) -> None:
    assert meaning("Gone fishing").status == "error"
    assert "'Gone fishing'" in meaning("Gone fishing").sentence
    assert meaning("").status == "error"
