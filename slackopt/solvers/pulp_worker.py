"""The child process in which PuLP and its solvers run; the one file that knows PuLP's API.

It is started by its path, imports nothing of this package, and speaks over pipes: requests come
on stdin, moves and results go to what was stdout. Everything that PuLP or a solver prints lands
in the log file that the parent gave as stderr.

The parent may kill it at any time. If the parent dies first, stdin ends and the child takes its
whole process group with it, solvers included.
"""

from __future__ import annotations

import contextlib
import inspect
import json
import os
import pickle
import queue
import signal
import struct
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

Send = Callable[[tuple[Any, ...]], None]
CBC_STOP_AFTER_S = 0.3
"""Seconds past the time limit at which CBC, whose own clock is late, is asked to stop."""
ROOM_S = 0.75
"""Seconds of the limit kept from solvers that PuLP starts, or 0.6 of it if less: they start their
clocks after reading the model, end late, and then their solution has to be written and read."""
FILE_NAME = "slackopt"
"""Name of the problem, hence of the files PuLP keeps: ``slackopt-pulp.sol``."""


def main() -> None:
    """Serve requests until stdin ends, or list the solvers if asked for that."""
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    warnings.simplefilter("ignore")
    # PuLP 4 imports OR-Tools for a CP-SAT that rounds our float rows: slow, and of no use here.
    sys.modules["ortools"] = None  # type: ignore[assignment]
    if "--list" in sys.argv:
        replies.write(json.dumps(list_solvers()).encode())
        replies.flush()
        return

    def send(message: tuple[Any, ...]) -> None:
        data = pickle.dumps(message, protocol=5)
        replies.write(struct.pack("<Q", len(data)) + data)
        replies.flush()

    inbox: queue.SimpleQueue[tuple[float, bytes]] = queue.SimpleQueue()
    # Requests are stamped on arrival, so that slow imports count against the time limit.
    threading.Thread(target=_receive, args=(sys.stdin.buffer, inbox), daemon=True).start()
    while True:
        received, data = inbox.get()
        request = pickle.loads(data)  # noqa: S301 - from our own parent process
        try:
            run(request, received + request["time_limit"], send)
        except Exception as error:
            traceback.print_exc()
            send(("failed", f"{type(error).__name__}: {error}"))


def _receive(stream: BinaryIO, inbox: queue.SimpleQueue[tuple[float, bytes]]) -> None:
    while len(header := stream.read(8)) == 8:
        received = time.monotonic()
        inbox.put((received, stream.read(struct.unpack("<Q", header)[0])))
    if os.name == "posix" and os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os._exit(1)


def list_solvers() -> dict[str, Any]:
    """Return PuLP's version and, by our names, the solvers that it finds here."""
    import pulp

    found = {name.lower(): name for name in pulp.listSolvers(onlyAvailable=True)}
    # PuLP 3.3 carries a CBC of its own; PuLP 4 takes cbcbox's, or one on the PATH.
    cbc = [found.pop(name) for name in ("pulp_cbc_cmd", "coin_cmd") if name in found]
    if cbc:
        found["cbc"] = cbc[0]
    return {"pulp": pulp.__version__, "solvers": found}


def run(request: dict[str, Any], deadline: float, send: Send) -> None:
    """Build the problem in PuLP, solve it, and send a ``done`` message."""
    import pulp  # before highspy, which PuLP 4 has to load in its own way

    os.chdir(request["folder"])
    for variable in ("TMPDIR", "TMP", "TEMP"):
        os.environ[variable] = request["folder"]
    problem, variables = build(pulp, request)
    left = deadline - time.monotonic()
    if left <= 0:
        send(("done", {"kind": "late"}))
        return
    adapter = {"HiGHS": highs, "PULP_CBC_CMD": cbc, "COIN_CMD": cbc}.get(request["solver"], other)
    send(("done", adapter(pulp, problem, variables, request, left, send)))
    os.chdir(Path(request["folder"]).parent)


def build(pulp: Any, request: dict[str, Any]) -> tuple[Any, list[Any]]:
    """Make the problem and its variables, in the order of our columns."""
    problem = pulp.LpProblem(FILE_NAME, pulp.LpMinimize)
    # PuLP 4 makes variables through the problem; names short and plain, as it mangles others.
    make = getattr(problem, "add_variable", pulp.LpVariable)
    variables = [
        make(
            f"x{j:06d}",
            0.0,
            None if upper == float("inf") else upper,
            pulp.LpInteger if integer else pulp.LpContinuous,
        )
        for j, (upper, integer) in enumerate(
            zip(request["upper"].tolist(), request["integer"].tolist(), strict=True)
        )
    ]
    summed = getattr(pulp.LpAffineExpression, "from_list", pulp.LpAffineExpression)
    problem += summed([(variables[j], c) for j, c in enumerate(request["costs"].tolist()) if c])
    starts, columns = request["starts"].tolist(), request["columns"].tolist()
    values, uppers = request["values"].tolist(), request["right"].tolist()
    for i, upper in enumerate(uppers):
        terms = range(starts[i], starts[i + 1])
        expression = summed([(variables[columns[k]], values[k]) for k in terms])
        problem += expression <= upper, f"r{i:06d}"
    if request["start"] is not None:
        for variable, value in zip(variables, request["start"].tolist(), strict=True):
            variable.setInitialValue(value, check=False)
    return problem, variables


def highs(
    pulp: Any, problem: Any, variables: list[Any], request: dict[str, Any], left: float, send: Send
) -> dict[str, Any]:
    """Solve with HiGHS; read status, point and bound from HiGHS itself."""
    import highspy
    import numpy as np

    record: dict[str, Any] = {}
    width = len(variables)
    indices = np.zeros(0, dtype=int)
    event = highspy.cb.HighsCallbackType
    options: dict[str, Any] = {
        "mip_rel_gap": 0.0,
        "mip_abs_gap": request["gap"],
        "threads": request["threads"],
        "time_limit": left,
        "random_seed": request["seed"],
        "log_to_console": False,
        "log_file": "solver.log",
        "mip_min_logging_interval": 0.5,
    }
    if request["max_nodes"] is not None:
        options["mip_max_nodes"] = request["max_nodes"]

    def spread(values: Any) -> Any:
        """Put values of HiGHS's columns, which lack unused variables, into ours."""
        full = np.zeros(width)
        full[indices[indices >= 0]] = np.asarray(values)[indices >= 0]
        return full

    def on_event(kind: Any, _message: str, out: Any, _in: Any, _data: Any) -> None:
        if kind == event.kCallbackMipImprovingSolution:
            x = spread(out.mip_solution)
            send(("move", out.objective_function_value, out.mip_dual_bound, x))
        else:
            send(("move", out.mip_primal_bound, out.mip_dual_bound, None))

    class Highs(pulp.HiGHS):  # type: ignore[misc]
        """Starts from a point, which PuLP 3.3 doesn't offer, and keeps what HiGHS said."""

        capture_log = staticmethod(contextlib.nullcontext)

        def callSolver(self, lp: Any) -> None:  # noqa: N802 - PuLP's name
            nonlocal indices
            solver = lp.solverModel
            for name, value in options.items():
                # HiGHS answers a wrong option with a status that PuLP ignores.
                if solver.setOptionValue(name, value) != highspy.HighsStatus.kOk:
                    raise ValueError(f"HiGHS refuses {name} = {value!r}")
            exported = getattr(lp, "exported_variables", lp.variables)()
            names = [variable.name for variable in exported]
            indices = np.array([int(n[1:]) if n[1:].isdigit() else -1 for n in names], dtype=int)
            if request["start"] is not None:
                solution = highspy.HighsSolution()
                solution.col_value = np.where(indices >= 0, request["start"][indices], 0.0).tolist()
                solver.setSolution(solution)
            solver.run()
            info = solver.getInfo()
            feasible = info.primal_solution_status == highspy.SolutionStatus.kSolutionStatusFeasible
            optimal = solver.getModelStatus() == highspy.HighsModelStatus.kOptimal
            mip = bool(request["integer"].any())
            lp_bound = info.objective_function_value if optimal else None
            record.update(
                kind="highs",
                native=solver.getModelStatus().name,
                x=spread(solver.getSolution().col_value) if feasible else None,
                bound=info.mip_dual_bound if mip else lp_bound,
                version=solver.version(),
            )

    # HiGHS keeps the thread count of its first run in a process until told otherwise.
    highspy.Highs.resetGlobalScheduler(True)
    solver = Highs(
        msg=True,  # to the log file: without output HiGHS makes no bound events either
        callbackTuple=(on_event, None),
        callbacksToActivate=[event.kCallbackMipImprovingSolution, event.kCallbackMipLogging],
        log_to_console=False,
    )
    try:
        problem.solve(solver)
    except Exception:
        # PuLP 3.3 has no word for some statuses of HiGHS; by then everything is on record.
        if not record:
            raise
        traceback.print_exc()
    return record


def cbc(
    pulp: Any, problem: Any, variables: list[Any], request: dict[str, Any], left: float, _send: Send
) -> dict[str, Any]:
    """Solve with CBC; status and bound are in the files it leaves, which the parent reads."""
    import psutil

    begun, limit = time.monotonic(), max(left - ROOM_S, 0.4 * left)
    seed = 1 + request["seed"] % (2**31 - 2)  # CBC takes 0 for the time of day
    solver = getattr(pulp, request["solver"])(
        msg=False,
        timeLimit=limit,
        gapRel=0.0,
        gapAbs=request["gap"],
        threads=request["threads"] if request["threads"] > 1 else None,
        warmStart=request["start"] is not None,
        maxNodes=request["max_nodes"],
        keepFiles=True,  # in the current folder, under names without a path to split at blanks
        logPath="solver.log",
        options=[f"randomSeed {seed}", f"randomCbcSeed {seed}"],
    )
    solver.capture_log = contextlib.nullcontext
    ended, stopped = threading.Event(), threading.Event()

    def stop_when_late() -> None:
        if not ended.wait(left + CBC_STOP_AFTER_S):
            stopped.set()
            for process in psutil.Process().children(recursive=True):
                with contextlib.suppress(psutil.Error):
                    process.send_signal(signal.SIGINT)

    threading.Thread(target=stop_when_late, daemon=True).start()
    try:
        problem.solve(solver)
    except pulp.PulpSolverError:
        if not stopped.is_set():  # else CBC may have ended before it could write
            raise
    finally:
        ended.set()
    # Some of CBC's clocks count CPU time, so threads may make them faster than ours.
    late = (time.monotonic() - begun) * max(1, request["threads"]) >= 0.9 * limit
    return {"kind": "cbc", "x": _values(variables), "late": late}


def other(
    pulp: Any, problem: Any, variables: list[Any], request: dict[str, Any], left: float, _send: Send
) -> dict[str, Any]:
    """Solve with any other solver PuLP finds, as far as PuLP can tell how it went."""
    solver_class = type(pulp.getSolver(request["solver"], msg=False))
    known = inspect.signature(solver_class.__init__).parameters
    wanted = {
        "gapRel": 0.0,
        "gapAbs": request["gap"],
        "threads": request["threads"],
        "warmStart": request["start"] is not None,
        "maxNodes": request["max_nodes"],
    }
    options = {name: value for name, value in wanted.items() if name in known}
    limit = max(left - ROOM_S, 0.4 * left)
    stats = problem.solve(solver_class(msg=False, timeLimit=limit, **options))
    if hasattr(stats, "has_solution"):  # PuLP 4
        native, has_point, bound = stats.status.name, stats.has_solution, stats.best_bound
    else:
        native = f"{pulp.LpStatus[problem.status]}, {pulp.LpSolution[problem.sol_status]}"
        has_point = problem.sol_status in (1, 2)
        bound = None
    x = _values(variables) if has_point else None
    return {"kind": "other", "native": native, "x": x, "bound": bound, "version": None}


def _values(variables: list[Any]) -> Any:
    """Values of the variables; one that is in no row has none, and no influence."""
    import numpy as np

    return np.array([0.0 if v.varValue is None else float(v.varValue) for v in variables])


if __name__ == "__main__":
    main()
