"""The exact methods for small instances: enumeration, and the schedule model in two solvers.

The long version of the agreement test is ``python benchmarks/agreement.py``.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from itertools import product
from random import Random

import pytest
from random_steps import (
    allowed_decisions,
    chained_instance,
    random_instance,
    random_plan,
    trigger_range,
)
from schedule_points import holds, point_of

import slackopt as so
from slackopt.formulations.coarsening import coarsen, time_unit
from slackopt.formulations.differs import differs_row
from slackopt.formulations.linear import Row
from slackopt.formulations.schedule import ScheduleFormulation, longest_makespan_ns
from slackopt.formulations.window import WindowFormulation
from slackopt.progress import Progress
from slackopt.simulation import simulate
from slackopt.simulation.evaluator import Evaluator
from slackopt.simulation.sequence import KEEP, SWAP
from slackopt.solvers import cpsat_schedule
from slackopt.solvers.cpsat_schedule import solve_cpsat_schedule
from slackopt.solvers.enumerate import (
    count_decision_vectors,
    effective_decisions,
    solve_by_enumeration,
    without_effectless,
)
from slackopt.solvers.milp_schedule import solve_milp_schedule
from slackopt.solvers.options import SolveOptions
from slackopt.solvers.pulp_process import PulpProcess
from slackopt.solvers.pulp_solvers import pulp_name
from slackopt.solvers.schedule_loop import CUT_OFF
from slackopt.solvers.window_lp import WindowLp

EXACT = SolveOptions(gap=0.0)


def instances(
    first: int, last: int, *, max_ops: int = 14, layers: int = 3
) -> Iterator[so.Instance]:
    """Random instances with up to 8 candidates, of both kinds in turn."""
    for seed in range(first, last):
        rng = Random(seed)
        if seed % 2:
            instance = random_instance(rng, max_ops=max_ops)
        else:
            instance = chained_instance(rng, max_layers=layers)
        if len(instance.lifetimes.candidates) <= 8 and count_decision_vectors(instance) <= 5000:
            yield instance


def enumerated(instance: so.Instance) -> Progress:
    progress = Progress(instance, "enumerate", gap=0.0)
    assert solve_by_enumeration(instance, progress, EXACT) == "proof"
    return progress


def every_plan(instance: so.Instance) -> Iterator[so.Plan]:
    """Every plan that can be written down, equivalent ones and all."""
    choices = []
    for name, allowed in allowed_decisions(instance).items():
        options: list[tuple[str, str, int | None]] = []
        for decision in allowed:
            if decision == "swap":
                low, _, high = trigger_range(instance, name)
                options += [(name, decision, g) for g in range(low, high + 1)]
            else:
                options.append((name, decision, None))
        choices.append(options)
    for chosen in product(*choices):
        decisions = {name: decision for name, decision, _ in chosen}
        prefetch = {name: trigger for name, _, trigger in chosen if trigger is not None}
        yield so.Plan.for_instance(instance, decisions, prefetch)


def count_plans(instance: so.Instance) -> int:
    count = 1
    for name, allowed in allowed_decisions(instance).items():
        low, _, high = trigger_range(instance, name)
        count *= len(allowed) + ("swap" in allowed) * (high - low)
    return count


def test_enumeration_finds_the_best_of_all_plans() -> None:
    tried = infeasible = 0
    for instance in instances(0, 120, max_ops=7, layers=2):
        if count_plans(instance) > 1500:
            continue
        makespans = [simulate(instance, plan).makespan_ns for plan in every_plan(instance)]
        best = min((m for m in makespans if m is not None), default=None)
        progress = enumerated(instance)
        assert progress.makespan_ns == best
        assert progress.infeasible == (best is None)
        assert progress.lower_bound_ns == best
        tried += 1
        infeasible += best is None
    assert tried >= 25
    assert infeasible >= 1


def test_both_solvers_and_enumeration_agree() -> None:
    process = PulpProcess(pulp_name("highs"))
    kinds = ("shared link", "host memory", "chunks", "infeasible", "above the ideal", "cuts")
    seen = dict.fromkeys(kinds, 0)
    for instance in instances(0, 44):
        truth = enumerated(instance)
        milp = Progress(instance, "milp-schedule", gap=0.0)
        cpsat = Progress(instance, "cpsat-schedule", gap=0.0)
        assert solve_milp_schedule(instance, milp, EXACT, process=process) == "proof"
        assert solve_cpsat_schedule(instance, cpsat, EXACT) == "proof"
        for progress in (milp, cpsat):
            assert progress.makespan_ns == truth.makespan_ns
            assert progress.infeasible == truth.infeasible
            if not truth.infeasible:
                assert progress.lower_bound_ns == truth.makespan_ns
        seen["shared link"] += not instance.device.independent
        seen["host memory"] += instance.device.host_memory_bytes is not None
        seen["chunks"] += instance.device.chunk_bytes > 0
        seen["infeasible"] += truth.infeasible
        seen["above the ideal"] += (truth.makespan_ns or 0) > instance.ideal_ns
        seen["cuts"] += f"0 {CUT_OFF}" not in milp.notes
    process.close()
    assert all(seen.values()), seen


def test_relaxed_bound_below_the_optimum_below_every_plan() -> None:
    for seed, instance in enumerate(instances(100, 160)):
        best = enumerated(instance).makespan_ns
        if best is not None:
            assert WindowLp(WindowFormulation(instance)).solve().lower_bound_ns <= best
        rng = Random(seed)
        for _ in range(5):
            makespan = simulate(instance, random_plan(rng, instance)).makespan_ns
            assert makespan is None or (best is not None and best <= makespan)


def test_every_run_is_a_point_of_the_schedule_rows() -> None:
    """Also at a horizon that leaves no room, where every big-M is as small as it gets."""
    runs = in_parts = without_swaps = 0
    for seed, instance in enumerate(instances(200, 320)):
        if seed % 3 == 0:
            instance = unswappable(instance)
        rng, evaluator, life = Random(seed), Evaluator(instance), instance.lifetimes
        decidable = {*life.candidates, *life.closure}
        for _ in range(4):
            plan = random_plan(rng, instance)
            decisions = evaluator.decisions(plan)
            decisions = [d if t in decidable else KEEP for t, d in enumerate(decisions)]
            decisions, sequence = without_effectless(life, decisions)
            index = instance.graph.tensor_index
            given = {index[n]: g for n, g in plan.prefetch.items() if decisions[index[n]] == SWAP}
            _, record = evaluator.simulate(decisions, given)
            if record.makespan_ns is None:
                continue
            assert record.makespan_ns <= longest_makespan_ns(instance)
            model = ScheduleFormulation(instance, record.makespan_ns)
            model.add_memory_rows(range(len(model.jobs.jobs)))
            without_swaps += not model.swap
            x = point_of(model, decisions, sequence, record)
            assert [row.name for row in model.rows if not holds(row, x)] == []
            for column, value in zip(model.columns, x, strict=True):
                assert 0 <= value <= (column.upper or 0), column.name
            objective = sum(c.objective * v for c, v in zip(model.columns, x, strict=True))
            assert objective + model.constant_ns == record.makespan_ns
            assert model.decisions_of(x) == decisions
            assert not holds(differs_row(model.swap, model.recompute, decisions), x)
            # In coarse units the point holds as well, times rounded down.
            times = model.times.columns
            unit = time_unit(model.rows, times, model.horizon_ns, 20)
            coarse = [v // unit if j in times else v for j, v in enumerate(x)]
            assert all(holds(coarsen(row, times, unit, 20), coarse) for row in model.rows)
            runs += 1
            in_parts += any(x[j] for j, c in enumerate(model.columns) if c.name.endswith(",3]"))
    assert runs >= 200
    assert in_parts >= 5
    assert without_swaps >= 30


def unswappable(instance: so.Instance) -> so.Instance:
    """Return the instance with nothing that may be swapped."""
    tensors = tuple(
        tensor.model_copy(update={"swappable": False}) for tensor in instance.graph.tensors
    )
    graph = instance.graph.model_copy(update={"tensors": tensors})
    return so.Instance.from_graph(graph, device=instance.device, budget=instance.budget_bytes)


def test_without_swaps_the_memory_rows_are_the_simulator() -> None:
    """A decision vector runs if its point satisfies all rows, and only then."""
    seen = set()
    for instance in map(unswappable, instances(0, 60)):
        if count_decision_vectors(instance) > 500:
            continue
        roomy = so.Instance.from_graph(instance.graph, device=instance.device, budget=10**12)
        evaluator, unlimited = Evaluator(instance), Evaluator(roomy)
        model = ScheduleFormulation(instance, longest_makespan_ns(instance))
        model.add_memory_rows(range(len(model.jobs.jobs)))
        for decisions, sequence in effective_decisions(evaluator):
            _, record = unlimited.simulate(decisions)
            x = point_of(model, decisions, sequence, record)
            broken = [row.name for row in model.rows if not holds(row, x)]
            assert all(name.startswith(("memory", "batch")) for name in broken)
            assert bool(broken) == (evaluator.makespan_ns(decisions) is None)
            seen.add(bool(broken))
    assert seen == {True, False}


def test_ctrl_c_is_heard_during_and_after_a_solve_with_cpsat() -> None:
    """Else a user's Ctrl-C, and a signal to a batch, would end without a result."""
    script = """
import os, signal, threading
import slackopt as so
graph = so.profiles.transformer("bert-large", num_layers=2)
instance = so.Instance.from_graph(graph, device="a100-pcie4", budget=0.8)
so.solve(instance, "cpsat-schedule", time_limit=0.5)
try:
    signal.raise_signal(signal.SIGINT)
except KeyboardInterrupt:
    print("after")
from ortools.sat.python import cp_model
from slackopt.solvers.cpsat_schedule import _solve_in_thread
model, solver = cp_model.CpModel(), cp_model.CpSolver()
holes = [[model.new_bool_var("") for _ in range(14)] for _ in range(15)]
for pigeon in holes:
    model.add(sum(pigeon) >= 1)
for hole in zip(*holes):
    for i in range(15):
        for j in range(i):
            model.add(hole[i] + hole[j] <= 1)
solver.parameters.catch_sigint_signal = False
solver.parameters.max_time_in_seconds = 600
solver.parameters.symmetry_level = solver.parameters.num_workers = 1
solver.parameters.cp_model_presolve = False
threading.Timer(1.0, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
try:
    _solve_in_thread(solver, model)
except KeyboardInterrupt:
    print("during")
"""
    ran = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=300
    )
    assert ran.stdout.split() == ["after", "during"], ran.stderr


def test_a_no_good_row_cuts_off_one_vector_only() -> None:
    instance = next(i for i in instances(0, 40) if len(i.lifetimes.candidates) >= 3)
    model = ScheduleFormulation(instance, longest_makespan_ns(instance))
    evaluator = Evaluator(instance)
    choices = [evaluator.options(t) for t in range(instance.lifetimes.num_tensors)]
    vectors = list(product(*choices))[:200]
    for cut in vectors[:5]:
        row = differs_row(model.swap, model.recompute, cut)
        for vector in vectors:
            assert _holds_at(model, row, vector) == (vector != cut)


def _holds_at(model: ScheduleFormulation, row: Row, vector: tuple[int, ...]) -> bool:
    x = [0] * len(model.columns)
    for t, decision in enumerate(vector):
        if decision != KEEP:
            x[(model.swap if decision == SWAP else model.recompute)[t]] = 1
    return sum(a * x[j] for j, a in row.coefficients.items()) <= row.upper


def test_too_many_decision_vectors_are_refused() -> None:
    instance = next(i for i in instances(0, 40) if count_decision_vectors(i) > 4)
    with pytest.raises(so.InputError, match="decision vectors"):
        solve_by_enumeration(instance, Progress(instance, "x"), EXACT, max_decision_vectors=4)


@pytest.mark.parametrize("solve", [solve_by_enumeration, solve_milp_schedule, solve_cpsat_schedule])
def test_runs_make_results(solve) -> None:  # type: ignore[no-untyped-def]
    seen = set()
    for instance in instances(0, 20):
        progress = Progress(instance, "x", gap=0.0)
        result = progress.result(solve(instance, progress, EXACT))
        assert result.status in ("optimal", "infeasible")
        assert result.stopped_by == "proof"
        if result.status == "infeasible":
            assert "run" in (result.reason or "")
        seen.add(result.status)
    assert "optimal" in seen


@pytest.mark.parametrize("solve", [solve_by_enumeration, solve_milp_schedule, solve_cpsat_schedule])
def test_no_time_gives_no_wrong_claim(solve) -> None:  # type: ignore[no-untyped-def]
    for instance in instances(0, 6):
        progress = Progress(instance, "x", time_limit=1e-9, gap=0.0)
        assert solve(instance, progress, SolveOptions(time_limit=1e-9, gap=0.0)) in (
            "time",
            "proof",
        )
        assert not progress.infeasible
        best = enumerated(instance).makespan_ns
        if best is not None:
            assert (progress.lower_bound_ns or 0) <= best


def test_time_used_up_by_building_is_a_limit_and_no_error() -> None:
    instance = next(i for i in instances(0, 40) if len(i.lifetimes.candidates) >= 3)
    model = ScheduleFormulation(instance, longest_makespan_ns(instance))
    rows = [row for row in model.rows if row.coefficients]
    answer = cpsat_schedule._solve(EXACT, model, rows, -0.01)
    assert (answer.status, answer.native_status) == ("limit", "UNKNOWN")


def test_exact_beyond_the_coarse_units() -> None:
    """Durations over nine digits: rounding relaxes the model, and the loop closes what it costs."""
    checked = 0
    for instance in instances(1200, 1300):
        if instance.ideal_ns < 10**6 or count_decision_vectors(instance) > 60:
            continue
        if checked == 4:
            break
        truth = enumerated(instance)
        cpsat = Progress(instance, "cpsat-schedule", gap=0.0)
        assert solve_cpsat_schedule(instance, cpsat, EXACT) == "proof"
        assert cpsat.makespan_ns == truth.makespan_ns
        checked += 1
    assert checked == 4


@pytest.mark.parametrize("method", ["milp-schedule", "cpsat-schedule"])
def test_a_large_instance_is_refused_in_a_sentence(method: str) -> None:
    graph = so.profiles.transformer("bert-large", num_layers=8)
    instance = so.Instance.from_graph(graph, device="a100-pcie4", budget=0.5)
    with pytest.raises(so.InputError, match="use exact, milp or cpsat"):
        so.solve(instance, method, time_limit=1)
