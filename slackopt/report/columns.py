"""How the columns of the tables are shown: header, unit, digits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pandas as pd

UNKNOWN = "-"
INFEASIBLE = "infeasible"
"""Stands for the makespan where a method proved that no plan exists."""


@dataclass(frozen=True)
class Shown:
    """How one column is shown.

    Attributes
    ----------
    header
        What it is, in a word.
    unit
        Unit after scaling, or empty.
    scale
        Factor to that unit.
    digits
        Digits behind the point; None for text and whole numbers. They are the same in the whole
        column, so that points stand below each other where cells are aligned to the right.
    """

    header: str
    unit: str = ""
    scale: float = 1.0
    digits: int | None = None

    @property
    def is_text(self) -> bool:
        """Whether the column is aligned to the left."""
        return self.header in ("method", "instance", "device", "outcome", "reason", "run")


METHODS: Mapping[str, Shown] = {
    "method": Shown("method"),
    "instances": Shown("inst."),
    "runs": Shown("runs"),
    "failed": Shown("failed"),
    "with_plan": Shown("plans"),
    "proved": Shown("proved"),
    "best": Shown("best"),
    "throughput_ratio": Shown("ratio", "%", 100, 3),
    "gap": Shown("gap", "%", 100, 4),
    "gap_to_bound": Shown("to LB", "%", 100, 3),
    "gap_to_bound_p90": Shown("to LB, 90th", "%", 100, 3),
    "gap_to_bound_max": Shown("to LB, max", "%", 100, 3),
    "time_s": Shown("time", "s", 1, 2),
    "time_max_s": Shown("time, max", "s", 1, 2),
}
METHODS_LEGEND = (
    "inst.: instances; plans: runs with a plan; proved: runs that prove it optimal or infeasible",
    "best: runs whose plan no method beats",
    "ratio: geometric mean of the throughput ratio ideal / makespan, over runs with a plan",
    "gap: median certified gap, (makespan - LB) / LB with the LB of the run itself",
    "to LB: the same to the best LB of all methods: median, 90th percentile, largest",
    "time: shifted geometric mean (shift 1 s) over all runs, and the longest",
)

INSTANCES: Mapping[str, Shown] = {
    "instance": Shown("instance"),
    "device": Shown("device"),
    "budget_share": Shown("budget", "%", 100, 1),
    "method": Shown("method"),
    "runs": Shown("runs"),
    "with_plan": Shown("plans"),
    "makespan_ns": Shown("makespan", "ms", 1e-6, 3),
    "throughput_ratio": Shown("ratio", "%", 100, 3),
    "lower_bound_ns": Shown("LB", "ms", 1e-6, 3),
    "gap": Shown("gap", "%", 100, 4),
    "gap_to_bound": Shown("to LB", "%", 100, 4),
    "gap_to_best": Shown("to best", "%", 100, 4),
    "time_s": Shown("time", "s", 1, 2),
}
INSTANCES_LEGEND = (
    "budget: of the unlimited peak; ratio: throughput ratio ideal / makespan",
    "LB: lower bound that the method proved; gap: certified gap, (makespan - LB) / LB",
    "to LB: (makespan - best LB of all methods) / that LB; to best: to the fastest plan",
    "several runs (seeds) of a method: best makespan and LB, medians of the rest",
)

FAILURES: Mapping[str, Shown] = {
    "instance": Shown("instance"),
    "method": Shown("method"),
    "seed": Shown("seed"),
    "outcome": Shown("outcome"),
    "reason": Shown("reason"),
}


def shown_table(
    table: pd.DataFrame, columns: Mapping[str, Shown]
) -> tuple[dict[str, Shown], pd.DataFrame]:
    """Return the columns worth showing, and all their cells as text.

    Of a table of instances, the device is shown only if there are several, and the counts of
    runs only if a method ran more than once.
    """
    dropped: set[str] = set()
    if columns is INSTANCES:
        if table["device"].nunique(dropna=False) <= 1:
            dropped.add("device")
        if table["runs"].max() <= 1:
            dropped |= {"runs", "with_plan"}
    kept = {name: how for name, how in columns.items() if name not in dropped}
    cells = {name: [_cell(value, how) for value in table[name]] for name, how in kept.items()}
    if columns is INSTANCES:
        refuted = (table["proved"] > 0) & (table["with_plan"] == 0)
        cells["makespan_ns"] = [
            INFEASIBLE if proof else cell
            for proof, cell in zip(refuted, cells["makespan_ns"], strict=True)
        ]
    return kept, pd.DataFrame(cells, dtype="object")


def _cell(value: object, how: Shown) -> str:
    if pd.isna(value):  # type: ignore[call-overload]
        return UNKNOWN
    if how.digits is None:
        return str(value)
    return f"{float(value) * how.scale:.{how.digits}f}"  # type: ignore[arg-type]
