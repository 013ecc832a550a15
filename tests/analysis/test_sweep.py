"""Sweeps: what is changed, what is not, and that bounds and plans stay valid."""

import importlib
import random
from collections import Counter
from fractions import Fraction

import pytest
from random_steps import random_instance, random_plan

import slackopt as so
from slackopt.analysis.sweep import (
    restricted,
    sweep,
    variants,
    with_bandwidth,
    with_budget,
    with_compute,
)
from slackopt.errors import InputError
from slackopt.records import MAX_BYTES


def instances(count: int, seed: int = 1) -> list[so.Instance]:
    rng = random.Random(seed)
    return [random_instance(rng) for _ in range(count)]


def small_instance(budget: float = 0.8) -> so.Instance:
    graph = so.profiles.transformer("bert-large", batch=2, num_layers=4)
    return so.Instance.from_graph(graph, device="a100-pcie4", budget=budget)


def doubled(instance: so.Instance) -> so.Instance:
    """Return the instance with all durations doubled: twice as slow, exactly."""
    return with_compute(instance, "1/2")


def test_restricting_takes_away_one_decision_and_nothing_else() -> None:
    for instance in instances(50):
        life = instance.lifetimes
        for word in ("recompute", "swap"):
            changed = restricted(instance, word)  # type: ignore[arg-type]
            other = changed.lifetimes
            assert other.candidates == life.candidates
            assert changed.ideal_ns == instance.ideal_ns
            assert changed.budget_bytes == instance.budget_bytes
            assert changed.graph.unlimited_peak_bytes == instance.graph.unlimited_peak_bytes
            can_swap = [other.swappable[t] for t in range(other.num_tensors)]
            can_rebuild = [other.can_recompute(t) for t in range(other.num_tensors)]
            if word == "recompute":
                assert not any(can_swap)
                assert can_rebuild == [life.can_recompute(t) for t in range(life.num_tensors)]
            else:
                assert not any(can_rebuild)
                assert can_swap == list(life.swappable)
            assert changed.sha256 != instance.sha256 or not (
                any(life.swappable) if word == "recompute" else any(life.recomputable)
            )
        assert restricted(instance, "both") is instance


def test_a_plan_of_a_restricted_instance_takes_as_long_in_the_instance_itself() -> None:
    rng = random.Random(2)
    seen: Counter[bool] = Counter()
    for instance in instances(150, seed=3):
        for word in ("recompute", "swap"):
            changed = restricted(instance, word)  # type: ignore[arg-type]
            plan = random_plan(rng, changed)
            same = so.Plan.for_instance(instance, plan.decisions, plan.prefetch)
            one, other = so.simulate(changed, plan), so.simulate(instance, same)
            assert one.makespan_ns == other.makespan_ns
            assert one.record == other.record
            seen[one.feasible] += 1
    assert min(seen[True], seen[False]) > 20


def test_true_optima_of_restricted_instances_are_not_below_that_of_the_instance() -> None:
    found = 0
    for instance in instances(60, seed=4):
        if len(instance.lifetimes.candidates) > 4:
            continue
        results = {
            word: so.solve(restricted(instance, word), "enumerate", time_limit=20)  # type: ignore[arg-type]
            for word in ("both", "recompute", "swap")
        }
        both = results["both"]
        for word in ("recompute", "swap"):
            single = results[word]
            if single.makespan_ns is not None:
                assert both.makespan_ns is not None
                assert both.makespan_ns <= single.makespan_ns
                found += 1
            if both.status == "infeasible":
                assert single.status == "infeasible"
    assert found > 20


def test_link_and_compute_twice_as_fast_halve_the_step() -> None:
    """With even times and no latency nothing is rounded, and the whole timeline scales."""
    rng = random.Random(5)
    checked = 0
    for instance in instances(400, seed=6):
        # Pieces would be rounded to whole nanoseconds, each for itself.
        device = instance.device.model_copy(update={"latency_ns": 0, "chunk_bytes": 0})
        rates = [
            *(device.d2h_bytes_per_s, device.h2d_bytes_per_s),
            *(device.d2h_shared_bytes_per_s or 2, device.h2d_shared_bytes_per_s or 2),
        ]
        if any(rate % 2 for rate in rates) or not device.independent:
            continue
        base = so.Instance.from_graph(instance.graph, device=device, budget=instance.budget_bytes)
        slow = with_bandwidth(doubled(base), "0.5")
        plan = random_plan(rng, base)
        same = so.Plan.for_instance(slow, plan.decisions, plan.prefetch)
        one, other = so.simulate(base, plan), so.simulate(slow, same)
        whole = all(
            tensor.size_bytes * 10**9 % device.d2h_bytes_per_s == 0
            and tensor.size_bytes * 10**9 % device.h2d_bytes_per_s == 0
            for tensor in base.graph.tensors
        )
        if one.makespan_ns is None or not whole:
            continue
        assert other.makespan_ns == 2 * one.makespan_ns
        checked += 1
    assert checked > 20


def test_bandwidths_are_multiplied_and_the_rest_of_the_device_stays() -> None:
    graph = so.profiles.transformer("bert-large", num_layers=2)
    device = so.profiles.get_device("a100-pcie4-shared").with_chunks(2**22)
    device = device.model_copy(update={"host_memory_bytes": 2**36})
    instance = so.Instance.from_graph(graph, device=device, budget=0.9)
    old, new = instance.device, with_bandwidth(instance, 2.5).device
    rest = {"chunk_bytes", "host_memory_bytes", "latency_ns", "source"}
    assert new.model_dump(include=rest) == old.model_dump(include=rest)
    assert new.d2h_bytes_per_s == 2.5 * old.d2h_bytes_per_s
    assert new.h2d_bytes_per_s == 2.5 * old.h2d_bytes_per_s
    assert new.h2d_shared_bytes_per_s == 2.5 * (old.h2d_shared_bytes_per_s or 0)
    assert with_bandwidth(instance, 1) is instance
    slowest = with_bandwidth(instance, "1e-15").device
    assert slowest.d2h_bytes_per_s == slowest.h2d_shared_bytes_per_s == 1


def test_durations_are_divided_exactly_and_rounded_up() -> None:
    instance = small_instance()
    fast = with_compute(instance, 3)
    for old, new in zip(instance.graph.ops, fast.graph.ops, strict=True):
        assert new.duration_ns == -(-old.duration_ns // 3)
        assert new.model_copy(update={"duration_ns": old.duration_ns}) == old
    tenth = with_compute(instance, 0.1)
    assert tenth.ideal_ns == 10 * instance.ideal_ns, "0.1 is a tenth, not its nearest float"
    some = with_compute(instance, 2, ops=lambda op: "fc1" in op.name)
    for old, new in zip(instance.graph.ops, some.graph.ops, strict=True):
        assert (new.duration_ns < old.duration_ns) == ("fc1" in old.name)
    assert with_compute(instance, Fraction(1)) is instance


def test_what_was_changed_is_written_down() -> None:
    changed = restricted(with_compute(with_bandwidth(small_instance(), 0.5), 2), "swap")
    assert changed.provenance["changes"] == {
        "bandwidth_factor": "0.5",
        "compute_factor": "2",
        "only": "swap",
    }
    assert changed.name.endswith("(swap only)")


def test_a_changed_instance_survives_its_file(tmp_path: object) -> None:
    changed = restricted(with_bandwidth(with_budget(small_instance(), "0.9"), "0.25"), "recompute")
    path = f"{tmp_path}/changed.json"
    so.write_record(changed, path)
    assert so.read_instance(path) == changed
    assert so.read_instance(path).sha256 == changed.sha256


def test_every_combination_comes_once_in_order() -> None:
    found = list(
        variants(
            small_instance(),
            budgets=["0.7", "0.9"],
            bandwidth_factors=[1, 2],
            compute_factors=[0.5],
            allowed=("both", "swap"),
        )
    )
    told = [(round(v.budget_share, 3), v.bandwidth_factor, v.allowed) for v in found]
    assert told == [
        (budget, link, word)
        for budget in (0.7, 0.9)
        for link in (1.0, 2.0)
        for word in ("both", "swap")
    ]
    assert all(v.compute_factor == 0.5 for v in found)
    assert len({v.instance.sha256 for v in found}) == len(found)


def test_a_sweep_has_a_row_for_every_run() -> None:
    seen = []
    frame = sweep(
        small_instance(),
        methods=["teraio", "bound"],
        budgets=["0.2", "0.8"],
        allowed=("both", "recompute"),
        on_result=lambda question, result: seen.append((question.allowed, result.method)),
        time_limit=20,
    )
    assert len(frame) == len(seen) == 8
    assert list(frame["method"]) == [method for _, method in seen]
    tight = frame[frame["budget_share"] < 0.5]
    assert set(tight["status"]) == {"infeasible"}
    assert tight["throughput_ratio"].isna().all()
    assert tight["makespan_ns"].isna().all()
    assert tight["reason"].str.contains("no plan").all()
    loose = frame[frame["budget_share"] > 0.5]
    plans = loose[loose["method"] == "teraio"]
    assert plans["throughput_ratio"].notna().all()
    for _, row in plans.iterrows():
        assert row["throughput_ratio"] == row["ideal_ns"] / row["makespan_ns"]
    for word in ("both", "recompute"):
        rows = loose[loose["allowed"] == word].set_index("method")
        assert rows["throughput_ratio"]["teraio"] <= rows["ratio_limit"]["bound"] + 1e-12


def test_a_run_that_fails_is_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    frame = sweep(small_instance(), methods=["milp"], solver="no-such-solver")
    assert list(frame["status"]) == ["error"]
    assert "no-such-solver" in frame["reason"].iloc[0]


def test_ctrl_c_returns_the_rows_until_then(monkeypatch: pytest.MonkeyPatch) -> None:
    sweeping = importlib.import_module("slackopt.analysis.sweep")  # the function has its name
    real = sweeping.compare
    calls = []

    def interrupted(*args: object, **options: object) -> list[object]:
        rows = real(*args, **options)  # type: ignore[arg-type]
        calls.append(1)
        if len(calls) == 2:
            for row in rows:
                object.__setattr__(
                    row, "result", row.result.model_copy(update={"stopped_by": "signal"})
                )
        return list(rows)

    monkeypatch.setattr(sweeping, "compare", interrupted)
    frame = sweep(small_instance(), methods=["slackswap"], budgets=["0.7", "0.8", "0.9"])
    assert len(frame) == len(calls) == 2


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"bandwidth_factors": [0]}, "bandwidth factor 0: must be above 0"),
        ({"bandwidth_factors": [-1]}, "above 0"),
        ({"compute_factors": ["fast"]}, "must be a number above 0"),
        ({"compute_factors": [float("nan")]}, "must be a number above 0"),
        ({"bandwidth_factors": [MAX_BYTES]}, "is above"),
        ({"compute_factors": ["1e-12"]}, "takes"),
        ({"budgets": ["lots"]}, "can't be read"),
        ({"allowed": ("keep",)}, "choose one of: both, recompute, swap"),
        ({"budgets": []}, "at least one budget"),
        ({"allowed": ()}, "at least one budget"),
        ({"methods": ["magic"]}, "'magic' is unknown"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_wrong_setting_is_refused_before_anything_runs(
    changes: dict[str, object], message: str
) -> None:
    settings: dict[str, object] = {"methods": ["slackswap"], "budgets": ["0.8"]}
    ran: list[object] = []
    with pytest.raises(InputError, match=message):
        sweep(
            small_instance(),
            on_result=lambda *values: ran.append(values),
            **(settings | changes),  # type: ignore[arg-type]
        )
    assert not ran
