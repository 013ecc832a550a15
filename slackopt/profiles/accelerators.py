"""Accelerators of the device catalogue, each figure with a public source.

All figures are integers: rates per second, efficiencies in percent, times in ns. Efficiencies are
one setting per accelerator; none is tuned to a model. Where no public figure was found, the source
says ``assumed`` and what was assumed instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Literal

from pydantic import Field, ValidationError

from slackopt.errors import InputError
from slackopt.records import BytesPerSecond, DurationNs, Name, Record, SizeBytes
from slackopt.violations import violation_lines

Dtype = Literal["bf16", "fp16", "fp32"]
Percent = Annotated[int, Field(gt=0, le=100)]
FIGURES = (
    "memory_bytes_per_s",
    "memory_bytes",
    "matmul_percent",
    "attention_percent",
    "memory_percent",
    "launch_ns",
)
"""Fields of an accelerator that are one figure each."""

FlopsPerSecond = Annotated[int, Field(gt=0, le=10**18)]


class Accelerator(Record):
    """What the roofline model needs to know about one accelerator.

    Attributes
    ----------
    name, title
        Name in the catalogue; name of the product.
    peak_flops_per_s
        Peak dense (no sparsity) FLOP/s of matrix products by number format. A missing format has
        no matrix units.
    memory_bytes_per_s, memory_bytes
        Bandwidth on the data sheet and size of the device memory.
    matmul_percent, attention_percent, memory_percent
        Reached share of peak FLOP/s in matrix products, of peak FLOP/s in fused (flash) attention,
        and of the memory bandwidth in memory-bound ops.
    launch_ns
        Time added to every op for its launch.
    sources
        Field name -> where the figure comes from.
    """

    name: Name
    title: str
    peak_flops_per_s: Mapping[Dtype, FlopsPerSecond]
    memory_bytes_per_s: BytesPerSecond
    memory_bytes: SizeBytes
    matmul_percent: Percent
    attention_percent: Percent
    memory_percent: Percent
    launch_ns: DurationNs
    sources: Mapping[str, str]

    def peak(self, dtype: str) -> int:
        """Peak dense FLOP/s of a number format.

        Raises
        ------
        InputError
            If the accelerator has no matrix units for it.
        """
        for known, flops_per_s in self.peak_flops_per_s.items():
            if known == dtype:
                return flops_per_s
        known_text = ", ".join(sorted(self.peak_flops_per_s))
        raise InputError(f"accelerator {self.name!r} has no {dtype!r} figure; it has {known_text}")

    def assuming(self, source: str, **figures: int) -> Accelerator:
        """Return this accelerator with other figures, each with `source` as where it comes from.

        Parameters
        ----------
        source
            Why these figures; it goes into the provenance of every graph made with them.
        **figures
            Fields with one figure: ``matmul_percent=40``.

        Raises
        ------
        InputError
            For an unknown figure or one out of range.

        Examples
        --------
        >>> get_accelerator("a100").assuming("assumed", matmul_percent=40).sources["matmul_percent"]
        'assumed'
        """
        for name in figures:
            if name not in FIGURES:
                raise InputError(
                    f"accelerator figure {name!r}: must be one of {', '.join(FIGURES)}"
                )
        sources = {**self.sources, **dict.fromkeys(figures, source)}
        try:
            return Accelerator(**{**dict(self), **figures, "sources": sources})
        except ValidationError as error:
            what = "these figures make no accelerator"
            raise InputError(what, violation_lines(error)) from None


GB = 10**9
TFLOPS = 10**12

_LAUNCH = (
    "NVIDIA developer blog, Getting Started with CUDA Graphs: 3.8 us per launch of a 2.9 us kernel "
    "when launches overlap, so about 1 us between kernels"
)
_BEST_MATMUL = "Machine Learning Engineering open book, maximum achievable matmul FLOPS table"
_A100_MATMUL = (
    "set once, for all models, so that the step of a 6.7 B parameter decoder at sequence length "
    "2048 comes out near its model FLOPs utilisation of 0.64 in the A100 80 GB training benchmarks "
    "of MosaicML LLM Foundry (0.51 at 350 M and s 512, 0.60 at 1.3 B and s 1024, all without "
    "checkpointing); single products "
    "reach 69 % (8192 cubed on an A800, public transformers-benchmarks notebook, issue 4) to "
    f"86.9 % of peak (best shape, {_BEST_MATMUL})"
)
_A100_ATTENTION = (
    "middle of the 50-73 % of peak that FlashAttention-2 reports on the A100 (arXiv 2307.08691)"
)
_H100_ATTENTION = (
    "middle of the 35-75 % of peak that FlashAttention-3 reports on the H100 for "
    "FlashAttention-2 and -3 (arXiv 2407.08608)"
)
_GH200_MEMORY = (
    "STREAM reaches 3.4 of 4.0 TB/s on a GH200 (public study of Grace Hopper memory, reported by "
    "HPCwire, July 2024)"
)

_ACCELERATORS = (
    Accelerator(
        name="a100",
        title="NVIDIA A100 SXM 80 GB",
        peak_flops_per_s={"bf16": 312 * TFLOPS, "fp16": 312 * TFLOPS, "fp32": 19_500 * GB},
        memory_bytes_per_s=2_039 * GB,
        memory_bytes=80 * GB,
        matmul_percent=67,
        attention_percent=61,
        memory_percent=88,
        launch_ns=1_000,
        sources={
            "peak_flops_per_s": "NVIDIA A100 data sheet, dense",
            "memory_bytes_per_s": "NVIDIA A100 data sheet, 80 GB SXM",
            "memory_bytes": "NVIDIA A100 data sheet",
            "matmul_percent": _A100_MATMUL,
            "attention_percent": _A100_ATTENTION,
            "memory_percent": (
                "public bandwidth benchmarks: 1355 of 1555 GB/s on the 40 GB model (JuliaCon 2023 "
                "GPU workshop, issue 7) and 1727 of 1935 GB/s on an A800 "
                "(public transformers-benchmarks notebook, issue 4), 87-89 %"
            ),
            "launch_ns": _LAUNCH,
        },
    ),
    Accelerator(
        name="a100-40gb",
        title="NVIDIA A100 SXM 40 GB",
        peak_flops_per_s={"bf16": 312 * TFLOPS, "fp16": 312 * TFLOPS, "fp32": 19_500 * GB},
        memory_bytes_per_s=1_555 * GB,
        memory_bytes=40 * GB,
        matmul_percent=67,
        attention_percent=61,
        memory_percent=87,
        launch_ns=1_000,
        sources={
            "peak_flops_per_s": "NVIDIA A100 Tensor Core GPU Architecture white paper, dense",
            "memory_bytes_per_s": "NVIDIA A100 Tensor Core GPU Architecture white paper",
            "memory_bytes": "NVIDIA A100 Tensor Core GPU Architecture white paper",
            "matmul_percent": "assumed: as the 80 GB model, same chip",
            "attention_percent": _A100_ATTENTION,
            "memory_percent": (
                "memory copy at 1355 of 1555 GB/s, JuliaCon 2023 GPU workshop, issue 7"
            ),
            "launch_ns": _LAUNCH,
        },
    ),
    Accelerator(
        name="h100",
        title="NVIDIA H100 SXM 80 GB",
        peak_flops_per_s={"bf16": 989 * TFLOPS, "fp16": 989 * TFLOPS, "fp32": 67 * TFLOPS},
        memory_bytes_per_s=3_350 * GB,
        memory_bytes=80 * GB,
        matmul_percent=62,
        attention_percent=55,
        memory_percent=85,
        launch_ns=1_000,
        sources={
            "peak_flops_per_s": "NVIDIA H100 data sheet, half of the figures with sparsity",
            "memory_bytes_per_s": "NVIDIA H100 data sheet, SXM",
            "memory_bytes": "NVIDIA H100 data sheet",
            "matmul_percent": (
                f"80.3 % of peak at the best shape ({_BEST_MATMUL}) times 67/86.9, the A100's "
                "ratio of the setting to its best shape (assumed to carry over)"
            ),
            "attention_percent": _H100_ATTENTION,
            "memory_percent": f"assumed: as GH200; {_GH200_MEMORY}",
            "launch_ns": _LAUNCH,
        },
    ),
    Accelerator(
        name="h200",
        title="NVIDIA H200 SXM 141 GB",
        peak_flops_per_s={"bf16": 989 * TFLOPS, "fp16": 989 * TFLOPS, "fp32": 67 * TFLOPS},
        memory_bytes_per_s=4_800 * GB,
        memory_bytes=141 * GB,
        matmul_percent=62,
        attention_percent=55,
        memory_percent=85,
        launch_ns=1_000,
        sources={
            "peak_flops_per_s": "NVIDIA H200 data sheet, half of the figures with sparsity",
            "memory_bytes_per_s": "NVIDIA H200 data sheet",
            "memory_bytes": "NVIDIA H200 data sheet",
            "matmul_percent": "assumed: as the H100, same compute units",
            "attention_percent": f"assumed: as the H100; {_H100_ATTENTION}",
            "memory_percent": f"assumed: as GH200; {_GH200_MEMORY}",
            "launch_ns": _LAUNCH,
        },
    ),
    Accelerator(
        name="gh200",
        title="NVIDIA GH200 Grace Hopper, 96 GB HBM3",
        peak_flops_per_s={"bf16": 989 * TFLOPS, "fp16": 989 * TFLOPS, "fp32": 67 * TFLOPS},
        memory_bytes_per_s=4_000 * GB,
        memory_bytes=96 * GB,
        matmul_percent=64,
        attention_percent=55,
        memory_percent=85,
        launch_ns=1_000,
        sources={
            "peak_flops_per_s": "NVIDIA GH200 data sheet, half of the figures with sparsity",
            "memory_bytes_per_s": "NVIDIA GH200 data sheet, HBM3 model",
            "memory_bytes": "NVIDIA GH200 data sheet, HBM3 model",
            "matmul_percent": (
                f"83.6 % of peak at the best shape ({_BEST_MATMUL}) times 67/86.9, the A100's "
                "ratio of the setting to its best shape (assumed to carry over)"
            ),
            "attention_percent": f"assumed: as the H100; {_H100_ATTENTION}",
            "memory_percent": _GH200_MEMORY,
            "launch_ns": _LAUNCH,
        },
    ),
    Accelerator(
        name="v100",
        title="NVIDIA V100 PCIe 32 GB",
        peak_flops_per_s={"fp16": 112 * TFLOPS, "fp32": 14 * TFLOPS},
        memory_bytes_per_s=900 * GB,
        memory_bytes=32 * GB,
        matmul_percent=67,
        attention_percent=61,
        memory_percent=88,
        launch_ns=1_000,
        sources={
            "peak_flops_per_s": "NVIDIA V100 data sheet, PCIe model; it has no bf16 units",
            "memory_bytes_per_s": "NVIDIA V100 data sheet",
            "memory_bytes": "NVIDIA V100 data sheet",
            "matmul_percent": "assumed: as the A100",
            "attention_percent": "assumed: as the A100",
            "memory_percent": "assumed: as the A100",
            "launch_ns": _LAUNCH,
        },
    ),
    Accelerator(
        name="l4",
        title="NVIDIA L4 24 GB",
        peak_flops_per_s={"bf16": 121 * TFLOPS, "fp16": 121 * TFLOPS, "fp32": 30_300 * GB},
        memory_bytes_per_s=300 * GB,
        memory_bytes=24 * GB,
        matmul_percent=67,
        attention_percent=61,
        memory_percent=88,
        launch_ns=1_000,
        sources={
            "peak_flops_per_s": "NVIDIA L4 data sheet, half of the figures with sparsity (242)",
            "memory_bytes_per_s": "NVIDIA L4 data sheet",
            "memory_bytes": "NVIDIA L4 data sheet",
            "matmul_percent": "assumed: as the A100",
            "attention_percent": "assumed: as the A100",
            "memory_percent": "assumed: as the A100",
            "launch_ns": _LAUNCH,
        },
    ),
    Accelerator(
        name="rtx4090",
        title="NVIDIA GeForce RTX 4090 24 GB",
        peak_flops_per_s={"bf16": 165_200 * GB, "fp16": 165_200 * GB, "fp32": 82_600 * GB},
        memory_bytes_per_s=1_008 * GB,
        memory_bytes=24 * GB,
        matmul_percent=67,
        attention_percent=61,
        memory_percent=91,
        launch_ns=1_000,
        sources={
            "peak_flops_per_s": (
                "NVIDIA Ada GPU Architecture white paper, dense, products summed in fp32"
            ),
            "memory_bytes_per_s": "NVIDIA Ada GPU Architecture white paper",
            "memory_bytes": "NVIDIA Ada GPU Architecture white paper",
            "matmul_percent": "assumed: as the A100",
            "attention_percent": "assumed: as the A100",
            "memory_percent": (
                "918 of 1008 GB/s, CUDA sample p2pBandwidthLatencyTest, public report in "
                "tinygrad open-gpu-kernel-modules issue 6"
            ),
            "launch_ns": _LAUNCH,
        },
    ),
    Accelerator(
        name="cpu",
        title="Intel Xeon Platinum 8480+, one socket",
        peak_flops_per_s={"fp32": 7_168 * GB},
        memory_bytes_per_s=307_200 * 10**6,
        memory_bytes=512 * GB,
        matmul_percent=80,
        attention_percent=80,
        memory_percent=80,
        launch_ns=2_000,
        sources={
            "peak_flops_per_s": (
                "Intel product page, 56 cores at 2.0 GHz, times 64 FLOP a cycle and core (two "
                "AVX-512 units of 16 multiply-adds); bf16 is left out, as public figures of AMX "
                "products scatter from 8 % of peak (openxla/xla issue 10556) upwards"
            ),
            "memory_bytes_per_s": "Intel product page, eight channels of DDR5-4800",
            "memory_bytes": "assumed: 64 GB on each of the eight channels",
            "matmul_percent": "assumed: 80 %, and less for small products",
            "attention_percent": "assumed: as products",
            "memory_percent": "assumed: 80 %",
            "launch_ns": "assumed: 2 us for PyTorch to dispatch one op",
        },
    ),
)

ACCELERATORS: Mapping[str, Accelerator] = MappingProxyType({a.name: a for a in _ACCELERATORS})
"""Every accelerator of the catalogue, by name."""


def accelerator_names() -> tuple[str, ...]:
    """Names that `get_accelerator` knows, sorted."""
    return tuple(sorted(ACCELERATORS))


def get_accelerator(name: str) -> Accelerator:
    """Return an accelerator of the catalogue.

    Raises
    ------
    InputError
        Listing the known names.
    """
    accelerator = ACCELERATORS.get(name)
    if accelerator is None:
        raise InputError(
            f"unknown accelerator {name!r}; known accelerators: {', '.join(accelerator_names())}"
        )
    return accelerator
