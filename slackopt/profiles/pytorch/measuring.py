"""Times of ops, measured on the device at hand."""

from __future__ import annotations

import platform
import statistics
import time
from collections.abc import Callable, Hashable
from typing import Any

import torch
from torch.utils import _pytree as pytree

from slackopt.errors import InputError
from slackopt.profiles.pytorch.flops import values
from slackopt.profiles.pytorch.settings import Kernels, whole_number
from slackopt.profiles.pytorch.storages import arguments, schema_name

MAX_REPEATS = 1000
WARM_UPS = 2
_SEED = 0

_INDEX_LIMITS: dict[str, Callable[[dict[str, Any]], int]] = {
    "aten::embedding": lambda given: int(given["weight"].size(0)),
    "aten::embedding_dense_backward": lambda given: int(given["num_weights"]),
    "aten::nll_loss_forward": lambda given: int(given["self"].size(-1)),
    "aten::nll_loss_backward": lambda given: int(given["self"].size(-1)),
}
"""Upper ends of the whole numbers that an op takes; elsewhere they are all 0, which is always an
index."""


class MeasuringClock:
    """Runs each distinct call on random inputs of its shapes, strides and formats.

    Calls of the same op with the same arguments are measured once: `WARM_UPS` runs, then the
    median of `repeats` runs, with CUDA events on a CUDA device and a wall clock on a CPU. Memory is
    needed for one op at a time, so that a step can be measured that would not fit as a whole.
    Caches are warm.

    Parameters
    ----------
    repeats
        Timed runs of each call.
    """

    def __init__(self, *, repeats: int) -> None:
        self.repeats = whole_number("repeats", repeats, 1, MAX_REPEATS)
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.kernels: Kernels = "cuda" if self.device.type == "cuda" else "cpu"
        self._known: dict[Hashable, int] = {}
        self._generator = torch.Generator().manual_seed(_SEED)

    def time_ns(self, node: torch.fx.Node) -> int:
        """Median time of a call in ns, at least 1."""
        key = (str(node.target), _signature(values((node.args, node.kwargs))))
        if key not in self._known:
            self._known[key] = self._measure(node)
        return self._known[key]

    def accumulate_ns(self, size_bytes: int) -> int:
        """Median time in ns to add two arrays of so many bytes."""
        key = ("accumulate", size_bytes)
        if key not in self._known:
            total, part = torch.zeros((2, -(-size_bytes // 4)), device=self.device)
            self._known[key] = self._median(lambda: total.add_(part))
        return self._known[key]

    def record(self) -> dict[str, Any]:
        """Return what was measured on, and how."""
        times: dict[str, Any] = {
            "source": "measured",
            "device": self.device.type,
            "repeats": self.repeats,
            "warm_ups": WARM_UPS,
            "statistic": "median",
            "distinct_calls": len(self._known),
        }
        if self.device.type == "cuda":
            times |= {
                "name": torch.cuda.get_device_name(),
                "timer": "CUDA events",
                "cuda": torch.version.cuda,
            }
        else:
            times |= {
                "name": platform.processor() or platform.machine(),
                "timer": "perf_counter",
                "threads": torch.get_num_threads(),
            }
        return {"times": times}

    def _measure(self, node: torch.fx.Node) -> int:
        name = schema_name(node)
        given = {key: values(value) for key, value, _ in arguments(node)}
        limit = _INDEX_LIMITS[name](given) if name in _INDEX_LIMITS else 1
        try:
            args, kwargs = self._real(values((node.args, node.kwargs)), limit)
            with torch.no_grad():
                return self._median(lambda: node.target(*args, **kwargs))
        except (
            RuntimeError,
            IndexError,
            TypeError,
        ) as error:
            line = str(error).strip().partition("\n")[0]
            raise InputError(
                f"op {node.target} can't be measured on this {self.device.type} device: {line}; "
                "use the roofline of a device instead"
            ) from error

    def _median(self, run: Callable[[], Any]) -> int:
        for _ in range(WARM_UPS):
            run()
        once = _cuda_ns if self.device.type == "cuda" else _wall_ns
        return max(1, round(statistics.median(once(run) for _ in range(self.repeats))))

    def _real(self, given: Any, limit: int) -> Any:
        """Return arguments with real tensors, on the device at hand, in place of fake ones."""
        made: dict[int, torch.Tensor] = {}

        def real(leaf: Any) -> Any:
            if isinstance(leaf, torch.Tensor):
                if id(leaf) not in made:
                    made[id(leaf)] = self._random(leaf, limit)
                return made[id(leaf)]
            return self.device if isinstance(leaf, torch.device) else leaf

        return pytree.tree_map(real, given)

    def _random(self, fake: torch.Tensor, limit: int) -> torch.Tensor:
        """Make a tensor of the same shape, strides and format."""
        spans = (
            (size - 1) * stride for size, stride in zip(fake.shape, fake.stride(), strict=True)
        )
        length = 0 if 0 in fake.shape else 1 + sum(spans)
        if fake.dtype.is_floating_point or fake.dtype.is_complex:
            flat = torch.randn(length, generator=self._generator).abs_().to(fake.dtype)
        elif fake.dtype == torch.bool:
            flat = torch.rand(length, generator=self._generator) < 0.9
        else:
            flat = torch.randint(limit, (length,), generator=self._generator).to(fake.dtype)
        return flat.to(self.device).as_strided(fake.size(), fake.stride())


def _wall_ns(run: Callable[[], Any]) -> float:
    start = time.perf_counter_ns()
    run()
    return time.perf_counter_ns() - start


def _cuda_ns(run: Callable[[], Any]) -> float:
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    torch.cuda.synchronize()
    start.record()
    run()
    end.record()
    torch.cuda.synchronize()
    return float(start.elapsed_time(end)) * 1e6


def _signature(given: Any) -> Hashable:
    """Return what a call's time depends on: structure, shapes, strides, formats, values."""
    leaves, structure = pytree.tree_flatten(given)
    return (
        str(structure),
        tuple(
            (tuple(leaf.shape), leaf.stride(), leaf.dtype)
            if isinstance(leaf, torch.Tensor)
            else repr(leaf)
            for leaf in leaves
        ),
    )
