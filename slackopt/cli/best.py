"""``best``: best-known solutions of the instance library: list, update, verify, export."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich import box
from rich.console import Console, Group, RenderableType
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from slackopt.cli.failures import MAX_LINES
from slackopt.cli.options import check_output
from slackopt.cli.output import Answer, Data
from slackopt.cli.progress import say
from slackopt.cli.text import count
from slackopt.errors import CheckError, InputError
from slackopt.files import write_bytes
from slackopt.library import Best, BestEntry, Hardness, find_best_files, hardness, read_best
from slackopt.library.parallel import default_jobs
from slackopt.library.records import Improvement
from slackopt.library.solution_list import solution_list
from slackopt.library.update import OnDone, update_best
from slackopt.library.verification import LP_LIMIT_S, verify_best
from slackopt.tables import printable

Library = Annotated[
    Path,
    typer.Argument(
        metavar="[FOLDER]", help="Folder of a family, or of families (one folder each)."
    ),
]
Jobs = Annotated[
    int | None,
    typer.Option(
        "--jobs", "-j", min=1, metavar="N", show_default=False, help="Processes; all cores."
    ),
]
DEFAULT_LIBRARY = Path("instances")


def list_best(
    folder: Library = DEFAULT_LIBRARY,
    only: Annotated[
        list[Hardness] | None,
        typer.Option("--class", show_default=False, help="Only this class; can be repeated."),
    ] = None,
) -> Answer:
    """List the best-known solutions: makespan, bound, gap, class, who and when.

    Classes: `easy` is solved within a minute (certified gap of at most 0.01 %, or proved
    infeasible), `medium` within an hour, `hard` in a longer time, `open` is not solved.
    """
    chosen = [
        (best, entry)
        for best in _families(folder)
        for entry in best.entries
        if not only or hardness(entry) in only
    ]
    document = {
        "entries": [
            {"family": best.family, "hardness": hardness(entry).value}
            | entry.model_dump(mode="json")
            for best, entry in chosen
        ]
    }
    return Answer(document, _table(chosen))


def update(
    batch: Annotated[
        Path,
        typer.Argument(metavar="DIR", show_default=False, help="Folder of a batch."),
    ],
    instances: Annotated[
        list[Path],
        typer.Argument(
            metavar="INSTANCES...",
            show_default=False,
            help="Instance files, or folders of them; best.json is beside them.",
        ),
    ],
    by: Annotated[
        str | None,
        typer.Option(
            "--by", metavar="TEXT", show_default=False, help="Who ran it; slackopt and version."
        ),
    ] = None,
    proved_only: Annotated[
        bool, typer.Option("--proved-only", help="Take no bound on a solver's word.")
    ] = False,
    jobs: Jobs = None,
) -> Answer:
    """Take better plans and bounds of a batch into best.json, after checking every claim.

    A result with a claim that does not hold is rejected. A bound above a plan is a conflict:
    nothing is written for that instance. Both are told, with exit code 6.
    """
    if by is not None and not by.strip():
        raise InputError("--by is empty; say who ran the batch, or leave it out")
    with _progress() as on_done:
        report = update_best(
            batch,
            instances,
            by=by,
            proved_only=proved_only,
            jobs=jobs or default_jobs(),
            on_done=on_done,
        )
    document = {
        "instances": report.instances,
        "improvements": [
            {"family": family, "instance": name} | step.model_dump(mode="json")
            for family, name, step in report.improvements
        ],
        "conflicts": report.conflicts,
        "rejected": report.rejected,
        "skipped": report.skipped,
        "unknown": report.unknown,
    }
    lines = [
        f"{Path(family).name}/{name}: {_improvement(step)}"
        for family, name, step in report.improvements
    ]
    if report.skipped:
        lines.append(f"{count(len(report.skipped), 'file')} skipped, no sound runs:")
        lines += [f"  - {line}" for line in report.skipped]
    if report.unknown:
        shown = ", ".join(report.unknown[:MAX_LINES])
        lines.append(
            f"runs on {count(len(report.unknown), 'instance')} that "
            f"{'is' if len(report.unknown) == 1 else 'are'} not among those given: {shown}"
        )
    lines.append(
        f"{count(report.instances, 'instance')}: {count(len(report.improvements), 'improvement')}, "
        f"{count(len(report.conflicts), 'conflict')}, {count(len(report.rejected), 'run')} rejected"
    )
    wrong = [*report.conflicts, *(f"rejected: {line}" for line in report.rejected)]
    view = "\n".join(map(printable, [*lines[:-1], *wrong, lines[-1]]))
    if not wrong:
        return Answer(document, view)
    message = "nothing was taken from what is in conflict or was rejected; see above"
    return Answer(document, view, CheckError.exit_code, message)


def verify(
    folder: Library = DEFAULT_LIBRARY,
    sample: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="N", show_default=False, help="Check N entries drawn at random."
        ),
    ] = None,
    seed: Annotated[int, typer.Option(metavar="N", help="Seed of the draw.")] = 0,
    lp_limit: Annotated[
        float,
        typer.Option(min=0, metavar="S", help="Seconds for each fresh LP bound; 0 for none."),
    ] = LP_LIMIT_S,
    jobs: Jobs = None,
) -> Answer:
    """Check every claim in the library again.

    Plans are simulated, bounds added up exactly from their certificates and set beside a fresh LP
    bound. Claims that don't hold are listed, with exit code 6.
    """
    with _progress() as on_done:
        report = verify_best(
            folder,
            sample=sample,
            seed=seed,
            jobs=jobs or default_jobs(),
            lp_limit_s=lp_limit,
            on_done=on_done,
        )
    document = {
        "entries": report.entries,
        "checked": report.checked,
        "holds": not report.failures,
        "failures": report.failures,
        "notes": report.notes,
        "raisable_bounds": report.raisable,
        "bounds_on_a_solvers_word": report.on_word,
        "cpu_s": report.cpu_s,
    }
    lines = [f"note: {line}" for line in report.notes]
    lines.append(
        f"{report.checked} of {count(report.entries, 'entry', 'entries')} checked in "
        f"{report.cpu_s:.1f} s of processor time: {count(len(report.failures), 'failure')}, "
        f"{count(report.raisable, 'bound')} that can be raised, {report.on_word} in part on a "
        "solver's word"
    )
    view = "\n".join(map(printable, lines))
    if not report.failures:
        return Answer(document, view)
    noun = "claim does" if len(report.failures) == 1 else "claims do"
    message = f"{len(report.failures)} {noun} not hold"
    if len(report.failures) > MAX_LINES:
        message += " (--json lists all)"
    return Answer(document, view, CheckError.exit_code, message, tuple(report.failures))


def export(
    folder: Library = DEFAULT_LIBRARY,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FILE", show_default=False, help="File; standard output."
        ),
    ] = None,
) -> Answer:
    """Write best-known values as text, in the manner of MIPLIB's .solu files.

    Lines `=opt=`, `=best=`, `=bestdual=`, `=inf=`, `=unkn=`, then family/instance, then a value
    in ns.
    """
    check_output(output)
    text = solution_list(_families(folder))
    document = {"solutions": text.splitlines(), "output": None if output is None else str(output)}
    if output is None:
        return Answer(document, Data(text.rstrip("\n")))
    write_bytes(text.encode(), output)
    return Answer(document, f"written to {printable(str(output))}")


def _families(folder: Path) -> list[Best]:
    return [read_best(path.parent) for path in find_best_files(folder)]


def _table(chosen: list[tuple[Best, BestEntry]]) -> RenderableType:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0), pad_edge=False)
    table.add_column("instance", vertical="bottom", no_wrap=True)
    table.add_column("class", vertical="bottom", no_wrap=True)
    for header in ("makespan\nms", "bound\nms", "gap\n%"):
        table.add_column(header, justify="right", vertical="bottom", no_wrap=True)
    table.add_column("plan by", vertical="bottom", no_wrap=True)
    table.add_column("bound by", vertical="bottom", no_wrap=True)
    table.add_column("date", vertical="bottom", no_wrap=True)
    family = None
    for i, (best, entry) in enumerate(chosen):
        if best.family != family:
            table.add_row(Text(printable(best.family), style="bold"))
            family = best.family
        last = i + 1 == len(chosen) or chosen[i + 1][0].family != family
        table.add_row(*map(Text, _cells(entry)), end_section=last)
    sizes = {kind: sum(hardness(entry) == kind for _, entry in chosen) for kind in Hardness}
    told = ", ".join(f"{number} {kind.value}" for kind, number in sizes.items() if number)
    legend = [f"{count(len(chosen), 'instance')}: {told or 'none'}"]
    if any(entry.solver_bound for _, entry in chosen):
        legend.append(
            "*: what the method claims; its stored certificate, added up without a solver by "
            "`slackopt best verify`, proves less"
        )
    return Group(table, Text(), *(Text(line, style="dim") for line in legend))


def _cells(entry: BestEntry) -> list[str]:
    bound = entry.best_bound
    plan, proof = entry.plan, entry.infeasible
    word = "*" if entry.solver_bound else ""
    dates = [claim.origin.date for claim in (plan, bound, proof) if claim]
    return [
        printable(entry.instance),
        hardness(entry).value,
        "infeasible" if proof else "-" if plan is None else f"{plan.makespan_ns / 1e6:.3f}",
        "-" if bound is None else f"{word}{bound.lower_bound_ns / 1e6:.3f}",
        "-" if entry.gap is None else f"{100 * entry.gap:.4f}",
        "-" if plan is None else printable(plan.origin.method),
        "-" if bound is None else printable(bound.origin.method),
        max(dates, default="-"),
    ]


def _improvement(step: Improvement) -> str:
    if step.what == "infeasible":
        return f"no plan exists (proved by {step.origin.method})"
    names = {"plan": "plan", "bound": "bound", "solver_bound": "bound on the solver's word"}
    before = "new" if step.previous_ns is None else f"before {step.previous_ns / 1e6:.6f} ms"
    value = (step.value_ns or 0) / 1e6
    return f"{names[step.what]} {value:.6f} ms by {step.origin.method} ({before})"


@contextmanager
def _progress() -> Iterator[OnDone]:
    """Show how many instances are done: a bar on a terminal, else a line each."""
    console = Console(file=sys.stderr)
    if not console.is_terminal:
        yield lambda done, total, name: say(f"[{done}/{total}] {name}")
        return
    columns = (MofNCompleteColumn(), BarColumn(), TimeElapsedColumn())
    with Progress(
        *columns, TextColumn("{task.description}"), console=console, transient=True
    ) as bar:
        task = bar.add_task("", total=None)

        def moved(done: int, total: int, name: str) -> None:
            bar.update(task, completed=done, total=total, description=escape(printable(name)))

        yield moved
