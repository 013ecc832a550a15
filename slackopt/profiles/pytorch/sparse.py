"""Sparse gradients, as of ``nn.Embedding(sparse=True)``: their indices and values."""

from __future__ import annotations

import torch
from torch.utils import _pytree as pytree

from slackopt.errors import InputError
from slackopt.profiles.pytorch.marking import Marker

_MADE_OF_PARTS = "aten::_sparse_coo_tensor_with_dims_and_tensors"


def split_sparse(graph_module: torch.fx.GraphModule, marker: Marker, model_class: str) -> None:
    """Replace each sparse tensor of a trace by its indices and values, which it is a view of.

    Raises
    ------
    InputError
        If another op makes a sparse tensor: how many entries it has depends on data.
    """
    for node in graph_module.graph.nodes:
        leaves = pytree.tree_leaves(node.meta.get("val"))
        sparse = [leaf for leaf in leaves if _is_sparse(leaf)]
        if not sparse:
            continue
        schema = getattr(node.target, "_schema", None)
        if schema is not None and schema.name == _MADE_OF_PARTS:
            indices, values = node.args[3:5]
            node.meta["val"] = [indices.meta["val"], values.meta["val"]]
            continue
        path = marker.marks[node].path if node in marker.marks else ""
        where = f"{model_class}, module {path!r}" if path else model_class
        what = f"op {node.target} makes" if node.op == "call_function" else f"{node.name} is"
        raise InputError(
            f"{where}: {what} a sparse tensor, whose size depends on data; only the sparse "
            "gradient of an embedding that is used once can be traced: use sparse=False"
        )


def _is_sparse(value: object) -> bool:
    return isinstance(value, torch.Tensor) and value.layout is not torch.strided
