"""What a check of a result has found so far, and what came of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

_MAX_SHOWN = 80


@dataclass(frozen=True)
class Verification:
    """A result of which no claim is refuted; iterates over all sentences.

    Attributes
    ----------
    proved
        What was proved again, one sentence each.
    on_word
        Which claims about the instance rest on a solver's word, one sentence each.
    """

    proved: tuple[str, ...]
    on_word: tuple[str, ...]

    @property
    def all_proved(self) -> bool:
        """Whether no claim about the instance rests on a solver's word."""
        return not self.on_word

    def __iter__(self) -> Iterator[str]:
        return iter((*self.proved, *self.on_word))

    def __len__(self) -> int:
        return len(self.proved) + len(self.on_word)


@dataclass
class Findings:
    """Collects sentences while claims are checked."""

    failures: list[str] = field(default_factory=list)
    proved: list[str] = field(default_factory=list)
    on_word: list[str] = field(default_factory=list)

    def equal(self, name: str, claimed: object, found: object) -> None:
        """Refute a claim that differs from what was found."""
        if claimed != found:
            self.failures.append(f"{name} is claimed as {shown(claimed)}, and is {shown(found)}")

    def fail(self, sentence: str) -> None:
        """Refute a claim."""
        self.failures.append(sentence)


def shown(value: object) -> str:
    """Write a value for a message: control characters escaped, and not at any length."""
    try:
        text = repr(value)
    except ValueError:  # an integer of more digits than Python writes
        return "a number of thousands of digits"
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}... ({len(text)} characters)"
