"""Best-known values as text, in the manner of MIPLIB's ``.solu`` files."""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import quote

from slackopt.library.records import Best, BestEntry


def solution_list(families: Iterable[Best]) -> str:
    """Write one or two lines an instance: a keyword, ``family/instance``, and a value in ns.

    ============== ===================================================================
    ``=opt=``      the makespan, proved optimal to the nanosecond
    ``=best=``     the makespan of the best plan known
    ``=bestdual=`` the best lower bound known, on the line after ``=best=`` or alone
    ``=inf=``      no plan exists; no value
    ``=unkn=``     nothing is known; no value
    ============== ===================================================================

    Blanks and other characters that would break a line are escaped as in URLs.
    """
    lines = []
    for best in sorted(families, key=lambda family: family.family):
        for entry in sorted(best.entries, key=lambda entry: entry.instance):
            name = f"{quote(best.family, safe='')}/{quote(entry.instance, safe='')}"
            lines += [" ".join(part) for part in _lines(name, entry)]
    return "".join(f"{line}\n" for line in lines)


def _lines(name: str, entry: BestEntry) -> list[tuple[str, ...]]:
    makespan, bound = entry.makespan_ns, entry.lower_bound_ns
    if entry.infeasible is not None:
        return [("=inf=", name)]
    if makespan is not None and makespan == bound:
        return [("=opt=", name, str(makespan))]
    found: list[tuple[str, ...]] = []
    if makespan is not None:
        found.append(("=best=", name, str(makespan)))
    if bound is not None:
        found.append(("=bestdual=", name, str(bound)))
    return found or [("=unkn=", name)]
