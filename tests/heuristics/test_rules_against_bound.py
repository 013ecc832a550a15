"""No rule beats the bound of the window LP on the instances of SlackSwap's question."""

from __future__ import annotations

from pathlib import Path

import pytest
from handmade import checked

from slackopt import read_instance
from slackopt.formulations.window import WindowFormulation
from slackopt.heuristics import NoPlanError, heuristics
from slackopt.heuristics.registry import option_names
from slackopt.solvers.window_lp import WindowLp

FOLDER = Path(__file__).parents[2] / "instances" / "slackswap"
INSTANCES = sorted(path for path in FOLDER.glob("*.json") if path.name != "best.json")


@pytest.mark.slow
@pytest.mark.parametrize("path", INSTANCES, ids=lambda path: path.stem)
def test_no_rule_beats_the_bound(path: Path) -> None:
    question = read_instance(path)
    bound = WindowLp(WindowFormulation(question)).solve()
    assert bound.converged
    found = {}
    for name, rule in heuristics().items():
        if "time_limit" in option_names(rule):
            continue  # searches are tested by themselves
        try:
            found[name] = checked(question, rule(question)).makespan_ns
        except NoPlanError:
            continue
    assert {name: ns for name, ns in found.items() if ns < bound.lower_bound_ns} == {}
    # Every rule that looks at the budget has a plan within half of the peak.
    assert {"capuchin", "dtr", "knapsack", "mu-two", "slackswap", "teraio", "swap-all"} <= set(
        found
    )
    assert found["swap-all"] > 1.5 * found["slackswap"]
    if "selective" in found and "eager" in path.stem:
        assert found["selective"] < found["layer-checkpoint"]
