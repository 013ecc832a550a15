"""The field's rules, one file each; importing this package registers them."""

from slackopt.heuristics import (
    capuchin,
    corners,
    dtr,
    knapsack,
    largest_first_offload,
    layer_checkpoint,
    local_search,
    memo,
    mu_two,
    pressure,
    rounding,
    selective,
    slackswap,
    sqrt_n,
    teraio,
    vdnn,
)
from slackopt.heuristics.registry import NoPlanError, heuristic, heuristics

__all__ = [
    "NoPlanError",
    "capuchin",
    "corners",
    "dtr",
    "heuristic",
    "heuristics",
    "knapsack",
    "largest_first_offload",
    "layer_checkpoint",
    "local_search",
    "memo",
    "mu_two",
    "pressure",
    "rounding",
    "selective",
    "slackswap",
    "sqrt_n",
    "teraio",
    "vdnn",
]
