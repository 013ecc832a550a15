"""Each way a solve can end, for real, in the child process; limits; nothing is left behind."""

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import psutil
import pytest
from small_models import (
    INF,
    INFEASIBLE,
    UNBOUNDED,
    covering,
    market_split,
    market_split_with_slack,
    model,
)

from slackopt.solvers.linear_model import LinearModel
from slackopt.solvers.pulp_process import GRACE_S, PulpProcess
from slackopt.solvers.pulp_solvers import available_solvers, pulp_name
from slackopt.solvers.solve_run import Report, SolveRun

SPLIT, PLANTED = market_split()


def solve(process: PulpProcess, lines: LinearModel, seconds: float = 20.0, **options) -> Report:
    settings = {"gap": 1e-6, "threads": 1, "seed": 0} | options
    return process.solve(lines, time_limit=seconds, **settings)


def test_optimal(process: PulpProcess) -> None:
    report = solve(process, covering())
    assert (report.status, report.sentence, report.objective) == ("optimal", "", 9.0)
    assert report.x is not None
    assert covering().settle(report.x)[1] == ""
    assert report.bound == pytest.approx(9.0, abs=2e-3)
    assert report.bound <= 9.0
    assert report.version


def test_optimal_without_integers(process: PulpProcess) -> None:
    report = solve(process, covering(integer=False))
    assert report.status == "optimal"
    assert report.objective == pytest.approx(8.2)
    assert report.bound == pytest.approx(8.2, abs=2e-3)


def test_optimal_within_the_gap(process: PulpProcess) -> None:
    report = solve(process, market_split_with_slack(12, 2), gap=50.0)
    assert report.status == "optimal"
    assert report.objective is not None
    assert report.bound is not None
    assert report.objective - report.bound <= 51


def test_limit_with_a_point(process: PulpProcess) -> None:
    report = solve(process, market_split_with_slack(), 2.0)
    assert (report.status, report.sentence) == ("limit", "")
    assert report.x is not None
    assert report.objective is not None
    assert report.objective > 0
    assert report.bound is not None
    assert report.bound <= 1e-6
    assert report.trajectory


def test_limit_without_a_point(process: PulpProcess) -> None:
    report = solve(process, SPLIT, 1.5)
    assert (report.status, report.x, report.objective) == ("limit", None, None)
    assert report.bound is None or 0 <= report.bound <= PLANTED.sum()


@pytest.mark.parametrize("name", INFEASIBLE)
def test_infeasible(process: PulpProcess, name: str) -> None:
    report = solve(process, INFEASIBLE[name])
    assert (report.status, report.sentence) == ("infeasible", "")
    assert (report.x, report.objective, report.bound) == (None, None, None)


@pytest.mark.parametrize("name", UNBOUNDED)
def test_unbounded_is_an_error(process: PulpProcess, name: str) -> None:
    report = solve(process, UNBOUNDED[name])
    assert report.status == "error"
    assert "unbounded" in report.sentence
    assert (report.x, report.objective, report.bound) == (None, None, None)


def test_an_error_of_pulp_is_an_error() -> None:
    child = PulpProcess("NO_SUCH_SOLVER")
    for _ in range(2):  # the child survives it
        report = solve(child, covering())
        assert report.status == "error"
        assert "NO_SUCH_SOLVER" in report.sentence
        assert (report.x, report.objective, report.bound) == (None, None, None)
    child.close()


def test_unused_columns_and_no_costs(process: PulpProcess) -> None:
    lines = model([0.0, 0.0, 0.0], [({1: -1.0}, -1.0)])
    report = solve(process, lines)
    assert (report.status, report.objective) == ("optimal", 0.0)
    assert report.x is not None
    assert report.x[1] == 1


def test_a_start_is_taken(process: PulpProcess) -> None:
    report = solve(process, SPLIT, 2.0, start=PLANTED)
    assert report.objective is not None, (report.status, report.native, report.sentence)
    assert report.objective <= PLANTED.sum()


def test_a_start_that_breaks_a_row_does_no_harm(process: PulpProcess) -> None:
    assert solve(process, covering(), start=np.zeros(6)).objective == 9.0


def test_moves_are_reported_while_it_runs(process: PulpProcess) -> None:
    moves: list[tuple[float, float | None, float | None]] = []
    report = solve(process, market_split_with_slack(), 1.5, on_move=lambda *m: moves.append(m))
    assert moves
    assert [move[1:] for move in moves] == [move[1:] for move in report.trajectory][: len(moves)]


@pytest.mark.parametrize("seconds", [0.001, 1.0])
@pytest.mark.parametrize("lines", [SPLIT, market_split_with_slack()], ids=["split", "slack"])
def test_time_limits_hold(process: PulpProcess, lines: LinearModel, seconds: float) -> None:
    begun = time.monotonic()
    report = solve(process, lines, seconds)
    assert time.monotonic() - begun < seconds + 2
    assert report.status == "limit", report
    assert report.bound is None or np.isfinite(report.bound)


def test_threads_may_change_between_solves(process: PulpProcess) -> None:
    for threads in (1, 2, 1):
        assert solve(process, covering(), threads=threads).objective == 9.0


@pytest.fixture
def own() -> Iterator[PulpProcess]:
    """A child that a test may break; which solver it runs makes no difference there."""
    child = PulpProcess("HiGHS")
    yield child
    child.close()


def worker_of(child: PulpProcess) -> psutil.Process:
    return psutil.Process(child._children[0].process.pid)


def test_the_first_solve_may_come_at_once(own: PulpProcess) -> None:
    begun = time.monotonic()
    report = solve(own, SPLIT, 0.001)
    assert time.monotonic() - begun < 2
    assert report.status == "limit"


def test_a_solver_that_hangs_is_killed_and_one_that_dies_is_an_error(own: PulpProcess) -> None:
    solve(own, covering())
    worker = worker_of(own)
    worker.suspend()
    begun = time.monotonic()
    report = solve(own, covering(), 0.5)
    assert time.monotonic() - begun < 0.5 + GRACE_S + 0.5
    assert (report.status, report.x) == ("limit", None)
    assert "killed" in report.native
    assert not worker.is_running()
    assert solve(own, covering()).objective == 9.0  # in a new child
    threading.Timer(0.5, worker_of(own).kill).start()
    report = solve(own, SPLIT, 20)
    assert report.status == "error"
    assert "ended with code -9" in report.sentence
    assert solve(own, covering()).objective == 9.0


def test_nothing_is_printed_and_nothing_left(
    solver: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    child = PulpProcess(pulp_name(solver))
    solve(child, covering())
    solve(child, market_split_with_slack(), 0.5)
    assert not list(child.folder.glob("solve-*"))
    workers = [worker_of(child)] if child._children else []
    del child  # without close
    assert not any(worker.is_running() for worker in workers)
    assert not list(tmp_path.iterdir())
    assert capfd.readouterr() == ("", "")


SCRIPT = """
import sys
sys.path.insert(0, {tests!r})
from small_models import market_split
from slackopt.solvers.pulp_process import PulpProcess
child = PulpProcess({solver!r})
print(child._children[0].process.pid, flush=True)
child.solve(market_split()[0], time_limit=60, gap=0.0, threads=1, seed=0)
"""


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_no_process_outlives_its_parent(solver: str, how: signal.Signals, tmp_path: Path) -> None:
    tests = str(Path(__file__).parents[1])
    script = SCRIPT.format(tests=tests, solver=pulp_name(solver))
    parent = subprocess.Popen(
        [sys.executable, "-c", script],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=os.environ | {"TMPDIR": str(tmp_path)},
    )
    assert parent.stdout is not None
    with parent.stdout:
        line = parent.stdout.readline()
    if not line:
        parent.wait()
        pytest.fail("the script did not start")
    worker = psutil.Process(int(line))
    time.sleep(1.0)
    started = [worker, *worker.children(recursive=True)]
    parent.send_signal(how)
    begun = time.monotonic()
    parent.wait(10)
    _, alive = psutil.wait_procs(started, timeout=3)
    assert time.monotonic() - begun < 3
    assert not alive
    if how == signal.SIGINT:
        assert not list(tmp_path.iterdir())


def run_of(lines: LinearModel, tmp_path: Path) -> SolveRun:
    return SolveRun(lines, tmp_path, time.monotonic(), 10.0, 1e-6, None)


def test_a_claimed_optimum_that_breaks_a_row_is_an_error(tmp_path: Path) -> None:
    done = {"kind": "highs", "native": "kOptimal", "x": np.zeros(6), "bound": 0.0, "version": ""}
    report = run_of(covering(), tmp_path).report(("done", done), "")
    assert report.status == "error"
    assert report.sentence == "the solver's point breaks the model: row 0 is exceeded by 11"
    assert (report.x, report.objective, report.bound) == (None, None, None)


def test_an_optimum_without_a_point_is_an_error(tmp_path: Path) -> None:
    done = {"kind": "highs", "native": "kOptimal", "x": None, "bound": 0.0, "version": ""}
    report = run_of(covering(), tmp_path).report(("done", done), "")
    assert (report.status, report.bound) == ("error", None)


def test_a_bound_above_the_point_is_an_error(tmp_path: Path) -> None:
    x = np.array([0.0, 1, 0, 0, 1, 0])
    done = {"kind": "highs", "native": "kTimeLimit", "x": x, "bound": 9.5, "version": ""}
    report = run_of(covering(), tmp_path).report(("done", done), "")
    assert report.status == "error"
    assert "above its own point" in report.sentence
    assert (report.x, report.bound) == (None, None)


def test_infinite_bounds_and_wrong_points_on_the_way_are_dropped(tmp_path: Path) -> None:
    run = run_of(covering(), tmp_path)
    run.take(0.1, INF, -INF)
    run.take(0.2, 3.0, 1.0, np.zeros(6))  # breaks the row
    run.take(0.3, 99.0, 1.5, np.array([0.0, 1, 0, 0, 1, 0]))
    report = run.report(None, "")
    assert report.trajectory == [(0.2, None, 1.0), (0.3, 9.0, 1.5)]
    assert (report.status, report.objective, report.bound) == ("limit", 9.0, 1.5)


def test_other_solvers_that_pulp_finds() -> None:
    others = [name for name in available_solvers() if name not in ("highs", "cbc")]
    if not others:
        pytest.skip("PuLP finds no further solver")
    for name in others:
        child = PulpProcess(pulp_name(name))
        report = solve(child, covering())
        assert (report.status, report.objective) == ("optimal", 9.0), name
        assert report.bound is None or report.bound <= 9.0 + 1e-6
        assert solve(child, INFEASIBLE["parity"]).x is None
        child.close()
