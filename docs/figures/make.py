"""Draw the figures of the README and the documentation.

Usage: ``python docs/figures/make.py``
"""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")

import slackopt as so

FOLDER = Path(__file__).resolve().parent
INSTANCE = FOLDER.parents[1] / "instances" / "slackswap" / "bert-large-flash.json"


def simulated_step(path: Path) -> None:
    """Draw SlackSwap's plan for BERT-Large with flash attention, as simulated."""
    instance = so.read_instance(INSTANCE)
    plan = so.solve(instance, method="slackswap").plan
    if plan is None:
        raise SystemExit("slackswap has no plan for this instance")
    figure = so.plotting.plot_step(so.simulate(instance, plan))
    # Without the version of matplotlib in it, the same picture is the same file.
    figure.savefig(path, dpi=200, metadata={"Software": None})
    print(path.name)


if __name__ == "__main__":
    simulated_step(FOLDER / "simulated-step.png")
