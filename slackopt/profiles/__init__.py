"""Where activation graphs come from: analytic transformers, and the devices they run on."""

from slackopt.profiles.accelerators import Accelerator, accelerator_names, get_accelerator
from slackopt.profiles.analytic import transformer
from slackopt.profiles.devices import HostLink, device_names, get_device
from slackopt.profiles.presets import Preset, get_preset, preset_names

__all__ = [
    "Accelerator",
    "HostLink",
    "Preset",
    "accelerator_names",
    "device_names",
    "get_accelerator",
    "get_device",
    "get_preset",
    "preset_names",
    "transformer",
]
