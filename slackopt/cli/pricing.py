"""``simulate`` and ``verify``: what a plan costs, and whether a result's claims hold."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from slackopt.cli import options, views
from slackopt.cli.options import check_output
from slackopt.cli.output import Answer
from slackopt.cli.text import count
from slackopt.errors import InfeasibleError, InputError
from slackopt.files import read_instance, read_plan, read_result, write_bytes
from slackopt.simulation import simulate as run_step
from slackopt.simulation.chrome_trace import chrome_trace
from slackopt.tables import printable
from slackopt.verify import verify as check_claims


def simulate(
    instance: options.InstanceFile,
    plan: Annotated[
        Path,
        typer.Argument(
            metavar="PLAN_OR_RESULT",
            show_default=False,
            help="Plan, or result with a plan.",
        ),
    ],
    trace: Annotated[
        Path | None,
        typer.Option(
            metavar="TRACE", show_default=False, help="Write a trace for ui.perfetto.dev."
        ),
    ] = None,
    chunk_bytes: Annotated[int | None, typer.Option(hidden=True)] = None,
) -> Answer:
    """Price a plan: run its step on the event simulator.

    A plan that runs out of memory is reported with exit code 3.
    """
    if chunk_bytes is not None:
        raise InputError(
            "--chunk-bytes is no option of a simulation: how swap-outs free memory belongs to the "
            "instance, so that its bounds hold; make one with slackopt instance --chunk-bytes"
        )
    check_output(trace, instance, plan)
    question = read_instance(instance)
    decided = read_plan(plan)
    try:
        timeline = run_step(question, decided)
    except InputError as error:
        raise error.in_file(plan) from None
    if not timeline.feasible:
        return Answer(
            timeline.summary(),
            views.timeline_view(timeline),
            InfeasibleError.exit_code,
            f"{plan}: the plan can't run: {timeline.explain()}",
        )
    document = timeline.summary()
    if trace is not None:
        write_bytes(chrome_trace(timeline).encode(), trace)
        document["trace"] = str(trace)
    return Answer(document, views.timeline_view(timeline, written=trace))


def verify(
    instance: options.InstanceFile,
    result: Annotated[
        Path, typer.Argument(metavar="RESULT", show_default=False, help="Result file.")
    ],
) -> Answer:
    """Check every claim in a result file, without a solver.

    The plan is simulated again, the bound is added up from its certificate in exact arithmetic.
    Claims that don't hold are listed, with exit code 6.
    """
    question = read_instance(instance)
    claimed = read_result(result)
    try:
        checked = check_claims(question, claimed)
    except InputError as error:
        raise error.in_file(result) from None
    document = {
        "instance": question.name,
        "instance_sha256": question.sha256,
        "method": claimed.method,
        "status": claimed.status,
        "holds": True,
        "checked": checked,
    }
    title = f"{result}: every claim holds ({count(len(checked), 'check')})"
    return Answer(document, "\n".join([printable(title), *(f"  - {line}" for line in checked)]))
