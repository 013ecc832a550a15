"""placeholder while building."""
from slackopt.instance import Instance
from slackopt.progress import Progress
from slackopt.result import StoppedBy
from slackopt.solvers.options import SolveOptions
from slackopt.formulations.window import WindowFormulation
from slackopt.solvers.window_lp import WindowLp
from slackopt.heuristics.registry import heuristics


def solve_milp(instance: Instance, progress: Progress, options: SolveOptions) -> StoppedBy:
    """Window formulation through PuLP: proved bounds, and plans priced by the simulator."""
    progress.offer_plan(heuristics()["slackswap"](instance), "slackswap")
    lp = WindowLp(WindowFormulation(instance)).solve(deadline=progress.deadline)
    progress.offer_bound(lp.lower_bound_ns, "window LP", lp.weights)
    return "time"
