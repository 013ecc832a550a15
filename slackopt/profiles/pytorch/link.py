"""Measures the link between a CUDA device and the host."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from slackopt.device import Device
from slackopt.errors import InputError
from slackopt.profiles.pytorch.requirement import require
from slackopt.profiles.pytorch.settings import whole_number

if TYPE_CHECKING:
    import torch

DEFAULT_SIZE_BYTES = 256 * 2**20
MAX_SIZE_BYTES = 16 * 2**30
_SMALL_BYTES = 4
_WARM_UPS = 2


def measure_link(
    *, size_bytes: int = DEFAULT_SIZE_BYTES, repeats: int = 10, name: str | None = None
) -> Device:
    """Measure the link between the CUDA device of this machine and pinned host memory.

    Copies of `size_bytes` run in each direction alone, and in both at once on two streams. The
    latency is the time of a copy of 4 bytes. Each figure is a median of `repeats` copies, timed
    with CUDA events; bandwidths are of large copies less the latency.

    Parameters
    ----------
    size_bytes
        Size of a copy; large enough for the link to reach its bandwidth.
    repeats
        Timed copies of each kind.
    name
        Name of the device; made of the product's by default.

    Returns
    -------
    Device
        For `slackopt.Instance.from_graph`. If a direction loses less than 2 % while the other
        is busy, the directions count as independent.

    Raises
    ------
    InputError
        If PyTorch or a CUDA device is missing.
    """
    whole_number("size_bytes", size_bytes, 2**20, MAX_SIZE_BYTES)
    whole_number("repeats", repeats, 1, 1000)
    torch = require("torch")
    if not torch.cuda.is_available():
        raise InputError(
            "PyTorch sees no CUDA device here, so there is no link to measure: use a device of the "
            "catalogue, or run this on the machine with the GPU"
        )
    copier = _CudaCopier(size_bytes)
    product = torch.cuda.get_device_name()
    return device_of(
        name or f"{product} (measured)",
        size_bytes=size_bytes,
        latency_ns=min(_median(copier.small, way, repeats) for way in ("d2h", "h2d")),
        alone_ns={way: _median(copier.alone, way, repeats) for way in ("d2h", "h2d")},
        shared_ns={way: _median(copier.shared, way, repeats) for way in ("d2h", "h2d")},
        source=(
            f"measured on {product}: median of {repeats} copies of {size_bytes} bytes from and to "
            f"pinned memory, CUDA events, PyTorch {torch.__version__}"
        ),
    )


def device_of(
    name: str,
    *,
    size_bytes: int,
    latency_ns: int,
    alone_ns: dict[str, int],
    shared_ns: dict[str, int],
    source: str,
) -> Device:
    """Make a device of measured times.

    Parameters
    ----------
    size_bytes
        Size of the large copies.
    latency_ns
        Time of a small copy.
    alone_ns, shared_ns
        Time of a large copy by direction, ``d2h`` and ``h2d``, with the other direction idle and
        busy.
    """
    alone = {way: _bandwidth(size_bytes, ns - latency_ns) for way, ns in alone_ns.items()}
    shared = {
        way: min(alone[way], _bandwidth(size_bytes, ns - latency_ns))
        for way, ns in shared_ns.items()
    }
    independent = all(100 * shared[way] >= 98 * alone[way] for way in alone)
    return Device(
        name=name,
        d2h_bytes_per_s=alone["d2h"],
        h2d_bytes_per_s=alone["h2d"],
        latency_ns=latency_ns,
        d2h_shared_bytes_per_s=None if independent else shared["d2h"],
        h2d_shared_bytes_per_s=None if independent else shared["h2d"],
        source=source,
    )


def _bandwidth(size_bytes: int, duration_ns: int) -> int:
    return size_bytes * 10**9 // max(1, duration_ns)


def _median(copy: Callable[[str], float], way: str, repeats: int) -> int:
    for _ in range(_WARM_UPS):
        copy(way)
    return round(statistics.median(copy(way) for _ in range(repeats)))


class _CudaCopier:
    """Copies between device and pinned host memory, each timed in ns."""

    def __init__(self, size_bytes: int) -> None:
        import torch

        self._torch = torch
        self._streams = {way: torch.cuda.Stream() for way in ("d2h", "h2d")}
        self._host = {way: self._pinned(size_bytes) for way in ("d2h", "h2d")}
        self._device = {way: self._on_device(size_bytes) for way in ("d2h", "h2d")}

    def small(self, way: str) -> float:
        """Copy 4 bytes."""
        return self._timed(way, _SMALL_BYTES)

    def alone(self, way: str) -> float:
        """Copy all, with the other direction idle."""
        return self._timed(way, None)

    def shared(self, way: str) -> float:
        """Copy all, with copies of the other direction before, during and after."""
        other = "h2d" if way == "d2h" else "d2h"
        for _ in range(4):
            self._copy(other, None)
        time = self._timed(way, None, synchronize=False)
        self._torch.cuda.synchronize()
        return time

    def _pinned(self, size_bytes: int) -> torch.Tensor:
        made: Any = self._torch.empty(size_bytes, dtype=self._torch.uint8, pin_memory=True)
        return made

    def _on_device(self, size_bytes: int) -> torch.Tensor:
        made: Any = self._torch.empty(size_bytes, dtype=self._torch.uint8, device="cuda")
        return made

    def _copy(self, way: str, size: int | None) -> None:
        host, device = self._host[way][:size], self._device[way][:size]
        with self._torch.cuda.stream(self._streams[way]):
            if way == "d2h":
                host.copy_(device, non_blocking=True)
            else:
                device.copy_(host, non_blocking=True)

    def _timed(self, way: str, size: int | None, *, synchronize: bool = True) -> float:
        if synchronize:
            self._torch.cuda.synchronize()
        stream = self._streams[way]
        start, end = (self._torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record(stream)
        self._copy(way, size)
        end.record(stream)
        end.synchronize()
        return float(start.elapsed_time(end)) * 1e6
