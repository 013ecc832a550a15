"""Numbers as people read them: bytes, times, shares."""

from __future__ import annotations

from slackopt.result import Result

UNKNOWN = "unknown"


def size(value: int | None) -> str:
    """Write bytes in a binary unit, and exactly."""
    if value is None:
        return UNKNOWN
    for unit, scale in (("TiB", 2**40), ("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if value >= scale:
            return f"{value / scale:.3f} {unit} ({value} bytes)"
    return f"{value} bytes"


def milliseconds(value: int | None) -> str:
    """Write a duration in ms, to the nanosecond."""
    return UNKNOWN if value is None else f"{value / 1e6:.6f} ms"


def percent(value: float | None, digits: int = 3) -> str:
    """Write a share in percent."""
    return UNKNOWN if value is None else f"{100 * value:.{digits}f} %"


def bandwidth(value: int | None) -> str:
    """Write a bandwidth in GB/s."""
    return UNKNOWN if value is None else f"{value / 1e9:.3f} GB/s"


def count(number: int, one: str, many: str | None = None) -> str:
    """Write a number with its noun."""
    return f"{number} {one if number == 1 else many or one + 's'}"


def is_bound_only(result: Result) -> bool:
    """Whether a result is what `bound` is for: a bound, and no plan."""
    # Files written before there was this status have another one.
    old = (result.method, result.status) == ("bound", "no_solution")
    return result.status == "bounded" or (old and result.lower_bound_ns is not None)
