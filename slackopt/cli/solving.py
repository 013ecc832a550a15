"""``solve``: one method on one instance."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from slackopt.cli import options, views
from slackopt.cli.options import check_output
from slackopt.cli.output import Answer
from slackopt.cli.progress import one_run, say, say_finished
from slackopt.compare import check_methods
from slackopt.errors import InfeasibleError, NothingFoundError, SolverError
from slackopt.files import read_instance, write_record
from slackopt.result import Result
from slackopt.solve import solve as run_method

EXIT_CODES = {
    "optimal": 0,
    "feasible": 0,
    "bounded": 0,
    "infeasible": InfeasibleError.exit_code,
    "no_solution": NothingFoundError.exit_code,
    "error": SolverError.exit_code,
}
"""Status of a result -> exit code."""


def solve(
    instance: options.InstanceFile,
    method: Annotated[
        str, typer.Option("--method", "-m", metavar="NAME", help="See `slackopt methods`.")
    ] = options.DEFAULT_METHOD,
    time_limit: options.TimeLimit = options.DEFAULT_TIME_LIMIT,
    threads: options.Threads = 1,
    seed: options.Seed = 0,
    gap: options.Gap = options.DEFAULT_GAP,
    solver: options.Solver = None,
    deterministic: options.Deterministic = False,
    identical_layers: options.IdenticalLayers = True,
    export: Annotated[
        Path | None,
        typer.Option(
            "--export",
            metavar="MODEL",
            show_default=False,
            help="Write the window model as well: .mps, .lp, .pb or .pbtxt.",
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="RESULT", show_default=False, help="Result file."),
    ] = None,
) -> Answer:
    """Run one method on one instance and price its plan.

    The result file is written only if there is a plan (or, for `bound`, a bound). Ctrl-C stops
    the method and keeps what it has found.
    """
    check_methods([method])
    check_output(output, instance)
    check_output(export, instance)
    question = read_instance(instance)
    if export is not None:
        from slackopt.solvers.export import export_model  # brings OR-Tools and HiGHS

        export_model(question, export)
        say(f"model written to {export}")
    with one_run(question, method) as on_move:
        result = run_method(
            question,
            method,
            time_limit=time_limit,
            gap=gap,
            threads=threads,
            seed=seed,
            solver=solver,
            deterministic=deterministic,
            identical_layers=identical_layers,
            on_move=on_move,
        )
    code = EXIT_CODES[result.status]
    document = result.model_dump(mode="json")
    if code:
        return Answer(document, exit_code=code, message=_why(result))
    say_finished(result)
    if output is not None:
        write_record(result, output)
    return Answer(document, views.record_view(result, written=output))


def _why(result: Result) -> str:
    reason = result.reason or result.status
    if result.status == "infeasible":
        return reason
    if result.status == "error":
        return f"{result.method} failed: {reason}"
    if result.stopped_by == "exhausted":
        reason = f"{result.method} found no plan and had nothing left to try: {reason}"
    elif result.stopped_by != "heuristic":
        reason = f"{result.method} found no plan within its limits: {reason}"
    return f"{reason}; that does not prove that there is none"
