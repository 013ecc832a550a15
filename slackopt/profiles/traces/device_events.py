"""Times of kernels, copies and fills on a device: overlaps mended, each event counted once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from slackopt.errors import InputError
from slackopt.profiles.traces.fields import shown
from slackopt.profiles.traces.mending import CLOCK_NS, warn

NO_ID = -1
_NOTED_SHARE = 0.01


@dataclass(frozen=True, slots=True)
class DeviceEvent:
    """A kernel, copy or fill.

    Attributes
    ----------
    event
        Position among the events of the file.
    name
        What ran.
    stream
        Device and stream.
    begin_ns, end_ns
        On the profiler's clock.
    external_id
        That of the call that launched it; -1 where missing.
    """

    event: int
    name: str
    stream: tuple[str, str]
    begin_ns: int
    end_ns: int
    external_id: int

    @property
    def place(self) -> str:
        """The event for messages."""
        return f"traceEvents[{self.event}] ({shown(self.name)})"


def device_times(
    path: str, events: Sequence[DeviceEvent], *, known: Iterable[int], window_end_ns: int | None
) -> tuple[dict[int, int], dict[str, Any]]:
    """Return the time on the device by external id, and what was done to get it.

    A stream runs one event after the other. One that runs over the start of the next on its stream
    is cut there, as viewers of such traces show it; what runs over the end of the recording is cut
    there. Both are warned of.

    Parameters
    ----------
    path
        Named in errors and warnings.
    events
        In any order.
    known
        External ids of the calls.
    window_end_ns
        End of the recording, if the trace says it.

    Raises
    ------
    InputError
        If two events begin together on one stream, or most of the time belongs to no call.
    """
    streams: dict[tuple[str, str], list[DeviceEvent]] = {}
    for event in events:
        streams.setdefault(event.stream, []).append(event)
    cuts: list[tuple[DeviceEvent, int]] = []
    doubled: list[DeviceEvent] = []
    times: dict[int, int] = {}
    for stream in streams.values():
        stream.sort(key=lambda event: (event.begin_ns, event.end_ns, event.event))
        for event, after in zip(stream, [*stream[1:], None], strict=True):
            end = _end(path, event, after, window_end_ns)
            if end is None:
                doubled.append(event)
                continue
            if event.end_ns - end > CLOCK_NS:
                cuts.append((event, event.end_ns - end))
            times[event.external_id] = times.get(event.external_id, 0) + end - event.begin_ns
    _warn_of(path, cuts, doubled)
    for stream in streams.values():
        _check_last(path, stream)
    total, ids = sum(times.values()), set(known)
    lost = [event for event in events if event.external_id not in ids]
    lost_ns = sum(time for number, time in times.items() if number not in ids)
    if 2 * lost_ns > total:
        raise InputError(
            f"{path}: traceEvents: {lost_ns} of {total} ns on the device are events without "
            "'External id' in their args, or with one that no call has, so they belong to no call; "
            "record with ProfilerActivity.CPU and ProfilerActivity.CUDA together"
        )
    if lost_ns > _NOTED_SHARE * total:
        warn(
            f"{path}: {len(lost)} of {len(events)} kernels, copies and fills belong to no call "
            f"(the first: {lost[0].place}): {lost_ns} of {total} ns on the device are left out"
        )
    counts = {
        "number": len(events),
        "duration_ns": total,
        "cut": {"number": len(cuts), "duration_ns": sum(cut for _, cut in cuts)},
        "doubled": len(doubled),
        "without_call": {"number": len(lost), "duration_ns": lost_ns},
    }
    return {number: time for number, time in times.items() if number in ids}, counts


def _end(
    path: str, event: DeviceEvent, after: DeviceEvent | None, window_end_ns: int | None
) -> int | None:
    """Return where an event ends; None if the next is the same event once more."""
    end = event.end_ns
    if window_end_ns is not None and window_end_ns >= event.begin_ns:
        end = min(end, window_end_ns)
    if after is None or end <= after.begin_ns:
        return end
    if after.begin_ns > event.begin_ns or end - event.begin_ns <= CLOCK_NS:
        return after.begin_ns
    same = (event.name, event.external_id, event.end_ns)
    if same == (after.name, after.external_id, after.end_ns):
        return None
    raise InputError(
        f"{path}: {event.place} and {after.place} begin at the same time on stream "
        f"{event.stream[1]} of device {event.stream[0]}, which runs one after the other, so their "
        "times can't be told; record the trace again"
    )


def _warn_of(
    path: str, cuts: Sequence[tuple[DeviceEvent, int]], doubled: Sequence[DeviceEvent]
) -> None:
    if cuts:
        longest, most = max(cuts, key=lambda cut: cut[1])
        noun = "1 kernel, copy or fill runs" if len(cuts) == 1 else f"{len(cuts)} events run"
        warn(
            f"{path}: {noun} over the start of the next on its stream or the end of the recording, "
            f"by {sum(cut for _, cut in cuts)} ns (most: {longest.place}, by {most} ns); cut there"
        )
    if doubled:
        warn(
            f"{path}: {len(doubled)} of the kernels, copies and fills stand twice (the first: "
            f"{doubled[0].place}); counted once"
        )


def _check_last(path: str, stream: Sequence[DeviceEvent]) -> None:
    """Warn of a last event that takes longer than all before it: nothing tells where it ended."""
    last = stream[-1]
    before = last.begin_ns - stream[0].begin_ns
    if len(stream) > 1 and last.end_ns - last.begin_ns > max(before, 1000 * CLOCK_NS):
        warn(
            f"{path}: {last.place}, the last on its stream, takes {last.end_ns - last.begin_ns} "
            f"ns, longer than all before it ({before} ns); is its field 'dur' right?"
        )


class DeviceLedger:
    """Gives out the time of each call's kernels once.

    Parameters
    ----------
    path
        Named in errors.
    times
        Time on the device by external id.
    """

    def __init__(self, path: str, times: Mapping[int, int]) -> None:
        self._path, self._times = path, times
        self._takers: dict[int, str] = {}

    def take(self, external_ids: Iterable[int], taker: str) -> int:
        """Return the time of some calls, for the op called `taker`.

        Raises
        ------
        InputError
            If another op took the time of one of them: its id stands twice in the trace.
        """
        total = 0
        for number in sorted(set(external_ids)):
            time = self._times.get(number, 0)
            if not time:
                continue
            before = self._takers.setdefault(number, taker)
            if before != taker:
                raise InputError(
                    f"{self._path}: 'External id' {number} stands at two ops, {before} and "
                    f"{taker}, so it can't be told whose kernels it names; record the trace again"
                )
            total += time
        return total

    def left(self, external_ids: Iterable[int]) -> dict[int, int]:
        """Return the time by external id that no op took, of the given calls."""
        return {
            number: self._times[number]
            for number in sorted(set(external_ids))
            if self._times.get(number, 0) and number not in self._takers
        }
