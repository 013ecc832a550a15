"""How long work may take: a time limit for all that runs inside a ``with`` block.

``with time_limit(deadline):`` gives the block a deadline, and `check_time`, called in every loop
that can take long, raises `OutOfTimeError` once it has passed. So a loop three calls down need not
be handed a clock, and who wants to return what was found until then catches the error:

>>> import time
>>> with time_limit(time.monotonic() - 1) as limit:
...     try:
...         check_time()
...     except OutOfTimeError:
...         print("cut short:", limit.cut_short)
cut short: True

Blocks nest, and an inner one never ends later than an outer one. Outside of all blocks there is no
limit. The limit belongs to the thread that sets it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

Now = Callable[[], float]


class OutOfTimeError(Exception):
    """The time limit has passed."""


@dataclass
class TimeLimit:
    """The limit of one block.

    Attributes
    ----------
    deadline
        Value of `now` at which the time is up; None for no limit.
    now
        The clock, in seconds.
    cut_short
        Whether `check_time` has raised in this block, or a block inside it, whoever caught it.
    """

    deadline: float | None
    now: Now = time.monotonic
    cut_short: bool = False

    @property
    def seconds_left(self) -> float:
        """Seconds until the deadline, at least 0; infinite without one."""
        return float("inf") if self.deadline is None else max(0.0, self.deadline - self.now())


_CURRENT: ContextVar[TimeLimit] = ContextVar("slackopt_time_limit")
_UNLIMITED = TimeLimit(None)


@contextmanager
def time_limit(deadline: float | None, now: Now | None = None) -> Iterator[TimeLimit]:
    """Limit the time of a block.

    Parameters
    ----------
    deadline
        Value of the clock at which the time is up; None for no limit but that of the block around.
    now
        The clock; that of the block around by default, and without one `time.monotonic`.
    """
    outer = _CURRENT.get(_UNLIMITED)
    ends = [end for end in (deadline, outer.deadline) if end is not None]
    limit = TimeLimit(min(ends, default=None), now or outer.now)
    token = _CURRENT.set(limit)
    try:
        yield limit
    finally:
        _CURRENT.reset(token)
        if limit.cut_short and outer is not _UNLIMITED:
            outer.cut_short = True


def check_time() -> None:
    """Raise `OutOfTimeError` if the time limit of the block has passed."""
    limit = _CURRENT.get(_UNLIMITED)
    if limit.deadline is not None and limit.now() >= limit.deadline:
        limit.cut_short = True
        raise OutOfTimeError


def seconds_left() -> float:
    """Seconds until the deadline of the block, at least 0; infinite without one."""
    return _CURRENT.get(_UNLIMITED).seconds_left


def deadline_in(seconds: float | None) -> float | None:
    """Return the `time.monotonic` value at which so many seconds, or those of the block, are up.

    None if there is no limit: None stands for no limit of one's own.
    """
    left = seconds_left() if seconds is None else min(seconds, seconds_left())
    return None if left == float("inf") else time.monotonic() + left
