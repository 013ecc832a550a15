"""Makes a graph of the ops and storages of a step: what counts as an activation is decided here."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from slackopt.graph import Op, Tensor
from slackopt.profiles.builder import GRADIENT, SWAP_THRESHOLD_BYTES
from slackopt.profiles.traces.operators import is_communication, short_name
from slackopt.profiles.traces.storages import Storage, Use

_FLOATS = ("float", "double", "c10::Half", "c10::BFloat16", "c10::Float8", "c10::complex")
_BYTE_MASKS = ("bool", "unsigned char")
_MAX_NAME = 450

Duration = Callable[[Use], int]


@dataclass
class _Draft:
    """An op under construction; in-place ops that follow it directly are merged into it."""

    name: str
    backward: bool
    layer: str
    duration_ns: int
    workspace_bytes: int
    recomputable: bool
    reads: dict[Storage, None] = field(default_factory=dict)
    makes: dict[Storage, None] = field(default_factory=dict)


@dataclass(frozen=True)
class Assembly:
    """Ops and tensors of a graph, and what was left out.

    Attributes
    ----------
    ops, tensors
        As in a graph.
    counts
        For the provenance: numbers and bytes of saved activations, inputs and statics.
    left_out
        What was found and is no op of the graph, by reason.
    """

    ops: tuple[Op, ...]
    tensors: tuple[Tensor, ...]
    counts: dict[str, Any]
    left_out: dict[str, list[Use]]


def assemble(
    uses: Sequence[Use],
    *,
    duration: Duration,
    layers: Sequence[str],
    optimizer_storages: frozenset[int],
    restore_random_state: bool,
) -> Assembly:
    """Make ops and tensors.

    Parameters
    ----------
    uses
        What `storages.follow` found, in the order of execution.
    duration
        Time of an op in ns.
    layers
        Label of each op, in the same order.
    optimizer_storages
        Addresses that an optimizer in the trace writes to: parameters and its state.
    restore_random_state
        Whether ops that draw random numbers may run twice.
    """
    statics = _statics(uses, optimizer_storages)
    first = _first_needed(uses, statics)
    left_out = {"before the forward pass": list(uses[:first])}
    uses, layers = uses[first:], layers[first:]
    left_out["communication"] = [use for use in uses if _moves_statics_only(use, statics)]
    drafts = _drafts(uses, layers, statics, duration, restore_random_state=restore_random_state)
    names = _tensor_names(drafts)
    tensors = _tensors(drafts, names)
    ops = tuple(
        Op(
            name=draft.name,
            phase="backward" if draft.backward else "forward",
            duration_ns=draft.duration_ns,
            inputs=tuple(names[storage] for storage in draft.reads),
            outputs=tuple(names[storage] for storage in draft.makes),
            workspace_bytes=draft.workspace_bytes,
            recomputable=draft.recomputable and not draft.backward,
            layer=draft.layer,
        )
        for draft in drafts
    )
    return Assembly(ops, tensors, _counts(drafts, statics), left_out)


def _first_needed(uses: Sequence[Use], statics: set[Storage]) -> int:
    """Return the position of the first op that something later in the step depends on.

    Those before it are remains of the step before: metrics, gradient clipping, an optimizer that
    the trace does not mark, the synchronisation of buffers.
    """
    needed: set[Storage] = set()
    first = len(uses)
    for i in range(len(uses) - 1, -1, -1):
        use = uses[i]
        if use.backward or not needed.isdisjoint((*use.makes, *use.overwrites)):
            needed.update(storage for storage in use.reads if storage not in statics)
            first = i
    return first


def _moves_statics_only(use: Use, statics: set[Storage]) -> bool:
    """Whether an op is communication that touches no activation."""
    touched = (*use.reads, *use.makes)
    return _communicates(use) and all(storage in statics for storage in touched)


def _communicates(use: Use) -> bool:
    return any(is_communication(node.name) for node in use.calls)


def _statics(uses: Sequence[Use], optimizer_storages: frozenset[int]) -> set[Storage]:
    """Return parameters, buffers, parameter gradients: what outlives the step."""
    gradient_shapes = {
        shape
        for use in uses
        for storage in use.reads | use.makes
        if storage.parameter_gradient
        for shape in storage.shapes
    }
    for part in _parts_of_gradients(uses):
        part.parameter_gradient = True
    overwritten = {storage for use in uses for storage in use.overwrites}
    forward = {storage for use in uses if not use.backward for storage in use.reads}
    found: set[Storage] = set()
    for use in uses:
        for storage in use.reads | use.makes | use.overwrites:
            if storage.parameter_gradient or (
                storage.existing
                and (
                    storage in overwritten
                    or storage not in forward
                    or _is_parameter(storage, optimizer_storages, gradient_shapes)
                    or _is_buffer(storage)
                )
            ):
                found.add(storage)
    return found


def _parts_of_gradients(uses: Sequence[Use]) -> Iterator[Storage]:
    """Yield gradients that are only there to be added to the gradient of a tied parameter."""
    readers: dict[Storage, int] = {}
    for use in uses:
        for storage in use.reads:
            readers[storage] = readers.get(storage, 0) + 1
    for use in reversed(uses):
        if not use.backward or short_name(use.node.name) not in ("add", "add_"):
            continue
        for result in (*use.makes, *use.overwrites):
            if result.parameter_gradient:
                for storage in use.reads:
                    alone = readers[storage] == 1 and not storage.existing
                    if alone and storage.size_bytes == result.size_bytes:
                        yield storage


def _is_parameter(
    storage: Storage,
    optimizer_storages: frozenset[int],
    gradient_shapes: set[tuple[int, ...]],
) -> bool:
    if optimizer_storages:
        return storage.address in optimizer_storages
    return storage.dtype.startswith(_FLOATS) and not gradient_shapes.isdisjoint(storage.shapes)


def _is_buffer(storage: Storage) -> bool:
    """Tell buffers from the batch: masks, and vectors such as running means."""
    if storage.dtype == "bool":
        return True
    vector = all(len(shape) <= 1 for shape in storage.shapes)
    return vector and storage.dtype.startswith(_FLOATS)


def _drafts(
    uses: Sequence[Use],
    layers: Sequence[str],
    statics: set[Storage],
    duration: Duration,
    *,
    restore_random_state: bool,
) -> list[_Draft]:
    drafts: list[_Draft] = []
    maker: dict[Storage, int] = {}
    readers: dict[Storage, list[int]] = {}
    for use, layer in zip(uses, layers, strict=True):
        reads = [storage for storage in use.reads if storage not in statics]
        makes = [storage for storage in use.makes if storage not in statics]
        overwrites = [storage for storage in use.overwrites if storage not in statics]
        if _moves_statics_only(use, statics):
            continue
        draft = _Draft(
            name=f"{short_name(use.node.name)} {use.node.id}",
            backward=use.backward,
            layer=layer,
            duration_ns=duration(use),
            workspace_bytes=sum(use.temporary.values()),
            recomputable=not (
                _communicates(use)
                or use.off_device
                or any(storage in statics for storage in use.overwrites)
                or (not restore_random_state and any(node.random for node in use.calls))
            ),
            reads=dict.fromkeys(storage for storage in reads if storage not in makes),
            makes=dict.fromkeys(makes),
        )
        if _may_merge(drafts, draft, overwrites):
            _merge(drafts[-1], draft)
            at = len(drafts) - 1
        else:
            at = len(drafts)
            drafts.append(draft)
            for storage in overwrites:
                # Its bytes differ from what its maker wrote: neither it nor what was computed
                # from the old bytes can be rebuilt by running one op again.
                draft.recomputable = False
                draft.reads.setdefault(storage, None)
                if storage in maker:
                    drafts[maker[storage]].recomputable = False
                for reader in readers.get(storage, ()):
                    drafts[reader].recomputable = False
        maker.update(dict.fromkeys(makes, at))
        for storage in reads:
            readers.setdefault(storage, []).append(at)
    return drafts


def _may_merge(drafts: Sequence[_Draft], draft: _Draft, overwrites: Iterable[Storage]) -> bool:
    """Whether an in-place op directly follows the op that made all it overwrites."""
    changed = list(overwrites)
    return (
        bool(changed)
        and bool(drafts)
        and not draft.backward
        and all(storage in drafts[-1].makes for storage in changed)
    )


def _merge(first: _Draft, second: _Draft) -> None:
    first.name = f"{first.name} + {second.name}"[:_MAX_NAME]
    first.duration_ns += second.duration_ns
    first.workspace_bytes = max(first.workspace_bytes, second.workspace_bytes)
    first.recomputable &= second.recomputable
    for storage in second.reads:
        if storage not in first.makes:
            first.reads.setdefault(storage, None)
    for storage in second.makes:
        first.makes.setdefault(storage, None)


def _tensor_names(drafts: Sequence[_Draft]) -> dict[Storage, str]:
    names: dict[Storage, str] = {}
    for draft in drafts:
        single = len(draft.makes) == 1
        for k, storage in enumerate(draft.makes):
            names[storage] = f"{draft.name}.out" if single else f"{draft.name}.out{k}"
    for draft in drafts:
        for storage in draft.reads:
            if storage not in names:
                names[storage] = f"input {storage.address}"
    return names


def _tensors(drafts: Sequence[_Draft], names: dict[Storage, str]) -> tuple[Tensor, ...]:
    made_backward = {storage for draft in drafts if draft.backward for storage in draft.makes}
    made_forward = {storage for draft in drafts if not draft.backward for storage in draft.makes}
    found = []
    for storage, name in names.items():
        kind = "input"
        if storage in made_backward:
            kind = GRADIENT
        elif storage in made_forward:
            kind = "mask" if storage.dtype in _BYTE_MASKS else "activation"
        swappable = kind != GRADIENT and storage.size_bytes >= SWAP_THRESHOLD_BYTES
        found.append(
            Tensor(name=name, size_bytes=storage.size_bytes, kind=kind, swappable=swappable)
        )
    return tuple(found)


def _counts(drafts: Sequence[_Draft], statics: set[Storage]) -> dict[str, Any]:
    """Count saved activations: forward storages that a backward op reads."""
    forward = {storage for draft in drafts if not draft.backward for storage in draft.makes}
    read = {storage for draft in drafts if draft.backward for storage in draft.reads}
    made = {storage for draft in drafts for storage in draft.makes}
    inputs = {storage for draft in drafts for storage in draft.reads} - made
    groups = {
        "saved_activations": forward & read,
        "inputs": inputs,
        "statics": {storage for storage in statics if storage.existing},
        "parameter_gradients": {storage for storage in statics if not storage.existing},
    }
    return {
        name: {"number": len(group), "bytes": sum(storage.size_bytes for storage in group)}
        for name, group in groups.items()
    }
