"""Time the simulator on steps of 1,256 to 100,000 ops and print a markdown table.

Usage: ``python benchmarks/simulator.py [--repeat N] [--json]``

The step is a chain of forward ops and the mirrored chain of backward ops, each backward op reading
the activation of its forward op. Of every 157 activations 100 are swapped, 50 recomputed and 7
kept, so that 1,256 ops have 400 swaps and 200 reruns. The budget is half of the unlimited peak and
swap-outs are as slow as on PCIe 4.0, so the plan stalls often. No prefetch trigger is given: the
default policy is part of the time. Instance and plan are made beforehand; the time is that of
`slackopt.simulate`, and of the same call with every number of the summary, stalls and memory curve
included. Each figure is the best of several runs.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Callable, Sequence
from typing import Any

import slackopt as so

SIZES = (1_256, 2_512, 5_000, 10_000, 25_000, 50_000, 100_000)
TARGETS_S = {1_256: 0.020, 100_000: 4.0}
MIB = 2**20


def chain(num_ops: int) -> so.Instance:
    """Return a step of `num_ops` ops (an even number) on an A100 with PCIe 4.0 at half its peak."""
    num_forward = num_ops // 2
    forward = [
        so.Op(
            name=f"op {i}",
            phase="forward",
            duration_ns=150_000 + 37_000 * (i * 7 % 11),
            inputs=(f"activation {i - 1}",) if i else ("batch",),
            outputs=(f"activation {i}",),
        )
        for i in range(num_forward)
    ]
    last = num_forward - 1
    backward = [
        so.Op(
            name=f"op {i}.backward",
            phase="backward",
            duration_ns=2 * forward[i].duration_ns,
            inputs=(*((f"gradient {i + 1}",) if i < last else ()), f"activation {i}"),
            outputs=(f"gradient {i}",),
            recomputable=False,
        )
        for i in range(last, -1, -1)
    ]
    tensors = [so.Tensor(name="batch", size_bytes=MIB, kind="input")]
    for i in range(num_forward):
        size = (8 + i * 5 % 13) * 2 * MIB
        tensors.append(so.Tensor(name=f"activation {i}", size_bytes=size))
        tensors.append(
            so.Tensor(name=f"gradient {i}", size_bytes=size, kind="gradient", swappable=False)
        )
    graph = so.Graph(name=f"chain-{num_ops}", ops=(*forward, *backward), tensors=tuple(tensors))
    return so.Instance.from_graph(graph, device="a100-pcie4", budget=0.25)


def mixed_plan(instance: so.Instance) -> so.Plan:
    """Return a plan with 100 swaps, 50 recomputes and 7 kept in every 157 activations."""
    decisions: dict[str, Any] = {}
    for i in range(len(instance.graph.ops) // 2 - 1):
        turn = i * 100 % 157  # spreads the decisions evenly
        if turn < 100:
            decisions[f"activation {i}"] = "swap"
        elif turn < 150:
            decisions[f"activation {i}"] = "recompute"
    return so.Plan.for_instance(instance, decisions)


def best_s(call: Callable[[], object], repeat: int) -> float:
    """Return the shortest of `repeat` runs in seconds."""
    times = []
    for _ in range(repeat):
        begin = time.process_time()
        call()
        times.append(time.process_time() - begin)
    return min(times)


def measure(num_ops: int, repeat: int) -> dict[str, Any]:
    """Time one size; return a row of the table."""
    instance = chain(num_ops)
    plan = mixed_plan(instance)
    timeline = so.simulate(instance, plan)
    if not timeline.feasible:
        raise SystemExit(timeline.explain())
    return {
        "ops": num_ops,
        "swaps": sum(copy.direction == "d2h" for copy in timeline.copies),
        "reruns": sum(job.rerun for job in timeline.jobs),
        "stalls": len(timeline.stalls),
        "throughput_ratio": timeline.throughput_ratio,
        "simulate_s": best_s(lambda: so.simulate(instance, plan), repeat),
        "summary_s": best_s(lambda: so.simulate(instance, plan).summary(), repeat),
        "target_s": TARGETS_S.get(num_ops),
    }


def growth(rows: Sequence[dict[str, Any]]) -> float:
    """Return the exponent p of time ~ ops**p between the first and the last row."""
    first, last = rows[0], rows[-1]
    return math.log(last["summary_s"] / first["summary_s"]) / math.log(last["ops"] / first["ops"])


def markdown(rows: Sequence[dict[str, Any]]) -> str:
    """Return the table."""
    lines = [
        "| ops | swaps | reruns | stalls | simulate (ms) | + summary (ms) | us per op | target |",
        "|---:|---:|---:|---:|---:|---:|---:|---|",
    ]
    for row in rows:
        target = row["target_s"]
        verdict = ""
        if target is not None:
            met = "met" if row["summary_s"] <= target else "MISSED"
            verdict = f"{1000 * target:,.0f} ms: {met}"
        lines.append(
            f"| {row['ops']:,} | {row['swaps']:,} | {row['reruns']:,} | {row['stalls']:,} "
            f"| {1000 * row['simulate_s']:,.1f} | {1000 * row['summary_s']:,.1f} "
            f"| {1e6 * row['summary_s'] / row['ops']:.1f} | {verdict} |"
        )
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description="Time the simulator.")
    parser.add_argument("--repeat", type=int, default=7, help="runs per figure, the best counts")
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="numbers of ops")
    parser.add_argument("--json", action="store_true", help="print JSON instead of the table")
    options = parser.parse_args(arguments)
    rows = []
    for num_ops in options.sizes:
        repeat = options.repeat if num_ops > 10_000 else 4 * options.repeat
        rows.append(measure(num_ops, repeat))
    if options.json:
        print(json.dumps(rows, indent=1))
        return
    print(markdown(rows))
    if len(rows) > 1:
        print(f"\nTime grows as ops to the power {growth(rows):.2f}; 1 is linear.")


if __name__ == "__main__":
    main()
