"""Makes the activation graph of a traced step."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import torch

from slackopt.errors import InputError, MendedWarning
from slackopt.graph import Op, Tensor
from slackopt.profiles.builder import GRADIENT
from slackopt.profiles.pytorch.naming import Names, layer_of, op_name
from slackopt.profiles.pytorch.overwriting import find_overwriting, is_norm, merge_overwriting
from slackopt.profiles.pytorch.settings import TraceSettings
from slackopt.profiles.pytorch.storages import Step, Storage, TracedOp, read_step
from slackopt.profiles.pytorch.timing import Clock
from slackopt.profiles.pytorch.tracing import Trace

_MASK_DTYPES = (torch.bool, torch.uint8)
_ACCUMULATION = "/accumulate.backward"


@dataclass(frozen=True)
class Assembled:
    """The ops and tensors of a graph, with what each stands for in the trace.

    Attributes
    ----------
    ops, tensors
        For `slackopt.Graph`.
    step
        The traced step, overwriting ops merged; `step.ops` has one entry for each of `ops` but
        those that add up gradients of micro-batches.
    tensor_of
        Name of the tensor of each storage that is one.
    unknown_workspaces
        Ops with an output that a backward op reads and whose size a trace can't tell: 0 bytes.
    """

    ops: tuple[Op, ...]
    tensors: tuple[Tensor, ...]
    step: Step
    tensor_of: dict[int, str]
    unknown_workspaces: tuple[str, ...]


def assemble(trace: Trace, settings: TraceSettings, clock: Clock) -> Assembled:
    """Make ops and tensors.

    Parameters
    ----------
    trace, settings
        The traced step and how it was traced.
    clock
        Times the ops.
    """
    step = read_step(trace)
    step.ops = merge_overwriting(step.ops)
    overwriting = find_overwriting(step)
    statics = {s for s, storage in enumerate(step.storages) if storage.role == "static"}
    accumulated: dict[int, list[str]] = {}
    if settings.micro_batches == 1:
        statics |= _final_gradients(step)  # they become the parameters' gradients and stay
    else:
        for parameter, s in step.gradients.items():
            accumulated.setdefault(s, []).append(parameter)

    names, tensors, tensor_of = Names(), {}, {}
    for s, storage in enumerate(step.storages):
        if storage.role == "input" and storage.size_bytes:
            tensor_of[s] = names.new(storage.name)
            tensors[tensor_of[s]] = _tensor(
                tensor_of[s], storage, "input", settings, pinned=s in overwriting.pinned
            )
    ops: list[Op] = []
    last_write = {s: k for k, op in enumerate(step.ops) for s in (*op.makes, *op.overwrites)}
    for k, op in enumerate(step.ops):
        name = names.new(op_name(op, trace.model_class))
        made = [s for s in op.makes if s not in statics and step.storages[s].size_bytes]
        for s, label in zip(made, _labels([step.storages[s] for s in made]), strict=True):
            storage = step.storages[s]
            tensor_of[s] = f"{name}.{label}"
            kind = _kind(op, storage)
            tensors[tensor_of[s]] = _tensor(
                tensor_of[s], storage, kind, settings, pinned=s in overwriting.pinned
            )
        read = dict.fromkeys(tensor_of[s] for s in (*op.reads, *op.overwrites) if s in tensor_of)
        outputs = tuple(tensor_of[s] for s in made)
        ops.append(
            Op(
                name=name,
                phase=op.phase,
                duration_ns=max(1, sum(map(clock.time_ns, op.nodes))),
                inputs=tuple(tensor for tensor in read if tensor not in outputs),
                outputs=outputs,
                recomputable=_can_rerun(op, settings) and k not in overwriting.not_recomputable,
                layer=layer_of(op.path, trace.children),
            )
        )
        for s in (*op.makes, *op.overwrites):
            if last_write[s] == k:
                for parameter in accumulated.get(s, []):
                    added_ns = clock.accumulate_ns(step.storages[s].size_bytes)
                    ops.append(_accumulation(parameter, tensor_of[s], added_ns, trace))
    used = {name for op in ops for name in (*op.inputs, *op.outputs)}
    kept = tuple(tensor for tensor in tensors.values() if tensor.name in used)
    if not ops:
        raise InputError("the step has no op that makes a tensor")
    return Assembled(tuple(ops), kept, step, tensor_of, _unknown_workspaces(step, ops))


def _unknown_workspaces(step: Step, ops: list[Op]) -> tuple[str, ...]:
    """Name the ops whose workspace, kept for the backward pass, has no size under fake tensors.

    Recurrent layers are such ops. A batch norm's reserve is empty in truth, outside of cuDNN.
    """
    read = {s for op in step.ops if op.phase == "backward" for s in op.reads}
    found = []
    for record, op in zip((op for op in ops if not _adds_up(op)), step.ops, strict=True):
        empty = [s for s in op.makes if s in read and step.storages[s].size_bytes == 0]
        if op.phase == "forward" and empty and not is_norm(op):
            found.append(record.name)
    if found:
        more = f" and {len(found) - 1} more" if len(found) > 1 else ""
        warnings.warn(
            f"op {found[0]}{more}: what it keeps for the backward pass besides its outputs has no "
            "size in a trace and counts as 0 bytes; the memory of the graph is too small by it",
            MendedWarning,
            stacklevel=2,
        )
    return tuple(found)


def _adds_up(op: Op) -> bool:
    return op.name.endswith(_ACCUMULATION)


def _final_gradients(step: Step) -> set[int]:
    """Gradients of parameters that no op reads: the others are gradients of activations, too."""
    read = {s for op in step.ops for s in op.reads}
    made = {s for op in step.ops if op.phase == "backward" for s in op.makes}
    return (set(step.gradients.values()) & made) - read


def _can_rerun(op: TracedOp, settings: TraceSettings) -> bool:
    """Forward ops can run twice; a random one if its state is saved.

    Backward ops make gradients, which plans keep, and add up those of parameters.
    """
    return op.phase == "forward" and (settings.restore_random_state or not op.random)


def _kind(op: TracedOp, storage: Storage) -> str:
    if op.phase == "backward":
        return GRADIENT
    return "mask" if storage.dtype in _MASK_DTYPES else "activation"


def _labels(storages: list[Storage]) -> list[str]:
    """Name an op's outputs: ``out``, ``mask``, and ``out 2`` and so on for further ones."""
    names = Names()
    labels = [names.new("mask" if s.dtype in _MASK_DTYPES else "out") for s in storages]
    return [label.replace(" #", "") for label in labels]


def _tensor(
    name: str, storage: Storage, kind: str, settings: TraceSettings, *, pinned: bool = False
) -> Tensor:
    large = storage.size_bytes >= settings.min_swap_bytes
    return Tensor(
        name=name,
        size_bytes=storage.size_bytes,
        kind=kind,
        swappable=large and kind != GRADIENT and not pinned,
    )


def _accumulation(parameter: str, gradient: str, duration_ns: int, trace: Trace) -> Op:
    """Add a micro-batch's gradient of a parameter to the sum, which is outside the budget."""
    module = parameter.rpartition(".")[0]
    return Op(
        name=f"{parameter}{_ACCUMULATION}",
        phase="backward",
        duration_ns=duration_ns,
        inputs=(gradient,),
        recomputable=False,
        layer=layer_of(module, trace.children),
    )
