"""``batch``: many runs, isolated, limited, resumable."""

from __future__ import annotations

import enum
import os
import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from slackopt.batch.batch import GRACE_S, BatchState, Executor, Settings, look, run_batch
from slackopt.batch.expand import Case, expand
from slackopt.batch.folder import load, prepare
from slackopt.batch.local import LocalExecutor
from slackopt.batch.study import make_study, parse_filter, read_study
from slackopt.cli import options
from slackopt.cli.batch_progress import BatchProgress
from slackopt.cli.batch_views import commands_view, dry_run_view, state_view, unsound_lines
from slackopt.cli.failures import INTERRUPTED
from slackopt.cli.output import Answer
from slackopt.cli.progress import say
from slackopt.errors import InputError, SolverError


class Where(enum.StrEnum):
    """What carries out the runs."""

    LOCAL = "local"
    SLURM = "slurm"


class Retry(enum.StrEnum):
    """What is run again."""

    FAILED = "failed"


SLURM_JOBS = 100
"""Runs at a time on a cluster, unless asked for otherwise."""


def batch(
    instances: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[INST...]",
            show_default=False,
            help="Instance or graph files. None, and no study: go on with all that DIR was asked.",
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="DIR", show_default=False, help="Folder of runs."),
    ] = None,
    study: Annotated[
        Path | None,
        typer.Option(metavar="TOML", show_default=False, help="Study file; options overrule it."),
    ] = None,
    methods: Annotated[
        str | None,
        typer.Option(
            "--methods",
            "-m",
            metavar="A,B,...",
            show_default="slackswap,milp",
            help="Names of `slackopt methods`.",
        ),
    ] = None,
    budgets: Annotated[
        str | None,
        typer.Option(metavar="B,...", show_default=False, help="Fractions (0.5) or bytes (12GiB)."),
    ] = None,
    devices: Annotated[
        str | None, typer.Option(metavar="D,...", show_default=False, help="a100-pcie4, ...")
    ] = None,
    links: Annotated[
        str | None, typer.Option(metavar="L,...", show_default=False, help="pcie3, pcie4, ...")
    ] = None,
    seeds: Annotated[
        str | None, typer.Option(metavar="N,...", show_default=False, help="0,1,2 or 0-4.")
    ] = None,
    include: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FIELD=PATTERN,...",
            show_default=False,
            help="Keep only such runs (method=milp*,budget=0.5); may be given again.",
        ),
    ] = None,
    exclude: Annotated[
        list[str] | None,
        typer.Option(metavar="FIELD=PATTERN,...", show_default=False, help="Leave such runs out."),
    ] = None,
    time_limit: Annotated[
        float | None,
        typer.Option(metavar="S", show_default="60", help="Seconds for each run; 0 for no limit."),
    ] = None,
    memory_limit: Annotated[
        str | None,
        typer.Option(metavar="SIZE", show_default="none", help="For each run: 8GiB."),
    ] = None,
    threads: Annotated[
        int | None, typer.Option(metavar="N", show_default="1", help="Threads of each run.")
    ] = None,
    gap: Annotated[
        float | None,
        typer.Option(metavar="G", show_default="0.0001", help="Stop at this certified gap."),
    ] = None,
    solver: options.Solver = None,
    deterministic: options.Deterministic = False,
    modules: Annotated[
        str | None,
        typer.Option(
            "--import", metavar="M,...", show_default=False, help="Modules with your own rules."
        ),
    ] = None,
    jobs: Annotated[
        int | None,
        typer.Option(
            "--jobs", "-j", metavar="N", show_default="1, on a cluster 100", help="Runs at a time."
        ),
    ] = None,
    executor: Annotated[
        Where, typer.Option(help="This machine, or a Slurm cluster.")
    ] = Where.LOCAL,
    partition: Annotated[
        str | None, typer.Option(metavar="NAME", show_default=False, help="Of the cluster.")
    ] = None,
    slurm: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE",
            show_default=False,
            help="Further option of sbatch (account=x); may be given again.",
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="List the runs, and run none.")
    ] = False,
    print_commands: Annotated[
        bool, typer.Option("--print-commands", help="Print one shell command per run; run none.")
    ] = False,
    only: Annotated[
        str | None,
        typer.Option(metavar="KEY,...", show_default=False, help="Only the runs with these keys."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Run again what is stored.")] = False,
    retry: Annotated[
        Retry | None, typer.Option(show_default=False, help="Run again what failed.")
    ] = None,
    grace: Annotated[
        float, typer.Option(metavar="S", help="Kill a run so long after its time limit.")
    ] = GRACE_S,
    pin: Annotated[bool, typer.Option("--pin/--no-pin", help="Reserve cores for each run.")] = True,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="A line for each run, on a terminal too.")
    ] = False,
) -> Answer:
    """Run many methods on many instances: each run isolated, limited and kept.

    Every run is a process of its own and one file in DIR/runs, whatever happens to it. What is
    there is not run again; the same command, or `slackopt batch -o DIR`, goes on after Ctrl-C.
    Exit code 5 if a run failed; its record says how.
    """
    given_jobs, jobs = jobs, jobs or (1 if executor is Where.LOCAL else SLURM_JOBS)
    if given_jobs is not None and given_jobs < 1:
        raise InputError(f"--jobs {given_jobs}: must be at least 1")
    if grace < 0:
        raise InputError(f"--grace {grace}: must be at least 0")
    given = {
        "instances": None if not instances else [str(path) for path in instances],
        "methods": _listed(methods),
        "budgets": _listed(budgets),
        "devices": _listed(devices),
        "links": _listed(links),
        "seeds": None if seeds is None else _seeds(seeds),
        "include": None if not include else [parse_filter(text) for text in include],
        "exclude": None if not exclude else [parse_filter(text) for text in exclude],
        "time_limit": time_limit,
        "memory_limit": memory_limit,
        "threads": threads,
        "gap": gap,
        "solver": solver,
        "deterministic": deterministic or None,
        "modules": _listed(modules),
    }
    cases, found_modules = _cases(
        {name: value for name, value in given.items() if value is not None}, study, output
    )
    cases = _only(cases, only)
    settings = Settings(grace_s=grace, force=force, retry=retry is not None, pin=pin)
    if dry_run:
        state = look(output or Path("nowhere"), cases, settings)
        for line in unsound_lines(state):
            say(f"warning: {line}")
        return dry_run_view(cases, state, jobs)
    if output is None:
        raise InputError("name the folder of the runs with -o DIR (or list them with --dry-run)")
    again = _again(output, given_jobs, executor, partition, slurm or [], grace, pin=pin)
    if print_commands:
        prepare(output.resolve(), cases, found_modules)
        state = look(output, cases, settings)
        return commands_view([_command(output, key, grace) for key in state.pending])
    chosen = _executor(executor, jobs, partition, slurm or [], found_modules)
    if executor is Where.LOCAL:
        _warn_of_cores(cases, jobs)
    with BatchProgress(verbose=verbose) as progress:
        state = run_batch(
            cases,
            output,
            executor=chosen,
            modules=found_modules,
            settings=settings,
            observer=progress,
        )
    return _answer(output, cases, state, again)


def _answer(output: Path, cases: Sequence[Case], state: BatchState, again: str) -> Answer:
    document, view = state_view(output, cases, state)
    if state.pending:
        message = (
            f"stopped: {len(state.outcomes)} of {len(cases)} runs are done, {len(state.pending)} "
            f"are left (those cut short keep what they found); go on with: {again}"
        )
        return Answer({**document, "go_on": again}, view, INTERRUPTED, message)
    failed = len(cases) - state.counts.get("done", 0)
    if failed:
        message = (
            f"{failed} of {len(cases)} runs failed; run them again with: {again} --retry failed"
        )
        return Answer(document, view, SolverError.exit_code, message)
    return Answer(document, view)


def _cases(
    given: dict[str, Any], study: Path | None, output: Path | None
) -> tuple[list[Case], tuple[str, ...]]:
    if study is None and "instances" not in given:
        if output is None:
            raise InputError("name instances, a study file, or a folder to go on with (-o DIR)")
        if given:
            name = sorted(given)[0].replace("_", "-")
            raise InputError(
                f"--{name} needs instances or a study file; without, {output} is gone on with as "
                "it was asked"
            )
        return load(output)
    if study is None:
        asked = make_study({"methods": ["slackswap", "milp"], **given})
    else:
        asked = read_study(study)
        own = asked.model_dump(mode="json", exclude_unset=True)
        if "devices" in given or "links" in given:
            own = {name: own[name] for name in own if name not in ("devices", "links")}
        asked = make_study({**own, **given})
    return expand(asked), asked.modules


def _only(cases: Sequence[Case], only: str | None) -> list[Case]:
    if only is None:
        return list(cases)
    found: list[Case] = []
    for key in _listed(only) or []:
        matching = [case for case in cases if case.key.startswith(key)]
        if len(matching) != 1:
            raise InputError(
                f"{len(matching) or 'no'} runs have a key that begins with {key!r}; keys change "
                "with the versions of slackopt and of the solvers: --dry-run lists those of today"
            )
        found += matching
    return found


def _executor(
    where: Where, jobs: int, partition: str | None, slurm: Sequence[str], modules: tuple[str, ...]
) -> Executor:
    if where is Where.LOCAL:
        if partition is not None or slurm:
            raise InputError("--partition and --slurm are for --executor slurm")
        return LocalExecutor(jobs, modules)
    from slackopt.batch.slurm import SlurmExecutor

    extra = {}
    for text in slurm:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise InputError(f"--slurm {text!r}: write NAME=VALUE, as account=x")
        extra[name.strip().lstrip("-").replace("-", "_")] = value.strip()
    return SlurmExecutor(jobs=jobs, partition=partition, extra=extra, modules=modules)


def _warn_of_cores(cases: Sequence[Case], jobs: int) -> None:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    threads = max(case.task.threads for case in cases)
    if jobs * threads > (cores or 1):
        say(
            f"warning: {jobs} jobs with up to {threads} threads each, and {cores} cores: runs slow "
            "each other down, and times can't be compared"
        )


def _again(
    output: Path,
    jobs: int | None,
    executor: Where,
    partition: str | None,
    slurm: Sequence[str],
    grace: float,
    *,
    pin: bool,
) -> str:
    words = ["slackopt", "batch", "-o", str(output)]
    words += ["--jobs", str(jobs)] if jobs is not None else []
    words += ["--executor", str(executor)] if executor is not Where.LOCAL else []
    words += ["--partition", partition] if partition else []
    for text in slurm:
        words += ["--slurm", text]
    words += ["--grace", f"{grace:g}"] if grace != GRACE_S else []
    words += [] if pin else ["--no-pin"]
    return shlex.join(words)


def _command(output: Path, key: str, grace: float) -> str:
    words = ["slackopt", "batch", "-o", str(output.resolve()), "--only", key, "--no-pin"]
    return shlex.join(words + (["--grace", f"{grace:g}"] if grace != GRACE_S else []))


def _listed(text: str | None) -> list[str] | None:
    return None if text is None else [part.strip() for part in text.split(",") if part.strip()]


def _seeds(text: str) -> list[int]:
    seeds: list[int] = []
    for part in _listed(text) or []:
        match = re.fullmatch(r"(-?\d+)(?:-(\d+))?", part)
        if match is None:
            raise InputError(f"--seeds {text!r}: write numbers (0,1,2) or ranges (0-4)")
        first = int(match[1])
        seeds += range(first, int(match[2] or first) + 1)
    return seeds
