"""Names of ops and tensors, and the layer that an op belongs to, from paths of modules."""

from __future__ import annotations

from slackopt.profiles.pytorch.marking import LOSS
from slackopt.profiles.pytorch.storages import TracedOp, schema_name


class Names:
    """Gives out names, each once: a second ``dense/addmm`` becomes ``dense/addmm #2``."""

    def __init__(self) -> None:
        self._count: dict[str, int] = {}

    def new(self, name: str) -> str:
        """Return `name`, numbered if it was given out before."""
        self._count[name] = self._count.get(name, 0) + 1
        return name if self._count[name] == 1 else f"{name} #{self._count[name]}"


def op_name(op: TracedOp, model_class: str) -> str:
    """Name an op by its module and its calls: ``encoder.layer.0.output.dense/addmm``.

    Calls that were merged are joined by ``+``; a backward op has ``backward`` in its name.
    """
    calls = "+".join(schema_name(node).rpartition("::")[2].lstrip("_") for node in op.nodes)
    ending = ".backward" if op.phase == "backward" and "backward" not in calls else ""
    return f"{op.path or model_class}/{calls}{ending}"


def layer_of(path: str, children: frozenset[str]) -> str:
    """Return the layer that a module belongs to.

    It is the path up to its first number (``bert.encoder.layer.3``), as lists of layers are
    numbered. Without a number it is the innermost module that has submodules
    (``features.denseblock1.denselayer2``), or the module itself at the top. Ops of the model
    itself, outside its submodules, have no layer.

    Parameters
    ----------
    path
        Path of the module.
    children
        Paths of the modules that have submodules.
    """
    if path in ("", LOSS):
        return path
    parts = path.split(".")
    for depth, part in enumerate(parts, start=1):
        if part.isdecimal():
            return ".".join(parts[:depth])
    parent = ".".join(parts[:-1])
    return path if path in children or not parent else parent
