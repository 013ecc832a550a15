"""Draw the figures of the README and of docs/plotting.md.

Usage: ``python docs/figures/make.py``

The code of the page makes the figures of the page: its Python blocks are run in order, and
whatever one leaves as ``ax`` is saved under the name of the picture in front of it. The same
versions of the libraries write the same bytes.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt

import slackopt as so

FOLDER = Path(__file__).resolve().parent
ROOT = FOLDER.parents[1]
PAGE = FOLDER.parent / "plotting.md"
DPI = 200


def simulated_step(folder: Path) -> None:
    """Draw SlackSwap's plan for BERT-Large with flash attention, as simulated."""
    instance = so.read_instance(ROOT / "instances" / "slackswap" / "bert-large-flash.json")
    plan = so.solve(instance, method="slackswap").plan
    if plan is None:
        raise SystemExit("slackswap has no plan for this instance")
    figure = so.plotting.plot_step(so.simulate(instance, plan))
    so.plotting.save_figure(figure, folder / "simulated-step.png", dpi=DPI)
    print("simulated-step.png")


def gallery(folder: Path) -> list[str]:
    """Run the blocks of docs/plotting.md, save their figures and return the names."""
    names: dict[str, Any] = {}
    drawn = []
    for picture, code in steps(PAGE.read_text("utf-8")):
        names.pop("ax", None)
        # Paths on the page are those of a clone.
        with contextlib.chdir(ROOT), so.plotting.style("paper"):
            exec(compile(code, f"{PAGE.name}: {picture or 'set-up'}", "exec"), names)
            if picture is None:
                continue
            so.plotting.save_figure(names["ax"].figure, folder / picture, dpi=DPI)
        plt.close("all")
        drawn.append(picture)
        print(picture)
    return drawn


def steps(text: str) -> Iterator[tuple[str | None, str]]:
    """Yield each Python block of a page with the picture that stands right in front of it."""
    pattern = r"(?:!\[[^\]]*\]\(figures/([\w-]+\.png)\)\s+)?^```python\n(.*?)^```"
    for match in re.finditer(pattern, text, re.M | re.S):
        yield match[1], match[2]


if __name__ == "__main__":
    simulated_step(FOLDER)
    gallery(FOLDER)
