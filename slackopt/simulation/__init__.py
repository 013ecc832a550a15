"""The event simulator: prices every plan, whoever made it. Imports no solver."""

from slackopt.simulation.checks import check_timeline
from slackopt.simulation.engine import OutOfMemory
from slackopt.simulation.simulate import simulate
from slackopt.simulation.timeline import Copy, Job, MemoryCurve, Stall, Timeline

__all__ = [
    "Copy",
    "Job",
    "MemoryCurve",
    "OutOfMemory",
    "Stall",
    "Timeline",
    "check_timeline",
    "simulate",
]
