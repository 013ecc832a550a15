"""The window LP where HiGHS gives no answer: tried otherwise, and never a wrong or lost bound."""

from __future__ import annotations

from pathlib import Path

import highspy
import pytest

import slackopt as so
from slackopt.formulations.window import WindowFormulation
from slackopt.solvers import window_lp
from slackopt.solvers.window_lp import WindowLp

HERE = Path(__file__).resolve().parent
SEED = HERE.parents[1] / "instances" / "slackswap" / "bert-large-flash.json"
UNKNOWN = highspy.HighsModelStatus.kUnknown


def test_an_uneven_link_is_solved_by_another_way() -> None:
    """1 GB/s out, 23 bytes/s in: with HiGHS 1.16 the second round ends with kUnknown."""
    instance = so.read_instance(HERE / "data" / "uneven-link.json")
    bound = WindowLp(WindowFormulation(instance)).solve()
    assert bound.converged
    assert not bound.failure
    best = so.solve(instance, "enumerate").makespan_ns
    assert best is not None
    assert bound.lower_bound_ns <= best
    for method in ("bound", "exact", "milp"):
        assert so.solve(instance, method, time_limit=10).status != "error"


class Failing(WindowLp):
    """A window LP of which every round after the fourth fails, however often it is tried."""

    def _run(self, deadline: float | None) -> highspy.HighsModelStatus:
        status = super()._run(deadline)
        self.runs = getattr(self, "runs", 0) + 1
        return status if self.runs <= 4 else UNKNOWN


def test_what_was_proved_before_a_failure_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    instance = so.read_instance(SEED)
    ideal = instance.ideal_ns
    for module in ("bound", "stages"):
        monkeypatch.setattr(f"slackopt.solvers.{module}.WindowLp", Failing)
    result = so.solve(instance, "bound")
    assert (result.status, result.stopped_by) == ("bounded", "error")
    assert result.lower_bound_ns is not None
    assert result.lower_bound_ns > ideal
    assert "kUnknown" in (result.reason or "")
    so.verify(instance, result)
    result = so.solve(instance, "exact", time_limit=2)
    assert result.status == "feasible"
    assert result.lower_bound_ns is not None
    assert ideal < result.lower_bound_ns <= (result.makespan_ns or 0)


def test_each_way_is_tried_and_the_choice_of_solver_restored(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lp = WindowLp(WindowFormulation(so.read_instance(SEED)))
    solvers: list[str] = []
    monkeypatch.setattr(
        window_lp,
        "run_highs",
        lambda highs: solvers.append(highs.getOptionValue("solver")[1]),
    )
    assert lp._run(None) not in window_lp._ANSWERS
    assert solvers == ["choose", "choose", "ipm"]
    assert lp.highs.getOptionValue("solver")[1] == "choose"


def test_noise_in_a_ray_does_not_spoil_the_proof_of_infeasibility() -> None:
    """HiGHS 1.16 puts 1e-16 on a row with unbounded stalls; exact sums allow none there."""
    instance = so.read_instance(HERE / "data" / "infeasible-noisy-ray.json")
    result = so.solve(instance, "bound")
    assert result.status == "infeasible"
    assert result.infeasibility_certificate
    assert any("contradict each other" in line for line in so.verify(instance, result))
    assert so.solve(instance, "enumerate").status == "infeasible"


def test_without_that_proof_exact_asks_the_schedule_model(monkeypatch: pytest.MonkeyPatch) -> None:
    instance = so.read_instance(HERE / "data" / "infeasible-noisy-ray.json")
    monkeypatch.setattr(window_lp, "proves_infeasible", lambda *_: False)
    bound = so.solve(instance, "bound")  # what single rows prove stands
    assert bound.status == "bounded"
    assert any("that is no exact proof" in note for note in bound.notes)
    so.verify(instance, bound)
    assert so.solve(instance, "exact", time_limit=20).status == "infeasible"
