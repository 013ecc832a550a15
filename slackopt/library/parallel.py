"""Independent checks, several at a time, in processes."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from typing import TypeVar

from slackopt.errors import SlackoptError

ItemT = TypeVar("ItemT")
DoneT = TypeVar("DoneT")


def each_done(
    function: Callable[[ItemT], DoneT], items: Sequence[ItemT], jobs: int
) -> Iterator[tuple[int, DoneT]]:
    """Call a function on every item; yield index and answer as they come.

    Parameters
    ----------
    function
        At the top level of its module, as processes must find it.
    items
        What it is called on.
    jobs
        Processes; with 1, all is done in this one.

    Raises
    ------
    SlackoptError
        If a process was ended from outside.
    """
    if jobs <= 1 or len(items) <= 1:
        for i, item in enumerate(items):
            yield i, function(item)
        return
    # Forked copies of a process in which a solver has run threads can hang; fresh ones don't.
    context = multiprocessing.get_context("spawn")
    before = set(multiprocessing.active_children())
    pool = ProcessPoolExecutor(min(jobs, len(items)), mp_context=context, initializer=_deaf)
    try:
        futures = {pool.submit(function, item): i for i, item in enumerate(items)}
        for future in as_completed(futures):
            yield futures[future], future.result()
    except BrokenProcessPool:
        raise SlackoptError(
            "a worker process was ended from outside, most likely for lack of memory; run again "
            "with --jobs 1"
        ) from None
    except KeyboardInterrupt:
        for worker in set(multiprocessing.active_children()) - before:
            worker.terminate()
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _deaf() -> None:
    """Leave Ctrl-C, which a terminal sends to all processes, to the one that started them."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def default_jobs() -> int:
    """Return how many processes this one may keep busy."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
