"""Time limits: what a rule, and the building of a model, do when a clock jumps ahead."""

from __future__ import annotations

from random import Random

import pytest
from random_steps import random_instance

import slackopt as so
from slackopt.clock import OutOfTimeError, check_time, seconds_left, time_limit
from slackopt.formulations.certificate import bound_from_weights
from slackopt.formulations.row_bound import single_row_bound
from slackopt.formulations.window import WindowFormulation
from slackopt.heuristics import NoPlanError, heuristics
from slackopt.heuristics.registry import option_names
from slackopt.instance import Instance
from slackopt.progress import Progress
from slackopt.solvers.bound import solve_bound
from slackopt.solvers.options import SolveOptions

# Searches have a time limit of their own.
RULES = sorted(n for n, rule in heuristics().items() if "time_limit" not in option_names(rule))


class JumpingClock:
    """Stands still for so many readings, and is past every deadline from then on."""

    def __init__(self, readings: int) -> None:
        self.left = readings

    def __call__(self) -> float:
        self.left -= 1
        return 0.0 if self.left >= 0 else 100.0


@pytest.fixture(scope="module")
def instance() -> Instance:
    graph = so.profiles.transformer("gpt2-xl", batch=1, num_layers=4)
    return Instance.from_graph(graph, device="a100-pcie4", budget=0.7)


def test_limits_nest() -> None:
    check_time()
    assert seconds_left() == float("inf")
    with time_limit(10.0, now=lambda: 4.0) as outer:
        assert seconds_left() == 6.0
        with time_limit(None):
            assert seconds_left() == 6.0
        with time_limit(5.0) as inner:
            assert seconds_left() == 1.0
            check_time()
        with time_limit(3.0) as inner, pytest.raises(OutOfTimeError):
            check_time()
        assert inner.cut_short
        assert outer.cut_short
        check_time()
    assert seconds_left() == float("inf")


@pytest.mark.parametrize("name", RULES)
def test_a_rule_cut_short_gives_a_plan_that_runs_or_ends(name: str, instance: Instance) -> None:
    """Wherever time ends, a rule soon ends: it raises, or has a plan that runs."""
    clock = JumpingClock(10**9)
    try:
        with time_limit(50.0, now=clock):
            heuristics()[name](instance)
    except NoPlanError:
        pass
    readings = 10**9 - clock.left
    for n in sorted({0, 1, readings // 2, 3 * readings // 4, readings - 2, readings - 1}):
        clock = JumpingClock(n)
        with time_limit(50.0, now=clock) as limit:
            try:
                plan = heuristics()[name](instance)
            except (OutOfTimeError, NoPlanError):
                plan = None
        assert clock.left >= -10  # it reads the clock a few times more at most
        assert plan is None or so.simulate(instance, plan).feasible
        if 0 <= n < readings:
            assert limit.cut_short


@pytest.mark.parametrize("name", ["slackswap", "capuchin", "largest-first-offload"])
def test_what_ran_until_then_is_returned(name: str, instance: Instance) -> None:
    clock = JumpingClock(10**9)
    with time_limit(50.0, now=clock):
        whole = heuristics()[name](instance)
    readings = 10**9 - clock.left
    with time_limit(50.0, now=JumpingClock(readings - 1)) as limit:
        plan = heuristics()[name](instance)
    assert limit.cut_short
    cut, best = so.simulate(instance, plan), so.simulate(instance, whole)
    assert cut.makespan_ns is not None
    assert best.makespan_ns is not None
    assert cut.makespan_ns >= best.makespan_ns


def test_solve_says_that_a_rule_was_cut_short(instance: Instance) -> None:
    late = so.solve(instance, "capuchin", time_limit=1e-9)
    assert (late.status, late.stopped_by) == ("no_solution", "time")
    assert late.deterministic is False
    assert any("time limit ended 'capuchin'" in note for note in late.notes)
    whole = so.solve(instance, "capuchin")
    assert (whole.status, whole.stopped_by) == ("feasible", "heuristic")
    assert whole.deterministic is True


@pytest.mark.parametrize("method", ["exact", "milp", "cpsat", "bound"])
def test_an_exact_method_without_time_has_a_bound(method: str, instance: Instance) -> None:
    result = so.solve(instance, method, time_limit=1e-9)
    assert result.stopped_by == "time"
    assert result.lower_bound_ns is not None
    assert result.lower_bound_ns >= instance.ideal_ns
    so.verify(instance, result)


def test_building_the_window_model_minds_the_time(instance: Instance) -> None:
    for readings in (0, 1, 20, 100):
        with time_limit(50.0, now=JumpingClock(readings)), pytest.raises(OutOfTimeError):
            WindowFormulation(instance).static_rows()


def test_the_bound_of_single_rows_comes_first_and_holds() -> None:
    graph = so.profiles.transformer("bert-large", batch=8, num_layers=3, attention="eager")
    instance = Instance.from_graph(graph, device="a100-pcie4", budget=0.5)
    bound, weights = single_row_bound(WindowFormulation(instance))
    # A fresh formulation: rows are rebuilt from their names.
    assert bound == bound_from_weights(WindowFormulation(instance), weights)
    assert bound > instance.ideal_ns
    best = so.solve(instance, "exact", time_limit=20)
    assert best.lower_bound_ns is not None
    assert bound <= best.lower_bound_ns
    progress = Progress(instance, "bound")
    solve_bound(instance, progress, SolveOptions())
    bounds = [point[2] for point in progress.trajectory]
    assert bounds[0] == bound
    assert len(bounds) > 1


def test_bounds_of_single_rows_are_below_every_plan() -> None:
    above = 0
    for seed in range(60):
        rng = Random(seed)
        small = random_instance(rng)
        bound, _ = single_row_bound(WindowFormulation(small))
        above += bound > small.ideal_ns
        for name in ("swap-all", "recompute-all", "slackswap"):
            result = so.solve(small, name)
            assert result.makespan_ns is None or bound <= result.makespan_ns
    assert above > 4
