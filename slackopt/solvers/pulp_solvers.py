"""Which of PuLP's solvers are here, by our names, and how to get the others."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import lru_cache

from slackopt.errors import InputError, SolverError
from slackopt.solvers.pulp_process import WORKER

REMEDIES = {
    "cbc": "pip install cbcbox (PuLP 4), or put a cbc executable on the PATH",
    "scip": "pip install pyscipopt",
    "gurobi": "pip install gurobipy, and a licence",
    "cplex": "pip install cplex, and a licence",
    "copt": "pip install coptpy, and a licence",
    "xpress": "pip install xpress, and a licence",
    "mosek": "pip install mosek, and a licence",
    "glpk": "put a glpsol executable on the PATH",
}
"""How to install a solver, by the beginning of its name."""


@lru_cache(maxsize=1)
def pulp_names() -> dict[str, str]:
    """Return our name -> PuLP's name of each solver that PuLP finds here.

    PuLP is asked in a child process: it looks for executables and libraries, some of which print.
    """
    run = subprocess.run(
        [sys.executable, "-P", str(WORKER), "--list"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=60,
        check=False,
    )
    if run.returncode != 0:
        words = run.stderr.decode(errors="replace").strip().split("\n")[-1]
        raise SolverError(f"PuLP can't be asked for its solvers: {words}")
    found: dict[str, str] = json.loads(run.stdout)["solvers"]
    return found


def available_solvers() -> tuple[str, ...]:
    """Return the solvers that a ``milp`` method can use here; HiGHS, the default, first."""
    names = pulp_names()
    return tuple(sorted(names, key=lambda name: (name != "highs", name != "cbc", name)))


def check_solver(name: str | None) -> str:
    """Return the canonical name of a solver.

    Parameters
    ----------
    name
        As users type it, in any case; a solver that PuLP knows in several forms (``scip_py``,
        ``scip_cmd``) may go by its plain name. None for HiGHS.

    Raises
    ------
    InputError
        If the solver isn't here; says which are, and how to install it.
    """
    wanted = (name or "highs").lower()
    if wanted == "highs":  # a dependency; no need to start a process and ask
        return "highs"
    here = available_solvers()
    if wanted in ("pulp_cbc_cmd", "coin_cmd"):
        wanted = "cbc"
    for candidate in (wanted, f"{wanted}_py", f"{wanted}_cmd"):
        if candidate in here:
            return candidate
    remedy = next((text for start, text in REMEDIES.items() if wanted.startswith(start)), "")
    advice = f"; to install it: {remedy}" if remedy else ""
    if wanted == "cpsat":
        advice = "; PuLP's CP-SAT takes integers only: use the method 'cpsat' instead"
    raise InputError(f"solver {name!r} is not available here; choose {', '.join(here)}{advice}")


def pulp_name(name: str) -> str:
    """Return PuLP's name for a canonical name."""
    return "HiGHS" if name == "highs" else pulp_names()[name]
