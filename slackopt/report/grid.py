"""A table of aligned text for the terminal, as quick for thousands of rows as for ten.

It looks like rich's tables, which take seconds for a thousand rows: they measure, wrap and pad
every cell with its style. Here a column is as wide as its widest cell, and only the last one may
wrap.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.segment import Segment
from rich.style import Style

_GAP = "  "
_NARROWEST = 24
"""Fewest signs of a column that wraps."""


@dataclass(frozen=True)
class Column:
    """One column: its header of one or more lines, and the side of its cells.

    Attributes
    ----------
    header
        Lines, from top to bottom; they stand at the bottom of the header.
    left
        Whether cells are aligned to the left, not to the right.
    """

    header: Sequence[str]
    left: bool = False


@dataclass(frozen=True)
class Grid:
    """A table of cells, printed by rich.

    Attributes
    ----------
    columns
        All columns.
    rows
        Cells, printable; a row may be followed by an empty line.
    ends
        Numbers of the rows that an empty line follows.
    wrap
        Whether the last column wraps at the width of the terminal.
    """

    columns: Sequence[Column]
    rows: Sequence[Sequence[str]]
    ends: frozenset[int] = frozenset()
    wrap: bool = False

    @property
    def needed_width(self) -> int:
        """Fewest cells that it needs: of all columns, but for one that wraps."""
        widths = self._widths()
        if self.wrap:
            widths[-1] = min(widths[-1], _NARROWEST)
        return sum(widths) + len(_GAP) * (len(widths) - 1)

    def _widths(self) -> list[int]:
        cells = zip(*self.rows, strict=True) if self.rows else ([] for _ in self.columns)
        return [
            max(map(_width, (*column.header, *found)), default=0)
            for column, found in zip(self.columns, cells, strict=True)
        ]

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        """Tell rich how wide it is."""
        return Measurement(self.needed_width, self.needed_width)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield its lines."""
        widths = self._widths()
        if self.wrap:
            rest = options.max_width - sum(widths[:-1]) - len(_GAP) * (len(widths) - 1)
            widths[-1] = max(min(widths[-1], rest), _NARROWEST)
        bold = Style(bold=True)
        for line in self._header(widths):
            yield Segment(line, bold)
            yield Segment.line()
        yield Segment("─" * (sum(widths) + len(_GAP) * (len(widths) - 1)))
        yield Segment.line()
        for i, row in enumerate(self.rows):
            for cells in self._wrapped(row, widths[-1]):
                yield Segment(self._line(cells, widths))
                yield Segment.line()
            if i in self.ends:
                yield Segment.line()

    def _header(self, widths: Sequence[int]) -> Iterable[str]:
        height = max((len(column.header) for column in self.columns), default=0)
        filled = [("",) * (height - len(c.header)) + tuple(c.header) for c in self.columns]
        return [self._line(cells, widths) for cells in zip(*filled, strict=True)]

    def _wrapped(self, row: Sequence[str], width: int) -> Iterable[Sequence[str]]:
        if not self.wrap or len(row[-1]) <= width:
            return [row]
        first, *more = textwrap.wrap(row[-1], width) or [""]
        return [(*row[:-1], first), *((*[""] * (len(row) - 1), line) for line in more)]

    def _line(self, cells: Sequence[str], widths: Sequence[int]) -> str:
        padded = []
        for cell, width, how in zip(cells, widths, self.columns, strict=True):
            # In signs: a sign of two cells has one of them in the padding already.
            signs = width - _width(cell) + len(cell)
            padded.append(cell.ljust(signs) if how.left else cell.rjust(signs))
        return _GAP.join(padded).rstrip()


def _width(text: str) -> int:
    return len(text) if text.isascii() else cell_len(text)
