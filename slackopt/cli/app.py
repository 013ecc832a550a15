"""The application: every command, in the order of the help page."""

from __future__ import annotations

from typing import Annotated

import typer

from slackopt.cli import (
    about,
    batching,
    best,
    comparing,
    importing,
    inspecting,
    making,
    pricing,
    reporting,
    solving,
)
from slackopt.cli.command import add_command
from slackopt.environment import package_version

app = typer.Typer(
    name="slackopt",
    add_completion=False,
    no_args_is_help=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"slackopt {package_version('slackopt') or 'unknown'}")
        raise typer.Exit


@app.callback(
    epilog="Exit codes: 0 done, 2 wrong usage or bad input, 3 proved infeasible, 4 nothing found "
    "within the limits, 5 a solver failed, 6 a check failed, 7 part rests on a solver's word "
    "(verify --strict)."
)
def slackopt(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    """Certified keep, swap or recompute decisions for the activations of a training step."""


add_command(app, making.profile, "slackopt profile bert-large --batch 32 -o bert.json")
add_command(
    app,
    importing.import_,
    "slackopt import et.json.gz --accelerator a100 -o graph.json",
)
add_command(
    app,
    making.instance,
    "slackopt instance bert.json --device a100-pcie4 --budget 0.5 -o half.json",
)
add_command(app, making.link, "slackopt link -o this-machine.json")
add_command(app, importing.export, "slackopt export graph.json --format csv -o graph.csv")
add_command(app, inspecting.info, "slackopt info half.json")
add_command(
    app, solving.solve, "slackopt solve half.json --method milp --time-limit 30 -o res.json"
)
add_command(app, pricing.simulate, "slackopt simulate half.json res.json --trace trace.json")
add_command(app, pricing.verify, "slackopt verify half.json res.json")
add_command(
    app, comparing.compare, "slackopt compare instances/slackswap/*.json --methods slackswap,milp"
)
add_command(
    app,
    batching.batch,
    "slackopt batch instances/slackswap/*.json -m slackswap,milp --budgets 0.4,0.5 -j 2 -o study",
)
add_command(
    app, reporting.report, "slackopt report study --format html -o study.html --figures figures"
)
best_app = typer.Typer(
    no_args_is_help=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
add_command(best_app, best.list_best, "slackopt best list instances --class open", "list")
add_command(best_app, best.update, "slackopt best update study instances/slackswap --by 'our lab'")
add_command(best_app, best.verify, "slackopt best verify instances --sample 10")
add_command(best_app, best.export, "slackopt best export instances -o best.solu")
app.add_typer(
    best_app,
    name="best",
    help="Best-known plans and bounds of the instance library: list, update, verify, export.",
)
add_command(app, about.methods, "slackopt methods")
add_command(app, about.cite, "slackopt cite res.json > references.bib")
add_command(app, about.versions, "slackopt versions --json")
add_command(app, about.schema, "slackopt schema instance")
