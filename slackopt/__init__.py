"""Certified keep, swap or recompute decisions for the activations of a training step.

Data flows one way: profile -> graph -> instance -> method -> plan -> simulation -> result.
"""

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
from slackopt.verify import verify

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
    "check_timeline",
    "methods",
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
