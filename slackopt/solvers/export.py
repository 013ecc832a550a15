"""Write the window model to a file: solve it with a solver of your own.

Columns and rows carry the names of the formulation with brackets and commas as underscores
(``swap_12``, ``memory_295_start_2_none``). The objective is the time added to the ideal step in
units of 1e-5 of it, decisions are binary; the units are those of `slackopt.solvers.scaling`. The
rows are the static ones and the memory rows that the LP relaxation needed: so the optimum is a
relaxation's, and a lower bound on what every plan adds.
"""

from __future__ import annotations

import re
from pathlib import Path

import highspy

from slackopt.errors import InputError, SolverError
from slackopt.formulations.window import WindowFormulation
from slackopt.instance import Instance
from slackopt.solvers.cpsat import export_cpsat
from slackopt.solvers.window_lp import WindowLp

SUFFIXES = (".mps", ".lp", ".pb", ".pbtxt")


def export_model(instance: Instance, path: Path | str, *, deadline: float | None = None) -> int:
    """Write the integer window model of an instance; return its number of rows.

    Parameters
    ----------
    instance
        The instance.
    path
        ``.mps`` or ``.lp`` for mixed-integer solvers, ``.pb`` or ``.pbtxt`` for CP-SAT.
    deadline
        `time.monotonic` value at which to stop adding rows.

    Raises
    ------
    InputError
        For another ending, or if the file can't be written.
    """
    target = Path(path)
    if target.suffix not in SUFFIXES:
        raise InputError(f"{path}: the ending must be one of {', '.join(SUFFIXES)}")
    window = WindowFormulation(instance)
    lp = WindowLp(window)
    lp.solve(deadline=deadline)
    if target.suffix in (".pb", ".pbtxt"):
        export_cpsat(window, lp.rows, target)
        return len(lp.rows)
    highs = lp.highs
    for j, column in enumerate(window.columns):
        highs.passColName(j, _plain(column.name))
        if column.integer:
            highs.changeColIntegrality(j, highspy.HighsVarType.kInteger)
    for i, row in enumerate(lp.rows):
        highs.passRowName(i, _plain(row.name))
    status = highs.writeModel(str(target))
    if not target.exists():
        raise InputError(f"{path}: can't be written; does its folder exist?")
    if status == highspy.HighsStatus.kError:
        raise SolverError(f"HiGHS can't write the model to {path}")
    return len(lp.rows)


def _plain(name: str) -> str:
    return re.sub(r"\W+", "_", name).strip("_")
