"""What an execution trace says: operator calls, and the tensors they take and return."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class TensorRef(NamedTuple):
    """One mention of a tensor.

    Attributes
    ----------
    tensor, storage
        Ids in the trace. Both are reused once their object is freed: a storage id stands for an
        address, so that two storages that are never alive together may share it.
    extent_bytes
        End of the tensor within its storage, from the storage's start.
    exact
        Whether the extent is known from strides; else the tensor is taken to be contiguous.
    numel, itemsize, device, dtype, shape
        As recorded; ``dtype`` is a C++ type name (``float``, ``c10::Half``).
    """

    tensor: int
    storage: int
    extent_bytes: int
    exact: bool
    numel: int
    itemsize: int
    device: str
    dtype: str
    shape: tuple[int, ...]


@dataclass(slots=True)
class Node:
    """One call of an operator, or an annotation.

    Attributes
    ----------
    id
        Grows in the order of the calls.
    parent
        Id of the call that made this one.
    inputs, outputs
        Tensors among arguments and results, those in lists included; undefined and empty ones left
        out.
    mutated
        The arguments that the operator's schema says it writes to.
    scope
        PyTorch's record scope: 0 for operators, 1 for backward functions, 7 for annotations.
    sequence
        Autograd's sequence number, which a forward op shares with its backward function; or -1.
    record_id
        Id of the call in the profiler's trace of the same run.
    has_schema
        Whether it is an operator of the dispatcher, which declares what it writes.
    random
        Whether it draws random numbers.
    """

    id: int
    parent: int
    name: str
    inputs: tuple[TensorRef, ...]
    outputs: tuple[TensorRef, ...]
    mutated: tuple[TensorRef, ...]
    scope: int
    sequence: int
    record_id: int
    has_schema: bool
    random: bool
