"""True results of every kind, each made once."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from made_runs import chain_instance

import slackopt as so

Results = dict[str, tuple[so.Instance, so.Result]]

DATA = Path(__file__).resolve().parents[1] / "solvers" / "data"


def rerun_too_large() -> so.Instance:
    """An instance without a plan, for a reason that shows only while an op is rerun.

    ``a`` (2 bytes) must leave while the outputs of ``wide`` fill the budget of 20, and to be made
    again needs 3 bytes of workspace beside it and 16 bytes of gradient: 21.
    """
    ops = (
        so.Op(name="make a", phase="forward", duration_ns=5, outputs=("a",), workspace_bytes=3),
        so.Op(
            name="wide",
            phase="forward",
            duration_ns=5,
            outputs=("w1", "w2"),
            recomputable=False,
        ),
        so.Op(name="gradient", phase="backward", duration_ns=5, outputs=("g",), recomputable=False),
        so.Op(name="use a", phase="backward", duration_ns=5, inputs=("a", "g"), recomputable=False),
    )
    sizes = {"a": 2, "w1": 9, "w2": 11, "g": 16}
    tensors = tuple(so.Tensor(name=n, size_bytes=s, swappable=False) for n, s in sizes.items())
    graph = so.Graph(name="rerun too large", ops=ops, tensors=tensors)
    device = so.Device(name="link", d2h_bytes_per_s=10**9, h2d_bytes_per_s=10**9)
    return so.Instance.from_graph(graph, device=device, budget=20)


@cache
def true_results() -> Results:
    """Instance and result by what the result holds."""
    chain = chain_instance()
    tight = chain_instance("tight", budget_bytes=24 * 2**20)
    no_room = chain.model_copy(update={"budget_bytes": 2**20, "budget_fraction": None})
    no_room = so.Instance.model_validate(no_room.model_dump())
    noisy = so.read_instance(DATA / "infeasible-noisy-ray.json")
    rerun = rerun_too_large()
    tiny = chain_instance("short", length=3, budget_bytes=16 * 2**20)
    found = {
        "plan of a rule": (chain, so.solve(chain, "swap-all")),
        "plan and certificate": (chain, so.solve(chain, "milp", gap=0.1)),
        "optimum of enumeration": (tiny, so.solve(tiny, "enumerate")),
        "bound": (tight, so.solve(tight, "bound")),
        "no room for an op": (no_room, so.solve(no_room, "keep-all")),
        "contradiction": (noisy, so.solve(noisy, "bound")),
        "infeasible by enumeration": (rerun, so.solve(rerun, "enumerate")),
        "rule without a plan": (rerun, so.solve(rerun, "keep-all")),
    }
    statuses = {name: result.status for name, (_, result) in found.items()}
    assert statuses == {
        "plan of a rule": "feasible",
        "plan and certificate": "optimal",
        "optimum of enumeration": "optimal",
        "bound": "bounded",
        "no room for an op": "infeasible",
        "contradiction": "infeasible",
        "infeasible by enumeration": "infeasible",
        "rule without a plan": "no_solution",
    }
    return found
