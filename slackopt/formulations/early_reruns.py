"""Early reruns: an op rerun before its own slot, because a reader of its output is rerun there.

The columns are ``L_jb`` = [op j is rerun before slot b] (``before[j,b]``) and ``M_qb`` = [the only
op that may read q again is rerun before b, from a kept q] (``kept_early[q,b]``).
"""

from __future__ import annotations

from collections.abc import Iterator

from slackopt.clock import check_time
from slackopt.formulations.columns import WindowColumns
from slackopt.formulations.linear import Row


def early_rows(window: WindowColumns, j: int) -> Iterator[Row]:
    """Rows for ``L_jb = [op j is rerun before slot b]``.

    They ascend in b up to ``P_j``. An early rerun is pulled by the rerun of a reader c of an
    output y decided recompute: ``L_jb <= sum over (y, c) of [c before b, y recompute]``; and a
    reader pulls where y is decided recompute: ``L_cb + R_y - 1 <= L_jb``.
    """
    check_time()
    columns = [column for _, column in window.before[j]] + [window.rerun[j]]
    readers: dict[int, list[int]] = {}
    for y, c in window.slots.pulled_by[j]:
        readers.setdefault(c, []).append(y)
    for i, (b, column) in enumerate(window.before[j]):
        yield Row(f"ascending[{j},{b}]", {column: 1, columns[i + 1]: -1}, 0)
        pulls, loose = {column: 1}, {column: 1}
        for c, tensors in readers.items():
            for term, sign in _pull_of_reader(window, tensors, c, b).items():
                pulls[term] = pulls.get(term, 0) - sign
            most = window.before_at_most(c, b)
            if most is not None:
                loose[most] = -1
            least = window.before_at_least(c, b)
            if least is None:
                continue
            for y in tensors:
                forced = {least: 1, column: -1}
                forced[window.recompute[y]] = forced.get(window.recompute[y], 0) + 1
                yield Row(f"pulls[{j},{b},{y},{c}]", forced, 1)
        yield Row(f"pulled[{j},{b}]", pulls, 0)
        if any(len(tensors) > 1 for tensors in readers.values()):
            # A reader of several outputs pulls once, from whichever of them; neither row implies
            # the other.
            yield Row(f"pulled_once[{j},{b}]", loose, 0)


def _pull_of_reader(window: WindowColumns, tensors: list[int], c: int, b: int) -> dict[int, int]:
    """At least [op c is rerun before slot b and one of `tensors` is decided recompute]."""
    terms = [pull(window, y, c, b) for y in tensors]
    most = window.before_at_most(c, b)
    if most is None or {most: 1} in terms:
        return {} if most is None else {most: 1}
    total: dict[int, int] = {}
    for term in terms:
        for column, sign in term.items():
            total[column] = total.get(column, 0) + sign
    return total


def pull(window: WindowColumns, y: int, c: int, b: int) -> dict[int, int]:
    """At least [op c is rerun before slot b and y is decided recompute], as a sum."""
    most = window.before_at_most(c, b)
    if most is None:
        return {}
    if y in window.keep and len(window.slots.readers[y]) == 1:
        # b is at most the own slot of y's producer, so at most that of c: `most` is a level of c.
        level = next(level for level, column in window.before[c] if column == most)
        others = [d[y, level] for d in (window.kept_early, window.swapped_early) if (y, level) in d]
        return {most: 1} | dict.fromkeys(others, -1)
    return {most: 1}


def kept_early_rows(window: WindowColumns, q: int, b: int) -> Iterator[Row]:
    """``M_qb <= K_q``, ``M_qb <= L_cb``, ``L_cb - M_qb <= W_q + R_q``."""
    (c,) = window.slots.readers[q]
    before = next(column for level, column in window.before[c] if level == b)
    early = window.kept_early[q, b]
    yield Row(f"kept_early_keep[{q},{b}]", {early: 1, window.keep[q]: -1}, 0)
    yield Row(f"kept_early_before[{q},{b}]", {early: 1, before: -1}, 0)
    others = {d[q]: -1 for d in (window.swap, window.recompute) if q in d}
    yield Row(f"kept_early_else[{q},{b}]", {before: 1, early: -1} | others, 0)
