"""Figures that papers publish for instances of ours, to be shown beside ours."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from slackopt.instance import Instance

SLACKSWAP_SOURCE = "SlackSwap, arXiv 2610.13003"

SLACKSWAP_RATIOS: Mapping[str, float] = MappingProxyType(
    {"bert-large": 0.963, "gpt2-xl": 0.976, "llama-7b": 0.996}
)
"""Preset -> published throughput ratio, half of the activation memory, A100 with PCIe 4.0."""


def published_ratio(instance: Instance, method: str) -> float | None:
    """Return the throughput ratio that the paper of a rule publishes for this question.

    It is known for SlackSwap (every variant) on the three models of the ``slackswap`` family:
    the analytic preset at a budget of half its peak on an A100 with PCIe 4.0. The paper's own
    profiles are not public, so the two ratios are of like, not of equal instances.
    """
    origin = instance.graph.provenance
    same_question = (
        method.startswith("slackswap")
        and origin.get("generator") == "slackopt.profiles.transformer"
        and instance.budget_fraction == "0.5"
        and instance.device.name.startswith("a100-pcie4")
    )
    return SLACKSWAP_RATIOS.get(str(origin.get("preset"))) if same_question else None
