"""``read_trace``: any trace or table to a graph."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from slackopt.errors import InputError
from slackopt.graph import Graph
from slackopt.profiles.accelerators import Accelerator, accelerator_names, get_accelerator
from slackopt.profiles.traces.aot import read_aot
from slackopt.profiles.traces.detect import (
    AOT,
    CSV,
    EXECUTION_TRACE,
    FORMATS,
    KINETO,
    NODE_LINK,
    detect_format,
)
from slackopt.profiles.traces.durations import MeasuredDurations, roofline_durations
from slackopt.profiles.traces.execution_trace import read_nodes
from slackopt.profiles.traces.from_nodes import graph_of_nodes
from slackopt.profiles.traces.kineto import read_kineto
from slackopt.profiles.traces.node_link import read_node_link
from slackopt.profiles.traces.profile import graph_of_profile
from slackopt.profiles.traces.storages import Use
from slackopt.profiles.traces.table import read_table
from slackopt.violations import violation_lines

FilePath = str | os.PathLike[str]

_MAX_NAME = 400
_SUFFIXES = (".gz", ".tar", ".tgz", ".json", ".csv")


@dataclass(frozen=True)
class _Source:
    """What `read_trace` was asked for, checked."""

    path: str
    durations: str | None
    format: str
    accelerator: Accelerator | None
    step: int | str | None
    restore_random_state: bool
    element_bytes: int | None
    name: str

    @property
    def provenance(self) -> dict[str, Any]:
        """Where the graph comes from; names of files, not of folders."""
        files = [Path(path).name for path in (self.path, self.durations) if path is not None]
        return {"generator": "slackopt.profiles.read_trace", "format": self.format, "files": files}

    @property
    def timed(self) -> dict[str, Any]:
        """Where the times come from, if the accelerator's roofline gives them."""
        chip = self.accelerator
        return {} if chip is None else {"times": "roofline", "accelerator": chip.model_dump()}

    def need_accelerator(self) -> Accelerator:
        """Return the accelerator, or say that times are missing."""
        if self.accelerator is None:
            more = ""
            if self.format == EXECUTION_TRACE:
                more = "give the profiler trace of the same run as a second file, or "
            raise InputError(
                f"{self.path}: has no times; {more}name an accelerator whose roofline times the "
                f"ops: {', '.join(accelerator_names())}"
            )
        return self.accelerator

    def refuse_all(self) -> None:
        """Refuse every option, for tables that hold everything."""
        self.refuse(
            accelerator=self.accelerator,
            step=self.step is not None,
            no_restore_random_state=not self.restore_random_state,
            element_bytes=self.element_bytes,
        )

    def refuse(self, **options: object) -> None:
        """Refuse options that mean nothing for the format."""
        for option, value in options.items():
            if value:
                raise InputError(
                    f"{self.path}: {option.replace('_', ' ')} means nothing for format "
                    f"{self.format!r}; leave it out"
                )


def read_trace(
    path: FilePath,
    format: str | None = None,  # noqa: A002
    *,
    durations: FilePath | None = None,
    accelerator: str | None = None,
    step: int | str | None = None,
    restore_random_state: bool = True,
    element_bytes: int | None = None,
    name: str | None = None,
) -> Graph:
    """Make a graph from a trace or a table.

    Parameters
    ----------
    path
        A PyTorch execution trace, a PyTorch profiler trace, the partitioner's dump of AOTAutograd,
        node-link JSON or a CSV table; plain, gzipped, or alone in a tar archive.
    format
        One of `TRACE_FORMATS`; told from the content by default.
    durations
        The profiler trace of the same run, for an execution trace: its times are used.
    accelerator
        A name in `slackopt.profiles.accelerators`, whose roofline times the ops of a trace without
        times.
    step
        Which step of the trace: a position (0 is the first) or a label (``ProfilerStep#3``); the
        last whole one by default.
    restore_random_state
        Whether the state of the random generator is taken to be saved and restored, so that ops
        that draw random numbers (dropout) may be recomputed.
    element_bytes
        Bytes of an element, for dumps of AOTAutograd that give shapes only.
    name
        Name of the graph; the file's name without its endings by default.

    Returns
    -------
    Graph
        Its provenance says where it came from, which step, and what was counted.

    Raises
    ------
    InputError
        If the file can't be read, naming the file, the entry and the field; if an option doesn't
        fit the format.

    Notes
    -----
    A tensor is a storage; views are merged. Parameters, buffers, parameter gradients and the
    optimizer are left out. ``docs/traces.md`` has the rules.

    Examples
    --------
    >>> read_trace("et.json.gz", accelerator="a100")  # doctest: +SKIP
    >>> read_trace("et.json", durations="profile.json")  # doctest: +SKIP
    """
    file = os.fspath(path)
    second = None if durations is None else os.fspath(durations)
    if format is not None and format not in FORMATS:
        raise InputError(f"unknown format {format!r}; formats: {', '.join(FORMATS)}")
    chip = None if accelerator is None else get_accelerator(accelerator)
    found = format or detect_format(file)
    if second is not None:
        file, second, found = _both(file, second, found)
    source = _Source(
        file, second, found, chip, step, restore_random_state, element_bytes, name or _stem(file)
    )
    try:
        graph = _READERS[found](source)
    except ValidationError as error:
        raise InputError(
            f"{file}: what it holds makes no valid graph", violation_lines(error)
        ) from None
    except InputError as error:
        if error.message.startswith((file, *([second] if second else []))):
            raise
        raise error.in_file(file) from None
    if name is not None and graph.name != name:
        graph = graph.model_copy(update={"name": name})
    return graph


def _stem(path: str) -> str:
    name = Path(path).name
    while True:
        suffix = next((end for end in _SUFFIXES if name.lower().endswith(end)), None)
        if suffix is None or len(name) == len(suffix):
            return name[:_MAX_NAME]
        name = name[: -len(suffix)]


def _both(first: str, second: str, found: str) -> tuple[str, str, str]:
    """Return execution trace, profiler trace and format, in whatever order they were given."""
    other = detect_format(second)
    pair = (found, other)
    if pair == (EXECUTION_TRACE, KINETO):
        return first, second, EXECUTION_TRACE
    if pair == (KINETO, EXECUTION_TRACE):
        return second, first, EXECUTION_TRACE
    raise InputError(
        f"{first} ({found}) and {second} ({other}) can't be joined; two files are the execution "
        "trace and the profiler trace of one run"
    )


def _execution_trace(source: _Source) -> Graph:
    source.refuse(element_bytes=source.element_bytes)
    durations: Callable[[str], Callable[[Use], int]]
    provenance = source.provenance
    if source.durations is None:
        chip = source.need_accelerator()
        provenance |= source.timed

        def durations(device: str) -> Callable[[Use], int]:
            return roofline_durations(source.path, chip, device)

    else:
        source.refuse(accelerator=source.accelerator)
        profile = read_kineto(source.durations)
        measured = MeasuredDurations(source.path, source.durations, profile)
        where = "device" if measured.on_device else "host"
        provenance |= {"times": f"measured by the profiler on the {where}"}
        if profile.device_counts:
            provenance["device_events"] = profile.device_counts

        def durations(device: str) -> Callable[[Use], int]:
            del device
            return measured

    return graph_of_nodes(
        source.path,
        read_nodes(source.path),
        durations=durations,
        name=source.name,
        step=source.step,
        restore_random_state=source.restore_random_state,
        provenance=provenance,
    )


def _kineto(source: _Source) -> Graph:
    source.refuse(element_bytes=source.element_bytes, accelerator=source.accelerator)
    return graph_of_profile(
        source.path,
        read_kineto(source.path),
        name=source.name,
        step=source.step,
        restore_random_state=source.restore_random_state,
        provenance=source.provenance,
    )


def _aot(source: _Source) -> Graph:
    source.refuse(step=source.step is not None)
    return read_aot(
        source.path,
        source.name,
        accelerator=source.need_accelerator(),
        element_bytes=source.element_bytes,
        restore_random_state=source.restore_random_state,
        provenance=source.provenance,
    )


def _node_link(source: _Source) -> Graph:
    source.refuse_all()
    return read_node_link(source.path, source.name, source.provenance)


def _table(source: _Source) -> Graph:
    source.refuse_all()
    return read_table(source.path, source.name, source.provenance)


_READERS: dict[str, Callable[[_Source], Graph]] = {
    EXECUTION_TRACE: _execution_trace,
    KINETO: _kineto,
    AOT: _aot,
    NODE_LINK: _node_link,
    CSV: _table,
}
