"""`Progress`: ends move inwards only, and a contradiction is caught and named."""

import slackopt as so
from slackopt.progress import Progress


def make() -> tuple[so.Instance, Progress, so.Plan]:
    graph = so.profiles.transformer("bert-large", batch=8, num_layers=3, attention="eager")
    instance = so.Instance.from_graph(graph, device="a100-pcie4", budget=0.7)
    plan = so.solve(instance, "slackswap").plan
    assert plan is not None
    return instance, Progress(instance, "test", gap=0.0), plan


def test_only_better_ends_are_kept() -> None:
    instance, progress, plan = make()
    assert progress.offer_plan(plan, "first")
    assert not progress.offer_plan(plan, "again")
    assert progress.offer_bound(instance.ideal_ns + 5, "bound")
    assert not progress.offer_bound(instance.ideal_ns + 4, "worse bound")
    result = progress.result("time")
    assert result.status == "feasible"
    assert result.lower_bound_ns == instance.ideal_ns + 5
    assert len(result.trajectory) == 2


def test_a_bound_above_a_checked_plan_is_a_conflict_naming_both() -> None:
    _, progress, plan = make()
    progress.offer_plan(plan, "rule A")
    assert progress.makespan_ns is not None
    progress.offer_bound(progress.makespan_ns + 1, "solver B")
    assert progress.is_done()
    result = progress.result("time")
    assert (result.status, result.stopped_by) == ("error", "error")
    assert result.lower_bound_ns is None
    assert result.gap is None
    assert "rule A" in result.notes[-1]
    assert "solver B" in result.notes[-1]


def test_a_plan_below_an_earlier_bound_is_a_conflict_too() -> None:
    instance, progress, plan = make()
    makespan = so.simulate(instance, plan).makespan_ns
    assert makespan is not None
    progress.offer_bound(makespan + 10, "solver B")
    progress.offer_plan(plan, "rule A")
    assert progress.result("time").status == "error"


def test_optimal_is_said_only_within_the_tolerance() -> None:
    instance, progress, plan = make()
    progress.offer_plan(plan, "rule")
    assert progress.makespan_ns is not None
    progress.offer_bound(progress.makespan_ns - 1, "bound")
    assert progress.result("time").status == "feasible"
    progress.offer_bound(progress.makespan_ns, "bound")
    assert progress.result("proof").status == "optimal"
    assert instance.ideal_ns <= progress.makespan_ns


def test_a_plan_after_a_proof_of_infeasibility_is_a_conflict() -> None:
    _, progress, plan = make()
    progress.prove_infeasible("rows B", {})
    assert progress.result("proof").status == "infeasible"
    progress.offer_plan(plan, "rule A")
    result = progress.result("time")
    assert result.status == "error"
    assert any("conflict" in note and "rule A" in note for note in result.notes)


def test_a_bound_alone_is_a_success_only_where_no_plan_was_asked_for() -> None:
    instance, progress, _ = make()
    progress.offer_bound(instance.ideal_ns, "bound")
    assert progress.result("time").status == "no_solution"
    progress.bound_only = True
    result = progress.result("time")
    assert (result.status, result.reason) == ("bounded", None)


def test_a_bound_that_no_file_can_hold_is_cut() -> None:
    _, progress, _ = make()
    progress.offer_bound(2**70, "bound")
    assert progress.result("time").lower_bound_ns == 2**63 - 1
