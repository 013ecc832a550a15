"""Times of the ops of an execution trace: modelled from shapes, or measured by the profiler."""

from __future__ import annotations

from collections.abc import Callable

from slackopt.errors import InputError
from slackopt.profiles.accelerators import Accelerator
from slackopt.profiles.roofline import op_time_ns
from slackopt.profiles.traces.kineto import KinetoTrace
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
        self._calls = {call.record_id: call for call in trace.calls if call.record_id > 0}
        if not self._calls:
            raise InputError(
                f"{kineto_path}: traceEvents: no event has 'Record function id' in its args, so it "
                "can't be joined; record both traces in one run with PyTorch 2.1 or newer"
            )
        self._device_ns = trace.device_ns
        self.on_device = bool(trace.device_ns)

    def covers(self, use: Use) -> bool:
        """Whether the profiler saw an op."""
        return use.node.record_id in self._calls

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
        if not self.on_device:
            return max(1, call.end_ns - call.begin_ns)
        externals = {
            self._calls[node.record_id].external_id
            for node in use.calls
            if node.record_id in self._calls
        }
        return max(1, sum(self._device_ns.get(external, 0) for external in externals))
