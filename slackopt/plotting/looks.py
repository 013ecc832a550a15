"""What things look like in every figure: decisions by colour and hatch, methods by line.

Colours are of the Okabe-Ito palette (M. Okabe and K. Ito, Color Universal Design, 2008), which
colour-blind readers can tell apart. In print without colour, areas differ by lightness or hatch,
lines by their pattern and marker.
"""

from __future__ import annotations

from collections.abc import Iterable
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from cycler import Cycler, cycler

BLACK: Final = "#000000"
ORANGE: Final = "#E69F00"
SKY: Final = "#56B4E9"
GREEN: Final = "#009E73"
BLUE: Final = "#0072B2"
VERMILION: Final = "#D55E00"
PURPLE: Final = "#CC79A7"

_COLORS = (BLUE, VERMILION, GREEN, BLACK, PURPLE, ORANGE, SKY)  # yellow is too light for a line
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
_PATTERNS: tuple[Any, ...] = ("-", "--", "-.", (0, (1, 1.2)), (0, (5, 1, 1, 1, 1, 1)))

CYCLE: Cycler[str, str] = cycler(color=list(_COLORS))
"""The palette as a property cycle, for what users draw beside our figures."""


class AreaLook(NamedTuple):
    """How an area is drawn: fill, hatch, and the colour of the hatch."""

    label: str
    face: str
    hatch: str | None = None
    ink: str = "white"


class LineLook(NamedTuple):
    """How a line is drawn; the fields are keyword arguments of `matplotlib.axes.Axes.plot`."""

    color: str
    linestyle: Any
    marker: str


KEEP: Final = AreaLook("keep", "#E3E3E3")
SWAP: Final = AreaLook("swap", GREEN)
RECOMPUTE: Final = AreaLook("recompute", ORANGE, "////", "#6B4A00")
BOTH: Final = AreaLook("both", "#BFD9EE", "....", BLUE)

DECISIONS: Final = MappingProxyType({"keep": KEEP, "swap": SWAP, "recompute": RECOMPUTE})
"""The looks of the three decisions, by their names in a plan."""

ALLOWED_NAMES: Final = MappingProxyType(
    {
        "both": "swap and recompute",
        "recompute": "recompute only",
        "swap": "swap only",
    }
)
"""What the words of the column ``allowed`` are called in a legend."""


ALLOWED_LOOKS: Final = MappingProxyType(
    {
        "both": LineLook(BLUE, "-", "o"),
        "recompute": LineLook(ORANGE, "--", "s"),
        "swap": LineLook(GREEN, "-.", "^"),
    }
)
"""Lines of the words of the column ``allowed``, in the colours of the decisions."""


def line_looks(names: Iterable[str]) -> dict[str, LineLook]:
    """Give each name a line of its own: no two share colour, pattern and marker.

    Draw several figures with the result of one call, and a method looks the same in all of them.

    Parameters
    ----------
    names
        Methods, or other series, in the order of the legend; a name that comes again is ignored.

    Returns
    -------
    dict of str to LineLook
        Distinct for the first 280 names.

    Examples
    --------
    >>> line_looks(["milp", "slackswap"])["slackswap"].marker
    's'
    """
    return {
        name: LineLook(
            _COLORS[i % len(_COLORS)], _PATTERNS[i % len(_PATTERNS)], _MARKERS[i % len(_MARKERS)]
        )
        for i, name in enumerate(dict.fromkeys(names))
    }
