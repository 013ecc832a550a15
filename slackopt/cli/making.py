"""``profile`` and ``instance``: what is asked."""

from __future__ import annotations

import enum
import json
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import ValidationError

from slackopt.cli import views
from slackopt.cli.options import check_output
from slackopt.cli.output import Answer
from slackopt.cli.progress import say
from slackopt.describe import describe
from slackopt.errors import InputError
from slackopt.files import read_device, read_graph, write_record
from slackopt.instance import Instance
from slackopt.profiles import (
    accelerator_names,
    device_names,
    get_accelerator,
    measure_link,
    preset_names,
    torch_model,
    torch_model_names,
    transformer,
)
from slackopt.profiles.builder import SWAP_THRESHOLD_BYTES
from slackopt.profiles.devices import get_device
from slackopt.profiles.pytorch.link import DEFAULT_SIZE_BYTES
from slackopt.profiles.pytorch.named import FORMS as TORCH_FORMS
from slackopt.violations import violation_lines


class Attention(enum.StrEnum):
    """How attention is computed."""

    FLASH = "flash"
    EAGER = "eager"


class NumberFormat(enum.StrEnum):
    """Format of parameters and activations."""

    BF16 = "bf16"
    FP16 = "fp16"
    FP32 = "fp32"


class MixedPrecision(enum.StrEnum):
    """Format of the ops that autocast runs in 16 bits."""

    BF16 = "bf16"
    FP16 = "fp16"


def profile(
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL",
            show_default=False,
            help=f"Analytic preset: {', '.join(preset_names())}. Traced with PyTorch: "
            f"{', '.join(torch_model_names())}, {TORCH_FORMS}.",
        ),
    ],
    output: Annotated[
        Path,
        typer.Option("--output", "-o", metavar="GRAPH", show_default=False, help="Graph file."),
    ],
    batch: Annotated[
        int | None, typer.Option(metavar="N", help="Samples per step; the model's by default.")
    ] = None,
    seq: Annotated[
        int | None, typer.Option(metavar="N", help="Tokens per sequence; the model's by default.")
    ] = None,
    attention: Annotated[
        Attention, typer.Option(help="One fused op, or scores and probabilities kept.")
    ] = Attention.FLASH,
    dropout: Annotated[
        bool | None,
        typer.Option("--dropout/--no-dropout", help="Train with dropout; the model's by default."),
    ] = None,
    layers: Annotated[
        int | None, typer.Option(metavar="N", help="Number of blocks; the model's by default.")
    ] = None,
    dtype: Annotated[
        NumberFormat | None,
        typer.Option(
            help="Number format; bf16 by default, and of a FILE.py:FUNCTION what it builds."
        ),
    ] = None,
    autocast: Annotated[
        MixedPrecision | None,
        typer.Option(
            show_default=False,
            help="Train a PyTorch model under torch.autocast, its parameters in fp32.",
        ),
    ] = None,
    device: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            show_default="a100",
            help="Accelerator (a100) or device (a100-pcie4) whose figures give the op times.",
        ),
    ] = None,
    matmul_percent: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            show_default=False,
            help="Share of peak that matrix products reach, for an analytic preset; by default "
            "the accelerator's.",
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            show_default=False,
            help="Field of a PyTorch model's config, or parameter of its function; repeatable.",
        ),
    ] = None,
    micro_batches: Annotated[
        int, typer.Option(metavar="N", help="Parts of a batch of a PyTorch model; profile one.")
    ] = 1,
    restore_random_state: Annotated[
        bool,
        typer.Option(
            "--restore-random-state/--no-restore-random-state",
            help="Whether random ops of a PyTorch model are recomputable.",
        ),
    ] = True,
    min_swap_bytes: Annotated[
        int, typer.Option(metavar="N", help="Smallest swappable tensor of a PyTorch model.")
    ] = SWAP_THRESHOLD_BYTES,
    measure: Annotated[
        bool,
        typer.Option("--measure", help="Time the ops of a PyTorch model on this machine."),
    ] = False,
    repeats: Annotated[
        int, typer.Option(metavar="N", help="Runs of each op that is measured; the median counts.")
    ] = 5,
    name: Annotated[
        str | None, typer.Option(metavar="NAME", help="Name of the graph; by default its settings.")
    ] = None,
) -> Answer:
    """Make the graph of one training step of a model, without a GPU.

    An analytic preset needs public figures only. A PyTorch model is traced from its code, with
    random weights that are never loaded. A file name that ends in .gz is compressed.
    """
    check_output(output)
    if ":" not in model and model not in (*preset_names(), *torch_model_names()):
        raise InputError(
            f"unknown model {model!r}; analytic presets: {', '.join(preset_names())}; PyTorch "
            f"models: {', '.join(torch_model_names())}, {TORCH_FORMS}"
        )
    if measure and device is not None:
        raise InputError("--measure times the ops on this machine: leave out --device")
    accelerator = accelerator_of(device or "a100")
    traced: dict[str, Any] = {
        "autocast": None if autocast is None else autocast.value,
        "overrides": dict(map(_setting, settings or [])),
        "micro_batches": micro_batches,
        "restore_random_state": restore_random_state,
        "min_swap_bytes": min_swap_bytes,
        "measure": measure,
        "repeats": repeats,
    }
    try:
        if model in preset_names():
            changed = [key for key, value in traced.items() if value != _TORCH_DEFAULTS[key]]
            if changed:
                option = "set" if changed[0] == "overrides" else changed[0].replace("_", "-")
                raise InputError(
                    f"--{option} is for PyTorch models, and {model} is an "
                    f"analytic preset; hf:{model} is the PyTorch model"
                )
            chip = get_accelerator(accelerator)
            if matmul_percent is not None:
                chip = chip.assuming("given with --matmul-percent", matmul_percent=matmul_percent)
            graph = transformer(
                model,
                batch=batch,
                seq=seq,
                attention=attention.value,
                dropout=dropout,
                accelerator=chip,
                num_layers=layers,
                dtype="bf16" if dtype is None else dtype.value,
                name=name,
            )
        elif matmul_percent is not None:
            raise InputError(
                f"--matmul-percent is for analytic presets, and {model} is a PyTorch model"
            )
        else:
            graph = torch_model(
                model,
                batch=batch,
                seq=seq,
                attention=attention.value,
                dropout=dropout is not False,
                accelerator=accelerator,
                num_layers=layers,
                dtype=None if dtype is None else dtype.value,
                graph_name=name,
                **traced,
            )
    except ValidationError as error:
        raise InputError("these settings make no valid step", violation_lines(error)) from None
    write_record(graph, output)
    return Answer(
        {"output": str(output), **describe(graph)}, views.record_view(graph, written=output)
    )


_TORCH_DEFAULTS: dict[str, Any] = {
    "autocast": None,
    "overrides": {},
    "micro_batches": 1,
    "restore_random_state": True,
    "min_swap_bytes": SWAP_THRESHOLD_BYTES,
    "measure": False,
    "repeats": 5,
}


def _setting(text: str) -> tuple[str, Any]:
    """Read KEY=VALUE; the value is JSON (12, 0.1, true, [1, 2]) or else a string."""
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise InputError(f"--set {text!r}: must be KEY=VALUE")
    try:
        return key, json.loads(value)
    except ValueError:
        return key, value


def link(
    output: Annotated[
        Path,
        typer.Option("--output", "-o", metavar="DEVICE", show_default=False, help="Device file."),
    ],
    size_bytes: Annotated[
        int, typer.Option(metavar="N", help="Size of each copy.")
    ] = DEFAULT_SIZE_BYTES,
    repeats: Annotated[
        int, typer.Option(metavar="N", help="Copies of each kind; the median counts.")
    ] = 10,
    name: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Name of the device; the product's by default."),
    ] = None,
) -> Answer:
    """Measure the link between the GPU of this machine and its host memory.

    The file is a device for `slackopt instance --device FILE`. Needs PyTorch and a CUDA device.
    """
    check_output(output)
    device = measure_link(size_bytes=size_bytes, repeats=repeats, name=name)
    write_record(device, output)
    document = device.model_dump(mode="json")
    shown = "\n".join(f"{key}: {value}" for key, value in document.items() if value is not None)
    return Answer({"output": str(output), **document}, f"{shown}\nwritten to {output}")


def instance(
    graph: Annotated[Path, typer.Argument(metavar="GRAPH", show_default=False, help="Graph file.")],
    device: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            show_default=False,
            help=f"One of: {', '.join(device_names())}; or a file that `slackopt link` wrote.",
        ),
    ],
    budget: Annotated[
        str,
        typer.Option(
            metavar="SIZE",
            show_default=False,
            help="Fraction of the unlimited peak (0.5, 50%) or bytes (12GiB).",
        ),
    ],
    output: Annotated[
        Path,
        typer.Option("--output", "-o", metavar="INST", show_default=False, help="Instance file."),
    ],
    name: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Name; the graph's by default."),
    ] = None,
    chunk_bytes: Annotated[
        int | None,
        typer.Option(
            metavar="BYTES",
            show_default="the device's, or whole tensors",
            help="Swap-outs free memory in pieces of this size; 0: whole tensors.",
        ),
    ] = None,
) -> Answer:
    """Make an instance: a graph, a device and a memory budget.

    A budget that one op alone exceeds is refused with exit code 3, and nothing is written.
    """
    check_output(output, graph)
    step = read_graph(graph)
    catalogued = not device.endswith((".json", ".json.gz"))
    chosen = get_device(device) if catalogued else read_device(device)
    if chunk_bytes is not None:
        chosen = chosen.with_chunks(chunk_bytes)
    made = Instance.from_graph(step, device=chosen, budget=budget, name=name)
    made.check_working_set()
    chip = step.provenance.get("accelerator")
    profiled = chip.get("name") if isinstance(chip, dict) else None
    if catalogued and isinstance(profiled, str) and not device.startswith(f"{profiled}-"):
        say(f"warning: {graph} was profiled on {profiled!r}, and the link is that of {device!r}")
    write_record(made, output)
    return Answer(
        {"output": str(output), **describe(made)}, views.record_view(made, written=output)
    )


def accelerator_of(device: str) -> str:
    """Return the accelerator of an accelerator's or a device's name."""
    chips = accelerator_names()
    if device in chips:
        return device
    if device in device_names():
        for chip in sorted(chips, key=len, reverse=True):
            if device.startswith(f"{chip}-"):
                return chip
    raise InputError(
        f"unknown device {device!r}; accelerators: {', '.join(chips)}; "
        f"devices: {', '.join(device_names())}"
    )
