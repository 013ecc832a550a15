"""The link between device and host, as the instance and the simulator see it."""

from __future__ import annotations

from typing import Any

from pydantic import SerializerFunctionWrapHandler, model_serializer, model_validator

from slackopt.errors import InputError
from slackopt.records import BytesPerSecond, LatencyNs, Name, OptionalBytes, Record, SizeBytes


class Device(Record):
    """Link bandwidths, latency and host memory of one device.

    Attributes
    ----------
    d2h_bytes_per_s, h2d_bytes_per_s
        Bandwidth device-to-host (swap-out) and host-to-device (swap-in) when the other
        direction is idle.
    latency_ns
        Fixed time in front of every copy.
    d2h_shared_bytes_per_s, h2d_shared_bytes_per_s
        Bandwidth while the other direction has a copy in flight as well; None (both) when the
        directions are independent. At most the bandwidth alone.
    host_memory_bytes
        Host memory for swapped tensors; None for no limit.
    chunk_bytes
        A swap-out frees device memory in pieces of this size; 0, the default, frees whole
        tensors. Left out of files and of the instance's identity where it is 0.
    source
        Where the figures come from.
    """

    name: Name
    d2h_bytes_per_s: BytesPerSecond
    h2d_bytes_per_s: BytesPerSecond
    latency_ns: LatencyNs = 0
    d2h_shared_bytes_per_s: BytesPerSecond | None = None
    h2d_shared_bytes_per_s: BytesPerSecond | None = None
    host_memory_bytes: SizeBytes | None = None
    chunk_bytes: OptionalBytes = 0
    source: str = ""

    @model_validator(mode="after")
    def _check(self) -> Device:
        if (self.d2h_shared_bytes_per_s is None) != (self.h2d_shared_bytes_per_s is None):
            raise InputError(
                f"device {self.name!r}: give both d2h_shared_bytes_per_s and "
                "h2d_shared_bytes_per_s, or neither (independent directions)"
            )
        for way in ("d2h", "h2d"):
            alone = getattr(self, f"{way}_bytes_per_s")
            shared = getattr(self, f"{way}_shared_bytes_per_s")
            if shared is not None and shared > alone:
                raise InputError(
                    f"device {self.name!r}: {way}_shared_bytes_per_s {shared} is above "
                    f"{way}_bytes_per_s {alone}; a busy link is not faster"
                )
        return self

    @model_serializer(mode="wrap")
    def _without_default_chunks(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Write a device that frees whole tensors as files without chunks have it."""
        content: dict[str, Any] = dump(self)
        if not self.chunk_bytes:
            content.pop("chunk_bytes", None)
        return content

    def with_chunks(self, chunk_bytes: int) -> Device:
        """Return the device with swap-outs that free memory in pieces, and a name that says so."""
        base = self.name.removesuffix(_chunks_suffix(self.chunk_bytes))
        name = base + _chunks_suffix(chunk_bytes)
        return Device(**dict(self) | {"name": name, "chunk_bytes": chunk_bytes})

    @property
    def independent(self) -> bool:
        """Whether a copy runs at full bandwidth while the other direction is busy."""
        return (self.d2h_shared_bytes_per_s, self.h2d_shared_bytes_per_s) in (
            (None, None),
            (self.d2h_bytes_per_s, self.h2d_bytes_per_s),
        )

    def swap_out_ns(self, size_bytes: int) -> int:
        """Time of one swap-out with the other direction idle."""
        return self.latency_ns + copy_ns(size_bytes, self.d2h_bytes_per_s)

    def swap_in_ns(self, size_bytes: int) -> int:
        """Time of one swap-in with the other direction idle."""
        return self.latency_ns + copy_ns(size_bytes, self.h2d_bytes_per_s)


def _chunks_suffix(chunk_bytes: int) -> str:
    return f"-chunks-{chunk_bytes}" if chunk_bytes else ""


def copy_ns(size_bytes: int, bytes_per_s: int) -> int:
    """Nanoseconds to move `size_bytes` at a bandwidth, rounded up."""
    return -(-size_bytes * 10**9 // bytes_per_s)
