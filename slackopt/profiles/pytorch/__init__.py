"""Graphs of PyTorch models, traced without a GPU; PyTorch is imported when it is needed."""

from slackopt.profiles.pytorch.entry import from_torch
from slackopt.profiles.pytorch.link import measure_link
from slackopt.profiles.pytorch.named import torch_model, torch_model_names
from slackopt.profiles.pytorch.workload import Workload

__all__ = ["Workload", "from_torch", "measure_link", "torch_model", "torch_model_names"]
