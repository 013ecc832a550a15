"""Where op times come from: a roofline here, the device at hand in `measuring`."""

from __future__ import annotations

from typing import Any, Protocol

import torch

from slackopt.profiles.accelerators import Accelerator
from slackopt.profiles.pytorch.flops import flops_of, format_of, is_fused_attention, traffic_of
from slackopt.profiles.roofline import op_time_ns


class Clock(Protocol):
    """Gives the times of ops."""

    def time_ns(self, node: torch.fx.Node) -> int:
        """Time of one call in ns, at least 1."""

    def accumulate_ns(self, size_bytes: int) -> int:
        """Time in ns to add a gradient of this size to its sum."""

    def record(self) -> dict[str, Any]:
        """Return where the times come from, for the provenance of a graph; JSON values."""


class RooflineClock:
    """Times by the roofline of an accelerator (`slackopt.profiles.roofline`), each with a launch.

    Parameters
    ----------
    accelerator
        Whose figures to use.
    """

    def __init__(self, accelerator: Accelerator) -> None:
        self.accelerator = accelerator
        # Without arithmetic the format doesn't matter; any that the accelerator has will do.
        self._any_format = min(accelerator.peak_flops_per_s)
        self._flops = 0

    def time_ns(self, node: torch.fx.Node) -> int:
        """Time of one call in ns."""
        flops = flops_of(node)
        self._flops += flops
        return op_time_ns(
            self.accelerator,
            flops=flops,
            moved_bytes=traffic_of(node),
            dtype=format_of(node) if flops else self._any_format,
            fused_attention=is_fused_attention(node),
        )

    def accumulate_ns(self, size_bytes: int) -> int:
        """Time in ns to add a gradient: two reads and a write."""
        return op_time_ns(
            self.accelerator, flops=0, moved_bytes=3 * size_bytes, dtype=self._any_format
        )

    def record(self) -> dict[str, Any]:
        """Return the source of the times, with every figure used, and the FLOPs counted so far."""
        return {
            "times": {"source": "roofline", "flops": self._flops},
            "accelerator": self.accelerator.model_dump(mode="json"),
        }
