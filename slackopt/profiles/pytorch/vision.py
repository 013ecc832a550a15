"""Image classifiers of torchvision and timm, with random weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch._subclasses.fake_tensor import FakeTensorMode

from slackopt.errors import InputError
from slackopt.profiles.pytorch.building import build_fake
from slackopt.profiles.pytorch.requirement import require
from slackopt.profiles.pytorch.settings import MAX_SIZE, whole_number
from slackopt.profiles.pytorch.workload import Workload

DEFAULT_BATCH = 32
DEFAULT_SIDE = 224

LIBRARIES = ("torchvision", "timm")


def workload(
    library: str,
    name: str,
    *,
    batch: int | None,
    overrides: Mapping[str, Any],
    mode: FakeTensorMode,
) -> Workload:
    """Build a classifier of torchvision or timm and its step.

    Parameters
    ----------
    library, name
        One of `LIBRARIES`, and the model's name in it.
    batch
        Images; None for 32.
    overrides
        ``image_size``, and parameters of the model.
    mode
        The model is built under it, so that it takes no memory.

    Raises
    ------
    InputError
        If the library can't be imported, or has no such model.
    """
    package = require(library)
    options = {key: value for key, value in overrides.items() if key != "image_size"}
    if library == "torchvision":
        known = package.models.list_models()
        make = lambda: package.models.get_model(name, weights=None, **options)  # noqa: E731
    else:
        known = package.list_models()
        make = lambda: package.create_model(name, pretrained=False, **options)  # noqa: E731
    if name not in known:
        raise InputError(f"{library} has no model {name!r}")
    model = build_fake(make, mode, f"{library}:{name}")
    channels, side = _image(model, overrides)
    count = whole_number("batch", DEFAULT_BATCH if batch is None else batch, 1, MAX_SIZE)
    return Workload(
        model,
        (torch.empty(count, channels, side, side, device="meta"),),
        targets=torch.empty(count, dtype=torch.long, device="meta"),
        loss=F.cross_entropy,
        name=name,
        record={
            "source": library,
            "type": name,
            "overrides": dict(options),
            "batch": count,
            "image_size": side,
        },
    )


def _image(model: torch.nn.Module, overrides: Mapping[str, Any]) -> tuple[int, int]:
    """Channels and side of the images: timm's models know theirs."""
    shape = getattr(model, "default_cfg", {}).get("input_size", (3, DEFAULT_SIDE, DEFAULT_SIDE))
    side = whole_number("image_size", overrides.get("image_size", shape[-1]), 1, MAX_SIZE)
    return shape[0], side
