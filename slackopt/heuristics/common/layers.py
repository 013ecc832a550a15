"""The layers of a model, found from the labels of its ops, and their inputs."""

from __future__ import annotations

import re
from dataclasses import dataclass

from slackopt.instance import Instance
from slackopt.lifetimes import ABSENT


@dataclass(frozen=True)
class Layer:
    """One layer.

    Attributes
    ----------
    label
        The label its ops carry.
    ops
        Its forward ops, ascending.
    inputs
        Tensors its forward ops read and others made, in order of first use; batch tensors are
        left out.
    inner
        Tensors its forward ops make that no forward op outside reads.
    forward_ns, backward_ns
        Time of its forward and of its backward ops.
    """

    label: str
    ops: tuple[int, ...]
    inputs: tuple[int, ...]
    inner: tuple[int, ...]
    forward_ns: int
    backward_ns: int


def layers(instance: Instance) -> list[Layer]:
    """Return the layers of a model in forward order.

    Ops with the same label (`slackopt.graph.Op.layer`) are a group; ops without a label are in
    none. Groups whose labels differ in digits only (``layer 3`` and ``layer 12``) are the
    repeated layers of the model, and these are returned: embedding and head are none. Where no
    label has such a sister, every group is a layer.

    Returns
    -------
    list of Layer
        Empty if no forward op has a label.
    """
    life, ops = instance.lifetimes, instance.graph.ops
    groups: dict[str, list[int]] = {}
    for k in range(life.num_forward):
        if ops[k].layer:
            groups.setdefault(ops[k].layer, []).append(k)
    families: dict[str, int] = {}
    for label in groups:
        families[_family(label)] = families.get(_family(label), 0) + 1
    repeated = [label for label in groups if families[_family(label)] > 1]
    backward_ns = dict.fromkeys(groups, 0)
    for k in range(life.num_forward, life.num_ops):
        if ops[k].layer in backward_ns:
            backward_ns[ops[k].layer] += life.durations_ns[k]
    return [
        _layer(instance, label, groups[label], backward_ns[label]) for label in repeated or groups
    ]


def _family(label: str) -> str:
    return re.sub(r"\d+", "#", label)


def _layer(instance: Instance, label: str, ops: list[int], backward_ns: int) -> Layer:
    life = instance.lifetimes
    inside = set(ops)
    read = dict.fromkeys(t for k in ops for t in life.inputs[k])
    made = [t for k in ops for t in life.outputs[k]]
    read_outside = {t for k in range(life.num_forward) if k not in inside for t in life.inputs[k]}
    return Layer(
        label=label,
        ops=tuple(ops),
        inputs=tuple(
            t for t in read if life.producer[t] != ABSENT and life.producer[t] not in inside
        ),
        inner=tuple(t for t in made if t not in read_outside),
        forward_ns=sum(life.durations_ns[k] for k in ops),
        backward_ns=backward_ns,
    )
