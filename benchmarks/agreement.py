"""Check on random tiny instances that the exact methods agree, and print counts.

Usage: ``python benchmarks/agreement.py [--instances N] [--seed S] [--chunks] [--save FOLDER]``

Each instance has up to 8 candidates; the generators are those of the tests (branching graphs,
ops with several outputs, ops and tensors that can't be recomputed or swapped, latency, limited host
memory, links with and without sharing; with ``--chunks``, swap-outs that free memory in pieces on
half of them), with three budgets for each graph. On each,

- ``enumerate``, ``milp-schedule`` and ``cpsat-schedule`` have the same optimum, or none has a plan;
- the bound of the window LP is at most the optimum;
- the plans of the heuristics and random ones are at or above it;
- on every ``--window-every``-th instance, ``milp``, ``cpsat`` and ``exact`` (whose plans come from
  safe rows) have plans at or above it, and bounds at or below it.

An instance on which something else happens is written to FOLDER, and the exit code is 1. A method
that did not finish within ``--time-limit`` seconds is counted, and its bound and plan are checked.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random

import slackopt as so
from slackopt.formulations.window import WindowFormulation
from slackopt.heuristics import NoPlanError, heuristics
from slackopt.heuristics.registry import option_names
from slackopt.progress import Progress
from slackopt.simulation import simulate
from slackopt.solvers.cpsat_schedule import solve_cpsat_schedule
from slackopt.solvers.enumerate import count_decision_vectors, solve_by_enumeration
from slackopt.solvers.milp_schedule import solve_milp_schedule
from slackopt.solvers.options import SolveOptions
from slackopt.solvers.pulp_process import PulpProcess
from slackopt.solvers.pulp_solvers import pulp_name
from slackopt.solvers.schedule_loop import CUT_OFF
from slackopt.solvers.window_lp import WindowLp

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
from random_steps import chained_graph, random_device, random_graph, random_plan

MAX_CANDIDATES = 8
MAX_DECISION_VECTORS = 20_000
BUDGETS = 3
SEARCH_EVALUATIONS = 300
WINDOW_METHODS = ("milp", "cpsat", "exact")


def tiny_instances(seed: int, *, chunks: bool) -> Iterator[so.Instance]:
    """Yield random instances with 1 to 8 candidates, without end."""
    rng = Random(seed)
    while True:
        if rng.random() < 0.5:
            graph = chained_graph(rng, max_layers=3)
        else:
            graph = random_graph(rng, max_ops=14)
        device = random_device(rng, graph)
        device = device if chunks else device.with_chunks(0)
        low = max(1, *graph.lifetimes.working_set_bytes)
        high = max(low, graph.unlimited_peak_bytes)
        budgets = {low, rng.randint(low, high), rng.randint(low, (low + high + 1) // 2)}
        for budget in sorted(budgets)[:BUDGETS]:
            instance = so.Instance.from_graph(graph, device=device, budget=budget)
            if not 1 <= len(graph.lifetimes.candidates) <= MAX_CANDIDATES:
                break
            if count_decision_vectors(instance) > MAX_DECISION_VECTORS:
                break
            yield instance


class Agreement:
    """Runs all methods on instances and counts.

    Parameters
    ----------
    time_limit
        Seconds for each method.
    window_every
        Run the methods of the window formulation on every so many instances; 0 for never.
    """

    def __init__(self, time_limit: float, window_every: int) -> None:
        self.time_limit = time_limit
        self.window_every = window_every
        self.process = PulpProcess(pulp_name("highs"))
        self.counts: Counter[str] = Counter()
        self.seconds: Counter[str] = Counter()

    def check(self, instance: so.Instance, rng: Random) -> list[str]:
        """Return every disagreement on one instance, in words."""
        options = SolveOptions(time_limit=self.time_limit, gap=0.0)
        runs: dict[str, Progress] = {}
        for name in ("enumerate", "cpsat-schedule", "milp-schedule"):
            progress = Progress(instance, name, time_limit=self.time_limit, gap=0.0)
            begun = time.monotonic()
            if name == "enumerate":
                why = solve_by_enumeration(instance, progress, options)
            elif name == "cpsat-schedule":
                why = solve_cpsat_schedule(instance, progress, options)
            else:
                why = solve_milp_schedule(instance, progress, options, process=self.process)
            self.seconds[name] += time.monotonic() - begun
            self.counts[f"{name}: {why}"] += 1
            runs[name] = progress
        truth = runs["enumerate"]
        self._count(instance, runs)
        if not (truth.infeasible or truth.makespan_ns == truth.lower_bound_ns):
            return []
        best = truth.makespan_ns
        wrong = []
        for name, progress in runs.items():
            if progress.conflict or any("ended with" in note for note in progress.notes):
                wrong.append(f"{name}: {progress.notes[-1]}")
            wrong += _contradictions(name, progress.makespan_ns, progress.lower_bound_ns, best)
            if progress.infeasible and best is not None:
                wrong.append(f"{name}: infeasible, and the optimum is {best}")
        bound = WindowLp(WindowFormulation(instance)).solve().lower_bound_ns
        wrong += _contradictions("window LP", None, bound, best)
        self.counts["window LP bound is the optimum"] += bound == best
        for name, rule in heuristics().items():
            try:
                limited = "max_evaluations" in option_names(rule)
                few = {"max_evaluations": SEARCH_EVALUATIONS} if limited else {}
                makespan = simulate(instance, rule(instance, **few)).makespan_ns
            except (NoPlanError, so.InputError):
                continue
            wrong += _contradictions(name, makespan, None, best)
        for _ in range(5):
            makespan = simulate(instance, random_plan(rng, instance)).makespan_ns
            wrong += _contradictions("random plan", makespan, None, best)
        if self.window_every and self.counts["instances"] % self.window_every == 0:
            for name in WINDOW_METHODS:
                result = so.solve(instance, name, time_limit=2.0, gap=0.0)
                self.counts[f"{name} runs"] += 1
                self.counts[f"{name} runs that end at the optimum"] += result.makespan_ns == best
                wrong += _contradictions(name, result.makespan_ns, result.lower_bound_ns, best)
        return wrong

    def _count(self, instance: so.Instance, runs: dict[str, Progress]) -> None:
        life, device, truth = instance.lifetimes, instance.device, runs["enumerate"]
        facts = {
            "instances": True,
            "infeasible": truth.infeasible,
            "optimum above the ideal": (truth.makespan_ns or 0) > instance.ideal_ns,
            "shared link": not device.independent,
            "latency": device.latency_ns > 0,
            "swap-outs in pieces": 0 < device.chunk_bytes < max(life.sizes_bytes),
            "limited host memory": device.host_memory_bytes is not None,
            "reruns need tensors without a backward use": bool(life.closure),
            "ops with several outputs": max(map(len, life.outputs)) > 1,
            "some op can't be recomputed": not all(life.recomputable),
            "some tensor can't be swapped": not all(life.swappable),
            "8 candidates": len(life.candidates) == MAX_CANDIDATES,
            "all three agree on the optimum": len({p.makespan_ns for p in runs.values()}) == 1
            and all(p.infeasible or p.makespan_ns == p.lower_bound_ns for p in runs.values()),
        }
        for name, fact in facts.items():
            self.counts[name] += fact
        for name in ("cpsat-schedule", "milp-schedule"):
            cuts = sum(int(n.split()[0]) for n in runs[name].notes if n.endswith(CUT_OFF))
            self.counts[f"{name}: decision vectors cut off"] += cuts
            most = f"{name}: decision vectors cut off, at most"
            self.counts[most] = max(self.counts[most], cuts)


def _contradictions(
    name: str, makespan: int | None, bound: int | None, best: int | None
) -> Iterator[str]:
    if makespan is not None and (best is None or makespan < best):
        yield f"{name}: plan of {makespan}, and the optimum is {best}"
    if bound is not None and best is not None and bound > best:
        yield f"{name}: bound of {bound}, and the optimum is {best}"


def main() -> int:
    """Run and print; return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--instances", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--chunks", action="store_true")
    parser.add_argument("--save", type=Path, default=Path("disagreements"))
    parser.add_argument("--time-limit", type=float, default=20.0)
    parser.add_argument("--window-every", type=int, default=50)
    arguments = parser.parse_args()
    agreement = Agreement(arguments.time_limit, arguments.window_every)
    rng = Random(arguments.seed + 1)
    failed = 0
    begun = time.monotonic()
    for i, instance in enumerate(tiny_instances(arguments.seed, chunks=arguments.chunks)):
        if i == arguments.instances:
            break
        wrong = agreement.check(instance, rng)
        if wrong:
            failed += 1
            arguments.save.mkdir(parents=True, exist_ok=True)
            path = arguments.save / f"seed-{arguments.seed}-{i}.json"
            path.write_text(instance.model_dump_json(indent=1))
            print(f"instance {i}, saved to {path}:", *wrong, sep="\n  ", flush=True)
        if (i + 1) % 100 == 0:
            print(f"{i + 1} instances, {time.monotonic() - begun:.0f} s", flush=True)
    agreement.process.close()
    print("\n| count | |\n|---|---:|")
    for name, count in agreement.counts.items():
        print(f"| {name} | {count} |")
    for name, seconds in agreement.seconds.items():
        print(f"| {name}: seconds in all | {seconds:.1f} |")
    print(f"| disagreements | {failed} |")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
