"""Budgets near the working set, nothing swappable: few plans run, and most points of models don't.

Safe rows of the search cut off the few plans that run; the search has to go on without them.
"""

from __future__ import annotations

from random import Random

import pytest

import slackopt as so
from slackopt.solvers import stages


def chain(seed: int, layers: int, share: float) -> so.Instance:
    """Return a random chain of ops

    The budget is at a share of the way from the working set to the unlimited peak.."""
    rng = Random(seed)
    sizes = [rng.randint(1, 10) for _ in range(layers + 1)]
    times = [rng.randint(1, 20) * 1_000_000 for _ in range(layers)]
    tensors = [so.Tensor(name="a0", size_bytes=sizes[0], kind="batch", swappable=False)]
    ops = []
    for i, ns in enumerate(times):
        tensors.append(
            so.Tensor(name=f"a{i + 1}", size_bytes=sizes[i + 1], kind="activation", swappable=False)
        )
        ops.append(
            so.Op(
                name=f"f{i}",
                phase="forward",
                duration_ns=ns,
                inputs=(f"a{i}",),
                outputs=(f"a{i + 1}",),
                recomputable=True,
            )
        )
    gradient = ()
    for i in reversed(range(layers)):
        saved = rng.choice(((f"a{i}",), (f"a{i + 1}",), (f"a{i}", f"a{i + 1}")))
        tensors.append(
            so.Tensor(name=f"g{i}", size_bytes=sizes[i], kind="gradient", swappable=False)
        )
        ops.append(
            so.Op(
                name=f"b{i}",
                phase="backward",
                duration_ns=2 * times[i],
                inputs=(*gradient, *saved),
                outputs=(f"g{i}",),
                recomputable=False,
            )
        )
        gradient = (f"g{i}",)
    graph = so.Graph(name=f"chain-{layers}-{seed}", tensors=tuple(tensors), ops=tuple(ops))
    low, high = max(graph.lifetimes.working_set_bytes), graph.unlimited_peak_bytes
    return so.Instance.from_graph(
        graph, device="a100-pcie4", budget=low + round(share * (high - low))
    )


@pytest.mark.parametrize("method", ["exact", "milp", "cpsat"])
@pytest.mark.parametrize(("seed", "share"), [(8, 0.1), (5, 0.2), (9, 0.1)])
def test_methods_go_on_until_there_is_a_plan_or_a_proof(
    method: str, seed: int, share: float
) -> None:
    instance = chain(seed, 20, share)
    truth = so.solve(instance, "cpsat-schedule", time_limit=60)
    found = so.solve(instance, method, time_limit=30)
    assert truth.status in ("optimal", "infeasible")
    assert (found.status, found.makespan_ns) == (truth.status, truth.makespan_ns)
    so.verify(instance, found)


@pytest.mark.parametrize("method", ["milp", "cpsat"])
def test_the_search_alone_goes_on_without_the_rows_that_cut_off_plans(
    method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seeds at which safe rows leave no point, though there are plans."""
    monkeypatch.setattr(stages, "LARGE_SCHEDULE", -1)
    monkeypatch.setattr(stages, "SMALL_SCHEDULE", -1)
    monkeypatch.setattr(stages, "STARTING_RULES", ())
    monkeypatch.setattr(stages, "TIGHT_RULES", ("keep-all",))
    instance = chain(8, 20, 0.1)
    found = so.solve(instance, method, time_limit=60)
    assert found.makespan_ns == 690_000_000
    assert found.status == "optimal"


def test_small_schedules_agree_with_enumeration_where_nothing_can_be_swapped() -> None:
    seen = set()
    for seed in range(10):
        instance = chain(seed, 6, (seed % 4) / 10)
        truth = so.solve(instance, "enumerate", gap=0.0)
        for method in ("milp-schedule", "cpsat-schedule"):
            found = so.solve(instance, method, gap=0.0, time_limit=30)
            assert found.makespan_ns == truth.makespan_ns
            if method == "cpsat-schedule":
                assert found.status == truth.status
        seen.add(truth.status)
    assert seen == {"optimal", "infeasible"}
