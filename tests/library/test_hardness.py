"""Hardness classes, and the text export, from entries made by hand."""

import pytest

from slackopt.library import Best, BestEntry, Hardness, hardness, solution_list
from slackopt.library.records import BoundClaim, InfeasibleClaim, Origin, PlanClaim


def origin(reached_s: float | None, wall_s: float | None = None) -> Origin:
    return Origin(
        method="milp",
        slackopt_version="0.1.0",
        reached_s=reached_s,
        wall_s=wall_s,
        by="us",
        date="2026-01-02",
    )


def entry(
    name: str = "one",
    makespan: int | None = 100,
    bound: int | None = 100,
    plan_s: float | None = 1.0,
    bound_s: float | None = 1.0,
    infeasible: bool = False,
) -> BestEntry:
    gap = None if makespan is None or bound is None else (makespan - bound) / bound
    return BestEntry(
        instance=name,
        instance_sha256="0" * 64,
        ideal_ns=50,
        budget_bytes=10,
        gap=gap,
        plan=None
        if makespan is None
        else PlanClaim(
            makespan_ns=makespan, file="best/x.json.gz", sha256="0" * 64, origin=origin(plan_s)
        ),
        bound=None if bound is None else BoundClaim(lower_bound_ns=bound, origin=origin(bound_s)),
        infeasible=InfeasibleClaim(origin=origin(None, 3.0)) if infeasible else None,
    )


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (entry(), Hardness.EASY),
        (entry(bound_s=60.0), Hardness.EASY),
        (entry(plan_s=60.1), Hardness.MEDIUM),
        (entry(plan_s=3600.0, bound_s=5.0), Hardness.MEDIUM),
        (entry(bound_s=3600.1), Hardness.HARD),
        (entry(bound_s=None), Hardness.HARD),
        (entry(makespan=10_001, bound=10_000), Hardness.EASY),
        (entry(makespan=10_002, bound=10_000), Hardness.OPEN),
        (entry(makespan=None), Hardness.OPEN),
        (entry(bound=None), Hardness.OPEN),
        (entry(makespan=None, bound=None, infeasible=True), Hardness.EASY),
    ],
)
def test_classes_are_by_proof_and_time(made: BestEntry, expected: Hardness) -> None:
    assert hardness(made) is expected


def test_the_text_has_a_keyword_for_what_is_known() -> None:
    families = [
        Best(family="b", entries=(entry("x", 100, 90), entry("a b", 100, 100))),
        Best(
            family="a",
            entries=(
                entry("y", 100, None),
                entry("z", None, 90),
                entry("n", None, None),
                entry("i", None, None, infeasible=True),
            ),
        ),
    ]
    assert solution_list(families).splitlines() == [
        "=inf= a/i",
        "=unkn= a/n",
        "=best= a/y 100",
        "=bestdual= a/z 90",
        "=opt= b/a%20b 100",
        "=best= b/x 100",
        "=bestdual= b/x 90",
    ]
    assert solution_list([]) == ""
