"""Model shapes the analytic generator knows by name."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Literal

from pydantic import Field

from slackopt.errors import InputError
from slackopt.records import Name, Record

Count = Annotated[int, Field(gt=0, le=10**9)]
Architecture = Literal["encoder", "decoder", "encoder-decoder", "vision"]


class Preset(Record):
    """Shape of one transformer and the batch it is profiled with by default.

    Attributes
    ----------
    name, title
        Name in the table; name of the model.
    num_layers, hidden, heads, ffn, vocab
        Number of blocks, width, attention heads, inner width of the MLP, vocabulary (classes of a
        vision model). With an encoder and a decoder, `num_layers` is of the encoder.
    seq, batch
        Default sequence length in tokens (of the encoder, if there are two) and sequences per
        step. A vision model's `seq` follows from its images: one token a patch and one more.
    gated
        Whether the MLP is gated (gate, up, SiLU and product, down) instead of plain (GELU).
    dropout
        Whether the model trains with dropout by default.
    source
        Where the shape comes from.
    architecture
        ``encoder``, ``decoder`` (the same ops), ``encoder-decoder`` or ``vision``.
    kv_heads
        Heads of keys and values (grouped-query attention); None for as many as `heads`.
    window
        Keys a query attends to at most (sliding-window attention); None for all.
    decoder_layers, target_seq
        Blocks of the decoder and its default sequence length, with an encoder and a decoder.
    image_size, patch_size
        Default width of the square images and width of a patch, in pixels, of a vision model.
    num_experts, top_k
        Experts of each MLP and how many a token goes to; None for plain MLPs.
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
    architecture: Architecture = "decoder"
    kv_heads: Count | None = None
    window: Count | None = None
    decoder_layers: Count | None = None
    target_seq: Count | None = None
    image_size: Count | None = None
    patch_size: Count | None = None
    num_experts: Count | None = None
    top_k: Count | None = None


_PRESETS = (
    Preset(
        name="bert-base",
        title="BERT-Base, pre-norm",
        num_layers=12,
        hidden=768,
        heads=12,
        ffn=3072,
        vocab=30522,
        seq=512,
        batch=64,
        gated=False,
        dropout=True,
        source="Devlin et al. 2019 (arXiv 1810.04805)",
        architecture="encoder",
    ),
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
        architecture="encoder",
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
    Preset(
        name="gpt2",
        title="GPT-2 small",
        num_layers=12,
        hidden=768,
        heads=12,
        ffn=3072,
        vocab=50257,
        seq=1024,
        batch=16,
        gated=False,
        dropout=True,
        source="Radford et al. 2019, Language Models are Unsupervised Multitask Learners",
    ),
    Preset(
        name="llama3-8b",
        title="Llama 3 8B",
        num_layers=32,
        hidden=4096,
        heads=32,
        ffn=14336,
        vocab=128256,
        seq=8192,
        batch=1,
        gated=True,
        dropout=False,
        source="Grattafiori et al. 2024 (arXiv 2407.21783), table 3",
        kv_heads=8,
    ),
    Preset(
        name="mistral-7b",
        title="Mistral 7B",
        num_layers=32,
        hidden=4096,
        heads=32,
        ffn=14336,
        vocab=32000,
        seq=8192,
        batch=1,
        gated=True,
        dropout=False,
        source="Jiang et al. 2023 (arXiv 2310.06825), table 1",
        kv_heads=8,
        window=4096,
    ),
    Preset(
        name="mixtral-8x7b",
        title="Mixtral 8x7B",
        num_layers=32,
        hidden=4096,
        heads=32,
        ffn=14336,
        vocab=32000,
        seq=4096,
        batch=1,
        gated=True,
        dropout=False,
        source="Jiang et al. 2024 (arXiv 2401.04088), table 1",
        kv_heads=8,
        num_experts=8,
        top_k=2,
    ),
    Preset(
        name="olmoe-1b-7b",
        title="OLMoE 1B-7B",
        num_layers=16,
        hidden=2048,
        heads=16,
        ffn=1024,
        vocab=50304,
        seq=4096,
        batch=4,
        gated=True,
        dropout=False,
        source="Muennighoff et al. 2024 (arXiv 2409.02060)",
        num_experts=64,
        top_k=8,
    ),
    Preset(
        name="bart-large",
        title="BART-Large, pre-norm",
        num_layers=12,
        hidden=1024,
        heads=16,
        ffn=4096,
        vocab=50265,
        seq=1024,
        batch=8,
        gated=False,
        dropout=True,
        source="Lewis et al. 2020 (arXiv 1910.13461)",
        architecture="encoder-decoder",
        decoder_layers=12,
        target_seq=256,
    ),
    Preset(
        name="t5-large",
        title="T5 1.1 Large",
        num_layers=24,
        hidden=1024,
        heads=16,
        ffn=2816,
        vocab=32128,
        seq=512,
        batch=16,
        gated=True,
        dropout=False,
        source=(
            "Raffel et al. 2020 (arXiv 1910.10683), in the gated, dropout-free version 1.1 of the "
            "public t5x release"
        ),
        architecture="encoder-decoder",
        decoder_layers=24,
        target_seq=512,
    ),
    Preset(
        name="vit-base",
        title="ViT-B/16",
        num_layers=12,
        hidden=768,
        heads=12,
        ffn=3072,
        vocab=1000,
        seq=197,
        batch=256,
        gated=False,
        dropout=True,
        source="Dosovitskiy et al. 2021 (arXiv 2010.11929), table 1",
        architecture="vision",
        image_size=224,
        patch_size=16,
    ),
    Preset(
        name="vit-large",
        title="ViT-L/16",
        num_layers=24,
        hidden=1024,
        heads=16,
        ffn=4096,
        vocab=1000,
        seq=197,
        batch=128,
        gated=False,
        dropout=True,
        source="Dosovitskiy et al. 2021 (arXiv 2010.11929), table 1",
        architecture="vision",
        image_size=224,
        patch_size=16,
    ),
    Preset(
        name="vit-huge",
        title="ViT-H/14",
        num_layers=32,
        hidden=1280,
        heads=16,
        ffn=5120,
        vocab=1000,
        seq=257,
        batch=64,
        gated=False,
        dropout=True,
        source="Dosovitskiy et al. 2021 (arXiv 2010.11929), table 1",
        architecture="vision",
        image_size=224,
        patch_size=14,
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
