"""Where attention is, found from the structure of the graph: no op or tensor names are read."""

from __future__ import annotations

from dataclasses import dataclass

from slackopt.clock import check_time
from slackopt.instance import Instance
from slackopt.lifetimes import ABSENT, Lifetimes


@dataclass(frozen=True)
class Attention:
    """One attention of a model.

    Attributes
    ----------
    inner_ops
        The ops from the product of queries and keys to the weights of the values, ascending;
        none if attention is one fused op.
    output_op
        The op that weighs the values, or the fused op.
    """

    inner_ops: tuple[int, ...]
    output_op: int


def attentions(instance: Instance) -> list[Attention]:
    """Return every attention among the forward ops, in forward order.

    In an attention, three tensors q, k and v are made from a common source (v at least with q or
    with k: cross-attention), none of them from another. Unfused, an op joins q and k; a path of
    ops leads from it to an op that joins its end with v. Fused, one op joins all three; a fused
    cross-attention, whose q and k, v come from two sources, is not found.

    Paths stay within a layer: they follow an op's input if it is the only one made by an op of
    the same label (`slackopt.graph.Op.layer`), so that masks and positions that come from
    elsewhere don't end them. An op with several such inputs is a join.
    """
    life = instance.lifetimes
    labels = [op.layer for op in instance.graph.ops]
    found = []
    for k in range(life.num_forward):
        check_time()
        inputs = _inside(life, labels, k)
        if len(inputs) >= 3 and _from_one_source(life, labels, inputs):
            found.append(Attention((), k))
        elif len(inputs) == 2:
            for weights, values in (inputs, inputs[::-1]):
                inner = _inner_ops(life, labels, weights, values)
                if inner:
                    found.append(Attention(tuple(sorted(inner)), k))
                    break
    return found


def _inner_ops(life: Lifetimes, labels: list[str], weights: int, values: int) -> list[int]:
    """Ops from the join of q and k to `weights`; empty if `weights` and `values` are not those."""
    ops: list[int] = []
    t = weights
    while life.producer[t] != ABSENT:
        op = life.producer[t]
        ops.append(op)
        before = _inside(life, labels, op)
        if len(before) == 2:
            q, k = (_chain(life, labels, y) for y in before)
            v = _chain(life, labels, values)
            none_of_another = values not in q | k and not set(before) & v
            return ops if none_of_another and v & (q | k) and not v & _made(life, ops) else []
        if len(before) != 1:
            break
        t = before[0]
    return []


def _from_one_source(life: Lifetimes, labels: list[str], inputs: list[int]) -> bool:
    """Whether three of the tensors come from a common source and none from another."""
    chains = {t: _chain(life, labels, t) for t in inputs}
    for source in {t for chain in chains.values() for t in chain}:
        fed = [t for t in inputs if source in chains[t] and source != t]
        if len(fed) >= 3 and not any(a in chains[b] for a in fed for b in fed if a != b):
            return True
    return False


def _chain(life: Lifetimes, labels: list[str], t: int) -> set[int]:
    """`t` and the tensors on the path before it, up to the first tensor from elsewhere."""
    chain = {t}
    while life.producer[t] != ABSENT:
        op = life.producer[t]
        inside = _inside(life, labels, op)
        made = [y for y in life.inputs[op] if life.producer[y] != ABSENT]
        if len(inside) == 1:
            t = inside[0]
        elif not inside and len(made) == 1:  # the path leaves the layer here
            return chain | {made[0]}
        else:
            break
        chain.add(t)
    return chain


def _made(life: Lifetimes, ops: list[int]) -> set[int]:
    return {t for op in ops for t in life.outputs[op]}


def _inside(life: Lifetimes, labels: list[str], k: int) -> list[int]:
    """Return the inputs of op `k` that an op of the same label makes."""
    return [
        t
        for t in life.inputs[k]
        if life.producer[t] != ABSENT and labels[life.producer[t]] == labels[k]
    ]
