"""capuchin, mu-two, dtr and slackswap: what is swapped, what is recomputed."""

from __future__ import annotations

import pytest
from handmade import chain, checked, decided, instance, link, step

from slackopt import InputError, Instance, Plan
from slackopt.heuristics import NoPlanError, heuristics
from slackopt.heuristics.common.copies import CopyQueues
from slackopt.heuristics.common.exchange import _actions
from slackopt.heuristics.common.sources import Sources
from slackopt.lifetimes import Lifetimes
from slackopt.simulation import simulate
from slackopt.simulation.evaluator import Evaluator
from slackopt.simulation.sequence import RECOMPUTE


def run(rule: str, question: Instance, **options: object) -> Plan:
    plan = heuristics()[rule](question, **options)
    checked(question, plan)
    return plan


def one_less(sizes: list[int], durations: list[int] | None = None) -> Instance:
    """Return a chain whose budget is below its peak by the size of one activation of 100."""
    graph = chain(sizes, durations)
    return instance(graph, graph.unlimited_peak_bytes - 100, link(20))


def test_capuchin_swaps_the_largest_free_time_first() -> None:
    assert run("capuchin", one_less([100] * 8)).decisions == {"a0": "swap"}
    # Without a free time, the cheapest recompute per byte.
    slow = instance(one_less([100] * 8).graph, one_less([100] * 8).budget_bytes, link(0.1))
    assert set(run("capuchin", slow).decisions.values()) == {"recompute"}


def test_capuchin_recomputes_what_saves_most_per_second() -> None:
    graph = chain([100] * 8, [40, 40, 40, 5, 40, 40, 40, 5])
    slow = instance(graph, graph.unlimited_peak_bytes - 100, link(0.01))
    assert run("capuchin", slow).decisions == {"a3": "recompute"}


def test_capuchin_takes_an_exposed_swap_where_recompute_costs_more() -> None:
    graph = chain([100] * 8, [2000] * 8)
    question = instance(graph, graph.unlimited_peak_bytes - 500, link(0.04))
    plan = run("capuchin", question)
    assert len(decided(plan, "swap")) >= 4


def test_mu_two_swaps_the_most_idle_while_that_is_hidden() -> None:
    assert run("mu-two", one_less([100] * 8)).decisions == {"a0": "swap"}


def test_mu_two_recomputes_where_that_adds_less() -> None:
    graph = chain([100] * 8, [40, 40, 40, 5, 40, 40, 40, 5])
    slow = instance(graph, graph.unlimited_peak_bytes - 100, link(0.01))
    assert run("mu-two", slow).decisions == {"a3": "recompute"}
    dear = instance(chain([100] * 8, [900_000] * 8), slow.budget_bytes, link(0.01))
    assert set(run("mu-two", dear).decisions.values()) == {"swap"}


def lifetimes(question: Instance) -> Lifetimes:
    return question.lifetimes


def test_sources_are_passed_on() -> None:
    question = instance(chain([100] * 6, [1, 2, 4, 8, 16, 32]), 1.0)
    life = lifetimes(question)
    index = question.graph.tensor_index
    a = [index[f"a{k}"] for k in range(6)]
    sources = Sources(life, list(life.candidates))
    assert (sources.rebuild_ns(a[2]), sources.total_ns(a[2])) == (4, 4)
    sources.drop(a[2])  # a2 is rebuilt from a1
    assert sources.sources(a[3]) == {a[1]}
    assert sources.rebuild_ns(a[3]) == 4 + 8
    assert sources.total_ns(a[1]) == 2 * 2  # for itself and for a2
    assert sources.added_ns(a[3]) == 8  # a2 is rebuilt anyway
    sources.drop(a[3])
    assert sources.total_ns(a[1]) == 2 * 3
    sources.drop(a[1])
    assert sources.sources(a[3]) == {a[0]}
    assert sources.rebuild_ns(a[3]) == 2 + 4 + 8
    assert sources.total_ns(a[0]) == 1 * 4


def test_sources_go_through_what_has_no_backward_use() -> None:
    ops = [
        ("f0", "f", 1, [], ["x"]),
        ("f1", "f", 2, ["x"], ["between"]),
        ("f2", "f", 4, ["between"], ["y"]),
        ("f3", "f", 8, ["y"], ["z"]),
        ("b3", "b", 1, ["z"], []),
        ("b2", "b", 1, ["y"], []),
        ("b0", "b", 1, ["x"], []),
    ]
    question = instance(step(ops, dict.fromkeys(("x", "between", "y", "z"), 10)), 1.0)
    index = question.graph.tensor_index
    sources = Sources(question.lifetimes, [index["x"], index["y"]])
    assert sources.rebuild_ns(index["y"]) == 2 + 4
    assert sources.sources(index["y"]) == {index["x"]}


def test_copies_are_exposed_beyond_the_peak() -> None:
    # Eight ops of 10 ns forward, twice that backward; a copy takes 25 ns each way.
    question = instance(chain([100] * 8), 1.0, link(4))
    index = question.graph.tensor_index
    queues = CopyQueues(question)
    assert queues.added_ns(index["a0"]) == 0
    queues.add(index["a0"])
    queues.add(index["a1"])
    assert queues.exposed_ns == 0
    assert queues.added_ns(index["a2"]) >= 0
    for k in (2, 3, 4):
        queues.add(index[f"a{k}"])
    assert queues.exposed_ns > 0


def test_dtr_evicts_by_time_over_size_and_staleness() -> None:
    # All as cheap and as large: the stalest, but not next to what is evicted already.
    even = one_less([100] * 8)
    assert run("dtr", even).decisions == {"a0": "recompute"}
    # One much cheaper to rebuild.
    cheap = instance(chain([100] * 8, [90, 90, 1, 90, 90, 90, 90, 90]), even.budget_bytes)
    assert run("dtr", cheap).decisions == {"a2": "recompute"}
    # One much larger.
    graph = chain([100, 100, 900, 100, 100, 100, 100, 100])
    large = instance(graph, graph.unlimited_peak_bytes - 100)
    assert run("dtr", large).decisions == {"a2": "recompute"}


def test_dtr_spares_the_neighbours_of_what_is_evicted() -> None:
    question = instance(chain([100] * 9), chain([100] * 9).unlimited_peak_bytes - 250)
    evicted = {int(name[1:]) for name in run("dtr", question).decisions}
    assert len(evicted) >= 2
    assert not any(k + 1 in evicted for k in evicted)


def test_dtr_never_swaps() -> None:
    assert not decided(run("dtr", instance(chain([100] * 16), 0.7)), "swap")


DURATIONS = [40, 10, 20, 30, 50, 10, 60, 10]


def test_slackswap_swaps_the_dearest_and_recomputes_the_cheapest() -> None:
    graph = chain([100] * 8, DURATIONS)
    # Copies of 100 ns; a forward pass of 230 ns hides two.
    question = instance(graph, graph.unlimited_peak_bytes - 250, link(1))
    plan = run("slackswap", question)
    assert decided(plan, "swap") == {"a4", "a0"}
    assert decided(plan, "recompute") == {"a1"}


@pytest.mark.parametrize(
    ("ranking", "swapped"),
    [
        ("time-per-byte", {"a3"}),
        ("rebuild-time", {"a4"}),
        ("size", {"a2"}),
        ("idle-time", {"a0"}),
        ("production", {"a0"}),
    ],
)
def test_slackswap_rankings(ranking: str, swapped: set[str]) -> None:
    graph = chain([100, 100, 200, 50, 150, 100, 100, 100], [40, 10, 20, 40, 60, 10, 60, 10])
    question = instance(graph, graph.unlimited_peak_bytes - 40, link(10))
    assert decided(run("slackswap", question, ranking=ranking), "swap") == swapped


def test_slackswap_random_ranking_is_drawn_from_the_seed() -> None:
    graph = chain([100] * 12)
    question = instance(graph, graph.unlimited_peak_bytes - 300, link(10))
    plans = [run("slackswap", question, ranking="random", seed=seed) for seed in (0, 0, 1, 2, 3)]
    assert plans[0] == plans[1]
    assert len({tuple(sorted(plan.decisions)) for plan in plans}) > 1


def test_slackswap_ties() -> None:
    question = one_less([100] * 8)
    assert decided(run("slackswap", question), "swap") == {"a0"}
    last = decided(run("slackswap", question, ties="last"), "swap")
    assert last
    assert "a0" not in last


def test_slackswap_can_use_all_its_slack_and_free_more_than_needed() -> None:
    question = one_less([100] * 8)
    needed = decided(run("slackswap", question), "swap")
    assert decided(run("slackswap", question, use_all_slack=True), "swap") > needed
    assert decided(run("slackswap", question, over_free=0.2), "swap") > needed
    for wrong in (-0.1, 1.0):
        with pytest.raises(InputError, match="over_free"):
            run("slackswap", question, over_free=wrong)


def test_slackswap_says_no() -> None:
    graph = step(
        [
            ("f0", "f", 1, [], ["a0"]),
            ("f1", "f", 1, ["a0"], ["a1"]),
            ("f2", "f", 1, ["a1"], ["a2"]),
            ("b1", "b", 1, ["a1", "a2"], []),
            ("b0", "b", 1, ["a0"], []),
        ],
        {"a0": 10, "a1": 10, "a2": 10},
        fixed=["f0"],
        not_swappable=["a0"],
    )
    with pytest.raises(NoPlanError, match="however many other tensors"):
        run("slackswap", instance(graph, 20))


def test_slackswap_recomputes_no_more_than_it_must() -> None:
    # With both candidates dropped, the rebuilt chain needs more than the budget; with a0 alone it
    # fits. The link is too slow for any swap to be hidden.
    question = instance(chain([5, 2, 5, 2]), 11, link(0.001))
    all_dropped = Plan.for_instance(question, dict.fromkeys(("a0", "a1"), "recompute"))
    assert simulate(question, all_dropped).out_of_memory is not None
    plan = run("slackswap", question)
    assert decided(plan, "recompute") == {"a0"}
    assert decided(plan, "swap") == set()


def test_a_batch_tensor_without_a_backward_use_can_be_a_source() -> None:
    # The mask stays on the device, so what is made from it can be rebuilt.
    ops = [
        ("f0", "f", 1, ["mask"], ["a0"]),
        ("f1", "f", 1, ["a0"], ["a1"]),
        ("f2", "f", 1, ["a1"], ["a2"]),
        ("b1", "b", 1, ["a1", "a2"], []),
        ("b0", "b", 1, ["a0"], []),
    ]
    graph = step(ops, {"mask": 1, "a0": 10, "a1": 10, "a2": 10}, not_swappable=["a0"])
    plan = run("slackswap", instance(graph, 22))
    assert decided(plan, "recompute") == {"a0"}


def test_local_search_keeps_a_batch_tensor_that_reruns_read() -> None:
    ops = [
        ("f0", "f", 1, ["batch"], ["a0"]),
        ("f1", "f", 3, ["a0"], ["a1"]),
        ("f2", "f", 1, ["a1"], ["a2"]),
        ("f3", "f", 1, ["a2"], ["a3"]),
        ("b3", "b", 1, ["a3"], []),
        ("b2", "b", 1, ["a2"], []),
        ("b1", "b", 1, ["a1"], []),
    ]
    graph = step(ops, {"batch": 5, "a0": 10, "a1": 10, "a2": 10, "a3": 10})
    question = instance(graph, 25)
    evaluator = Evaluator(question)
    batch = question.graph.tensor_index["batch"]
    for t in evaluator.life.candidates:
        for action in _actions(evaluator, t):
            assert (batch, RECOMPUTE) not in action.decisions
    run("local-search", question, time_limit=None, max_evaluations=200)
