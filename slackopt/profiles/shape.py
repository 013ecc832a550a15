"""Sizes of one stack of transformer blocks."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Shape:
    """Sizes of one stack of blocks; see `slackopt.profiles.blocks` for the notation.

    Attributes
    ----------
    window
        Keys that a query attends to at most, or None for all.
    memory_seq
        Tokens in a sequence of the encoder that the blocks read, or None for no encoder.
    num_experts, top_k, separate_experts
        Experts of each MLP, how many of them a token goes to, and whether every expert has ops of
        its own; `num_experts` 0 for a plain MLP.
    """

    batch: int
    seq: int
    hidden: int
    heads: int
    ffn: int
    element_bytes: int
    gated: bool
    flash: bool
    kv_heads: int
    window: int | None = None
    memory_seq: int | None = None
    num_experts: int = 0
    top_k: int = 0
    separate_experts: bool = False

    @property
    def tokens(self) -> int:
        """Tokens in the batch, ``s*b``."""
        return self.batch * self.seq

    @property
    def hidden_bytes(self) -> int:
        """Bytes of one ``s x b x h`` tensor."""
        return self.tokens * self.hidden * self.element_bytes

    @property
    def ffn_bytes(self) -> int:
        """Bytes of one ``s x b x f`` tensor."""
        return self.tokens * self.ffn * self.element_bytes

    @property
    def kv_width(self) -> int:
        """Width of the keys and of the values, ``h*g/a``."""
        return self.hidden // self.heads * self.kv_heads
