"""Deterministic runs: the same plan and bound twice, whatever the machine does meanwhile."""

from __future__ import annotations

import pytest

import slackopt as so
from slackopt.solvers import options, pulp_solvers, stages


@pytest.fixture(scope="module")
def instance() -> so.Instance:
    graph = so.profiles.transformer("bert-large", batch=8, num_layers=6)
    return so.Instance.from_graph(graph, device="a100-pcie4", budget=0.5)


@pytest.fixture
def _little_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(options, "WORK_PER_SECOND", 0.002)
    monkeypatch.setattr(stages, "DETERMINISTIC_EVALUATIONS", 50)
    monkeypatch.setattr(stages, "DETERMINISTIC_ROUNDS", 3)


@pytest.mark.usefixtures("_little_work")
@pytest.mark.parametrize(
    ("method", "solver"),
    [("bound", None), ("milp", "highs"), ("milp", "cbc"), ("cpsat", None), ("exact", None)],
)
def test_two_runs_are_equal(instance: so.Instance, method: str, solver: str | None) -> None:
    if solver is not None and solver not in pulp_solvers.available_solvers():
        pytest.skip(f"PuLP finds no {solver} here")
    first, second = (
        so.solve(
            instance,
            method,
            time_limit=500,
            gap=0.0,
            seed=7,
            threads=2,
            solver=solver,
            deterministic=True,
        )
        for _ in range(2)
    )
    assert first.deterministic
    assert first.threads == 1
    same = (
        "status",
        "makespan_ns",
        "lower_bound_ns",
        "plan",
        "bound_certificate",
        "num_constraints",
    )
    assert [getattr(first, name) for name in same] == [getattr(second, name) for name in same]
    ends = [[point[1:] for point in result.trajectory] for result in (first, second)]
    assert ends[0] == ends[1]


def test_a_run_cut_short_says_so(instance: so.Instance) -> None:
    result = so.solve(instance, "exact", time_limit=1.0, gap=0.0, deterministic=True)
    assert result.deterministic is False
    assert any("cut short" in note for note in result.notes)
