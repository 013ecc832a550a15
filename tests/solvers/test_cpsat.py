"""CP-SAT back end: statuses, limits, bounds and plans on small instances; the ``cpsat`` method."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path
from random import Random

import numpy as np
import pytest
from google.protobuf import text_format
from ortools.sat import cp_model_pb2
from ortools.sat.python import cp_model
from random_steps import chained_instance, random_instance

import slackopt
from slackopt.errors import SolverError
from slackopt.formulations.linear import Row
from slackopt.formulations.window import WindowFormulation
from slackopt.instance import Instance
from slackopt.progress import Progress
from slackopt.result import Result
from slackopt.simulation.evaluator import Evaluator
from slackopt.solvers import cpsat, cpsat_model
from slackopt.solvers import options as solve_options
from slackopt.solvers.cpsat import export_cpsat, incumbent_point, solve_cpsat
from slackopt.solvers.cpsat_model import CpSatModel
from slackopt.solvers.cpsat_status import CPSAT, HOLDS_BOUND, HOLDS_POINT, cpsat_meaning
from slackopt.solvers.options import SolveOptions
from slackopt.solvers.row_model import ModelLimits
from slackopt.solvers.scaling import Floats
from slackopt.solvers.tie_break import tie_break
from slackopt.solvers.window_lp import WindowLp

LONG = ModelLimits(time_limit=20.0, gap_ns=0.0)
SEED_INSTANCE = "instances/slackswap/llama-7b-flash.json"


def run(instance: Instance, **options: object) -> Result:
    settings = SolveOptions(**options)  # type: ignore[arg-type]
    progress = Progress(instance, "cpsat", time_limit=settings.time_limit, gap=settings.gap)
    return progress.result(solve_cpsat(instance, progress, settings))


def tight_instance(rng: Random) -> Instance:
    """Small, with a budget that forces swaps or recomputes where there can be any."""
    instance = random_instance(rng, max_ops=9) if rng.random() < 0.5 else chained_instance(rng)
    low, high = max(instance.lifetimes.working_set_bytes), instance.graph.unlimited_peak_bytes
    budget = max(1, rng.randint(low, (low + high) // 2))
    return Instance.from_graph(instance.graph, device=instance.device, budget=budget)


def covering_model(**options: object) -> CpSatModel:
    """The model of one small instance with the rows of its LP."""
    window = WindowFormulation(tight_instance(Random(12)))
    lp = WindowLp(window)
    lp.solve()
    model = CpSatModel(window, **options)  # type: ignore[arg-type]
    model.add_rows(lp.rows)
    return model


@pytest.fixture(scope="module")
def seed_instance() -> Instance:
    return slackopt.read_instance(SEED_INSTANCE)


@pytest.fixture(scope="module")
def seed_model(seed_instance: Instance) -> CpSatModel:
    window = WindowFormulation(seed_instance)
    lp = WindowLp(window)
    lp.solve()
    model = CpSatModel(window, tie_break(window))
    model.add_rows(lp.rows)
    return model


# ---------------------------------------------------------------------------------------------
# Status


@pytest.mark.parametrize(
    ("native", "status"),
    [
        ("OPTIMAL", "optimal"),
        ("FEASIBLE", "limit"),
        ("UNKNOWN", "limit"),
        ("INFEASIBLE", "infeasible"),
        ("MODEL_INVALID", "error"),
    ],
)
def test_status_table(native: str, status: str) -> None:
    assert cpsat_meaning(native).status == status
    assert (cpsat_meaning(native).sentence != "") == (status == "error")


def test_table_has_every_status_of_the_solver() -> None:
    names = {name for name in dir(cp_model.CpSolverStatus) if name.isupper()}
    assert names == set(CPSAT)
    assert set(HOLDS_POINT) < set(HOLDS_BOUND) < set(CPSAT)


def test_unknown_status_is_an_error() -> None:
    meaning = cpsat_meaning("SPLENDID")
    assert meaning.status == "error"
    assert "SPLENDID" in meaning.sentence


def test_optimal() -> None:
    model = covering_model()
    found = model.solve(LONG)
    assert found.native_status == "OPTIMAL"
    assert found.status == "optimal"
    assert found.x is not None
    z = model.integer.point(found.x)
    cost = sum(c.objective * v for c, v in zip(model.integer.columns, z, strict=True))
    assert found.added_bound_ns == model.integer.added_bound_ns(cost)


def test_no_time_is_no_point_and_no_claim(seed_model: CpSatModel) -> None:
    """CP-SAT's ``value`` would give 0 for every column here."""
    found = seed_model.solve(ModelLimits(0.0, 0.0))
    assert found.native_status == "UNKNOWN"
    assert found.status == "limit"
    assert found.x is None
    assert found.added_bound_ns in (None, 0)


def test_stopped_with_a_point(seed_model: CpSatModel, seed_instance: Instance) -> None:
    window = seed_model.window
    progress = Progress(seed_instance, "cpsat")
    progress.offer_plan(slackopt.heuristics.heuristics()["slackswap"](seed_instance), "slackswap")
    start = incumbent_point(window, Evaluator(seed_instance), progress)
    assert start is not None
    begun = time.monotonic()
    found = seed_model.solve(ModelLimits(1.5, 0.0), start=start)
    assert time.monotonic() - begun < 2.5
    assert found.status in ("limit", "optimal")
    assert found.x is not None


def test_infeasible_is_a_bound_and_no_proof() -> None:
    """Stalls are capped in the model, so that it says something of short plans only."""
    model = covering_model()
    model.add_rows([Row("never[0]", {0: 1, 1: 1}, -1)])
    found = model.solve(LONG)
    assert found.status == "infeasible"
    assert found.x is None
    assert found.added_bound_ns == model.integer.cap_ns


def test_empty_row_that_never_holds() -> None:
    model = covering_model()
    model.add_rows([Row("never[0]", {}, -3)])
    assert model.solve(LONG).status == "infeasible"


def test_invalid_model_is_an_error_with_the_reason() -> None:
    model = covering_model()
    huge = model.model.new_int_var(0, 1 << 62, "huge")
    model.model.add(huge >= 1)
    with pytest.raises(SolverError, match=r"invalid.*huge"):
        model.solve(LONG)


def test_solver_that_fails_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("out of luck")

    monkeypatch.setattr(cp_model.CpSolver, "solve", fail)
    with pytest.raises(SolverError, match="out of luck"):
        covering_model().solve(LONG)


# ---------------------------------------------------------------------------------------------
# Models


def test_hints_are_replaced_not_repeated() -> None:
    model = covering_model()
    first = model.solve(LONG)
    assert first.x is not None
    for _ in range(2):
        again = model.solve(LONG, start=first.x)
        assert again.status == "optimal"
        assert len(model.model.proto.solution_hint.vars) == len(model.variables)


@pytest.mark.parametrize("presolve", [False, True])
@pytest.mark.parametrize("symmetry", [0, 2])
@pytest.mark.parametrize("clauses", [False, True])
def test_ways_to_pose_the_rows_have_one_optimum(
    clauses: bool, symmetry: int, presolve: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Clauses as such or as linear rows, symmetry used or not, presolved or not."""
    rng = Random(21)
    for _ in range(6):
        window = WindowFormulation(tight_instance(rng))
        lp = WindowLp(window)
        if lp.solve().infeasible:
            continue
        bounds = []
        for switched in (False, True):
            if switched:
                monkeypatch.setattr(cpsat_model, "CLAUSES", clauses)
                changes = {"symmetry_level": symmetry, "cp_model_presolve": presolve}
                monkeypatch.setattr(cpsat_model, "PARAMETERS", cpsat_model.PARAMETERS | changes)
            model = CpSatModel(window)
            model.add_rows(lp.rows)
            bounds.append(model.solve(LONG).added_bound_ns)
            monkeypatch.undo()
        assert bounds[0] == bounds[1]


def test_ties_and_rounding_stay_out_of_the_bound() -> None:
    """With tie-breaks or without, the bound is one for the window model, and LP <= bound."""
    rng = Random(31)
    raised = 0
    for _ in range(15):
        window = WindowFormulation(tight_instance(rng))
        lp = WindowLp(window)
        lp_bound = lp.solve()
        if lp_bound.infeasible:
            continue
        found = []
        for costs in (None, tie_break(window), 1000 * tie_break(window)):
            model = CpSatModel(window, costs)
            model.add_rows(lp.rows)
            found.append(model.solve(LONG).added_bound_ns)
        assert None not in found
        assert found[1] <= found[0]
        assert found[2] <= found[0]
        raised += found[0] > lp_bound.lower_bound_ns - window.instance.ideal_ns
    assert raised


def test_callbacks_come_in_the_thread_of_the_caller(seed_model: CpSatModel) -> None:
    here, threads = threading.get_ident(), set()
    points: list[Floats] = []
    bounds: list[int] = []

    def on_point(x: Floats) -> None:
        threads.add(threading.get_ident())
        points.append(x)

    def on_bound(bound: int) -> None:
        threads.add(threading.get_ident())
        bounds.append(bound)

    found = seed_model.solve(ModelLimits(20.0, 1e6), on_point=on_point, on_bound=on_bound)
    assert threads == {here}
    assert points
    assert bounds == sorted(bounds)
    assert found.added_bound_ns is not None
    assert found.added_bound_ns >= bounds[-1]


def hard_model() -> CpSatModel:
    """Rows that no solver gets through in a minute: a market split."""
    rng = Random(1)
    model = CpSatModel(WindowFormulation(slackopt.read_instance(SEED_INSTANCE)))
    for i in range(6):
        values = {j: rng.randint(0, 99) for j in range(50)}
        half = sum(values.values()) // 2
        opposite = {j: -a for j, a in values.items()}
        model.add_rows([Row(f"most[{i}]", values, half), Row(f"least[{i}]", opposite, -half)])
    return model


def test_ctrl_c_ends_the_solve_at_once() -> None:
    ended = threading.Event()

    def interrupt() -> None:
        if not ended.wait(1.0):
            os.kill(os.getpid(), signal.SIGINT)

    model, before = hard_model(), threading.active_count()
    killer = threading.Thread(target=interrupt)
    killer.start()
    begun = time.monotonic()
    try:
        with pytest.raises(KeyboardInterrupt):
            model.solve(ModelLimits(30.0, 0.0))
    finally:
        ended.set()
        killer.join()
    assert time.monotonic() - begun < 4.0
    assert threading.active_count() == before


def test_time_limit_holds_on_hard_rows() -> None:
    begun = time.monotonic()
    found = hard_model().solve(ModelLimits(1.0, 0.0))
    assert time.monotonic() - begun < 3.0
    assert found.status == "limit"
    assert found.x is None


def test_export_reads_back(tmp_path: Path) -> None:
    window = WindowFormulation(tight_instance(Random(12)))
    lp = WindowLp(window)
    lp.solve()
    text, binary = tmp_path / "model.pb.txt", tmp_path / "model.pb"
    export_cpsat(window, lp.rows, text)
    export_cpsat(window, lp.rows, binary)
    proto = text_format.Parse(text.read_text(), cp_model_pb2.CpModelProto())
    other = cp_model_pb2.CpModelProto()
    other.ParseFromString(binary.read_bytes())
    assert proto == other
    assert {c.name for c in proto.constraints} <= {row.name for row in lp.rows}
    assert proto.variables[0].name == window.columns[0].name


def test_export_that_fails_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SolverError, match="could not write"):
        covering_model().export(tmp_path / "missing" / "model.pb")


# ---------------------------------------------------------------------------------------------
# The method


def test_never_contradicts_milp() -> None:
    """Bounds of either are below the plans of both; closed gaps mean equal makespans."""
    rng = Random(41)
    closed = 0
    for _ in range(12):
        instance = tight_instance(rng)
        ours = run(instance, time_limit=4.0, gap=0.0)
        theirs = slackopt.solve(instance, "milp", time_limit=4.0, gap=0.0)
        bounds = [r.lower_bound_ns for r in (ours, theirs) if r.lower_bound_ns is not None]
        spans = [r.makespan_ns for r in (ours, theirs) if r.makespan_ns is not None]
        assert ours.status != "error" or not spans
        if bounds and spans:
            assert max(bounds) <= min(spans)
        closed += ours.gap == 0.0
        if ours.gap == theirs.gap == 0.0:
            assert ours.makespan_ns == theirs.makespan_ns
    assert closed > 3


def test_trajectory_and_notes(seed_instance: Instance) -> None:
    result = run(seed_instance, time_limit=10.0, threads=2)
    assert result.solver == "cpsat"
    assert result.makespan_ns is not None
    assert result.gap is not None
    assert result.gap < 0.003
    assert result.trajectory[-1][1:] == (result.makespan_ns, result.lower_bound_ns)


@pytest.mark.parametrize("limit", [0.001, 1.0])
def test_short_limits(limit: float, seed_instance: Instance) -> None:
    begun = time.monotonic()
    result = run(seed_instance, time_limit=limit, gap=0.0)
    assert time.monotonic() - begun < limit + 2.0
    assert result.status in ("feasible", "no_solution")
    assert result.stopped_by == "time"
    if result.plan is not None and result.lower_bound_ns is not None:
        assert result.lower_bound_ns <= result.makespan_ns


def test_deterministic_runs_are_equal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(solve_options, "WORK_PER_SECOND", 0.02)
    rng = Random(51)
    for _ in range(3):
        instance = tight_instance(rng)
        first, second = (
            run(instance, time_limit=60.0, gap=0.0, deterministic=True, seed=3, threads=2)
            for _ in range(2)
        )
        assert first.plan == second.plan
        assert first.lower_bound_ns == second.lower_bound_ns
        ends = [[point[1:] for point in r.trajectory] for r in (first, second)]
        assert ends[0] == ends[1]


def test_wrong_bound_is_a_conflict_that_names_cpsat(
    monkeypatch: pytest.MonkeyPatch, seed_instance: Instance
) -> None:
    monkeypatch.setattr(CpSatModel, "added_bound_ns", lambda *_: seed_instance.ideal_ns)
    monkeypatch.setattr(cpsat, "ROUND_THE_LP", False)
    result = run(seed_instance, time_limit=10.0, gap=0.0)
    assert result.status == "error"
    assert any("conflict: cpsat bound" in note for note in result.notes)


def test_prints_nothing(capfd: pytest.CaptureFixture[str], seed_model: CpSatModel) -> None:
    seed_model.solve(ModelLimits(1.0, 1e6))
    captured = capfd.readouterr()
    assert captured.out == ""
    assert captured.err == ""


def test_log_is_kept_when_asked_for(capfd: pytest.CaptureFixture[str]) -> None:
    model = covering_model(keep_log=True)
    capfd.readouterr()
    model.solve(LONG)
    assert any("CP-SAT solver" in line for line in model.log)
    assert capfd.readouterr().out == ""


def test_incumbent_point_satisfies_every_row(seed_instance: Instance) -> None:
    window = WindowFormulation(seed_instance)
    progress = Progress(seed_instance, "cpsat")
    assert incumbent_point(window, Evaluator(seed_instance), progress) is None
    progress.offer_plan(slackopt.heuristics.heuristics()["slackswap"](seed_instance), "slackswap")
    x = incumbent_point(window, Evaluator(seed_instance), progress)
    assert x is not None
    lp = WindowLp(window)
    lp.solve()
    for row in lp.rows:
        assert sum(a * int(x[j]) for j, a in row.coefficients.items()) <= row.upper
    cost = np.array([c.objective for c in window.columns], dtype=float) @ x
    assert seed_instance.ideal_ns + cost == progress.makespan_ns
