"""The blocks of a step: what lies between points that a single tensor crosses."""

from __future__ import annotations

from dataclasses import dataclass

from slackopt.lifetimes import ABSENT, Lifetimes


@dataclass(frozen=True)
class Blocks:
    """Forward ops cut wherever one tensor, made since the last cut, goes on to later ones, or none.

    Attributes
    ----------
    begins
        First forward op of each block.
    tensors
        Per block: the tensors that its forward ops make.
    block_of
        Per op, backward ops included: its block. That of a backward op is the last block that it
        reads a tensor of, at most that of the backward op before.
    waists
        Per block: the tensor that the next block reads, or `ABSENT`.
    """

    begins: tuple[int, ...]
    tensors: tuple[tuple[int, ...], ...]
    block_of: tuple[int, ...]
    waists: tuple[int, ...]


def find_blocks(life: Lifetimes) -> Blocks:
    """Cut a step into blocks; batch tensors cross no cut, since they are there from the start."""
    forward = life.num_forward
    last_read = [ABSENT] * life.num_tensors
    for k in range(forward):
        for t in life.inputs[k]:
            last_read[t] = k
    begins = [0] if forward else []
    tensors: list[list[int]] = [[] for _ in begins]
    waists: list[int] = []
    block_of: list[int] = []
    waiting: set[int] = set()  # made and still to be read
    for k in range(forward):
        if k and len(waiting) <= 1 and waiting <= set(tensors[-1]):
            waists.append(min(waiting, default=ABSENT))
            begins.append(k)
            tensors.append([])
        block_of.append(len(begins) - 1)
        tensors[-1] += life.outputs[k]
        waiting |= {t for t in life.outputs[k] if last_read[t] > k}
        waiting -= {t for t in life.inputs[k] if last_read[t] == k}
    waists += [ABSENT] * (len(begins) - len(waists))
    current = len(begins) - 1
    for k in range(forward, life.num_ops):
        read = [
            block_of[life.producer[t]] for t in life.inputs[k] if 0 <= life.producer[t] < forward
        ]
        current = min(current, max(read, default=current))
        block_of.append(current)
    return Blocks(tuple(begins), tuple(map(tuple, tensors)), tuple(block_of), tuple(waists))
