"""The window model through PuLP: both solvers, a hard instance, limits, warm start."""

import time
from pathlib import Path

import numpy as np
import pytest

import slackopt as so
from slackopt.formulations.linear import Row
from slackopt.formulations.window import WindowFormulation
from slackopt.solvers.pulp_model import MilpOutcome, PulpModel, available_solvers
from slackopt.solvers.window_lp import WindowLp

INSTANCES = Path(__file__).parents[2] / "instances" / "slackswap"


def window_and_rows(name: str) -> tuple[WindowFormulation, list[Row]]:
    window = WindowFormulation(so.read_instance(INSTANCES / f"{name}.json"))
    lp = WindowLp(window)
    lp.solve()
    return window, lp.rows


@pytest.fixture(scope="module")
def hard() -> tuple[WindowFormulation, list[Row]]:
    return window_and_rows("gpt2-xl-flash")


def solve(model: PulpModel, seconds: float, gap: float = 0.0, **options) -> MilpOutcome:
    gap_ns = gap * model.window.instance.ideal_ns
    begun = time.monotonic()
    outcome = model.solve(time_limit=seconds, gap_ns=gap_ns, threads=1, seed=0, **options)
    assert time.monotonic() - begun < seconds + 2
    for number in (outcome.objective_ns, outcome.bound_ns):
        assert number is None or np.isfinite(number)
    return outcome


def test_limits_on_a_hard_instance(solver: str, hard: tuple[WindowFormulation, list[Row]]) -> None:
    window, rows = hard
    with PulpModel(window, np.zeros(len(window.columns)), solver) as model:
        model.add_rows(rows)
        # Some of these stop CBC 2.10 in preprocessing, when it calls every model infeasible.
        for seconds in (0.001, 1.0, 0.7, 0.8, 0.9):
            outcome = solve(model, seconds)
            assert outcome.status == "limit", outcome
            assert (outcome.x is None) == (outcome.objective_ns is None)


def test_solvers_agree_and_starts_help() -> None:
    window, rows = window_and_rows("bert-large-flash")
    outcomes, gap = {}, 1e-3
    solvers = [name for name in ("highs", "cbc") if name in available_solvers()]
    for name in solvers:
        with PulpModel(window, np.zeros(len(window.columns)), name) as model:
            model.add_rows(rows)
            start = outcomes[solvers[0]].x if outcomes else None
            outcome = outcomes[name] = solve(model, 8.0, gap, start=start)
            assert outcome.x is not None, outcome
            assert outcome.bound_ns is not None
            assert outcome.bound_ns <= outcome.objective_ns * (1 + 1e-6)
            for row in rows:
                total = sum(a * outcome.x[j] for j, a in row.coefficients.items())
                assert total <= row.upper + 1e-5 * sum(abs(a) for a in row.coefficients.values())
            again = solve(model, 1.5, gap, start=outcome.x)
            if again.x is not None:  # a slow machine may have no time left after the build
                assert again.objective_ns <= outcome.objective_ns * (1 + 1e-6)
    best = min(outcome.objective_ns for outcome in outcomes.values())
    assert all(outcome.bound_ns <= best * (1 + 1e-6) for outcome in outcomes.values())


def test_a_closed_model_says_so(hard: tuple[WindowFormulation, list[Row]]) -> None:
    window, _ = hard
    model = PulpModel(window, np.zeros(len(window.columns)))
    model.close()
    model.close()
    with pytest.raises(ValueError, match="closed"):
        solve(model, 1.0)
