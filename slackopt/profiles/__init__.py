"""Where activation graphs come from: analytic transformers, traces, and the devices they run on."""

from slackopt.profiles.accelerators import Accelerator, accelerator_names, get_accelerator
from slackopt.profiles.analytic import transformer
from slackopt.profiles.devices import HostLink, device_names, get_device
from slackopt.profiles.presets import Preset, get_preset, preset_names
from slackopt.profiles.pytorch import (
    Workload,
    from_torch,
    measure_link,
    torch_model,
    torch_model_names,
)
from slackopt.profiles.random_graphs import random_graph
from slackopt.profiles.traces import TRACE_FORMATS, export_graph, read_trace

__all__ = [
    "TRACE_FORMATS",
    "Accelerator",
    "HostLink",
    "Preset",
    "Workload",
    "accelerator_names",
    "device_names",
    "export_graph",
    "from_torch",
    "get_accelerator",
    "get_device",
    "get_preset",
    "measure_link",
    "preset_names",
    "random_graph",
    "read_trace",
    "torch_model",
    "torch_model_names",
    "transformer",
]
