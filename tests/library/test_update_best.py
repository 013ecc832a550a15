"""Taking results of a batch into the library: only what holds, and never against a proof."""

import gzip
import json
import multiprocessing
from pathlib import Path

import pytest
from library.conftest import Small
from made_runs import chain_instance, solved

from slackopt.batch import Run, read_runs, write_run
from slackopt.errors import InputError
from slackopt.files import read_plan, write_record
from slackopt.library import read_best, read_best_plan, update_best
from slackopt.library.merge import merge
from slackopt.library.store import BEST
from slackopt.simulation import simulate


def result_run(small: Small, task_method: str, /, **changes: object) -> Run:
    """The run of a method on the first instance, with its result changed."""
    run = next(
        run
        for run in read_runs(small.batch)
        if run.task.method == task_method and run.task.instance == "first"
    )
    assert run.result is not None
    result = run.result.model_copy(update=changes)
    task = run.task.model_copy(update={"method": result.method})
    return run.model_copy(update={"task": task, "result": result, "key": "f" * 32})


def claimed_bound(small: Small, bound_ns: int) -> Run:
    """A run of a solver that claims more than its certificate proves; `bound` may not."""
    return result_run(
        small,
        "bound",
        method="my-solver",
        status="no_solution",
        stopped_by="time",
        trajectory=(),
        lower_bound_ns=bound_ns,
    )


def only(small: Small, *runs: Run) -> Small:
    """The same library with a batch of these runs only."""
    batch = small.batch.parent / f"batch of {len(list(small.batch.parent.iterdir()))}"
    for run in runs:
        write_run(batch, run)
    return Small(small.family, batch, small.instances)


def files(small: Small) -> dict[str, bytes]:
    return {
        str(path.relative_to(small.family)): path.read_bytes()
        for path in small.family.rglob("*")
        if path.is_file()
    }


def test_the_best_of_a_batch_is_taken(small: Small) -> None:
    report = small.update(by="our lab")
    assert report.instances == 2
    assert (report.conflicts, report.rejected, report.skipped, report.unknown) == ([], [], [], [])
    best = read_best(small.family)
    assert best.family == "chains"
    assert [entry.instance for entry in best.entries] == ["first", "second"]
    runs = read_runs(small.batch)
    for entry, instance in zip(best.entries, small.instances, strict=True):
        of_it = [r.result for r in runs if r.task.instance == entry.instance and r.result]
        assert entry.instance_sha256 == instance.sha256
        assert entry.makespan_ns == min(r.makespan_ns for r in of_it if r.makespan_ns)
        assert entry.lower_bound_ns == max(r.lower_bound_ns for r in of_it if r.lower_bound_ns)
        assert entry.plan is not None
        assert entry.plan.origin.by == "our lab"
        assert entry.plan.origin.date == "2026-01-02"
        plan = read_best_plan(small.family, entry.instance)
        assert simulate(instance, plan).makespan_ns == entry.makespan_ns
        # A plan file is one like any other.
        assert read_plan(small.family / entry.plan.file) == plan
        assert entry.gap is not None
        assert [step.what for step in entry.history][:2] == ["plan", "bound"]


def test_a_second_update_changes_nothing(known: Small) -> None:
    before = files(known)
    report = known.update()
    assert report.improvements == []
    assert files(known) == before


def test_files_are_the_same_bytes_whenever_they_are_made(small: Small) -> None:
    small.update()
    first = files(small)
    for name in first:
        if not name.endswith(("first.json", "second.json.gz")):
            (small.family / name).unlink()
    small.update(jobs=2)
    assert files(small) == first
    packed = next(data for name, data in first.items() if ".plan." in name)
    assert packed[4:8] == b"\0\0\0\0"  # no time of writing in the gzip header


def test_improvements_are_recorded_and_old_files_removed(small: Small) -> None:
    rule = only(small, result_run(small, "swap-all"))
    rule.update()
    old = read_best(small.family).entries[0]
    assert old.plan is not None
    assert old.bound is None
    # A plan that is worse on purpose comes first; then the whole batch beats it.
    report = small.update()
    new = read_best(small.family).entries[0]
    assert new.history[0] == old.history[0]
    if new.plan != old.plan:
        assert not (small.family / old.plan.file).exists()
        assert new.history[1].previous_ns == old.makespan_ns
    assert {step.what for _, name, step in report.improvements if name == "first"} >= {"bound"}
    named = {file for entry in read_best(small.family).entries for file in entry.files}
    assert {f"best/{path.name}" for path in (small.family / "best").iterdir()} == named


def test_claims_that_do_not_hold_are_rejected(small: Small) -> None:
    good = result_run(small, "milp")
    assert good.result is not None
    assert good.result.makespan_ns is not None
    faster = good.result.makespan_ns - 1000
    batch = only(small, result_run(small, "milp", makespan_ns=faster))
    before = files(small)
    report = batch.update()
    assert len(report.rejected) == 1
    assert f"makespan_ns is claimed as {faster}" in report.rejected[0]
    assert "f" * 32 in report.rejected[0]
    assert files(small) == before


def test_the_next_best_is_taken_when_the_best_is_rejected(small: Small) -> None:
    liar = result_run(small, "swap-all", makespan_ns=1)
    write_run(small.batch, liar)
    report = small.update()
    assert len(report.rejected) == 1
    entry = read_best(small.family).entries[0]
    assert entry.makespan_ns is not None
    assert entry.makespan_ns > 1


def test_a_bound_beyond_its_certificate_is_a_solvers_word(small: Small) -> None:
    bound = result_run(small, "bound")
    assert bound.result is not None
    assert bound.result.lower_bound_ns is not None
    proved = bound.result.lower_bound_ns
    batch = only(small, claimed_bound(small, proved + 7))
    batch.update(proved_only=True)
    entry = read_best(small.family).entries[0]
    assert (entry.lower_bound_ns, entry.solver_bound) == (proved, None)
    report = batch.update()
    assert [step.what for _, _, step in report.improvements] == ["solver_bound"]
    entry = read_best(small.family).entries[0]
    assert entry.bound is not None
    assert entry.bound.lower_bound_ns == proved
    assert entry.solver_bound is not None
    assert entry.solver_bound.lower_bound_ns == entry.lower_bound_ns == proved + 7
    assert entry.solver_bound.file is None


def test_a_bound_above_the_known_plan_is_a_conflict(known: Small) -> None:
    before = files(known)
    makespan = read_best(known.family).entries[0].makespan_ns
    assert makespan is not None
    batch = only(known, claimed_bound(known, makespan + 1))
    report = batch.update()
    (conflict,) = report.conflicts
    assert "'first'" in conflict
    assert f"no plan is below {makespan + 1} ns on the solver's word (my-solver" in conflict
    assert f"a plan of {makespan} ns was simulated" in conflict
    assert conflict.count("by slackopt") == 2
    assert files(known) == before


def test_a_plan_below_the_known_bound_is_a_conflict(small: Small) -> None:
    plan = result_run(small, "milp")
    assert plan.result is not None
    assert plan.result.makespan_ns is not None
    makespan = plan.result.makespan_ns
    only(small, claimed_bound(small, makespan + 1)).update()
    assert read_best(small.family).entries[0].plan is None
    before = files(small)
    report = small.update()
    assert len(report.conflicts) == 1
    assert f"a plan of {makespan} ns" in report.conflicts[0]
    # The other instance is not held up by it.
    assert {name for _, name, _ in report.improvements} == {"second"}
    entry = read_best(small.family).entries[0]
    assert entry.plan is None
    assert set(before) < set(files(small))


def test_a_proof_that_no_plan_exists_is_taken(tmp_path: Path) -> None:
    instance = chain_instance("tight", budget_bytes=1000)
    write_record(instance, tmp_path / "tight.json")
    write_run(tmp_path / "batch", solved(instance, "bound"))
    report = update_best(tmp_path / "batch", [tmp_path / "tight.json"])
    assert [step.what for _, _, step in report.improvements] == ["infeasible"]
    entry = read_best(tmp_path).entries[0]
    assert entry.infeasible is not None
    assert entry.gap is None


def test_runs_on_other_instances_are_named(small: Small) -> None:
    other = solved(chain_instance("other"), "swap-all")
    changed = solved(chain_instance("first", 33 * 2**20), "swap-all")
    report = only(small, other, changed).update()
    assert [name.split()[0] for name in report.unknown] == ["first", "other"]
    assert not (small.family / BEST).exists()


def test_an_instance_that_was_remade_is_not_mixed_with_the_old_one(known: Small) -> None:
    remade = chain_instance("first", 33 * 2**20)
    write_record(remade, known.family / "first.json")
    with pytest.raises(InputError, match="is of another instance"):
        only(known, solved(remade, "swap-all")).update()


def test_names_are_unique_in_a_family(small: Small) -> None:
    write_record(small.instances[0], small.family / "again.json")
    with pytest.raises(InputError, match="names are unique"):
        small.update()


def test_damaged_files_of_a_batch_are_named(small: Small) -> None:
    (small.batch / "runs" / "notes.txt").write_text("mine")
    report = small.update()
    assert len(report.skipped) == 1
    assert "notes.txt" in report.skipped[0]
    assert report.improvements


def test_a_damaged_best_file_stops_the_update(known: Small) -> None:
    path = known.family / BEST
    path.write_text(path.read_text()[:-20])
    before = files(known)
    with pytest.raises(InputError, match=r"best\.json: not JSON"):
        known.update()
    assert files(known) == before


def test_a_certificate_that_does_not_add_up_is_rejected(small: Small) -> None:
    run = result_run(small, "bound")
    document = json.loads(run.model_dump_json())
    for entry in document["result"]["bound_certificate"]:
        entry["row"] = "memory[999999,start,none,none]"
    path = small.batch / "runs" / f"{run.key}.json"
    path.write_text(json.dumps(document))
    report = only(small, Run.model_validate_json(path.read_text())).update()
    assert len(report.rejected) == 1


def _update(folders: tuple[str, str]) -> int:
    family, batch = folders
    return len(update_best(batch, [family]).improvements)


def test_two_updates_at_once_lose_nothing(small: Small) -> None:
    runs = read_runs(small.batch)
    parts = [
        only(small, *(run for run in runs if run.task.instance == name))
        for name in ("first", "second")
    ]
    context = multiprocessing.get_context("spawn")
    with context.Pool(2) as pool:
        found = pool.map(_update, [(str(part.family), str(part.batch)) for part in parts])
    assert all(found)
    assert [entry.instance for entry in read_best(small.family).entries] == ["first", "second"]


def test_a_merge_takes_either_end_only_if_it_is_better(known: Small) -> None:
    from slackopt.library.proposal import Proposal

    entry = read_best(known.family).entries[0]
    assert entry.plan is not None
    same = merge(entry, Proposal(plan=entry.plan, bound=entry.bound))
    assert same.improvements == []
    assert same.entry is entry


def test_the_text_of_a_claim_is_plain_gzip(known: Small) -> None:
    for path in (known.family / "best").iterdir():
        assert json.loads(gzip.decompress(path.read_bytes()))["format"].startswith("slackopt/")
