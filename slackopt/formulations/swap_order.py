r"""Identical layers, exploited: among tensors alike, those made first are swapped first.

Two swappable candidates t, t' of one size are *ordered*, t before t', if t' is idle only while t
is: ``ready_t <= ready_t'``, ``l_t <= l_t'``, ``u_t >= u_t'``. Identical layers give long chains of
them: the same tensor of the first layer, the second, ...

*Claim.* Take any point of the window rows at which t is kept and t' is swapped. With the two
decisions exchanged it still satisfies all window rows, at the same cost.

*Proof.* Neither keeping nor swapping costs anything, and elsewhere than in the rows below the two
columns do not appear (a candidate has a backward use, so as an input of a rerun it counts with
W + R + K = 1). Moving one unit from W_t' to W_t changes a row by the difference of their
coefficients, so it is enough that that of W_t is at most that of W_t', in a row "at most", or that
t is not kept at all.

- *Memory rows.* The coefficient of W_t is -s [t idle in k] + s [ready_t >= h, l_t < k] +
  s [k < u_t <= h']. If both are idle in k, or neither, the brackets of t imply those of t'. If
  only t is idle, -s and at most one s of the two brackets of t can lack in t': where ``k <= l_t'``
  the second bracket of t implies that of t', where ``k >= u_t'`` the first does.
- *Shared-link rows* count the copies that fall into a window: a copy of t that must, implies one of
  t' that must, so the cases are those of the memory rows.
- *Rerun and chain rows* of a single slot count t as memory rows do: -s if ``l_t < k <= u_t``, s
  for each bracket, the second for ``k <= u_t <= h'``. In rows of several slots, without an out
  window, it is -s if t is idle in op z and made before them, s for the second bracket. That is so
  unless t is *flipped*, or *back*: then it may be otherwise (an input of a rerun must have come
  back for it, so that swapping it saves nothing there). Hence no such rows are separated for
  tensors of a chain, `WindowColumns.ordered`: the claim is about the rows that are.
- *Round trips.* The window of t holds that of t', so its row is the weaker one.
- *Crowded out.* Where t' can't be on the device, t, of the same size and idle as well, can't: it
  is not kept.

A host-memory cap breaks the argument, because t stays longer on the host: no order is used then.
So the optimum stays the same if every chain is ordered: after the first tensor that is kept, none
is swapped. With ``z_i`` = [one of the first i of the chain is kept]:

    z_i >= 1 - W_i - R_i ,   z_i >= z_(i-1) ,   W_(i+1) + z_i <= 1 .

These rows hold for a best point, not for the point of every plan: models may use them, and bound
certificates may not.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TypeVar

from slackopt.formulations.linear import Row
from slackopt.formulations.window import WindowFormulation
from slackopt.lifetimes import ABSENT, Lifetimes
from slackopt.simulation.sequence import KEEP, SWAP

Number = TypeVar("Number", int, float)


class SwapOrder:
    """Columns and rows that order the swaps of tensors alike.

    The columns are appended to the formulation's, which must have no model yet.

    Parameters
    ----------
    window
        The formulation.

    Attributes
    ----------
    chains
        Tensors alike, each before the next; tensors without a partner are left out.
    kept
        Tensor -> column ``z``: one of its chain up to it is kept. The last of a chain has none.
    """

    def __init__(self, window: WindowFormulation) -> None:
        self.window = window
        self.chains = swap_chains(window)
        window.ordered = frozenset(t for chain in self.chains for t in chain)
        self.kept = {
            t: window.add_column(f"kept_up_to[{t}]", integer=False)
            for chain in self.chains
            for t in chain[:-1]
        }

    def rows(self) -> list[Row]:
        """Return the rows; see the module docstring."""
        rows: list[Row] = []
        swap, recompute = self.window.swap, self.window.recompute
        for chain in self.chains:
            for i, (t, following) in enumerate(pairwise(chain)):
                z = self.kept[t]
                decisions = [d[t] for d in (swap, recompute) if t in d]
                rows.append(Row(f"kept_up_to[{t}]", {z: -1} | dict.fromkeys(decisions, -1), -1))
                if i:
                    before = self.kept[chain[i - 1]]
                    rows.append(Row(f"kept_stays[{t}]", {before: 1, z: -1}, 0))
                rows.append(Row(f"swap_order[{following}]", {swap[following]: 1, z: 1}, 1))
        return rows

    def ordered(self, decisions: Sequence[int]) -> list[int]:
        """Exchange kept and swapped tensors until every chain is ordered."""
        found = list(decisions)
        for chain in self.chains:
            free = [t for t in chain if found[t] in (KEEP, SWAP)]
            swaps = sum(found[t] == SWAP for t in free)
            for i, t in enumerate(free):
                found[t] = SWAP if i < swaps else KEEP
        return found

    def complete(self, x: list[Number]) -> list[Number]:
        """Return a point with the values of the ``z`` columns, from those of the decisions."""
        point = list(x)
        for chain in self.chains:
            kept = type(x[0])(0)
            for t in chain[:-1]:
                decided = (d[t] for d in (self.window.swap, self.window.recompute) if t in d)
                kept = max(kept, 1 - sum(x[column] for column in decided))
                point[self.kept[t]] = kept
        return point


def swap_chains(window: WindowFormulation) -> list[list[int]]:
    """Partition the swappable candidates into chains of ordered tensors, greedily."""
    life = window.life
    if window.instance.device.host_memory_bytes is not None:
        return []
    alike: dict[int, list[list[int]]] = {}
    candidates = [t for t in window.swap if life.first_backward_use[t] != ABSENT]
    for t in sorted(candidates, key=lambda t: (window.ready(t), life.last_forward_use[t], t)):
        chains = alike.setdefault(life.sizes_bytes[t], [])
        chain = next((c for c in chains if ordered_before(life, c[-1], t)), None)
        if chain is None:
            chains.append([t])
        else:
            chain.append(t)
    return [chain for chains in alike.values() for chain in chains if len(chain) > 1]


def ordered_before(life: Lifetimes, t: int, other: int) -> bool:
    """Whether tensor `t` comes before `other`, of the same size, in the order of swaps."""
    return (
        life.producer[t] <= life.producer[other]
        and life.last_forward_use[t] <= life.last_forward_use[other]
        and life.first_backward_use[t] >= life.first_backward_use[other]
    )
