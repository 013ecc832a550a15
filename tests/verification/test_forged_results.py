"""Every field of the format, forged: what can be checked is refused, in sentences."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import vipr_checker
from forging import SCHEMA, forgeries
from true_results import Results

import slackopt as so
from slackopt.verification import FIELDS
from slackopt.verification.vipr import vipr_certificate

DOCS = Path(__file__).resolve().parents[2] / "docs" / "verify.md"
PROVED = [name for name, check in FIELDS.items() if check.levels == ("proved here",)]
CONSISTENT = {name for name, check in FIELDS.items() if "consistent" in check.levels}
PARTLY = {name for name, check in FIELDS.items() if "on the solver's word" in check.levels}


def forged(result: so.Result, /, **changes: Any) -> so.Result:
    """What a reader makes of a forged file; ValidationError is an InputError there."""
    document = result.model_dump(mode="json") | changes
    return so.Result.model_validate_json(json.dumps(document))


def is_refused(question: so.Instance, result: so.Result, /, **changes: Any) -> bool:
    try:
        so.verify(question, forged(result, **changes))
    except (so.CheckError, so.InputError, ValueError):  # pydantic's is a ValueError
        return True
    return False


def test_every_field_has_a_place_in_the_table() -> None:
    assert list(FIELDS) == list(so.Result.model_fields)
    assert set(FIELDS) == set(SCHEMA["properties"])


def test_the_documented_table_is_that_of_the_code() -> None:
    lines = DOCS.read_text().splitlines()
    begin = lines.index("| field | `verify` says | how |") + 2
    documented = lines[begin : begin + len(FIELDS)]
    assert documented == [
        f"| `{name}` | {' / '.join(check.levels)} | {check.how} |" for name, check in FIELDS.items()
    ]
    assert not lines[begin + len(FIELDS)].startswith("|")


def test_true_results_pass(results: Results) -> None:
    on_word = {name for name, (i, r) in results.items() if not so.verify(i, r).all_proved}
    assert on_word == {"optimum of enumeration", "infeasible by enumeration"}


STILL_TRUE = {
    # The triggers that are left out are those of the default policy; the rest is free text.
    ("plan", "prefetch"),
    ("plan", "provenance"),
    ("plan", "decisions"),
    ("plan", "format"),
    ("plan", "schema_version"),
}
"""Parts of a field of which a forged value can be as true as the one before."""


@pytest.mark.parametrize("field", PROVED)
def test_a_forged_value_of_a_proved_field_is_refused(field: str, results: Results) -> None:
    tried = 0
    for name, (instance, result) in results.items():
        value = result.model_dump(mode="json")[field]
        for made in forgeries(field, value):
            if field == "plan" and isinstance(made, dict) and isinstance(value, dict):
                changed = {key for key in made.keys() | value.keys() if made.get(key) != value[key]}
                if {(field, key) for key in changed} <= STILL_TRUE:
                    continue
            if field == "bound_certificate" and name != "bound":
                continue  # a solver's word, or a plan, goes beyond it: see the tests below
            tried += 1
            if is_refused(instance, result, **{field: made}):
                continue
            # Other weights may prove the same: then another checker agrees.
            assert field == "infeasibility_certificate", (name, made)
            other = vipr_certificate(instance, forged(result, **{field: made}))
            assert vipr_checker.check(other.text) == ("infeasible", "")
    assert tried


@pytest.mark.parametrize("field", sorted(PARTLY))
def test_a_forged_status_or_bound_is_refused_or_told(field: str, results: Results) -> None:
    for name, (instance, result) in results.items():
        for made in forgeries(field, result.model_dump(mode="json")[field]):
            if is_refused(instance, result, **{field: made}):
                continue
            if (name, made) == ("bound", "no_solution"):
                continue  # as `bound` said it before there was the status `bounded`
            # What passes is a bound that holds of its own, or is told to rest on a word.
            checked = so.verify(instance, forged(result, **{field: made}))
            assert field == "lower_bound_ns", (name, made)
            true = made <= instance.ideal_ns or any("no plan exists" in s for s in checked.proved)
            assert true or any(f"lower bound {made}" in s for s in checked.on_word), (name, made)


CONTRADICTIONS: dict[str, list[tuple[str, dict[str, Any]]]] = {
    "method": [
        ("plan and certificate", {"method": "swap-all", "bound_certificate": None}),
        ("infeasible by enumeration", {"method": "swap-all"}),
        ("infeasible by enumeration", {"method": "bound"}),
        ("plan of a rule", {"method": "milp"}),
        ("bound", {"method": "milp"}),
        ("bound", {"method": "keep-all"}),
    ],
    "stopped_by": [
        ("plan of a rule", {"stopped_by": "proof"}),
        ("plan of a rule", {"stopped_by": "gap"}),
        ("plan and certificate", {"stopped_by": "proof"}),
        ("plan and certificate", {"stopped_by": "heuristic"}),
        ("plan and certificate", {"stopped_by": "exhausted"}),
        ("bound", {"stopped_by": "gap"}),
        ("bound", {"stopped_by": "heuristic"}),
        ("contradiction", {"stopped_by": "gap"}),
        ("contradiction", {"stopped_by": "heuristic"}),
        ("contradiction", {"stopped_by": "exhausted"}),
        ("rule without a plan", {"stopped_by": "proof"}),
        ("rule without a plan", {"stopped_by": "gap"}),
    ],
    "build_s": [("bound", {"build_s": 1e308})],
    "solve_s": [("bound", {"solve_s": 1e308})],
    "wall_s": [("plan and certificate", {"wall_s": 0.0})],
    "threads": [("plan of a rule", {"threads": 7}), ("bound", {"threads": 0})],
    "seed": [("plan of a rule", {"seed": 1}), ("bound", {"seed": -1})],
    "trajectory": [
        ("plan of a rule", {"trajectory": [[0.0, 1, None]]}),
        ("plan of a rule", {"trajectory": [[0.0, None, None]]}),
        ("plan of a rule", {"trajectory": [[-1.0, None, None]]}),
        ("bound", {"trajectory": [[0.0, 10**9, None]]}),
        ("rule without a plan", {"trajectory": [[0.0, 10**9, None]]}),
    ],
    "options": [
        ("plan of a rule", {"options": {"gap": value}})
        for value in (1e308, 1.0, -1e-9, "0.1", None, True, [], 10**30)
    ],
}
"""Field that can't be proved -> forged values that contradict the rest of the file."""


def test_every_consistent_field_has_contradictions() -> None:
    assert set(CONTRADICTIONS) == CONSISTENT


@pytest.mark.parametrize(
    ("name", "changes"),
    [pair for pairs in CONTRADICTIONS.values() for pair in pairs],
    ids=lambda value: str(value)[:60],
)
def test_a_contradiction_is_refused(name: str, changes: dict[str, Any], results: Results) -> None:
    instance, result = results[name]
    with pytest.raises((so.CheckError, ValueError)):
        so.verify(instance, forged(result, **changes))


def test_a_trajectory_with_impossible_points_is_refused(results: Results) -> None:
    instance, result = results["plan and certificate"]
    points = [list(point) for point in result.trajectory]
    assert len(points) >= 2
    seconds, makespan, bound = points[-1]
    assert makespan > bound > 0
    for wrong in (
        [*points, [seconds, makespan, None]],  # a bound is not lost
        [*points, [seconds, makespan + 1, bound], points[-1]],  # nor does a plan get worse
        [*points, [seconds, makespan, bound - 1], points[-1]],
        [[seconds + 1, None, None], *points],  # time goes on
        [[0.0, makespan, makespan + 1], *points],  # no bound above a makespan
        [[0.0, makespan - 1, None], *points],
        [[0.0, None, bound + 1], *points],
        [*points[:-1], [1e9, makespan, bound]],  # after the end of the run
        points[:-1],
    ):
        assert is_refused(instance, result, trajectory=wrong), wrong


def test_the_false_results_of_old(results: Results) -> None:
    instance, rule = results["plan of a rule"]
    makespan = rule.makespan_ns
    for changes in (
        {"status": "infeasible", "stopped_by": "proof"},
        {"status": "no_solution"},
        {"status": "error", "stopped_by": "error"},
        {"status": "bounded", "stopped_by": "time"},
        {"lower_bound_ns": makespan, "gap": 0.0, "trajectory": []},
        {
            "lower_bound_ns": makespan,
            "gap": 0.0,
            "trajectory": [],
            "status": "optimal",
            "stopped_by": "proof",
        },
        {"plan": None, "status": "no_solution"},
        {"instance": "another name"},
        {"lower_bound_ns": 0},
        {"lower_bound_ns": 0, "gap": None},
    ):
        assert is_refused(instance, rule, **changes), changes
    tight, bound = results["bound"]
    assert bound.lower_bound_ns is not None
    above = {"lower_bound_ns": bound.lower_bound_ns + 1, "trajectory": []}
    assert is_refused(tight, bound, **above)
    with pytest.raises(so.CheckError, match="whose claim is its certificate"):
        so.verify(tight, forged(bound, **above))
    # The same from a solver rests on its word, and is told.
    word = forged(bound, method="my-solver", status="no_solution", stopped_by="time", **above)
    checked = so.verify(tight, word)
    assert not checked.all_proved
    assert "rest on the solver's word" in checked.on_word[0]


def test_a_conflict_keeps_its_plan(results: Results) -> None:
    instance, rule = results["plan of a rule"]
    told = {"status": "error", "stopped_by": "error", "trajectory": []}
    notes = ["conflict: milp claims that no plan is below 9 ns, and the plan of swap-all ..."]
    assert so.verify(instance, forged(rule, notes=notes, **told)).all_proved
    assert is_refused(instance, rule, notes=["nothing of the kind"], **told)
    bound = {"lower_bound_ns": instance.ideal_ns}
    assert rule.makespan_ns is not None
    bound["gap"] = (rule.makespan_ns - instance.ideal_ns) / instance.ideal_ns
    assert is_refused(instance, rule, notes=notes, **told, **bound)


def test_duplicate_and_renamed_rows_are_refused(results: Results) -> None:
    instance, result = results["bound"]
    rows = result.model_dump(mode="json")["bound_certificate"]
    with pytest.raises(so.CheckError, match="stands twice"):
        so.verify(instance, forged(result, bound_certificate=[*rows, rows[0]]))
    # The same row under another spelling of its name.
    memory = next(row for row in rows if row["row"].startswith("memory["))
    for spelling in (
        memory["row"].rstrip("]"),
        memory["row"].replace("[", "[ "),
        memory["row"].replace("[", "[+"),
        memory["row"] + "]",
    ):
        renamed = [*rows, {"row": spelling, "weight": memory["weight"]}]
        with pytest.raises(so.CheckError, match="there is no row"):
            so.verify(instance, forged(result, bound_certificate=renamed))


def test_a_proof_of_infeasibility_in_the_old_field_is_read(results: Results) -> None:
    instance, result = results["contradiction"]
    rows = result.model_dump(mode="json")["infeasibility_certificate"]
    old = forged(result, bound_certificate=rows, infeasibility_certificate=None)
    checked = so.verify(instance, old)
    assert checked.all_proved
    assert "files of today" in checked.proved[0]
    # Other rows are a certificate of the bound only; `bound` has no other proof.
    less = forged(result, bound_certificate=[], infeasibility_certificate=None)
    with pytest.raises(so.CheckError, match="neither by the working set nor by a certificate"):
        so.verify(instance, less)


def test_infeasible_with_a_certificate_of_the_bound_only_is_true(results: Results) -> None:
    # The schedule model proved it after the window LP had given a bound.
    instance, result = results["infeasible by enumeration"]
    both = forged(
        result, method="exact", lower_bound_ns=instance.ideal_ns, bound_certificate=[]
    ).model_copy(update={"trajectory": ((0.0, None, instance.ideal_ns),)})
    checked = so.verify(instance, both)
    assert len(checked.proved) == 1
    assert "lower bound" in checked.proved[0]
    assert "solver's word, that of 'exact'" in checked.on_word[0]


@pytest.mark.parametrize("stop", ["exhausted", "heuristic", "time"])
def test_a_rule_or_solver_may_have_nothing_left_to_try(stop: str, results: Results) -> None:
    for name in ("plan of a rule", "rule without a plan"):
        instance, result = results[name]
        assert so.verify(instance, forged(result, stopped_by=stop)).all_proved
        if stop == "exhausted":
            so.verify(instance, forged(result, stopped_by=stop, method="exact"))
