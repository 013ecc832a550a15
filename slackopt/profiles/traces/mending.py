"""What a trace gets wrong and can be mended: said in a warning, never in silence."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from slackopt.errors import MendedWarning
from slackopt.profiles.traces.fields import shown

if TYPE_CHECKING:
    from slackopt.profiles.traces.kineto import HostCall

CLOCK_NS = 1000
"""Time stamps are rounded, in some traces to microseconds: overlaps up to this mean nothing."""


def warn(sentence: str) -> None:
    """Warn of something that was mended or left out."""
    warnings.warn(sentence, MendedWarning, stacklevel=2)


def nested(path: str, calls: Sequence[HostCall]) -> list[HostCall]:
    """Return the calls of all threads by their starts, none ending after the call that made it.

    A call that begins within another on its thread was made by it, so it can't end later; profilers
    write such ends for calls that end on another thread (communication). It is ended with its
    parent, with a warning. Annotations are no calls and may end before what is below them.
    """
    stacks: dict[tuple[str, str], list[HostCall]] = {}
    found: list[HostCall] = []
    late: list[tuple[HostCall, int]] = []
    for call in sorted(calls, key=lambda call: (call.begin_ns, -call.end_ns, call.event)):
        stack = stacks.setdefault(call.thread, [])
        while stack and stack[-1].end_ns <= call.begin_ns:
            stack.pop()
        kept, above = call, stack[-1] if stack else None
        if above is not None and not above.annotation and call.end_ns > above.end_ns:
            kept = replace(call, end_ns=above.end_ns)
            if call.end_ns - above.end_ns > CLOCK_NS:
                late.append((call, call.end_ns - above.end_ns))
        found.append(kept)
        stack.append(kept)
    if late:
        call, most = max(late, key=lambda entry: entry[1])
        noun = "1 call ends" if len(late) == 1 else f"{len(late)} calls end"
        warn(
            f"{path}: {noun} later than what made the call (most: traceEvents[{call.event}] "
            f"({shown(call.name)}), by {most} ns); ended with it"
        )
    return found
