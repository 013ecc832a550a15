"""The device catalogue: accelerators paired with the host links they are sold with.

Bandwidths are of copies from and to pinned host memory, as measured in public, not the link's peak.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from slackopt.device import Device
from slackopt.errors import InputError
from slackopt.profiles.accelerators import (
    ACCELERATORS,
    Accelerator,
    accelerator_names,
    get_accelerator,
)
from slackopt.records import BytesPerSecond, LatencyNs, Name, Record

__all__ = [
    "ACCELERATORS",
    "LINKS",
    "Accelerator",
    "HostLink",
    "accelerator_names",
    "device_names",
    "get_accelerator",
    "get_device",
]

GB = 10**9


class HostLink(Record):
    """Copy engine figures of one kind of link between host and device, pinned host memory.

    Attributes
    ----------
    name, title
        Name in the catalogue; description.
    d2h_bytes_per_s, h2d_bytes_per_s
        Bandwidth of one direction alone.
    latency_ns
        Fixed time in front of every copy.
    d2h_shared_bytes_per_s, h2d_shared_bytes_per_s
        Bandwidth while the other direction is busy as well; None for independent directions.
    source
        Where the figures come from.
    """

    name: Name
    title: str
    d2h_bytes_per_s: BytesPerSecond
    h2d_bytes_per_s: BytesPerSecond
    latency_ns: LatencyNs
    d2h_shared_bytes_per_s: BytesPerSecond | None = None
    h2d_shared_bytes_per_s: BytesPerSecond | None = None
    source: str


_LATENCY = "latency assumed: 10 us for one asynchronous copy and the event that follows it"

_LINKS = (
    HostLink(
        name="pcie3",
        title="PCIe 3.0 x16",
        d2h_bytes_per_s=12_890_600_000,
        h2d_bytes_per_s=12_150_700_000,
        latency_ns=10_000,
        source=(
            "CUDA sample bandwidthTest with pinned memory, process bound to the near socket, with "
            "another card of the same link (public report in gearshifft pull request 82); "
            f"{_LATENCY}"
        ),
    ),
    HostLink(
        name="pcie4",
        title="PCIe 4.0 x16",
        d2h_bytes_per_s=25 * GB,
        h2d_bytes_per_s=25 * GB,
        latency_ns=10_000,
        source=(
            "nvbandwidth copy-engine tests on A100 hosts, 24.8-26 GB/s in each direction alone "
            f"(public reports in NVIDIA/nvbandwidth issues 11 and 53); {_LATENCY}"
        ),
    ),
    HostLink(
        name="pcie4-shared",
        title="PCIe 4.0 x16, host-to-device slowed while both directions are busy",
        d2h_bytes_per_s=25 * GB,
        h2d_bytes_per_s=25 * GB,
        latency_ns=10_000,
        d2h_shared_bytes_per_s=24_500_000_000,
        h2d_shared_bytes_per_s=12 * GB,
        source=(
            "nvbandwidth copy-engine tests on A100 hosts: alone 24.8-26 GB/s; with both directions "
            "busy host-to-device 11-13 GB/s and device-to-host 24-25 GB/s (public reports in "
            f"NVIDIA/nvbandwidth issues 11 and 53); {_LATENCY}"
        ),
    ),
    HostLink(
        name="pcie5",
        title="PCIe 5.0 x16",
        d2h_bytes_per_s=57_300_000_000,
        h2d_bytes_per_s=56_300_000_000,
        latency_ns=10_000,
        source=(
            "nvbandwidth copy-engine tests in a PCIe 5.0 host with other cards of the same link "
            f"(public report in tinygrad open-gpu-kernel-modules issue 29); {_LATENCY}"
        ),
    ),
    HostLink(
        name="c2c",
        title="NVLink-C2C of Grace Hopper",
        d2h_bytes_per_s=297 * GB,
        h2d_bytes_per_s=375 * GB,
        latency_ns=10_000,
        source=(
            "measured on a GH200 with 480 GB LPDDR5X: 375 GB/s host-to-device, 297 GB/s "
            f"device-to-host (public study reported by HPCwire, July 2024); {_LATENCY}"
        ),
    ),
    HostLink(
        name="nvme4",
        title="PCIe 4.0 x4 solid-state drive, for a CPU whose memory is the device",
        d2h_bytes_per_s=4_100_000_000,
        h2d_bytes_per_s=6_900_000_000,
        latency_ns=80_000,
        source=(
            "sequential writes (out) and reads (in) on the data sheet of the Samsung PM9A3, 3.84 "
            "TB; latency assumed: 80 us for one large request"
        ),
    ),
)

LINKS: Mapping[str, HostLink] = MappingProxyType({link.name: link for link in _LINKS})
"""Every host link of the catalogue, by name."""

_PAIRS = (
    ("a100", "pcie4"),
    ("a100", "pcie4-shared"),
    ("a100-40gb", "pcie4"),
    ("cpu", "nvme4"),
    ("gh200", "c2c"),
    ("h100", "pcie5"),
    ("h200", "pcie5"),
    ("l4", "pcie4"),
    ("rtx4090", "pcie4"),
    ("v100", "pcie3"),
)
_DEVICES = {f"{accelerator}-{link}": LINKS[link] for accelerator, link in _PAIRS}


def device_names() -> tuple[str, ...]:
    """Names that `get_device` knows, sorted."""
    return tuple(sorted(_DEVICES))


def get_device(name: str) -> Device:
    """Return a device of the catalogue.

    Parameters
    ----------
    name
        ``<accelerator>-<link>``, e.g. ``a100-pcie4``.

    Raises
    ------
    InputError
        Listing the known names.
    """
    link = _DEVICES.get(name)
    if link is None:
        raise InputError(f"unknown device {name!r}; known devices: {', '.join(device_names())}")
    return Device(
        name=name,
        d2h_bytes_per_s=link.d2h_bytes_per_s,
        h2d_bytes_per_s=link.h2d_bytes_per_s,
        latency_ns=link.latency_ns,
        d2h_shared_bytes_per_s=link.d2h_shared_bytes_per_s,
        h2d_shared_bytes_per_s=link.h2d_shared_bytes_per_s,
        source=link.source,
    )
