"""What stored plans decide: by kind of tensor, by layer, and what their reruns do."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
from study_results import RESULTS, instance_of, plan_of

from slackopt import Instance, Plan
from slackopt.lifetimes import ABSENT
from slackopt.simulation.evaluator import Evaluator
from slackopt.simulation.sequence import KEEP, RECOMPUTE, SWAP, compute_sequence

QUARTERS = ("first", "second", "third", "last")
_WORDS = {KEEP: "keep", SWAP: "swap", RECOMPUTE: "recompute"}


def kind_of(name: str) -> str:
    """Return the kind of a tensor: its name without its layer and block, as in ``gelu.out``."""
    last = name.rsplit("/", 1)[-1]
    return "qkv" if last.startswith("qkv.") else last


def decisions_table(rows: pd.DataFrame, results: Path = RESULTS) -> pd.DataFrame:
    """Return one row for each plan and candidate of a layer with a number.

    Columns: ``instance``, ``base``, ``budget``, ``method``, ``kind``, ``quarter`` (of the layers,
    in forward order), ``decision``, ``size_bytes``. A candidate that can neither be swapped nor
    recomputed is no decision, and left out.
    """
    found = [
        {
            "instance": row["instance"],
            "base": row["base"],
            "budget": row["budget"],
            "method": row["method"],
            **cell,
        }
        for _, row in rows.iterrows()
        for cell in _cells(instance_of(row), plan_of(row, results))
    ]
    return pd.DataFrame(found)


def _cells(instance: Instance, plan: Plan) -> Iterator[dict[str, object]]:
    life, graph = instance.lifetimes, instance.graph
    numbers = {
        label: int(number[1])
        for label in {op.layer for op in graph.ops}
        if label and (number := re.fullmatch(r"\D*(\d+)\D*", label))
    }
    count = max(numbers.values(), default=0) + 1
    for t in life.candidates:
        tensor, producer = graph.tensors[t], life.producer[t]
        layer = numbers.get(graph.ops[producer].layer or "") if producer != ABSENT else None
        if layer is None or not (life.swappable[t] or life.can_recompute(t)):
            continue
        yield {
            "kind": kind_of(tensor.name),
            "quarter": QUARTERS[4 * layer // count],
            "decision": plan.decisions.get(tensor.name, "keep"),
            "size_bytes": life.sizes_bytes[t],
        }


def reruns_table(rows: pd.DataFrame, results: Path = RESULTS) -> pd.DataFrame:
    """Return one row a plan: what it reruns and moves.

    ``reruns`` counts reruns and ``early`` those that run before any op of the backward pass itself
    needs what they bring back, because the rerun of a reader needs it. ``remade_bytes`` are
    candidates that were kept or swapped although a rerun makes them again.
    """
    return pd.DataFrame(
        [
            {
                "instance": row["instance"],
                "base": row["base"],
                "budget": row["budget"],
                "method": row["method"],
                **_reruns(instance_of(row), plan_of(row, results)),
            }
            for _, row in rows.iterrows()
        ]
    )


def _reruns(instance: Instance, plan: Plan) -> dict[str, object]:
    life = instance.lifetimes
    codes = Evaluator(instance).decisions(plan)
    sequence = compute_sequence(life, codes)
    early = total = remade = 0
    for op, rerun, slot in zip(sequence.ops, sequence.reruns, sequence.slots, strict=True):
        if not rerun:
            continue
        total += 1
        needs = [
            life.first_backward_use[t]
            for t in life.outputs[op]
            if codes[t] == RECOMPUTE and life.first_backward_use[t] != ABSENT
        ]
        early += bool(needs) and slot < min(needs)
        remade += sum(
            life.sizes_bytes[t]
            for t in life.outputs[op]
            if codes[t] != RECOMPUTE and life.is_candidate(t) and life.can_recompute(t)
        )
    swapped = [t for t in range(life.num_tensors) if codes[t] == SWAP]
    return {
        "reruns": total,
        "early": early,
        "remade_bytes": remade,
        "swaps": len(swapped),
        "swapped_bytes": sum(life.sizes_bytes[t] for t in swapped),
        "budget_bytes": instance.budget_bytes,
        "ideal_ns": instance.ideal_ns,
        "rerun_ns": sum(
            life.durations_ns[op]
            for op, rerun in zip(sequence.ops, sequence.reruns, strict=True)
            if rerun
        ),
    }
