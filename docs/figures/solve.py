"""Solve what the figures of docs/plotting.md show, and store it under docs/figures/data/.

Usage: ``python docs/figures/solve.py [budgets] [speeds] [methods] [runs]``; all by default.

The exact methods run for a limited time, so another machine may find other plans and bounds; each
row carries its certified gap. Drawing (docs/figures/make.py) reads the stored files.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pandas as pd

import slackopt as so
from slackopt.analysis.sweep import Allowed, Variant, sweep

DATA = Path(__file__).resolve().parent / "data"
INSTANCES = Path(__file__).resolve().parents[2] / "instances" / "slackswap"
RULES = (
    *("slackswap", "slackswap-timeline", "capuchin", "mu-two", "teraio", "dtr"),
    *("layer-checkpoint", "knapsack"),
)
GAP = 1e-3
WAYS: tuple[tuple[tuple[Allowed, ...], float], ...] = (
    (("both", "recompute"), GAP),
    # Swap alone seldom closes its gap, and is far from the others wherever it matters.
    (("swap",), 0.1),
)


def budgets() -> None:
    """BERT-Large over the budget: both ways, recompute only, swap only."""
    shares = ["0.2", "0.25", "0.3", "0.35", "0.4", "0.5", "0.6", "0.7", "0.8", "0.9", "1.0"]
    frames = [
        sweep(
            instance("bert-large-eager"),
            budgets=shares,
            allowed=ways,
            time_limit=60,
            gap=gap,
            on_result=tell,
        )
        for ways, gap in WAYS
    ]
    store(pd.concat(frames), "budgets")


def speeds() -> None:
    """BERT-Large over the speeds of link and compute: both ways, recompute only, swap only."""
    factors = ["0.25", "0.5", "1", "2", "4"]
    frames = [
        sweep(
            instance("bert-large-eager"),
            bandwidth_factors=[*factors, "8", "16"],
            compute_factors=factors,
            allowed=ways,
            time_limit=60,
            gap=gap,
            on_result=tell,
        )
        for ways, gap in WAYS
    ]
    store(pd.concat(frames), "speeds")


def methods() -> None:
    """Three models at six budgets: rules against an exact method."""
    frames = [
        sweep(
            instance(name),
            budgets=["0.3", "0.4", "0.5", "0.6", "0.7", "0.8"],
            methods=["milp", *RULES],
            time_limit=40,
            gap=GAP,
            on_result=tell,
        )
        for name in ("bert-large-eager", "gpt2-xl-flash", "llama-7b-eager")
    ]
    store(pd.concat(frames), "methods")


def runs() -> None:
    """GPT-2 XL: how incumbent and bound of two exact methods move."""
    for method in ("milp", "cpsat"):
        result = so.solve(instance("gpt2-xl-flash"), method, time_limit=30)
        print(result)
        # The figure needs neither plan nor certificate, which are most of the file, and no facts
        # about the machine; the versions of solver and slackopt stay.
        left_out = {"plan": None, "bound_certificate": None, "environment": {}}
        slim = result.model_copy(update=left_out)
        so.write_record(slim, DATA / f"run-{method}.json")


def instance(name: str) -> so.Instance:
    return so.read_instance(INSTANCES / f"{name}.json")


def tell(question: Variant, result: so.Result) -> None:
    share, link = question.budget_share, question.bandwidth_factor
    print(f"{question.allowed}, budget {share:.0%}, link x{link:g}: {result}", flush=True)


def store(frame: pd.DataFrame, name: str) -> None:
    """Write a frame without what no figure reads."""
    failed = frame[frame["status"] == "error"]
    if len(failed):
        raise SystemExit(f"{name}: {len(failed)} runs failed: {failed['reason'].iloc[0]}")
    left_out = ["trajectory", "threads", "seed", "stopped_by", "reason"]
    frame.drop(columns=left_out).to_csv(DATA / f"{name}.csv", index=False, lineterminator="\n")


PARTS = {part.__name__: part for part in (budgets, speeds, methods, runs)}

if __name__ == "__main__":
    unknown = set(sys.argv[1:]) - set(PARTS)
    if unknown:
        raise SystemExit(f"unknown: {', '.join(sorted(unknown))}; choose from: {', '.join(PARTS)}")
    DATA.mkdir(exist_ok=True)
    for part in sys.argv[1:] or PARTS:
        PARTS[part]()
