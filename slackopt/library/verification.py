"""`verify_best`: check every claim in a library of best-known solutions again."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from slackopt.errors import InputError
from slackopt.files import BEST
from slackopt.library.check import Checked, CheckWork, check_entry
from slackopt.library.instances import instance_files, instance_name
from slackopt.library.parallel import each_done
from slackopt.library.store import CLAIMS, find_best_files, read_best

LP_LIMIT_S = 10.0
"""Seconds for the fresh LP bound of one instance; what it has proved by then counts."""


@dataclass
class VerifyReport:
    """What a check of a library found.

    Attributes
    ----------
    entries, checked
        Entries in the library, and how many were checked.
    failures
        Claims that do not hold, one sentence each.
    notes
        Bounds on a solver's word, bounds that can be raised, instances without an entry, and
        files that nothing names.
    raisable
        How many bounds a fresh LP could raise.
    on_word
        How many bounds rest on a solver's word, in part.
    cpu_s
        Processor time that the checks took, added up over the processes.
    """

    entries: int = 0
    checked: int = 0
    failures: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    raisable: int = 0
    on_word: int = 0
    cpu_s: float = 0.0


def verify_best(
    folder: str | os.PathLike[str],
    *,
    sample: int | None = None,
    seed: int = 0,
    jobs: int = 1,
    lp_limit_s: float = LP_LIMIT_S,
    on_done: Callable[[int, int, str], None] | None = None,
) -> VerifyReport:
    """Check the best-known solutions in a folder and below it.

    Every plan is simulated and its timeline checked; every bound is added up again from its
    certificate, exactly, and set beside what a fresh LP proves; hashes, gaps and histories must
    agree. What a solver claims beyond its certificate can't be checked, and is told.

    Parameters
    ----------
    folder
        A family's folder, or one of families.
    sample
        Check only so many entries, drawn at random; all by default.
    seed
        Of the draw.
    jobs
        Processes that check.
    lp_limit_s
        Seconds for the fresh LP of each instance; 0 for none.
    on_done
        Called after each entry with how many are done, how many there are, and its name.

    Raises
    ------
    InputError
        If there is no ``best.json``, or one can't be read.
    """
    report, work = VerifyReport(), []
    for path in find_best_files(folder):
        work += _family(path.parent, report, lp_limit_s)
    report.entries = len(work)
    if sample is not None and sample < len(work):
        chosen = random.Random(seed).sample(range(len(work)), sample)  # noqa: S311
        work = [work[i] for i in sorted(chosen)]
    found: dict[int, Checked] = {}
    for i, checked in each_done(check_entry, work, jobs):
        found[i] = checked
        if on_done is not None:
            on_done(len(found), len(work), work[i].entry.instance)
    for i in sorted(found):
        report.failures += found[i].failures
        report.notes += found[i].notes
        report.raisable += found[i].raised_to_ns is not None
        report.on_word += found[i].on_word
        report.cpu_s += found[i].seconds
    report.checked = len(found)
    return report


def _family(folder: Path, report: VerifyReport, lp_limit_s: float) -> list[CheckWork]:
    """Pair the entries of a family with its instance files; report what has no counterpart."""
    best = read_best(folder)
    where = folder / BEST
    if best.family != folder.resolve().name:
        report.failures.append(
            f"{where}: is of the family {best.family!r}, and stands in {folder.resolve().name!r}"
        )
    by_name: dict[str, Path] = {}
    for path in instance_files([folder]):
        if path.parent != folder:
            continue  # a family below this one
        try:
            name = instance_name(path)
        except InputError as error:
            report.failures.append(" ".join(str(error).split()))
            continue
        if name is None:
            continue  # a graph or an index, say
        if name in by_name:
            report.failures.append(f"{path}: the name {name!r} is also that of {by_name[name]}")
        by_name.setdefault(name, path)
    work = []
    for entry in best.entries:
        path_of = by_name.pop(entry.instance, None)
        if path_of is None:
            report.failures.append(f"{where}: {entry.instance!r}: no instance of this name is here")
        else:
            work.append(CheckWork(folder, path_of, entry, lp_limit_s))
    report.notes += [f"{path}: has no entry in {where}" for path in by_name.values()]
    named = {file for entry in best.entries for file in entry.files}
    there = {f"{CLAIMS}/{path.name}" for path in (folder / CLAIMS).glob("*")}
    report.notes += [
        f"{folder / file}: no entry names this file; remove it" for file in sorted(there - named)
    ]
    return work
