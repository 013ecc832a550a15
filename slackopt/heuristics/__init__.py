"""The field's rules, one file each; importing this package registers them."""

from slackopt.heuristics import corners, slackswap
from slackopt.heuristics.registry import NoPlanError, heuristic, heuristics

__all__ = ["NoPlanError", "corners", "heuristic", "heuristics", "slackswap"]
