"""Models that come with slackopt: convolutional networks and a diffusion model of public papers."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from types import MappingProxyType
from typing import Any

from slackopt.errors import InputError
from slackopt.profiles.pytorch.settings import MAX_SIZE, whole_number
from slackopt.profiles.pytorch.workload import Workload

IMAGE_SIZE = "image_size"
"""The option of every reference model; the others are those of its constructor."""


@dataclass(frozen=True)
class ReferenceModel:
    """A model of `slackopt.profiles.pytorch.models`.

    Attributes
    ----------
    module, constructor
        Where it is.
    task
        ``classes`` of images, ``pixels`` (a class for each) or ``noise`` (of a diffusion model).
    batch, image_size, channels, classes
        Of the default step.
    source
        The paper.
    """

    module: str
    constructor: str
    task: str
    batch: int
    image_size: int
    channels: int
    classes: int
    source: str


_HE = "He et al. 2016 (arXiv 1512.03385), stride in the 3x3 convolution"

REFERENCE_MODELS: Mapping[str, ReferenceModel] = MappingProxyType(
    {
        "ddpm-unet": ReferenceModel(
            "diffusion",
            "DiffusionUNet",
            "noise",
            128,
            32,
            3,
            0,
            "Ho et al. 2020 (arXiv 2006.11239), CIFAR-10",
        ),
        "densenet121": ReferenceModel(
            "densenet",
            "DenseNet121",
            "classes",
            32,
            224,
            3,
            1000,
            "Huang et al. 2017 (arXiv 1608.06993)",
        ),
        "mobilenet-v2": ReferenceModel(
            "mobilenet",
            "MobileNetV2",
            "classes",
            32,
            224,
            3,
            1000,
            "Sandler et al. 2018 (arXiv 1801.04381)",
        ),
        "resnet152": ReferenceModel("resnet", "resnet152", "classes", 32, 224, 3, 1000, _HE),
        "resnet18": ReferenceModel("resnet", "resnet18", "classes", 32, 224, 3, 1000, _HE),
        "resnet50": ReferenceModel("resnet", "resnet50", "classes", 32, 224, 3, 1000, _HE),
        "unet": ReferenceModel(
            "unet", "UNet", "pixels", 1, 572, 1, 2, "Ronneberger et al. 2015 (arXiv 1505.04597)"
        ),
        "vgg16": ReferenceModel(
            "vgg",
            "VGG16",
            "classes",
            32,
            224,
            3,
            1000,
            "Simonyan and Zisserman 2015 (arXiv 1409.1556), configuration D",
        ),
    }
)
"""Every reference model, by name."""


def workload(name: str, *, batch: int | None, overrides: Mapping[str, Any]) -> Workload:
    """Build a reference model on the meta device, with its step.

    Parameters
    ----------
    name
        A key of `REFERENCE_MODELS`.
    batch
        Images; None for the model's default.
    overrides
        ``image_size``, and parameters of the model's constructor.

    Raises
    ------
    InputError
        For an option that the model doesn't have, or a size that it can't take.
    """
    import torch

    entry = REFERENCE_MODELS[name]
    module = import_module(f"slackopt.profiles.pytorch.models.{entry.module}")
    constructor: Callable[..., torch.nn.Module] = getattr(module, entry.constructor)
    known = [*inspect.signature(constructor).parameters, IMAGE_SIZE]
    for key in overrides:
        if key not in known:
            raise InputError(f"{name} has no option {key!r}; it has {', '.join(known)}")
    options = {key: value for key, value in overrides.items() if key != IMAGE_SIZE}
    count = whole_number("batch", entry.batch if batch is None else batch, 1, MAX_SIZE)
    side = whole_number(IMAGE_SIZE, overrides.get(IMAGE_SIZE, entry.image_size), 1, MAX_SIZE)
    channels = options.get("channels", entry.channels)
    try:
        with torch.device("meta"):
            model = constructor(**options)
            image = torch.empty(count, channels, side, side)
            inputs, targets, loss = _step(entry, image, module)
    except (TypeError, ValueError, RuntimeError) as error:
        line = str(error).strip().partition("\n")[0]
        raise InputError(f"{name} can't be built with these options: {line}") from error
    return Workload(
        model,
        inputs,
        targets=targets,
        loss=loss,
        name=name,
        record={
            "source": "slackopt.profiles.pytorch.models",
            "paper": entry.source,
            "overrides": dict(options),
            "batch": count,
            IMAGE_SIZE: side,
        },
    )


def _step(
    entry: ReferenceModel, image: Any, module: Any
) -> tuple[tuple[Any, ...], Any, Callable[..., Any]]:
    """Return inputs, targets and loss, on the device that is set."""
    import torch
    import torch.nn.functional as F  # noqa: N812

    count = image.size(0)
    if entry.task == "noise":
        return (image, torch.empty(count)), torch.empty_like(image), F.mse_loss
    if entry.task == "pixels":
        side = module.unet_side(image.size(-1))
        labels = torch.empty(count, side, side, dtype=torch.long)
        return (image,), labels, F.cross_entropy
    return (image,), torch.empty(count, dtype=torch.long), F.cross_entropy
