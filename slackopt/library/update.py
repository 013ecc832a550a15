"""`update_best`: take what a batch has found into the best-known solutions, once it is checked."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from slackopt.batch.summary import RunSummary
from slackopt.environment import package_version
from slackopt.errors import InputError, SlackoptError
from slackopt.files import BEST, check_writable, read_instance
from slackopt.library.instances import (
    LibraryInstance,
    check_unique,
    identify,
    instance_files,
    instance_name,
)
from slackopt.library.merge import merge
from slackopt.library.parallel import each_done
from slackopt.library.proposal import Proposal, RunFacts, propose
from slackopt.library.records import Best, BestEntry, Improvement
from slackopt.library.store import locked, read_best, write_best

OnDone = Callable[[int, int, str], None]
"""Called with how many are done, how many there are, and the name of the last one."""


@dataclass
class UpdateReport:
    """What an update did.

    Attributes
    ----------
    instances
        How many instances were looked at.
    improvements
        Family folder, instance, and what became better.
    conflicts
        Claims that can't both be true, one sentence each; nothing of those instances was written.
    rejected
        Runs with claims that do not hold, one sentence each.
    skipped
        Files in the batch's folder that are no sound runs, one sentence each.
    unknown
        Names of instances that runs are on, and that are not among the instances given.
    """

    instances: int = 0
    improvements: list[tuple[str, str, Improvement]] = field(default_factory=list)
    conflicts: list[str] = field(default_factory=list)
    rejected: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class _Work:
    path: Path
    runs: tuple[RunFacts, ...]
    known: BestEntry | None
    by: str
    proved_only: bool


def update_best(
    batch: str | os.PathLike[str],
    paths: Iterable[str | os.PathLike[str]],
    *,
    by: str | None = None,
    proved_only: bool = False,
    jobs: int = 1,
    on_done: OnDone | None = None,
) -> UpdateReport:
    """Take the best plans and bounds of a batch into the ``best.json`` of each family.

    Plans are simulated and checked again; of a bound, what its certificate proves is taken as
    proved, and what goes beyond is marked as a solver's word. A result with a claim that does not
    hold is rejected whole. Where a bound is above a plan, nothing is written for that instance.

    Parameters
    ----------
    batch
        A batch's folder.
    paths
        Instance files, or folders of them; ``best.json`` is beside each file.
    by
        Who ran the batch: a free text, ``slackopt VERSION`` by default.
    proved_only
        Take no bound on a solver's word.
    jobs
        Processes that check.
    on_done
        Called after each instance.

    Raises
    ------
    InputError
        If the batch or an instance can't be read, or a ``best.json`` is damaged or can't be
        written; before anything is written.
    """
    report = UpdateReport()
    by = by or f"slackopt {package_version('slackopt') or 'unknown'}"
    bad: list[InputError] = []
    from slackopt.analysis.reading import read_run_summaries  # pandas takes long to import

    runs = read_run_summaries(batch, on_bad=bad.append)
    report.skipped = [" ".join(str(error).split()) for error in bad]
    wanted: dict[str, list[RunFacts]] = {}
    names: dict[str, str] = {}
    for run in runs:
        facts = _facts(Path(batch), run)
        names[run.task.instance_sha256] = run.task.instance
        if facts is not None:
            wanted.setdefault(run.task.instance_sha256, []).append(facts)
    asked = _asked(paths, names, report)
    asked = [found for found in asked if found.sha256 in wanted]
    best = {folder: read_best(folder) for folder in sorted({found.family for found in asked})}
    for folder in best:
        check_writable(folder / BEST)
    work = [
        _Work(found.path, tuple(wanted[found.sha256]), _entry(best, found), by, proved_only)
        for found in asked
    ]
    proposals: dict[int, Proposal] = {}
    for i, made in each_done(_propose, work, jobs):
        proposals[i] = made
        if on_done is not None:
            on_done(len(proposals), len(work), asked[i].name)
    for folder in best:
        mine = [(asked[i], proposals[i]) for i in range(len(asked)) if asked[i].family == folder]
        _write_family(folder, mine, report)
    return report


def _asked(
    paths: Iterable[str | os.PathLike[str]], names: Mapping[str, str], report: UpdateReport
) -> list[LibraryInstance]:
    """Return the instances that runs are on; files of other names are not read in full."""
    files = {path: instance_name(path) for path in instance_files(paths)}
    report.instances = sum(name is not None for name in files.values())
    of_runs = set(names.values())
    found = [identify(path) for path, name in files.items() if name in of_runs]
    check_unique(found)
    known = {instance.sha256 for instance in found}
    report.unknown = sorted(
        f"{name} ({sha256[:12]})" for sha256, name in names.items() if sha256 not in known
    )
    return [instance for instance in found if instance.sha256 in names]


def _facts(batch: Path, run: RunSummary) -> RunFacts | None:
    """Return what a run claims; None if it claims nothing that could be taken."""
    result = run.result
    if result is None or result.status == "error":
        return None
    facts = RunFacts(
        path=batch / "runs" / f"{run.key}.json",
        makespan_ns=result.makespan_ns,
        lower_bound_ns=result.lower_bound_ns,
        infeasible=result.status == "infeasible",
    )
    if facts.makespan_ns is None and facts.lower_bound_ns is None and not facts.infeasible:
        return None
    return facts


def _entry(best: Mapping[Path, Best], found: LibraryInstance) -> BestEntry | None:
    entry = best[found.family].entry(found.name)
    if entry is not None and entry.instance_sha256 != found.sha256:
        raise InputError(
            f"{found.family / BEST}: the entry {found.name!r} is of another instance "
            f"({entry.instance_sha256[:12]}) than {found.path} ({found.sha256[:12]}); if the "
            "instance was remade on purpose, remove its entry"
        )
    return entry


def _propose(work: _Work) -> Proposal:
    try:
        return propose(
            read_instance(work.path),
            work.runs,
            work.known,
            by=work.by,
            proved_only=work.proved_only,
        )
    except SlackoptError as error:
        return Proposal(rejected=[f"{work.path}: {error}"])


def _write_family(
    folder: Path, found: Sequence[tuple[LibraryInstance, Proposal]], report: UpdateReport
) -> None:
    texts: dict[str, str] = {}
    improvements: list[tuple[str, str, Improvement]] = []
    with locked(folder):
        # Another update may have written since the proposals were made: merge with what is there.
        best = read_best(folder)
        entries = {entry.instance: entry for entry in best.entries}
        for instance, proposal in found:
            report.rejected += proposal.rejected
            old = _entry({folder: best}, instance) or _new_entry(instance)
            merged = merge(old, proposal)
            if merged.conflict is not None:
                report.conflicts.append(f"{folder / BEST}: {merged.conflict}")
            elif merged.improvements:
                entries[instance.name] = merged.entry
                improvements += [(str(folder), instance.name, step) for step in merged.improvements]
                texts |= {
                    file: text
                    for file, text in proposal.texts.items()
                    if file in merged.entry.files
                }
        if improvements:
            changed = best.model_copy(update={"entries": tuple(entries.values())})
            write_best(folder, changed, texts)
    report.improvements += improvements


def _new_entry(found: LibraryInstance) -> BestEntry:
    instance = read_instance(found.path)
    return BestEntry(
        instance=instance.name,
        instance_sha256=instance.sha256,
        ideal_ns=instance.ideal_ns,
        budget_bytes=instance.budget_bytes,
    )
