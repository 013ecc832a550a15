"""Reads PyTorch profiler traces: Kineto's Chrome-trace JSON.

Facts of the format come from traces of PyTorch 2.x and from the loader of MLCommons Chakra:
``ts`` and ``dur`` are in microseconds; an operator call is an event ``X`` of category ``cpu_op``;
``args`` carry ``Record function id`` (the same as ``rf_id`` in an execution trace of the run),
``External id`` (which the kernels that the call launched carry too), ``Sequence number``, and with
``record_shapes=True`` ``Input Dims`` and ``Input type``; with ``profile_memory=True`` each
allocation (``Bytes`` above 0) and each release (below 0) is an event ``[memory]``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from slackopt.errors import InputError
from slackopt.profiles.traces.device_events import NO_ID, DeviceEvent, device_times
from slackopt.profiles.traces.fields import Entry, shown
from slackopt.profiles.traces.mending import nested
from slackopt.profiles.traces.streaming import json_entries
from slackopt.records import MAX_DURATION_NS

_HOST = ("cpu_op", "user_annotation")
_DEVICE = ("kernel", "gpu_memcpy", "gpu_memset")
_MEMORY = "[memory]"
_WINDOW_END = "Record Window End"
_OLD = ("Operator", "Kernel", "Memcpy", "Memset", "Runtime")
_TOO_OLD = "the trace is of a PyTorch that is too old; record it again with PyTorch 2.1 or newer"


@dataclass(frozen=True, slots=True)
class HostCall:
    """One operator call or annotation on a host thread.

    Attributes
    ----------
    event
        Position among the events of the file.
    name, annotation
        What was called; whether it is an annotation of the user or the profiler.
    thread
        Process and thread.
    begin_ns, end_ns
        On the profiler's clock.
    external_id, record_id, sequence
        As in the file; -1 where missing.
    shapes, dtypes
        Of its inputs; an entry that is no tensor has an empty shape and another type name.
    """

    event: int
    name: str
    annotation: bool
    thread: tuple[str, str]
    begin_ns: int
    end_ns: int
    external_id: int
    record_id: int
    sequence: int
    shapes: tuple[tuple[int, ...], ...]
    dtypes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class MemoryEvent:
    """An allocation (``size_bytes`` above 0) or a release (below 0)."""

    event: int
    thread: tuple[str, str]
    time_ns: int
    address: int
    size_bytes: int
    device: str


@dataclass
class KinetoTrace:
    """What a profiler trace says.

    Attributes
    ----------
    calls
        By their starts; on each thread, none ends after the call that made it.
    device_ns
        Time of kernels, copies and fills on a device, summed by the external id of the call that
        launched them.
    device_counts
        For the provenance: number and time of those events, and what was cut or left out.
    memory
        Allocations and releases, in the order of the file.
    """

    calls: list[HostCall] = field(default_factory=list)
    device_ns: dict[int, int] = field(default_factory=dict)
    device_counts: dict[str, Any] = field(default_factory=dict)
    memory: list[MemoryEvent] = field(default_factory=list)


def read_kineto(path: str) -> KinetoTrace:
    """Read a profiler trace.

    Raises
    ------
    InputError
        Naming file, event and field of the first thing that is wrong.
    """
    trace = KinetoTrace()
    texts: dict[str, str] = {}
    events: list[DeviceEvent] = []
    window_end_ns = None
    found = False
    for i, value in enumerate(json_entries(path, "traceEvents.item")):
        found = True
        event = Entry(path, f"traceEvents[{i}]", value)
        phase, category = event.text("ph"), event.text("cat", default="")
        if category in _OLD:
            raise event.wrong("cat", f"is {category!r}, now 'cpu_op' or 'kernel': {_TOO_OLD}")
        if phase in ("B", "E") and category in (*_HOST, *_DEVICE):
            raise event.wrong(
                "ph", f"is {phase!r}: calls in two events are not read, only 'X' with 'dur'"
            )
        if phase == "X" and category in _HOST:
            trace.calls.append(_host_call(event, i, texts, annotation=category != "cpu_op"))
        elif phase == "X" and category in _DEVICE:
            events.append(_device_event(event, i, texts))
        elif phase == "i" and event.text("name", default="") == _MEMORY:
            trace.memory.append(_memory_event(event, i))
        elif phase == "i" and event.text("name", default="") == _WINDOW_END:
            window_end_ns = max(window_end_ns or 0, _begin_ns(event))
    if not found:
        raise InputError(
            f"{path}: field 'traceEvents' is missing or empty; is it a PyTorch profiler trace?"
        )
    if not trace.calls:
        raise InputError(
            f"{path}: traceEvents: no event of category 'cpu_op'; record with ProfilerActivity.CPU"
        )
    trace.calls = nested(path, trace.calls)
    if events:
        known = {call.external_id for call in trace.calls} - {NO_ID}
        trace.device_ns, trace.device_counts = device_times(
            path, events, known=known, window_end_ns=window_end_ns
        )
    return trace


def _arguments(event: Entry) -> Entry:
    return Entry(event.path, f"{event.place}: args", event.value.get("args", {}))


def _duration_ns(event: Entry) -> int:
    time = round(event.number("dur") * 1000)
    if time > MAX_DURATION_NS:
        raise event.wrong("dur", f"is longer than an hour, {event.value['dur']} us")
    return time


def _begin_ns(event: Entry) -> int:
    return round(event.number("ts") * 1000)


def _thread(event: Entry) -> tuple[str, str]:
    found = []
    for key in ("pid", "tid"):
        value = event.value.get(key, 0)
        if isinstance(value, bool) or not isinstance(value, int | str):
            raise event.wrong(key, f"must be a number or a string, found {shown(value)}")
        found.append(str(value)[:60])
    return found[0], found[1]


def _host_call(event: Entry, index: int, texts: dict[str, str], *, annotation: bool) -> HostCall:
    arguments = _arguments(event)
    begin, name = _begin_ns(event), event.text("name")
    shapes, dtypes = _inputs(arguments)
    return HostCall(
        event=index,
        name=texts.setdefault(name, name),
        annotation=annotation,
        thread=_thread(event),
        begin_ns=begin,
        end_ns=begin + _duration_ns(event),
        external_id=arguments.integer("External id", default=NO_ID, minimum=NO_ID),
        record_id=arguments.integer("Record function id", default=-1, minimum=-1),
        sequence=arguments.integer("Sequence number", default=-1, minimum=-1),
        shapes=shapes,
        dtypes=tuple(texts.setdefault(text, text) for text in dtypes),
    )


def _inputs(arguments: Entry) -> tuple[tuple[tuple[int, ...], ...], tuple[str, ...]]:
    if "Input Dims" not in arguments.value or "Input type" not in arguments.value:
        return (), ()
    dims, kinds = arguments.items("Input Dims"), arguments.items("Input type")
    shapes: list[tuple[int, ...]] = []
    dtypes: list[str] = []
    for shape, kind in zip(dims, kinds, strict=False):
        if not isinstance(kind, str):
            raise arguments.wrong("Input type", f"must hold strings, found {shown(kind)}")
        sizes: list[Any] = arguments.as_items("Input Dims", shape)
        if sizes and isinstance(sizes[0], list):
            # A list of tensors: the file doesn't give their types one by one.
            continue
        shapes.append(tuple(arguments.as_integer("Input Dims", size) for size in sizes))
        dtypes.append(kind)
    return tuple(shapes), tuple(dtypes)


def _device_event(event: Entry, index: int, texts: dict[str, str]) -> DeviceEvent:
    arguments = _arguments(event)
    begin, name = _begin_ns(event), event.text("name", default="")
    device, stream = (
        arguments.value[key] if isinstance(arguments.value.get(key), int) else at
        for key, at in zip(("device", "stream"), _thread(event), strict=True)
    )
    return DeviceEvent(
        event=index,
        name=texts.setdefault(name, name),
        stream=(str(device), str(stream)),
        begin_ns=begin,
        end_ns=begin + _duration_ns(event),
        external_id=arguments.integer("External id", default=NO_ID, minimum=NO_ID),
    )


def _memory_event(event: Entry, index: int) -> MemoryEvent:
    arguments = _arguments(event)
    if "Addr" not in arguments.value:
        raise arguments.wrong("Addr", f"is missing: {_TOO_OLD}")
    kind = arguments.integer("Device Type", default=0)
    number = arguments.integer("Device Id", default=-1, minimum=-1)
    return MemoryEvent(
        event=index,
        thread=_thread(event),
        time_ns=_begin_ns(event),
        address=arguments.integer("Addr"),
        size_bytes=arguments.integer("Bytes", minimum=-(2**62)),
        device="cpu" if kind == 0 else f"device {kind}:{number}",
    )
