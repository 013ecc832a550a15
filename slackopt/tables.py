"""Tables for the terminal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from rich import box
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from slackopt.compare import ComparisonRow
from slackopt.naming import distinct_names
from slackopt.published import SLACKSWAP_SOURCE

_NUMBERS = (
    "ratio\n%",
    "paper\n%",
    "re-\ncompute\nms",
    "stalls\nms",
    "swapped\nGiB",
    "re-\ncomputed\nGiB",
    "LB\nms",
    "gap\n%",
    "to\nbest\n%",
    "time\ns",
)
_LEGEND = """\
ratio: throughput ratio = ideal / makespan, and makespan = ideal + recompute + stalls
LB: lower bound that this method proved
gap: certified gap, (makespan - LB) / LB; for a rule, to the best LB that any method here proved
to best: (makespan - best) / best; the optimality gap of a rule lies between `to best` and `gap`
"""


def comparison_view(rows: Sequence[ComparisonRow]) -> RenderableType:
    """Render a comparison: one row a method, a rule between instances, a legend, reasons.

    Readable at 120 columns; units stand in the headers, a dash is unknown.
    """
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0), pad_edge=False)
    table.add_column("instance", vertical="bottom", no_wrap=True)
    table.add_column("method", vertical="bottom", no_wrap=True)
    for header in _NUMBERS:
        table.add_column(header, justify="right", vertical="bottom", no_wrap=True)
    reasons: list[str] = []
    names = distinct_names((row.result.instance, row.result.instance_sha256, None) for row in rows)
    for i, row in enumerate(rows):
        result = row.result
        name = names[result.instance_sha256]
        last = i + 1 == len(rows) or rows[i + 1].result.instance_sha256 != result.instance_sha256
        if row.reason is not None:
            status = result.status.replace("_", " ")
            reasons.append(f"{name}, {result.method}: {status}: {row.reason}")
        table.add_row(
            Text(printable(name)),
            Text(printable(result.method)),
            *(Text(cell) for cell in _cells(row)),
            end_section=last,
        )
    legend = _LEGEND.splitlines()
    if any(row.paper_ratio is not None for row in rows):
        legend.append(f"paper: ratio published by {SLACKSWAP_SOURCE}, from profiles of its own")
    notes = [Text(reason, style="red") for reason in dict.fromkeys(map(printable, reasons))]
    return Group(table, Text(), *notes, *(Text(line, style="dim") for line in legend))


def facts_view(title: str, facts: Mapping[str, str]) -> RenderableType:
    """Render facts as two aligned columns below a title."""
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(style="cyan", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in facts.items():
        grid.add_row(Text(name), Text(printable(value)))
    return Group(Text(printable(title), style="bold"), Padding(grid, (0, 0, 0, 2), expand=False))


def list_view(headers: Sequence[str], rows: Iterable[Sequence[str]]) -> RenderableType:
    """Render rows of text below headers."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 2, 0, 0), pad_edge=False)
    for header in headers:
        table.add_column(header, overflow="fold")
    for row in rows:
        table.add_row(*(Text(printable(cell)) for cell in row))
    return table


def printable(text: str) -> str:
    """Replace control characters of a name, which could steer a terminal, by escapes."""
    if text.isprintable():  # nearly always, and a hundred times as fast
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def printable_lines(text: str) -> str:
    """Do the same to text of several lines, which stay lines."""
    return "\n".join(map(printable, text.split("\n")))


def _cells(row: ComparisonRow) -> list[str]:
    result = row.result
    gap = row.gap_to_bound if result.gap is None else result.gap
    ratio = result.throughput_ratio
    return [
        "no plan" if ratio is None else f"{100 * ratio:.3f}",
        _number(row.paper_ratio, 1, 100),
        _number(result.recompute_ns, 3, 1e-6),
        _number(result.stall_ns, 3, 1e-6),
        _number(result.swapped_bytes, 3, 1 / 2**30),
        _number(result.recomputed_bytes, 3, 1 / 2**30),
        _number(result.lower_bound_ns, 3, 1e-6),
        _number(gap, 4, 100),
        _number(row.gap_to_best, 4, 100),
        _number(result.wall_s, 2, 1),
    ]


def _number(value: float | None, digits: int, scale: float) -> str:
    return "-" if value is None else f"{value * scale:.{digits}f}"
