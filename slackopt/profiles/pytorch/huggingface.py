"""Models of Hugging Face transformers, by type or by a known size, with random weights."""

from __future__ import annotations

import contextlib
import difflib
import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from slackopt.errors import InputError
from slackopt.profiles.pytorch.building import build_fake
from slackopt.profiles.pytorch.requirement import require
from slackopt.profiles.pytorch.settings import MAX_SIZE, Attention, whole_number
from slackopt.profiles.pytorch.workload import Workload

DEFAULT_BATCH = 8
DEFAULT_SEQ = 512


@dataclass(frozen=True)
class KnownSize:
    """A published size of a model type.

    Attributes
    ----------
    model_type
        Name of the type in transformers.
    overrides
        What differs from the type's default config.
    source
        Where the size comes from.
    """

    model_type: str
    overrides: Mapping[str, Any]
    source: str


KNOWN_SIZES: Mapping[str, KnownSize] = MappingProxyType(
    {
        "bert-large": KnownSize(
            "bert",
            {
                "hidden_size": 1024,
                "num_hidden_layers": 24,
                "num_attention_heads": 16,
                "intermediate_size": 4096,
            },
            "Devlin et al. 2019 (arXiv 1810.04805)",
        ),
        "gpt2-medium": KnownSize(
            "gpt2", {"n_embd": 1024, "n_layer": 24, "n_head": 16}, "Radford et al. 2019"
        ),
        "gpt2-large": KnownSize(
            "gpt2", {"n_embd": 1280, "n_layer": 36, "n_head": 20}, "Radford et al. 2019"
        ),
        "gpt2-xl": KnownSize(
            "gpt2", {"n_embd": 1600, "n_layer": 48, "n_head": 25}, "Radford et al. 2019"
        ),
        "llama-7b": KnownSize("llama", {}, "Touvron et al. 2023 (arXiv 2302.13971)"),
        "llama-13b": KnownSize(
            "llama",
            {
                "hidden_size": 5120,
                "num_hidden_layers": 40,
                "num_attention_heads": 40,
                "intermediate_size": 13824,
            },
            "Touvron et al. 2023 (arXiv 2302.13971)",
        ),
    }
)
"""Sizes that have a name of their own; every other one is a type with overrides."""

_TASKS = (
    ("SEQ_TO_SEQ_CAUSAL_LM", "AutoModelForSeq2SeqLM"),
    ("MASKED_LM", "AutoModelForMaskedLM"),
    ("CAUSAL_LM", "AutoModelForCausalLM"),
    ("IMAGE_CLASSIFICATION", "AutoModelForImageClassification"),
)
"""What a model is trained for: the first task that transformers has for its type."""


def workload(
    name: str,
    *,
    batch: int | None,
    seq: int | None,
    num_layers: int | None,
    attention: Attention,
    overrides: Mapping[str, Any],
    mode: FakeTensorMode,
) -> Workload:
    """Build a model of transformers from its config, without weights or downloads.

    Parameters
    ----------
    name
        A key of `KNOWN_SIZES` or a model type of transformers.
    batch, seq, num_layers
        Sequences (or images), tokens per sequence, and layers; None for 8, for the smaller of 512
        and the longest that the model takes, and for the config's.
    attention
        ``flash`` builds it with scaled-dot-product attention, ``eager`` with its own code.
    overrides
        Fields of the config.
    mode
        The model is built under it, so that it takes no memory.

    Raises
    ------
    InputError
        For a type, field or length that the model doesn't have.
    """
    transformers = require("transformers")
    with quiet():
        config, size = _config(transformers, name, num_layers, overrides)
    task, auto_class = _task(transformers, config.model_type)
    implementation = "sdpa" if attention == "flash" else "eager"
    with quiet():
        try:
            model = build_fake(
                lambda: getattr(transformers, auto_class).from_config(
                    config, attn_implementation=implementation
                ),
                mode,
                f"hf:{name}",
            )
        except InputError as error:
            if "scaled_dot_product_attention" not in str(error):
                raise
            raise InputError(
                f"hf:{name} has no fused attention in transformers: use attention eager"
            ) from error
    count = whole_number("batch", DEFAULT_BATCH if batch is None else batch, 1, MAX_SIZE)
    if task == "IMAGE_CLASSIFICATION":
        if seq is not None:
            raise InputError(f"hf:{name} takes images: it has no sequence length")
        inputs, shape = _images(config, count)
    else:
        inputs, shape = _tokens(name, task, config, count, seq)
    return Workload(
        model,
        inputs,
        name=f"{name}-{attention}",
        record={
            "source": "transformers",
            "type": config.model_type,
            "size": None if size is None else {"name": name, "source": size.source},
            "task": auto_class,
            "layers": getattr(config, "num_hidden_layers", None),
            "overrides": dict(overrides),
            "batch": count,
            **shape,
        },
    )


def _config(
    transformers: Any, name: str, num_layers: int | None, overrides: Mapping[str, Any]
) -> tuple[Any, KnownSize | None]:
    size = KNOWN_SIZES.get(name)
    model_type = name if size is None else size.model_type
    if model_type not in transformers.CONFIG_MAPPING:
        close = difflib.get_close_matches(name, [*KNOWN_SIZES, *transformers.CONFIG_MAPPING], n=5)
        hint = f"; did you mean {', '.join(close)}?" if close else ""
        raise InputError(f"transformers has no model type {name!r}{hint}")
    kind = transformers.CONFIG_MAPPING[model_type]
    default = kind()
    settings = {**(size.overrides if size else {}), **overrides}
    for field in settings:
        if not hasattr(default, field):
            close = difflib.get_close_matches(field, list(default.to_dict()), n=5)
            hint = f"; did you mean {', '.join(close)}?" if close else ""
            raise InputError(f"the config of {model_type} has no field {field!r}{hint}")
    if num_layers is not None:
        if not hasattr(default, "num_hidden_layers"):
            raise InputError(f"the config of {model_type} has no number of layers to set")
        layers = default.attribute_map.get("num_hidden_layers", "num_hidden_layers")
        settings[layers] = whole_number("num_layers", num_layers, 1, MAX_SIZE)
    try:
        config = kind(**settings)
    except (ValueError, TypeError, KeyError) as error:
        line = " ".join(str(error).split())
        raise InputError(f"the config of {model_type} refuses these settings: {line}") from error
    config.use_cache = False
    return config, size


def _task(transformers: Any, model_type: str) -> tuple[str, str]:
    tables = transformers.models.auto.modeling_auto
    for task, auto_class in _TASKS:
        if model_type in getattr(tables, f"MODEL_FOR_{task}_MAPPING_NAMES"):
            return task, auto_class
    raise InputError(
        f"transformers has no language model or image classifier of type {model_type!r}: build it "
        "in a file of your own and name it as file.py:function"
    )


def _tokens(
    name: str, task: str, config: Any, batch: int, seq: int | None
) -> tuple[dict[str, torch.Tensor], dict[str, int]]:
    text = config.get_text_config()
    most = getattr(text, "max_position_embeddings", None)
    # Rotary positions are computed, not learned: any length will do.
    if not isinstance(most, int) or most < 1 or getattr(text, "rope_parameters", None):
        most = MAX_SIZE
    length = whole_number("seq", min(DEFAULT_SEQ, most) if seq is None else seq, 1, MAX_SIZE)
    if length > most:
        raise InputError(
            f"hf:{name} takes {most} tokens at most, not {length}; for more, also set the config's "
            f"max_position_embeddings={length}"
        )
    ids = torch.zeros(batch, length, dtype=torch.long)
    inputs = {"input_ids": ids, "labels": torch.zeros_like(ids)}
    if task == "SEQ_TO_SEQ_CAUSAL_LM":
        inputs["decoder_input_ids"] = torch.zeros_like(ids)
    return inputs, {"seq": length}


def _images(config: Any, batch: int) -> tuple[dict[str, torch.Tensor], dict[str, int]]:
    side = getattr(config, "image_size", 224)
    height, width = (side, side) if isinstance(side, int) else side
    channels = getattr(config, "num_channels", 3)
    pixels = torch.zeros(batch, channels, height, width)
    labels = torch.zeros(batch, dtype=torch.long)
    return {"pixel_values": pixels, "labels": labels}, {"height": height, "width": width}


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Keep the advice of transformers, on weights and losses, off standard error."""
    logger = logging.getLogger("transformers")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)
