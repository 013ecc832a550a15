"""The row that cuts off one decision vector, for models that have simulated it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from slackopt.formulations.linear import Row
from slackopt.simulation.sequence import RECOMPUTE, SWAP


def differs_row(
    swap: Mapping[int, int], recompute: Mapping[int, int], decisions: Sequence[int]
) -> Row:
    """At least one decision differs: ``sum of (1 - chosen) + sum of others >= 1``.

    Parameters
    ----------
    swap, recompute
        Tensor -> binary column.
    decisions
        The vector, one decision per tensor of the instance.
    """
    coefficients: dict[int, int] = {}
    upper = -1
    name: list[str] = []
    for t in sorted({*swap, *recompute}):
        name.append(str(decisions[t]))
        chosen = {SWAP: swap, RECOMPUTE: recompute}.get(decisions[t], {}).get(t)
        if chosen is None:  # kept: any other decision differs
            coefficients |= {d[t]: -1 for d in (swap, recompute) if t in d}
        else:
            coefficients[chosen] = 1
            upper += 1
    return Row(f"differs[{''.join(name)}]", coefficients, upper)
