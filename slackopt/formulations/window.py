"""The transfer-slack window formulation: a bound for every plan from rows over decisions.

Notation (docs/formulations.md has the proofs). In slot ``k``, in this order: stalls ``e_k`` and
reruns, in any order, then base op ``k`` for ``d_k``. ``A_k`` is when op ``k-1`` has ended, ``S_k``
when base op ``k`` starts. One module each has

=================  ===================================================================
columns            the columns and the objective: `slackopt.formulations.columns`
static rows        choices, reruns, round trips: `slackopt.formulations.static_rows`
``memory[...]``    device memory and transfer windows: `slackopt.formulations.memory_rows`
``rerun_memory``   memory while an op is rerun: `slackopt.formulations.rerun_memory_rows`
``chain_memory``   memory after chains of reruns: `slackopt.formulations.chain_memory_rows`
``host[...]``      host memory: `slackopt.formulations.host_rows`
``shared_link``    both directions at once: `slackopt.formulations.shared_link_rows`
=================  ===================================================================

Static rows are few and always present, the others are separated lazily
(`slackopt.formulations.separation`). All rows are exact integers.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from slackopt.formulations.chain_memory_rows import chain_row, read_chain_key
from slackopt.formulations.columns import (
    UNITS_PER_BYTE,
    WindowColumns,
    counts_bytes,
    default_thresholds,
)
from slackopt.formulations.host_rows import host_row, read_host_key
from slackopt.formulations.linear import Row
from slackopt.formulations.memory_rows import MemoryKey, memory_row, read_memory_key
from slackopt.formulations.rerun_memory_rows import read_rerun_key, rerun_row
from slackopt.formulations.residents import add_residents
from slackopt.formulations.shared_link_rows import read_shared_link_key, shared_link_row
from slackopt.formulations.static_rows import static_rows
from slackopt.formulations.swapped_sources import add_swapped_sources
from slackopt.instance import Instance

__all__ = [
    "UNITS_PER_BYTE",
    "MemoryKey",
    "WindowFormulation",
    "counts_bytes",
    "default_thresholds",
    "is_lazy",
]

LAZY_KINDS = ("memory", "rerun_memory", "chain_memory", "host", "shared_link")


def is_lazy(row: Row) -> bool:
    """Whether a row is one of those that are separated, and holds for every plan."""
    return row.name.partition("[")[0] in LAZY_KINDS


class WindowFormulation(WindowColumns):
    """Columns and rows of one instance; see `WindowColumns` for parameters and attributes."""

    def __init__(self, instance: Instance, thresholds: Sequence[int] | None = None) -> None:
        super().__init__(instance, thresholds)
        if instance.device.host_memory_bytes is not None:
            add_swapped_sources(self)
        add_residents(self)
        self.add_stalls()

    def static_rows(self) -> list[Row]:
        """All rows that are always present."""
        return list(self._static_by_name.values())

    def memory_row(self, key: MemoryKey) -> Row:
        """Build one memory row."""
        return memory_row(self, key)

    def row(self, name: str) -> Row:
        """Build a row from its name: what a bound certificate refers to.

        Raises
        ------
        KeyError, ValueError
            If there is no such row.
        """
        kind, _, arguments = name.rstrip("]").partition("[")
        parts = arguments.split(",")
        if kind == "memory":
            return memory_row(self, read_memory_key(self, parts))
        if kind == "rerun_memory":
            return rerun_row(self, read_rerun_key(self, parts))
        if kind == "chain_memory":
            return chain_row(self, read_chain_key(self, parts))
        if kind == "host":
            return host_row(self, read_host_key(self, parts))
        if kind == "shared_link":
            return shared_link_row(self, read_shared_link_key(self, parts))
        return self._static_by_name[name]

    @cached_property
    def _static_by_name(self) -> dict[str, Row]:
        return {row.name: row for row in static_rows(self)}
