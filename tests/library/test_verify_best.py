"""Checking a library again: everything that someone could change by hand is named."""

import gzip
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from library.conftest import Small
from made_runs import MIB, chain_instance, solved

from slackopt.batch import write_run
from slackopt.errors import InputError
from slackopt.files import write_record
from slackopt.library import read_best, update_best, verify_best
from slackopt.library.store import BEST

Edit = Callable[[dict[str, Any]], None]


def edit(known: Small, change: Edit, instance: int = 0) -> None:
    """Change the entry of an instance in ``best.json`` by hand."""
    path = known.family / BEST
    document = json.loads(path.read_text())
    change(document["entries"][instance])
    path.write_text(json.dumps(document))


def edit_claim(known: Small, kind: str, change: Edit) -> None:
    """Change the plan or certificate of the first instance, and its hash to go with it."""
    import hashlib

    entry = read_best(known.family).entries[0]
    claim = getattr(entry, kind)
    path = known.family / claim.file
    document = json.loads(gzip.decompress(path.read_bytes()))
    change(document)
    text = json.dumps(document)
    path.write_bytes(gzip.compress(text.encode()))
    sha256 = hashlib.sha256(text.encode()).hexdigest()

    def rehash(entry: dict[str, Any]) -> None:
        for step in entry["history"]:
            if step["sha256"] == entry[kind]["sha256"]:
                step["sha256"] = sha256
        entry[kind]["sha256"] = sha256

    edit(known, rehash)


def failures(known: Small, **options: object) -> str:
    report = verify_best(known.family.parent, lp_limit_s=0, **options)  # type: ignore[arg-type]
    return "\n".join(report.failures)


def test_what_was_taken_from_a_batch_holds(known: Small) -> None:
    report = verify_best(known.family.parent)
    assert report.failures == []
    assert (report.entries, report.checked, report.raisable) == (2, 2, 0)
    assert verify_best(known.family / BEST, lp_limit_s=0).failures == []


def test_processes_find_the_same(known: Small) -> None:
    edit(known, lambda entry: entry.update(ideal_ns=1), instance=1)
    alone, two = (verify_best(known.family, jobs=jobs) for jobs in (1, 2))
    assert alone.failures == two.failures
    assert alone.notes == two.notes
    assert len(alone.failures) == 1


def set_plan(entry: dict[str, Any], **values: object) -> None:
    entry["plan"].update(values)
    entry["history"][0].update(value_ns=entry["plan"]["makespan_ns"])


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda e: set_plan(e, makespan_ns=e["plan"]["makespan_ns"] - 1), "plan.makespan_ns is"),
        (lambda e: e["bound"].update(lower_bound_ns=e["bound"]["lower_bound_ns"] + 1), "its cert"),
        (lambda e: e.update(gap=0.0), "gap is claimed as 0.0"),
        (lambda e: e.update(ideal_ns=5), "ideal_ns is claimed as 5"),
        (lambda e: e.update(budget_bytes=5), "budget_bytes is claimed as 5"),
        (lambda e: e.update(instance_sha256="0" * 64), "another instance"),
        (lambda e: e.update(instance="third"), "no instance of this name"),
        (lambda e: e["plan"].update(sha256="0" * 64), "is not the file that was recorded"),
        (lambda e: e["plan"].update(file="best/none.json.gz"), "no such file"),
        (lambda e: e["bound"].update(file=None, sha256=None), "its certificate proves"),
        (lambda e: e["bound"].update(sha256=None), "has no hash recorded"),
        (lambda e: e["history"].clear(), "the last plan in the history is None"),
        (lambda e: e["history"][0].update(value_ns=1), "the last plan in the history is 1"),
        (
            lambda e: e["history"].append({**e["history"][0], "previous_ns": 1}),
            "no improvement",
        ),
        (
            lambda e: e.update(solver_bound={**e["bound"], "file": None, "sha256": None}),
            "is not above the proved bound",
        ),
        (
            lambda e: e.update(
                solver_bound={**e["bound"], "lower_bound_ns": e["plan"]["makespan_ns"] + 1}
            ),
            "is above plan.makespan_ns",
        ),
        (
            lambda e: e.update(infeasible={"origin": e["plan"]["origin"]}),
            "can't both be true",
        ),
    ],
)
def test_claims_edited_by_hand_are_named(known: Small, change: Edit, told: str) -> None:
    edit(known, change)
    found = failures(known)
    assert told in found
    assert str(known.family / BEST) in found
    assert "second" not in found


def test_swapped_plan_files_are_named(known: Small) -> None:
    first, second = (known.family / e.plan.file for e in read_best(known.family).entries if e.plan)
    held = first.read_bytes()
    first.write_bytes(second.read_bytes())
    second.write_bytes(held)
    found = failures(known)
    assert found.count("is not the file that was recorded") == 2


def test_swapped_plans_with_their_hashes_are_named(known: Small) -> None:
    second = read_best(known.family).entries[1]
    assert second.plan is not None
    stolen = second.plan.model_dump(mode="json")
    edit(known, lambda entry: entry["plan"].update(file=stolen["file"], sha256=stolen["sha256"]))
    assert "the plan was made for another instance" in failures(known)


def test_a_certificate_of_another_instance_is_named(known: Small) -> None:
    second = read_best(known.family).entries[1]
    assert second.bound is not None
    stolen = second.bound.model_dump(mode="json")
    edit(known, lambda entry: entry["bound"].update(file=stolen["file"], sha256=stolen["sha256"]))
    assert "is a certificate for 'second'" in failures(known)


def test_a_plan_that_runs_out_of_memory_is_named(known: Small) -> None:
    edit_claim(known, "plan", lambda plan: plan.update(decisions={}, prefetch={}))
    assert "plan: it can't run" in failures(known)


def test_weights_that_add_up_to_less_are_named(known: Small) -> None:
    def weaken(certificate: dict[str, Any]) -> None:
        certificate["weights"] = []

    edit_claim(known, "bound", weaken)
    assert "and its certificate proves" in failures(known)


@pytest.mark.parametrize(
    ("entry", "told"),
    [({"weight": "1/0"}, "weight"), ({"row": "no such row"}, "no such row")],
)
def test_weights_that_make_no_sense_are_named(
    known: Small, entry: dict[str, str], told: str
) -> None:
    edit_claim(known, "bound", lambda certificate: certificate["weights"][0].update(entry))
    assert told in failures(known)


def test_damaged_instances_and_claims_are_named(known: Small) -> None:
    (known.family / "first.json").write_text("{")
    entry = read_best(known.family).entries[1]
    assert entry.plan is not None
    path = known.family / entry.plan.file
    path.write_bytes(path.read_bytes()[:30])
    found = failures(known)
    assert "first.json: not JSON" in found
    assert "gzip stream is truncated" in found


def test_a_wrong_instance_under_the_right_name_is_named(known: Small) -> None:
    write_record(chain_instance("first", 33 * MIB), known.family / "first.json")
    assert "these claims are about another instance" in failures(known)


def test_a_family_that_was_moved_is_named(known: Small) -> None:
    moved = known.family.rename(known.family.with_name("others"))
    report = verify_best(moved, lp_limit_s=0)
    assert "is of the family 'chains', and stands in 'others'" in report.failures[0]


def test_a_plan_against_a_fresh_bound_is_named(known: Small) -> None:
    # Both claims are made up, and agree with each other: only the instance itself refutes them.
    def lower(entry: dict[str, Any]) -> None:
        entry["bound"] = None
        entry["gap"] = None
        entry["history"] = entry["history"][:1]
        set_plan(entry, makespan_ns=entry["ideal_ns"])

    edit(known, lower)
    found = "\n".join(verify_best(known.family).failures)
    assert "plan.makespan_ns is claimed" in found
    assert "a fresh LP proves that no plan is below" in found


def test_a_bound_that_can_be_raised_is_told(known: Small) -> None:
    entry = read_best(known.family).entries[0]
    assert entry.bound is not None
    ideal, makespan = entry.ideal_ns, entry.makespan_ns
    assert makespan is not None
    assert entry.bound.lower_bound_ns > ideal * 1.001, "the test needs a bound above the ideal"

    def weaken(entry: dict[str, Any]) -> None:
        entry["bound"].update(lower_bound_ns=ideal, file=None, sha256=None)
        entry["gap"] = (makespan - ideal) / ideal
        for step in entry["history"]:
            if step["what"] == "bound":
                step.update(value_ns=ideal, sha256=None)
        entry["solver_bound"] = None

    edit(known, weaken)
    report = verify_best(known.family)
    assert report.failures == []
    assert report.raisable == 1
    assert any("can be raised from" in note for note in report.notes)


def test_what_has_no_counterpart_is_told(known: Small) -> None:
    write_record(chain_instance("third"), known.family / "third.json")
    (known.family / "best" / "stray.json.gz").write_bytes(b"")
    (known.family / "index.json").write_text('{"format": "something else"}')
    report = verify_best(known.family, lp_limit_s=0)
    assert report.failures == []
    told = "\n".join(report.notes)
    assert "third.json: has no entry" in told
    assert "stray.json.gz: no entry names this file" in told
    assert "index.json" not in told


def test_a_sample_is_drawn_by_its_seed(known: Small) -> None:
    chosen = []
    for seed in (0, 0, 1, 2, 3):
        names: list[str] = []
        report = verify_best(
            known.family,
            sample=1,
            seed=seed,
            lp_limit_s=0,
            on_done=lambda done, total, name, names=names: names.append(name),  # type: ignore[misc]
        )
        assert (report.entries, report.checked) == (2, 1)
        chosen += names
    assert chosen[0] == chosen[1]
    assert set(chosen) == {"first", "second"}


def test_a_proof_of_infeasibility_is_checked(tmp_path: Path) -> None:
    instance = chain_instance("tight", budget_bytes=1000)
    write_record(instance, tmp_path / "tight.json")
    write_run(tmp_path / "batch", solved(instance, "bound"))
    update_best(tmp_path / "batch", [tmp_path / "tight.json"])
    assert verify_best(tmp_path).failures == []
    write_record(chain_instance("tight"), tmp_path / "tight.json")
    path = tmp_path / BEST
    fits = chain_instance("tight")
    text = path.read_text().replace(instance.sha256, fits.sha256)
    path.write_text(text.replace('"budget_bytes": 1000', f'"budget_bytes": {fits.budget_bytes}'))
    (failure,) = verify_best(tmp_path).failures
    assert "no op exceeds the budget, and there is no certificate" in failure


def test_a_damaged_best_file_is_refused(known: Small) -> None:
    path = known.family / BEST
    document = json.loads(path.read_text())
    document["entries"].append(document["entries"][0])
    path.write_text(json.dumps(document))
    with pytest.raises(InputError, match="has two entries"):
        verify_best(known.family)
    document["entries"][0]["plan"]["file"] = "../../elsewhere.json.gz"
    path.write_text(json.dumps(document))
    with pytest.raises(InputError, match="must match"):
        verify_best(known.family)
    shutil.rmtree(known.family)
    with pytest.raises(InputError, match=r"no best\.json in it"):
        verify_best(known.family.parent)
