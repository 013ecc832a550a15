"""How the steps of building grow with the size of the instance.

    python benchmarks/growth.py

Random graphs of two families and a transformer, at sizes that double; the processor's time of each
step. An *exponent* of p says that the last doubling took 2^p times as long: 1 is linear, and
n log n is about 1.1 at these sizes.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from math import log2
from typing import TypeVar

import numpy as np

from slackopt import Instance, profiles
from slackopt.formulations.memory_separation import memory_violations
from slackopt.formulations.row_bound import single_row_bound
from slackopt.formulations.swap_order import SwapOrder
from slackopt.formulations.window import MemoryKey, WindowFormulation
from slackopt.graph import Graph
from slackopt.profiles.random_graphs import random_graph
from slackopt.simulation.evaluator import Evaluator
from slackopt.simulation.sequence import KEEP, SWAP
from slackopt.solvers.window_lp import WindowLp

T = TypeVar("T")

FAMILIES: dict[str, Callable[[int], Graph]] = {
    "series-parallel": lambda n: random_graph("series-parallel", seed=302, num_forward_ops=n // 2),
    "layered": lambda n: random_graph("layered", seed=301, num_forward_ops=n // 2, width=8),
    "transformer": lambda n: profiles.transformer("gpt2-xl", batch=1, num_layers=n // 24),
}


def steps(graph: Graph) -> dict[str, float]:
    """Return the seconds that each step takes."""
    instance = Instance.from_graph(graph, device="a100-pcie4", budget=0.6)
    life = instance.lifetimes
    found: dict[str, float] = {}

    def timed(name: str, work: Callable[[], T]) -> T:
        begun = time.process_time()
        result = work()
        found[name] = time.process_time() - begun
        return result

    window = timed("columns", lambda: WindowFormulation(instance))
    timed("static rows", window.static_rows)
    middle = life.num_ops // 2
    timed("a row", lambda: window.memory_row(MemoryKey(middle, False, 0, life.num_ops - 1)))
    x = np.zeros(len(window.columns))
    x[list(window.swap.values())] = 1.0
    timed("separation", lambda: memory_violations(window, x))
    timed("row bound", lambda: single_row_bound(window))
    timed("LP", lambda: WindowLp(window))
    timed("swap order", lambda: SwapOrder(window))
    evaluator = Evaluator(instance)
    swaps = [KEEP] * life.num_tensors
    for t in life.candidates:
        swaps[t] = SWAP if life.swappable[t] else KEEP
    timed("simulation", lambda: evaluator.simulate(swaps))
    return found


def main() -> None:
    """Print a table per family."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", default="2500,5000,10000,20000", help="ops, with commas")
    sizes = [int(size) for size in parser.parse_args().sizes.split(",")]
    print("| family | step |", *(f"{n:,} ops |" for n in sizes), "exponent |")
    print("|---|---|" + "---:|" * (len(sizes) + 1))
    for family, make in FAMILIES.items():
        rows = [steps(make(n)) for n in sizes]
        for step in rows[0]:
            seconds = [row[step] for row in rows]
            exponent = log2(max(seconds[-1], 1e-6) / max(seconds[-2], 1e-6))
            cells = (f"{s:.3f} |" for s in seconds)
            print(f"| {family} | {step} |", *cells, f"{exponent:.1f} |", flush=True)


if __name__ == "__main__":
    main()
