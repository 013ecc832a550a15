"""Kinds of methods, by what they may claim; methods of other packages are not known here."""

from __future__ import annotations

from typing import Literal

from slackopt.heuristics.registry import built_in_rules

Kind = Literal["bound", "exact", "rule", "unknown"]

BOUND = "bound"
"""Its bound is its certificate: nothing in it rests on a solver's word."""

EXACT = frozenset({"exact", "milp", "cpsat", "milp-schedule", "cpsat-schedule", "enumerate"})
"""May claim bounds, optimality and infeasibility on the word of their search or solver."""


def kind_of(method: str) -> Kind:
    """Return the kind of a method; ``unknown`` may claim whatever a solver may."""
    if method == BOUND:
        return "bound"
    if method in EXACT:
        return "exact"
    return "rule" if method in built_in_rules() else "unknown"
