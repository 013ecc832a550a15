"""Figures for papers, slides and notebooks. Imports matplotlib.

Every ``plot_`` function but `plot_step` draws one panel: it takes ``ax`` (None makes a new figure)
and returns it. Sizes of letters and lines come from `style`, files from `save_figure`.
"""

from slackopt.plotting.decision_map import plot_decision_map
from slackopt.plotting.gap_over_budget import plot_gap_over_budget
from slackopt.plotting.gap_over_time import plot_gap_over_time
from slackopt.plotting.looks import LineLook, line_looks
from slackopt.plotting.memory import plot_freed_memory, plot_memory
from slackopt.plotting.performance_profile import plot_performance_profile
from slackopt.plotting.phase_map import plot_phase_map
from slackopt.plotting.saving import figure_bytes, save_figure
from slackopt.plotting.sensitivity import plot_sensitivity
from slackopt.plotting.sensitivity_map import plot_sensitivity_map
from slackopt.plotting.step import plot_step
from slackopt.plotting.styles import COLUMN_WIDTH_IN, FULL_WIDTH_IN, SLIDE_WIDTH_IN, style
from slackopt.plotting.throughput_over_budget import plot_throughput_over_budget
from slackopt.plotting.timeline import plot_timeline
from slackopt.plotting.trajectory import plot_trajectory

__all__ = [
    "COLUMN_WIDTH_IN",
    "FULL_WIDTH_IN",
    "SLIDE_WIDTH_IN",
    "LineLook",
    "figure_bytes",
    "line_looks",
    "plot_decision_map",
    "plot_freed_memory",
    "plot_gap_over_budget",
    "plot_gap_over_time",
    "plot_memory",
    "plot_performance_profile",
    "plot_phase_map",
    "plot_sensitivity",
    "plot_sensitivity_map",
    "plot_step",
    "plot_throughput_over_budget",
    "plot_timeline",
    "plot_trajectory",
    "save_figure",
    "style",
]
