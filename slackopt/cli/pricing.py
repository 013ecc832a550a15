"""``simulate`` and ``verify``: what a plan costs, and whether a result's claims hold."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from slackopt.cli import options, views
from slackopt.cli.options import check_output
from slackopt.cli.output import Answer
from slackopt.cli.text import count
from slackopt.errors import InfeasibleError, InputError, OnWordError
from slackopt.files import read_instance, read_plan, read_result, write_bytes
from slackopt.simulation import simulate as run_step
from slackopt.simulation.chrome_trace import chrome_trace
from slackopt.tables import printable
from slackopt.verification import verify as check_claims
from slackopt.verification.vipr import vipr_certificate


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
    chunk_bytes: Annotated[
        int,
        typer.Option(
            metavar="BYTES", help="Swap-outs free memory in pieces of this size; 0: whole tensors."
        ),
    ] = 0,
) -> Answer:
    """Price a plan: run its step on the event simulator.

    A plan that runs out of memory is reported with exit code 3.
    """
    check_output(trace, instance, plan)
    question = read_instance(instance)
    decided = read_plan(plan)
    try:
        timeline = run_step(question, decided, chunk_bytes=chunk_bytes)
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
    strict: Annotated[
        bool,
        typer.Option("--strict", help="Fail (exit code 7) if part rests on a solver's word."),
    ] = False,
    vipr: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            show_default=False,
            help="Write what is certified as a VIPR certificate, for viprchk.",
        ),
    ] = None,
) -> Answer:
    """Check every claim in a result file, without a solver.

    The plan is simulated again, the bound is added up from its certificate in exact arithmetic.
    Claims that don't hold are listed, with exit code 6. What rests on a solver's word is listed,
    and fails with --strict.
    """
    check_output(vipr, instance, result)
    question = read_instance(instance)
    claimed = read_result(result)
    try:
        checked = check_claims(question, claimed)
        certificate = None if vipr is None else vipr_certificate(question, claimed)
    except InputError as error:
        raise error.in_file(result) from None
    document = {
        "instance": question.name,
        "instance_sha256": question.sha256,
        "method": claimed.method,
        "status": claimed.status,
        "holds": True,
        "all_proved": checked.all_proved,
        "checked": list(checked.proved),
        "on_word": list(checked.on_word),
    }
    number = count(len(checked), "check")
    if checked.all_proved:
        title = f"{result}: every claim about the instance is proved ({number})"
    else:
        title = f"{result}: no claim is refuted, and part rests on a solver's word ({number})"
    lines = list(checked)
    if vipr is not None and certificate is not None:
        write_bytes(certificate.text.encode(), vipr)
        document["vipr"] = {"file": str(vipr), "states": list(certificate.states)}
        lines += [f"{vipr}: {sentence}" for sentence in certificate.states]
    view = "\n".join([printable(title), *(f"  - {printable(line)}" for line in lines)])
    if strict and not checked.all_proved:
        message = f"{result}: part rests on a solver's word: {'; '.join(checked.on_word)}"
        return Answer(document, view, OnWordError.exit_code, message)
    return Answer(document, view)
