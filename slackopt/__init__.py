"""Certified keep, swap or recompute decisions for the activations of a training step.

Data flows one way: profile -> graph -> instance -> method -> plan -> simulation -> result.
"""

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

from slackopt import profiles
from slackopt.device import Device
from slackopt.errors import (
    CheckError,
    InfeasibleError,
    InputError,
    NothingFoundError,
    SlackoptError,
    SolverError,
)
from slackopt.files import read_graph, read_instance, read_plan, read_result, write_record
from slackopt.graph import Graph, Op, Tensor
from slackopt.instance import Instance
from slackopt.plan import Plan
from slackopt.result import Result
from slackopt.simulation import Timeline, check_timeline, simulate
from slackopt.solve import Method, methods, solve
from slackopt.verification import Verification, verify

if TYPE_CHECKING:
    from slackopt import plotting

__version__ = "0.1.0"

__all__ = [
    "CheckError",
    "Device",
    "Graph",
    "InfeasibleError",
    "InputError",
    "Instance",
    "Method",
    "NothingFoundError",
    "Op",
    "Plan",
    "Result",
    "SlackoptError",
    "SolverError",
    "Tensor",
    "Timeline",
    "Verification",
    "check_timeline",
    "methods",
    "plotting",
    "profiles",
    "read_graph",
    "read_instance",
    "read_plan",
    "read_result",
    "simulate",
    "solve",
    "verify",
    "write_record",
]


def __getattr__(name: str) -> ModuleType:
    # matplotlib takes most of a second to import, and few commands draw.
    if name == "plotting":
        return import_module("slackopt.plotting")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
