"""CBC's log and solution file: two dialects, and the cases PuLP can't tell apart."""

from pathlib import Path

import pytest

from slackopt.solvers.cbc_log import CbcLog, rounded_down

OLD_LIMIT = """\
Welcome to the CBC MILP Solver
Version: 2.10.3
Continuous objective value is 21.3719 - 0.01 seconds
Cbc0012I Integer solution of 33 found by feasibility pump after 0 its and 0 nodes (0.30 seconds)
Cbc0010I After 0 nodes, 1 on tree, 33 best solution, best possible 21.4 (0.90 seconds)
Cbc0016I Integer solution of 31 found by strong branching after 9 its and 3 nodes (1.10 seconds)
Cbc0020I Exiting on maximum time
Cbc0005I Partial search - best objective 31 (best possible 21.453472), took 7 its (2.00 seconds)

Result - Stopped on time limit

Objective value:                31.00000000
Lower bound:                    21.453
"""
NEW_LIMIT = """\
CBC devel (git:146ce89) — COIN-OR Branch and Cut
     Nodes   OnTree  Depth         BestSol Method                 BestBound     Gap%   Time(s)
  ──────── ──────── ────── ─────────────── ──────────────── ─────────────── ──────── ─────────
         0        1      0               —                          21.4349        —     0.780
 ★    1431      392     18              31 strong branching         21.4349   30.00%     0.850
     17517      150     18              31                              -9e-13 100.00%     1.480

✔ Stopped (time limit) — BestSol: 31   Bound: 21.4349   Gap: 30.00%   Nodes: 32.8K   Time: 2.00s
Result - Stopped on time limit
Lower bound:                    21.4349
"""

PREPROCESSED = """\
Continuous objective value is 5.5 - 0.00 seconds
Cgl0000I Cut generators found to be infeasible! (or unbounded)
Pre-processing says infeasible or unbounded
"""


def read(text: str) -> CbcLog:
    log = CbcLog()
    for line in text.splitlines():
        log.line(line)
    return log


def test_bounds_and_incumbents_of_2_10() -> None:
    log = read(OLD_LIMIT)
    assert log.version == "2.10.3"
    assert log.best == 31
    assert log.bound == rounded_down(21.453472)
    assert log.moves == [
        (0.01, None, rounded_down(21.3719)),
        (0.30, 33, rounded_down(21.3719)),
        (1.10, 31, rounded_down(21.3719)),
        (2.00, 31, rounded_down(21.453472)),
    ]


def test_bounds_and_incumbents_of_the_development_version() -> None:
    log = read(NEW_LIMIT)
    assert log.version == "devel (git:146ce89)"
    assert log.best == 31
    assert log.bound == rounded_down(21.4349)
    assert [move[0] for move in log.moves] == [0.78, 0.85]


@pytest.mark.parametrize(
    "line",
    [
        "Cbc0005I Partial search - best objective 1e+50 (best possible -1.8e+308), (0.20 seconds)",
        "Lower bound:                    -1e50",
        "Lower bound:                    nan",
        "Lower bound:                    inf",
    ],
)
def test_no_number_is_no_bound(line: str) -> None:
    assert read(line).bound is None


def test_a_printed_bound_is_never_trusted_beyond_its_digits() -> None:
    for value in (0.0, 9.0, 1234.5678, 987654.321, -3.25):
        assert rounded_down(float(f"{value:.6g}")) <= value
        assert rounded_down(float(f"{value:.3f}")) <= value


@pytest.mark.parametrize(
    ("log", "first_line", "late", "status", "has_point"),
    [
        ("Result - Optimal solution found", "Optimal - objective value 9", False, "optimal", True),
        # PuLP 3.3 calls this optimal.
        (OLD_LIMIT, "Stopped on time - objective value 31", True, "limit", True),
        (
            OLD_LIMIT,
            "Stopped on time (no integer solution - continuous used)",
            True,
            "limit",
            False,
        ),
        # CBC's word for "nothing found yet"; PuLP 3.3 calls it infeasible.
        (OLD_LIMIT, "Integer infeasible - objective value 0", True, "limit", False),
        (OLD_LIMIT, "Infeasible - objective value 0", False, "limit", False),
        ("Result - Linear relaxation infeasible", "Infeasible", True, "limit", False),
        ("Result - Linear relaxation infeasible", "Infeasible", False, "infeasible", False),
        ("Result - Problem proven infeasible", "Integer infeasible", False, "infeasible", False),
        (
            "✔ LP Infeasible — Frac: 0/72",
            "Infeasible - objective value 9",
            False,
            "infeasible",
            False,
        ),
        (PREPROCESSED, "Integer infeasible - objective value 5", False, "infeasible", False),
        # CBC 2.10, out of time in preprocessing of a model that has points.
        (PREPROCESSED, "Integer infeasible - objective value 5", True, "limit", False),
        (PREPROCESSED[60:], "Integer infeasible - objective value 5", False, "error", False),
        ("", "Infeasible - objective value 9", False, "error", False),
        ("", "Unbounded - objective value 0", False, "error", False),
        ("", "Gone fishing - objective value 0", False, "error", False),
        ("", "", False, "error", False),
        ("", "", True, "limit", False),
    ],
)
def test_verdict(log: str, first_line: str, late: bool, status: str, has_point: bool) -> None:
    meaning, point = read(log).verdict(first_line, late=late)
    assert (meaning.status, point) == (status, has_point)


def test_a_growing_log_is_read_once(tmp_path: Path) -> None:
    path, log = tmp_path / "solver.log", CbcLog()
    log.update(path)
    data = OLD_LIMIT.encode()
    for end in (70, 200, 201, len(data)):
        path.write_bytes(data[:end])
        log.update(path)
    assert log.moves == read(OLD_LIMIT).moves
