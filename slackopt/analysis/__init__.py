"""Tables of many runs: one row a run, summaries, profiles, gaps over time and budget; sweeps."""

from slackopt.analysis.frame import runs_frame
from slackopt.analysis.gap_over_budget import gap_over_budget
from slackopt.analysis.gap_over_time import gap_over_time
from slackopt.analysis.means import shifted_geometric_mean
from slackopt.analysis.performance_profile import common_instances, performance_profile
from slackopt.analysis.reading import read_run_summaries
from slackopt.analysis.summaries import failures, per_instance, per_method
from slackopt.analysis.sweep import (
    Variant,
    restricted,
    sweep,
    variants,
    with_bandwidth,
    with_budget,
    with_compute,
)

__all__ = [
    "Variant",
    "common_instances",
    "failures",
    "gap_over_budget",
    "gap_over_time",
    "per_instance",
    "per_method",
    "performance_profile",
    "read_run_summaries",
    "restricted",
    "runs_frame",
    "shifted_geometric_mean",
    "sweep",
    "variants",
    "with_bandwidth",
    "with_budget",
    "with_compute",
]
