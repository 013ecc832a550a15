"""``compare``: the table of several methods on several instances."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from slackopt.cli import options
from slackopt.cli.failures import INTERRUPTED
from slackopt.cli.output import Answer
from slackopt.cli.progress import RunsProgress
from slackopt.compare import check_methods
from slackopt.compare import compare as run_methods
from slackopt.errors import NothingFoundError, SolverError
from slackopt.files import read_instance, without_best
from slackopt.tables import comparison_view

DEFAULT_METHODS = "slackswap,slackswap-timeline,milp"


def compare(
    instances: Annotated[
        list[Path], typer.Argument(metavar="INST...", show_default=False, help="Instance files.")
    ],
    methods: Annotated[
        str,
        typer.Option("--methods", "-m", metavar="A,B,...", help="Names of `slackopt methods`."),
    ] = DEFAULT_METHODS,
    time_limit: options.TimeLimit = options.DEFAULT_TIME_LIMIT,
    threads: options.Threads = 1,
    seed: options.Seed = 0,
    gap: options.Gap = options.DEFAULT_GAP,
    solver: options.Solver = None,
    deterministic: options.Deterministic = False,
) -> Answer:
    """Run methods on instances and print the table.

    A method that fails has its reason below the table. Exit code 5 if a solver failed, 4 if no
    method found or proved anything on any instance.
    """
    names = [name.strip() for name in methods.split(",") if name.strip()]
    check_methods(names)
    questions = [read_instance(path) for path in without_best(instances)]
    with RunsProgress(len(questions) * len(names)) as progress:
        rows = run_methods(
            questions,
            names,
            on_start=progress.start,
            on_result=progress.finish,
            time_limit=time_limit,
            gap=gap,
            threads=threads,
            seed=seed,
            solver=solver,
            deterministic=deterministic,
        )
    interrupted = bool(rows) and rows[-1].result.stopped_by == "signal"
    failed = any(row.result.status == "error" or row.conflict for row in rows)
    document = {"rows": [row.document() for row in rows]}
    nothing = all(
        row.result.status == "no_solution" and row.result.lower_bound_ns is None for row in rows
    )
    code, message = 0, None
    if interrupted:
        code, message = INTERRUPTED, "interrupted"
    elif failed:
        code = SolverError.exit_code
    elif nothing:
        code = NothingFoundError.exit_code
    return Answer(document, comparison_view(rows), code, message)
