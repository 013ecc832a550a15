"""Rerun and chain rows hold for every plan that the simulator accepts, and cut off others.

Set ``SLACKOPT_ROWS_INSTANCES`` to check more random instances per seed than the default, and
``SLACKOPT_ROWS_SEED`` to move the seeds.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
import pytest
from random_steps import chained_instance, random_instance, simulate_with_chunks
from rerun_points import check_reruns
from window_points import some_timelines, some_window, tangled_instance, tangled_plan

import slackopt as so
from slackopt.device import Device
from slackopt.formulations import chain_memory_rows
from slackopt.formulations.linear import Row
from slackopt.formulations.rerun_instants import RerunInstant
from slackopt.formulations.separation import violated_rerun_rows
from slackopt.formulations.window import WindowFormulation
from slackopt.graph import Graph, Op, Tensor
from slackopt.instance import Instance
from slackopt.simulation import Timeline
from slackopt.simulation.evaluator import Evaluator
from slackopt.solvers.decoding import decisions_of
from slackopt.solvers.window_lp import WindowLp

INSTANCES = int(os.environ.get("SLACKOPT_ROWS_INSTANCES", "30"))
FIRST_SEED = int(os.environ.get("SLACKOPT_ROWS_SEED", "0"))
SEEDS = range(FIRST_SEED, FIRST_SEED + 2)
NS_PER_S = 10**9


def tangled_timelines(rng: Random, instance: Instance, tries: int) -> list[Timeline]:
    plans = [tangled_plan(rng, instance) for _ in range(tries)]
    runs = [simulate_with_chunks(instance, plan, rng.choice((0, 0, 1, 4))) for plan in plans]
    return [timeline for timeline in runs if timeline.feasible]


def check_some(rng: Random, count: int) -> Counter[str]:
    """Check plans of random instances: any, tangled, residual chains; half of them long chains."""
    counts: Counter[str] = Counter()
    for i in range(count):
        if i % 4 == 0:
            instance = random_instance(rng, max_ops=rng.choice((9, 12)))
            timelines = some_timelines(rng, instance, 10)
        else:
            tangled = i % 4 == 1
            instance = (
                tangled_instance(rng)
                if tangled
                else chained_instance(rng, max_layers=rng.choice((2, 3, 4)))
            )
            timelines = tangled_timelines(rng, instance, 12)
        if timelines:
            counts += check_reruns(rng, some_window(rng, instance), timelines)
    return counts


@pytest.mark.parametrize("seed", SEEDS)
def test_every_row_holds_for_every_plan(seed: int) -> None:
    counts = check_some(Random(seed), INSTANCES)
    print(dict(counts))
    assert counts["plans"] > 5 * INSTANCES
    for kind in (
        *("rerun_memory, one slot, rerun", "rerun_memory, slots, rerun"),
        *(
            "chain_memory, op",
            "chain_memory, rerun in its slot",
            "there",
            "back",
            "held",
            "waiting",
        ),
    ):
        assert counts[f"{kind}, tight"], f"no row {kind} was ever tight: the check is too weak"


# Each makes rows that are too strong: what the check must catch.
MUTANTS: dict[str, tuple[Any, str, Callable[..., Any]]] = {
    "recomputed inputs of op k are there": (
        RerunInstant,
        "_may_be_missing",
        lambda self, t: False,
    ),
    "whatever is rebuilt by op k is there": (RerunInstant, "_is_there", lambda self, entry: True),
    "all reruns of the slot are over": (
        chain_memory_rows._ChainRow,
        "_rerun_before",
        lambda self, y: self.links.producer(y),
    ),
    "no rerun is pulled forward": (chain_memory_rows, "stops_of", lambda *arguments: set()),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_wrong_rows_are_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    where, attribute, wrong = MUTANTS[name]
    monkeypatch.setattr(where, attribute, wrong)
    with pytest.raises(AssertionError, match="memory"):
        check_some(Random(3), 400)


@pytest.mark.parametrize("kind", ["rerun_memory", "chain_memory"])
def test_one_byte_more_is_caught(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    build = WindowFormulation.row

    def heavier(window: WindowFormulation, name: str) -> Row:
        row = build(window, name)
        return Row(row.name, row.coefficients, row.upper - NS_PER_S * name.startswith(kind))

    monkeypatch.setattr(WindowFormulation, "row", heavier)
    with pytest.raises(AssertionError, match=kind):
        check_some(Random(5), 200)


# ---------------------------------------------------------------------------------------------
# What the rows are for


def unit_chain(layers: int, budget: int) -> Instance:
    """A chain of `layers` ops, each output read by the next op and by one backward op."""
    made = [f"t{i}" for i in range(layers)]
    ops = [
        Op(
            name=f"f{i}",
            phase="forward",
            duration_ns=10,
            inputs=tuple(made[i - 1 : i]) if i else (),
            outputs=(made[i],),
        )
        for i in range(layers)
    ]
    gradient = made[-1]
    for i in reversed(range(layers - 1)):
        ops.append(
            Op(
                name=f"b{i}",
                phase="backward",
                duration_ns=10,
                inputs=(made[i], gradient),
                outputs=(f"d{i}",),
            )
        )
        gradient = f"d{i}"
    names = [name for op in ops for name in op.outputs]
    graph = Graph(
        name="units",
        ops=tuple(ops),
        tensors=tuple(Tensor(name=name, size_bytes=1, swappable=False) for name in names),
    )
    device = Device(name="none", d2h_bytes_per_s=1, h2d_bytes_per_s=1)
    return Instance.from_graph(graph, device=device, budget=budget)


def relaxed_points(instance: Instance, rounds: int) -> Counter[str]:
    """Solve the integer model and cut its points by rows for reruns alone, until one runs."""
    window, evaluator = WindowFormulation(instance), Evaluator(instance)
    lp = WindowLp(window)
    start = lp.solve()
    counts: Counter[str] = Counter(infeasible=int(start.infeasible))
    for _ in range(0 if start.infeasible else rounds):
        x = lp.restricted_mip(start.x, len(window.columns), gap_ns=0.5, time_limit=60)
        if x is None:
            counts["infeasible"] += 1
            break
        counts["points"] += 1
        sequence, record = evaluator.simulate(decisions_of(window, list(x)))
        if record.makespan_ns is not None:
            counts["runs"] += 1
            break
        rows = violated_rerun_rows(window, x)
        here = sequence.slots[len(record.job_starts_ns)]
        counts["cut"] += bool(rows)
        counts["cut in its slot"] += bool(violated_rerun_rows(window, x, slot=here))
        if not rows:
            break
        for row in rows:
            assert sum(a * x[j] for j, a in row.coefficients.items()) > row.upper
            assert window.row(row.name) == row
        lp.add_rows(rows)
    return counts


@pytest.mark.parametrize(("layers", "budget", "end"), [(16, 6, "infeasible"), (20, 7, "runs")])
def test_points_of_plans_that_run_out_of_memory_are_cut_off(
    layers: int, budget: int, end: str
) -> None:
    """Valid rows alone lead to a plan, or to the proof that there is none."""
    counts = relaxed_points(unit_chain(layers, budget), 60)
    print(dict(counts))
    assert counts[end] == 1
    assert counts["cut"] == counts["points"] - counts["runs"]
    assert counts["cut"] > 0


def test_rows_prove_infeasibility_by_a_certificate() -> None:
    instance = unit_chain(24, 6)
    result = so.solve(instance, "bound")
    assert result.status == "infeasible"
    assert result.infeasibility_certificate is not None
    kinds = {entry.row.partition("[")[0] for entry in result.infeasibility_certificate}
    assert "chain_memory" in kinds
    assert any("contradict each other" in line for line in so.verify(instance, result))


# ---------------------------------------------------------------------------------------------
# Names


def test_row_refuses_what_is_no_row() -> None:
    window = WindowFormulation(unit_chain(6, 5))
    life = window.life
    # Tensor 3 is read by op 7, tensor 2 by op 8, tensor 1 by op 9; 5 comes last.
    assert [life.first_backward_use[t] for t in (3, 2, 1)] == [7, 8, 9]
    none = "none,none,none"
    good = [
        f"chain_memory[7,{none},3:none+2:3,2:3,none,none,none,none,none]",
        "chain_memory[7,3,none,none,3:none,none,none,none,none,none,none]",
        "chain_memory[8,2,none,none,2:none,none,none,none,none,none,3]",
    ]
    for name in good:
        assert window.row(name).name == name
    bad = [
        f"chain_memory[2,{none},none,none,none,none,none,none,none]",  # a forward op
        f"chain_memory[7,{none},2:none,2:2,none,none,none,none,none]",  # op 7 reads 3
        f"chain_memory[7,{none},3:none+1:3,1:1,none,none,none,none,none]",  # 3 is not made of 1
        f"chain_memory[7,{none},2:3,2:3,none,none,none,none,none]",  # 3 is no link
        f"chain_memory[7,{none},3:none+2:3,0:2,none,none,none,none,none]",  # beside the chain
        f"chain_memory[7,{none},3:none+2:3,2:3+2:3,none,none,none,none,none]",  # twice
        "chain_memory[8,2,none,none,2:none,none,none,none,none,none,none]",  # 3 may pull it
        "chain_memory[7,3,none,8,3:none,none,none,none]",  # too short
        "chain_memory[7,3,8,none,3:none,none,none,none,none,none,none]",  # a window after the op
        "rerun_memory[99,7,none,none,none]",
        "rerun_memory[3,6,none,none,none]",  # no piece begins there
        "rerun_memory[3,7,none,none,5]",  # nothing to flip
        "rerun_memory[3,7,none,7,none]",
        "rerun_memory[3,7,8,none,none]",
    ]
    for name in bad:
        with pytest.raises((KeyError, ValueError)):
            window.row(name)


def test_a_row_needs_no_more_than_the_key() -> None:
    """Rows of points, named and built again, are the same rows."""
    rng = Random(1)
    window = WindowFormulation(unit_chain(12, 6))
    x = np.zeros(len(window.columns))
    for column in window.recompute.values():
        x[column] = float(rng.random() < 0.7)
    rows = violated_rerun_rows(window, x, limit=100)
    assert rows
    for row in rows:
        assert window.row(row.name) == row
