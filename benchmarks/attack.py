"""Attack the claims of every method with a brute force that shares no code with them.

Usage: ``python benchmarks/attack.py [--solves N] [--seed S] [--jobs J] [--save FOLDER]``

Random tiny instances over all that a device may have (pieces, a shared link, a host limit, latency,
two speeds) are solved by every method that claims something and by a rule, with random options. On
each instance *every plan that can be written down* is simulated: each decision and each trigger
that `slackopt.Plan` accepts, in plain loops, equivalent ones and all. So these are contradictions:

- a lower bound above an accepted plan;
- ``infeasible`` where a plan runs;
- ``optimal`` where a plan is better by more than the gap asked for;
- a plan faster than all plans, or one that `slackopt.verify` or the second simulator
  (``tests/reference_simulator.py``) refuses, or any other claim that `slackopt.verify` refuses;
- an error, or an exception.

Each is printed; its instance, its result and the best plan are written to FOLDER, and the exit code
is 1. Instance ``i`` depends on the seed and ``i`` alone: ``--first`` goes on where a run ended.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from math import prod
from pathlib import Path
from random import Random
from typing import Any

from rich.console import Console
from rich.progress import track

import slackopt as so
from slackopt.heuristics import heuristics
from slackopt.plan import Decision
from slackopt.simulation import simulate
from slackopt.solvers.pulp_solvers import available_solvers

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
from random_steps import chained_graph, random_device, random_graph
from reference_simulator import reference_simulate

MAX_PLANS = 1500
CLAIMING = tuple(method.name for method in so.methods() if method.kind == "exact")
SOLVES = len(CLAIMING) + 1
"""Solves for each instance: the methods that claim something, and one rule."""

Choice = tuple[Decision, int | None]


@dataclass
class Findings:
    """What came out on some instances.

    Attributes
    ----------
    statuses
        ``(method, status)`` -> solves.
    contradictions
        Sentences.
    facts
        What the instances were like.
    """

    statuses: Counter[tuple[str, str]] = field(default_factory=Counter)
    contradictions: list[str] = field(default_factory=list)
    facts: Counter[str] = field(default_factory=Counter)

    def add(self, other: Findings) -> None:
        """Take in what came out on others."""
        self.statuses += other.statuses
        self.contradictions += other.contradictions
        self.facts += other.facts


# The truth.


def choices(instance: so.Instance) -> dict[str, list[Choice]]:
    """Per tensor: every decision, with every trigger, that a plan may have."""
    every: list[Choice] = [("keep", None), ("recompute", None)]
    every += [("swap", g) for g in range(len(instance.graph.ops) + 1)]
    found: dict[str, list[Choice]] = {}
    for tensor in instance.graph.tensors:
        found[tensor.name] = []
        for choice in every:
            try:
                plan_of(instance, {tensor.name: choice})
            except so.InputError:
                continue
            found[tensor.name].append(choice)
    return found


def plan_of(instance: so.Instance, chosen: Mapping[str, Choice]) -> so.Plan:
    """Write down a plan."""
    decisions = {name: decision for name, (decision, _) in chosen.items()}
    triggers = {name: g for name, (_, g) in chosen.items() if g is not None}
    return so.Plan.for_instance(instance, decisions, triggers)


def brute_force(instance: so.Instance) -> tuple[int | None, so.Plan | None, int]:
    """Simulate every plan; return the least makespan, a plan that has it, and their number."""
    names, options = zip(*choices(instance).items(), strict=True)
    best: int | None = None
    best_plan: so.Plan | None = None
    count = 0
    for chosen in product(*options):
        plan = plan_of(instance, dict(zip(names, chosen, strict=True)))
        makespan = simulate(instance, plan).makespan_ns
        count += 1
        if makespan is not None and (best is None or makespan < best):
            best, best_plan = makespan, plan
    return best, best_plan, count


# Instances and claims.


def tiny_instance(rng: Random, max_plans: int) -> so.Instance:
    """Draw an instance with few plans, mostly one whose budget is below the peak."""
    while True:
        if rng.random() < 0.4:
            graph = chained_graph(rng, max_layers=2)
        else:
            graph = random_graph(rng, max_ops=rng.choice((5, 7, 9)))
        low = max(1, *graph.lifetimes.working_set_bytes)
        high = max(low, graph.unlimited_peak_bytes)
        middle = rng.randint(low, (low + high + 1) // 2)
        budget = rng.choice((low, low, middle, middle, rng.randint(low, high)))
        budget -= rng.random() < 0.05
        if budget < 1 or (budget >= high and rng.random() < 0.9):
            continue
        if not graph.lifetimes.candidates:
            continue
        device = random_device(rng, graph)
        instance = so.Instance.from_graph(graph, device=device, budget=budget)
        if 1 < prod(map(len, choices(instance).values())) <= max_plans:
            return instance


def random_options(rng: Random, method: str, time_limit: float) -> dict[str, Any]:
    """Draw the options of a solve."""
    options: dict[str, Any] = {
        "gap": rng.choice((0.0, 0.0, 1e-4, 0.01, 0.1)),
        "time_limit": rng.choice((0.05, time_limit, time_limit, time_limit)),
        "seed": rng.randrange(1000),
        "deterministic": rng.random() < 0.2,
        "identical_layers": rng.random() < 0.5,
    }
    if method in ("milp", "milp-schedule") and rng.random() < 0.25 and "cbc" in available_solvers():
        options["solver"] = "cbc"
    return options


def contradictions(
    instance: so.Instance, result: so.Result, best: int | None, gap: float
) -> Iterator[str]:
    """Yield what a result says against the truth, and against itself."""
    bound, makespan = result.lower_bound_ns, result.makespan_ns
    if bound is not None and best is not None and bound > best:
        yield f"bound {bound} above an accepted plan of {best}"
    if result.status == "infeasible" and best is not None:
        yield f"infeasible, and a plan of {best} runs"
    if result.status == "optimal" and (
        best is None or makespan is None or makespan > best * (1 + gap)
    ):
        yield f"optimal at {makespan}, and the best plan has {best}, with a gap of {gap}"
    if makespan is not None and (best is None or makespan < best):
        yield f"a plan of {makespan}, and the best of all plans has {best}"
    if result.status == "error":
        yield f"error: {result.reason}"
    if result.plan is not None:
        plan = simulate(instance, result.plan).plan  # with all triggers
        again = reference_simulate(instance, plan).makespan_ns
        if again != makespan:
            yield f"the second simulator prices the plan at {again}, and not {makespan}"
    try:
        so.verify(instance, result)
    except so.SlackoptError as error:
        yield f"refused by verify: {error}"


def attack(number: int, *, seed: int, time_limit: float, save: Path, max_plans: int) -> Findings:
    """Attack all methods on one instance."""
    rng = Random(f"attack {seed} {number}")
    instance = tiny_instance(rng, max_plans)
    found = Findings()
    begun = time.monotonic()
    best, best_plan, count = brute_force(instance)
    found.facts["plans simulated"] += count
    found.facts["seconds of brute force"] += round(time.monotonic() - begun)
    for name, fact in facts_of(instance, best).items():
        found.facts[name] += fact
    rule = rng.choice(sorted(heuristics()))
    for method in (*CLAIMING, rule):
        options = random_options(rng, method, time_limit)
        kind = method if method in CLAIMING else "a rule"
        try:
            result = so.solve(instance, method, **options)
        except Exception as error:
            wrong = [f"raised {error!r}"]
            if isinstance(error, so.InputError) and method not in CLAIMING:
                wrong = []  # a rule may refuse a graph that it is not made for
            found.statuses[kind, "refused" if not wrong else "error"] += 1
            result = None
        else:
            wrong = list(contradictions(instance, result, best, options["gap"]))
            found.statuses[kind, result.status] += 1
        if wrong:
            save.mkdir(parents=True, exist_ok=True)
            stem = save / f"seed-{seed}-{number}"
            records = {"": instance, f".{method}": result, ".best-plan": best_plan}
            for suffix, record in records.items():
                if record is not None:
                    Path(f"{stem}{suffix}.json").write_text(record.model_dump_json(indent=1))
            found.contradictions += [f"{stem}.json, {method}: {line}" for line in wrong]
    return found


def facts_of(instance: so.Instance, best: int | None) -> dict[str, bool]:
    """Return what an instance is like."""
    device, life = instance.device, instance.lifetimes
    return {
        "instances": True,
        "no plan runs": best is None,
        "optimum above the ideal": (best or 0) > instance.ideal_ns,
        "swap-outs in pieces": 0 < device.chunk_bytes < max(life.sizes_bytes),
        "shared link": not device.independent,
        "pieces on a shared link": device.chunk_bytes > 0 and not device.independent,
        "limited host memory": device.host_memory_bytes is not None,
        "latency": device.latency_ns > 0,
        "two speeds": device.d2h_bytes_per_s != device.h2d_bytes_per_s,
        "reruns need tensors without a backward use": bool(life.closure),
    }


def print_table(found: Findings) -> None:
    """Print the counts."""
    statuses = sorted({status for _, status in found.statuses})
    print("\n| method | solves |", " | ".join(statuses), "|")
    print("|---|---:|" + "---:|" * len(statuses))
    for method in (*CLAIMING, "a rule"):
        counts = [found.statuses[method, status] for status in statuses]
        print(f"| {method} | {sum(counts)} |", " | ".join(map(str, counts)), "|")
    print("\n| count | |\n|---|---:|")
    for name, count in found.facts.items():
        print(f"| {name} | {count} |")
    print(f"| solves | {found.statuses.total()} |")
    print(f"| contradictions | {len(found.contradictions)} |")


def main(arguments: list[str] | None = None) -> int:
    """Run and print; return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--solves", type=int, default=10_000, help="about; %(default)s by default")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--first", type=int, default=0, help="number of the first instance")
    parser.add_argument("--time-limit", type=float, default=5.0, help="seconds of most solves")
    parser.add_argument("--max-plans", type=int, default=MAX_PLANS, help="plans of an instance")
    parser.add_argument("--save", type=Path, default=Path("contradictions"))
    asked = parser.parse_args(arguments)
    numbers = range(asked.first, asked.first + -(-asked.solves // SOLVES))
    one = partial(
        attack,
        seed=asked.seed,
        time_limit=asked.time_limit,
        save=asked.save,
        max_plans=asked.max_plans,
    )
    found, begun = Findings(), time.monotonic()
    # Spawned, not forked: solvers have threads.
    with multiprocessing.get_context("spawn").Pool(asked.jobs) as pool:
        console = Console(stderr=True)
        outcomes = pool.imap_unordered(one, numbers)
        for outcome in track(outcomes, "attacking", len(numbers), console=console):
            for line in outcome.contradictions:
                print(line, flush=True)
            found.add(outcome)
    print_table(found)
    print(f"| seconds | {time.monotonic() - begun:.0f} |")
    return int(bool(found.contradictions))


if __name__ == "__main__":
    sys.exit(main())
