"""The ``bound`` method: the certified lower bound of the window LP, and no plan."""

from __future__ import annotations

from slackopt.formulations.window import WindowFormulation
from slackopt.instance import Instance
from slackopt.progress import Progress
from slackopt.result import StoppedBy
from slackopt.solvers.options import SolveOptions
from slackopt.solvers.window_lp import WindowLp


def solve_bound(instance: Instance, progress: Progress, options: SolveOptions) -> StoppedBy:
    """Lower bound for every plan, from the window LP, with its certificate; no plan."""
    del options  # nothing but the time limit, which `progress` keeps, matters here
    window = WindowFormulation(instance)
    bound = WindowLp(window).solve(
        deadline=progress.deadline,
        on_round=lambda bound_ns: _offer(progress, bound_ns),
    )
    progress.offer_bound(bound.lower_bound_ns, "window LP", bound.weights)
    progress.facts |= {"num_variables": len(window.columns), "solve_s": bound.seconds}
    return "proof" if bound.converged else "time"


def _offer(progress: Progress, bound_ns: int) -> None:
    progress.offer_bound(bound_ns, "window LP")
