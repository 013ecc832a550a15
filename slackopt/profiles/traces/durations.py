"""Times of the ops of an execution trace: modelled from shapes, or measured by the profiler."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from slackopt.errors import InputError
from slackopt.profiles.accelerators import Accelerator
from slackopt.profiles.roofline import op_time_ns
from slackopt.profiles.traces.device_events import DeviceLedger
from slackopt.profiles.traces.fields import shown
from slackopt.profiles.traces.kineto import HostCall, KinetoTrace
from slackopt.profiles.traces.mending import CLOCK_NS
from slackopt.profiles.traces.nodes import Node
from slackopt.profiles.traces.storages import Use
from slackopt.profiles.traces.work import work_of
from slackopt.records import MAX_DURATION_NS


def roofline_durations(path: str, accelerator: Accelerator, device: str) -> Callable[[Use], int]:
    """Return a function that models the time of an op from the shapes of its tensors.

    Parameters
    ----------
    path
        Named in errors.
    accelerator
        Whose figures to use.
    device
        Tensors elsewhere are ignored.
    """
    any_dtype = next(iter(accelerator.peak_flops_per_s))

    def duration(use: Use) -> int:
        work = work_of(use.calls, device)
        dtype = (work.dtype or any_dtype) if work.flops else any_dtype
        try:
            time = op_time_ns(
                accelerator,
                flops=work.flops,
                moved_bytes=work.moved_bytes,
                dtype=dtype,
                fused_attention=work.fused_attention,
            )
        except InputError as error:
            raise InputError(
                f"{path}: node {use.node.id} ({use.node.name!r}): field 'types': {error.message}"
            ) from None
        if time > MAX_DURATION_NS:
            raise InputError(
                f"{path}: node {use.node.id} ({use.node.name!r}): field 'shapes': the shapes give "
                "an op that takes longer than an hour"
            )
        return time

    return duration


class MeasuredDurations:
    """Times measured by the profiler in the same run.

    An op takes as long as its kernels, copies and fills on the device. Where the profiler saw none
    at all (a run on the CPU), it takes as long as its call.

    Parameters
    ----------
    path, kineto_path
        Execution trace and profiler trace, named in errors.
    trace
        What the profiler saw.

    Raises
    ------
    InputError
        If the profiler's trace carries no ids of record functions.
    """

    def __init__(self, path: str, kineto_path: str, trace: KinetoTrace) -> None:
        self.path, self.kineto_path = path, kineto_path
        self._calls: dict[int, HostCall] = {}
        self._doubled: dict[int, HostCall] = {}
        for call in trace.calls:
            if call.record_id > 0 and self._calls.setdefault(call.record_id, call) is not call:
                self._doubled[call.record_id] = call
        if not self._calls:
            raise InputError(
                f"{kineto_path}: traceEvents: no event has 'Record function id' in its args, so it "
                "can't be joined; record both traces in one run with PyTorch 2.1 or newer"
            )
        self._ledger = DeviceLedger(kineto_path, trace.device_ns)
        self._busy: dict[tuple[str, str], HostCall] = {}
        self.on_device = bool(trace.device_ns)

    def __call__(self, use: Use) -> int:
        """Return the time of an op in ns, at least 1.

        Raises
        ------
        InputError
            If the profiler did not see it, or saw another op under its id.
        """
        call = self._calls.get(use.node.record_id)
        where = f"{self.path}: node {use.node.id} ({use.node.name!r})"
        if call is None:
            raise InputError(
                f"{where}: field 'rf_id' is {use.node.record_id}, and {self.kineto_path} has no "
                "event with that 'Record function id'; are both traces of the same run?"
            )
        if call.name != use.node.name:
            raise InputError(
                f"{where}: field 'rf_id' is {use.node.record_id}, and traceEvents[{call.event}] of "
                f"{self.kineto_path} with that id is {call.name!r}; are both traces of the same "
                "run?"
            )
        doubled = self._doubled.get(use.node.record_id)
        if doubled is not None:
            raise InputError(
                f"{self.kineto_path}: traceEvents[{doubled.event}]: field 'Record function id' is "
                f"{doubled.record_id}, as of traceEvents[{call.event}]; the ids of calls are unique"
            )
        if not self.on_device:
            self._check_alone(call)
            return max(1, call.end_ns - call.begin_ns)
        externals = {
            self._calls[node.record_id].external_id
            for node in use.calls
            if node.record_id in self._calls
        }
        taker = f"traceEvents[{call.event}] ({shown(call.name)})"
        return max(1, self._ledger.take(externals, taker))

    def left(self, nodes: Sequence[Node]) -> dict[int, int]:
        """Return the time on the device that belongs to these calls and was given to no op."""
        found = (self._calls.get(node.record_id) for node in nodes)
        return self._ledger.left(call.external_id for call in found if call is not None)

    def _check_alone(self, call: HostCall) -> None:
        """Refuse an op that begins while the op before it on its thread still runs."""
        before = self._busy.get(call.thread)
        self._busy[call.thread] = call
        if before is not None and before.begin_ns <= call.begin_ns < before.end_ns - CLOCK_NS:
            raise InputError(
                f"{self.kineto_path}: traceEvents[{before.event}] ({shown(before.name)}): field "
                f"'dur': the call runs until {before.end_ns - call.begin_ns} ns after the start of "
                f"traceEvents[{call.event}] ({shown(call.name)}) on its thread, which it didn't "
                "make, so its time can't be told; record the traces again"
            )
