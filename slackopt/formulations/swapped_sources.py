"""Swapped tensors without a backward use: whole in one of the memories until a rerun reads them.

Column ``swapped_early[q,b]`` (V) = [q is swapped, and the only op c that may read it again is rerun
before slot b], for each tensor q without a backward use with a single such op c; b runs over the
thresholds of c. With M of `slackopt.formulations.early_reruns`,

    V_qb <= W_q ,   M_qb + V_qb <= L_cb ,   L_cb - M_qb - V_qb <= R_q .

`WindowColumns.away` lists, for every swapped tensor, spans of ops during which bytes are in one of
the memories. docs/formulations.md has the proofs.
"""

from __future__ import annotations

from collections.abc import Iterator

from slackopt.formulations.columns import AwayTerm, WindowColumns
from slackopt.formulations.linear import Row
from slackopt.formulations.residents import only_sources
from slackopt.lifetimes import ABSENT


def add_swapped_sources(window: WindowColumns) -> None:
    """Add the columns ``V_qb`` and their rows, and list the terms of all swapped tensors."""
    for (q, b), kept_early in window.kept_early.items():
        if q not in window.swap:
            continue
        (c,) = window.slots.readers[q]
        before = next(column for level, column in window.before[c] if level == b)
        early = window.add_column(f"swapped_early[{q},{b}]", integer=False)
        window.swapped_early[q, b] = early
        window.source_rows += [
            Row(f"swapped_early_swap[{q},{b}]", {early: 1, window.swap[q]: -1}, 0),
            Row(f"swapped_early_before[{q},{b}]", {early: 1, kept_early: 1, before: -1}, 0),
        ]
        others = {window.recompute[q]: -1} if q in window.recompute else {}
        signs = {before: 1, kept_early: -1, early: -1} | others
        window.source_rows.append(Row(f"swapped_early_else[{q},{b}]", signs, 0))
    window.away += _away_terms(window)


def _away_terms(window: WindowColumns) -> Iterator[AwayTerm]:
    """Yield the terms of all swapped tensors.

    A candidate: from after its last forward use to its first backward use. A tensor without
    a backward use: to the first slot in which a rerun can read it; then, up to each threshold b
    of its only reader c, where c is not rerun before b; and, where c is rerun for a single tensor
    t, between thresholds: until then it is there, from then on t.
    """
    life, pairs = window.life, {q: t for t, q in only_sources(window).items()}
    for t, column in window.swap.items():
        size, first = life.sizes_bytes[t], life.last_forward_use[t] + 1
        use = life.first_backward_use[t]
        need = window.slots.first_need(life, t) if use == ABSENT else use
        if first < need:
            yield AwayTerm(t, first, need, size, {column: 1})
        if use != ABSENT or len(window.slots.readers[t]) != 1:
            continue
        (c,) = window.slots.readers[t]
        start, earlier = need, None
        for b, _ in window.before.get(c, ()):
            early = window.swapped_early[t, b]
            if start < b:
                yield AwayTerm(t, start, b, size, {column: 1, early: -1})
                if t in pairs:
                    # Rerun from slot `start` on, before b: t, rebuilt, is not counted elsewhere.
                    output = pairs[t]
                    both = min(size, life.sizes_bytes[output])
                    end = min(b - 1, life.first_backward_use[output])
                    signs = {early: 1} | ({} if earlier is None else {earlier: -1})
                    if start < end:
                        yield AwayTerm(t, start, end, both, signs)
            start, earlier = b, early
