"""How large a figure is and how large its letters are: `style("paper")`, `style("slide")`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

import matplotlib as mpl
import matplotlib.pyplot as plt

from slackopt.errors import InputError
from slackopt.plotting.looks import CYCLE

COLUMN_WIDTH_IN = 3.3
"""Width of one column of a two-column paper, in inches."""

FULL_WIDTH_IN = 7.0
"""Width of a page of a two-column paper, in inches."""

SLIDE_WIDTH_IN = 10.0
"""Width of a figure on a slide, in inches."""

StyleKind = Literal["paper", "slide"]

_COMMON: dict[Any, Any] = {
    # Spelled out, so that a reader's own matplotlibrc does not change a paper's figures.
    "font.family": ["sans-serif"],
    "font.sans-serif": ["DejaVu Sans"],  # comes with matplotlib: the same on every machine
    "text.usetex": False,
    "axes.grid": False,
    "axes.facecolor": "white",
    "figure.facecolor": "white",
    "axes.edgecolor": "black",
    "axes.labelcolor": "black",
    "text.color": "black",
    "xtick.color": "black",
    "ytick.color": "black",
    "axes.titleweight": "normal",
    "legend.frameon": False,
    "pdf.fonttype": 42,  # publishers refuse Type 3 fonts
    "ps.fonttype": 42,
    "savefig.bbox": None,  # the width asked for is the width of the file
}
_SIZES: dict[str, dict[Any, Any]] = {
    "paper": {
        "font.size": 8,
        "axes.labelsize": 8,
        "axes.titlesize": 8,
        "xtick.labelsize": 7,
        "ytick.labelsize": 7,
        "legend.fontsize": 7,
        "axes.linewidth": 0.6,
        "lines.linewidth": 1.1,
        "lines.markersize": 3.5,
        "patch.linewidth": 0.4,
        "hatch.linewidth": 0.5,
        "xtick.major.width": 0.6,
        "ytick.major.width": 0.6,
        "xtick.minor.width": 0.4,
        "ytick.minor.width": 0.4,
        "xtick.major.size": 2.5,
        "ytick.major.size": 2.5,
        "xtick.minor.size": 1.5,
        "ytick.minor.size": 1.5,
        "savefig.dpi": 300,
    },
    "slide": {
        "font.size": 18,
        "axes.labelsize": 18,
        "axes.titlesize": 20,
        "xtick.labelsize": 16,
        "ytick.labelsize": 16,
        "legend.fontsize": 16,
        "axes.linewidth": 1.2,
        "lines.linewidth": 2.8,
        "lines.markersize": 9,
        "patch.linewidth": 0.8,
        "hatch.linewidth": 1.2,
        "xtick.major.width": 1.2,
        "ytick.major.width": 1.2,
        "xtick.minor.width": 0.8,
        "ytick.minor.width": 0.8,
        "xtick.major.size": 6,
        "ytick.major.size": 6,
        "xtick.minor.size": 3.5,
        "ytick.minor.size": 3.5,
        "savefig.dpi": 150,
    },
}
_WIDTHS = {"paper": COLUMN_WIDTH_IN, "slide": SLIDE_WIDTH_IN}
_HEIGHT_SHARE = {"paper": 0.65, "slide": 0.5}


@contextmanager
def style(kind: StyleKind = "paper", *, width_in: float | None = None) -> Iterator[None]:
    """Draw in the style of a paper or of a slide inside a ``with`` block.

    Settings of matplotlib are put back at the end of the block. What is drawn *and saved* inside
    of it is in the style: keep `save_figure` in the block.

    Parameters
    ----------
    kind
        ``paper``: letters of 8 pt (7 pt at ticks and in legends) and a width of 3.3 inches, one
        column. ``slide``: letters of 18 pt and a width of 10 inches.
    width_in
        Another width of new figures, in inches, e.g. `FULL_WIDTH_IN` for both columns.

    Raises
    ------
    InputError
        For an unknown kind, or a width that is not above 0.

    Examples
    --------
    >>> import matplotlib
    >>> before = matplotlib.rcParams["font.size"]
    >>> with style("slide"):
    ...     print(matplotlib.rcParams["font.size"])
    18.0
    >>> matplotlib.rcParams["font.size"] == before
    True
    """
    if kind not in _SIZES:
        raise InputError(f"style {kind!r} is unknown; choose one of: {', '.join(_SIZES)}")
    width = _WIDTHS[kind] if width_in is None else width_in
    if not width > 0:
        raise InputError(f"width_in {width_in}: must be above 0 inches")
    settings = _COMMON | _SIZES[kind] | {"axes.prop_cycle": CYCLE}
    settings["figure.figsize"] = (width, _WIDTHS[kind] * _HEIGHT_SHARE[kind])
    # A notebook's backend, loaded by the first figure, turns interactive mode on. Inside of the
    # block that would be undone at its end, and no later figure would be shown.
    plt.draw_if_interactive()  # type: ignore[no-untyped-call]
    with mpl.rc_context(settings):
        yield
