"""The ``bound`` method: the certified lower bound of the window LP, and no plan."""

from __future__ import annotations

import time

from slackopt.formulations.window import WindowFormulation
from slackopt.instance import Instance
from slackopt.progress import Progress
from slackopt.result import StoppedBy
from slackopt.solvers.options import SolveOptions
from slackopt.solvers.stages import offer_lp_bound
from slackopt.solvers.window_lp import WindowLp


def solve_bound(instance: Instance, progress: Progress, options: SolveOptions) -> StoppedBy:
    """Lower bound for every plan, from the window LP, with its certificate; no plan."""
    del options  # nothing but the time limit, which `progress` keeps, matters here
    progress.bound_only = True
    begun = time.monotonic()
    window = WindowFormulation(instance)
    lp = WindowLp(window)
    progress.facts |= {"num_variables": len(window.columns), "build_s": time.monotonic() - begun}
    bound = offer_lp_bound(lp, progress)
    progress.facts |= {"num_constraints": len(lp.rows), "solve_s": bound.seconds}
    if bound.failure:
        return "error"
    if bound.converged or progress.infeasible:
        return "proof"
    return "exhausted" if bound.infeasible else "time"
