"""The application: every command, in the order of the help page."""

from __future__ import annotations

from typing import Annotated

import typer

from slackopt.cli import about, comparing, inspecting, making, pricing, solving
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
    "within the limits, 5 a solver failed, 6 a check failed."
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
    making.instance,
    "slackopt instance bert.json --device a100-pcie4 --budget 0.5 -o half.json",
)
add_command(app, inspecting.info, "slackopt info half.json")
add_command(
    app, solving.solve, "slackopt solve half.json --method milp --time-limit 30 -o res.json"
)
add_command(app, pricing.simulate, "slackopt simulate half.json res.json --trace trace.json")
add_command(app, pricing.verify, "slackopt verify half.json res.json")
add_command(
    app, comparing.compare, "slackopt compare instances/slackswap/*.json --methods slackswap,milp"
)
add_command(app, about.methods, "slackopt methods")
add_command(app, about.versions, "slackopt versions --json")
add_command(app, about.schema, "slackopt schema instance")
