"""Model shapes the analytic generator knows by name."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated

from pydantic import Field

from slackopt.errors import InputError
from slackopt.records import Name, Record

Count = Annotated[int, Field(gt=0, le=10**9)]


class Preset(Record):
    """Shape of one transformer and the batch it is profiled with by default.

    Attributes
    ----------
    name, title
        Name in the table; name of the model.
    num_layers, hidden, heads, ffn, vocab
        Number of blocks, width, attention heads, inner width of the MLP, vocabulary.
    seq, batch
        Default sequence length in tokens and sequences per step.
    gated
        Whether the MLP is gated (gate, up, SiLU and product, down) instead of plain (GELU).
    dropout
        Whether the model trains with dropout by default.
    source
        Where the shape comes from.
    """

    name: Name
    title: str
    num_layers: Count
    hidden: Count
    heads: Count
    ffn: Count
    vocab: Count
    seq: Count
    batch: Count
    gated: bool
    dropout: bool
    source: str


_PRESETS = (
    Preset(
        name="bert-large",
        title="BERT-Large, pre-norm",
        num_layers=24,
        hidden=1024,
        heads=16,
        ffn=4096,
        vocab=30522,
        seq=512,
        batch=32,
        gated=False,
        dropout=True,
        source="Devlin et al. 2019 (arXiv 1810.04805)",
    ),
    Preset(
        name="gpt2-xl",
        title="GPT-2 XL",
        num_layers=48,
        hidden=1600,
        heads=25,
        ffn=6400,
        vocab=50257,
        seq=1024,
        batch=4,
        gated=False,
        dropout=True,
        source="Radford et al. 2019, Language Models are Unsupervised Multitask Learners",
    ),
    Preset(
        name="llama-7b",
        title="Llama 7B",
        num_layers=32,
        hidden=4096,
        heads=32,
        ffn=11008,
        vocab=32000,
        seq=2048,
        batch=2,
        gated=True,
        dropout=False,
        source="Touvron et al. 2023 (arXiv 2302.13971)",
    ),
)

PRESETS: Mapping[str, Preset] = MappingProxyType({preset.name: preset for preset in _PRESETS})
"""Every preset, by name."""


def preset_names() -> tuple[str, ...]:
    """Names that `get_preset` knows, sorted."""
    return tuple(sorted(PRESETS))


def get_preset(name: str) -> Preset:
    """Return a preset.

    Raises
    ------
    InputError
        Listing the known names.
    """
    preset = PRESETS.get(name)
    if preset is None:
        raise InputError(f"unknown preset {name!r}; known presets: {', '.join(preset_names())}")
    return preset
