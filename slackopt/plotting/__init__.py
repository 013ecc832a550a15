"""Figures: a simulated step over time, for papers and notebooks. Imports matplotlib."""

from slackopt.plotting.timeline import (
    COLUMN_WIDTH_IN,
    FULL_WIDTH_IN,
    plot_memory,
    plot_step,
    plot_timeline,
)

__all__ = ["COLUMN_WIDTH_IN", "FULL_WIDTH_IN", "plot_memory", "plot_step", "plot_timeline"]
