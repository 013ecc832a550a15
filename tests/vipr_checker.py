"""A small exact checker of VIPR files of one combination: for machines without ``viprchk``.

It reads what docs/verify.md describes (``lin`` and ``rnd`` derivations, one solution) and shares
no code with what writes the files. ``check`` raises `RefusedError` where the claim does not follow.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from math import ceil

Terms = dict[int, Fraction]


class RefusedError(Exception):
    """The file does not prove what it claims."""


def _require(condition: bool, what: str) -> None:
    if not condition:
        raise RefusedError(what)


class _Reader:
    def __init__(self, text: str) -> None:
        lines = [line for line in text.splitlines() if not line.startswith("%")]
        self.words: Iterator[str] = iter(" ".join(lines).split())

    def word(self) -> str:
        return next(self.words)

    def number(self) -> int:
        return int(self.word())

    def expect(self, *expected: str) -> None:
        for word in expected:
            found = self.word()
            _require(found == word, f"{word} expected, found {found}")

    def terms(self, objective: Terms | None = None) -> Terms:
        first = self.word()
        if first == "OBJ":
            assert objective is not None
            return objective
        return {self.number(): Fraction(self.word()) for _ in range(int(first))}


def _at(terms: Terms, point: Terms) -> Fraction:
    return sum((a * point.get(i, Fraction(0)) for i, a in terms.items()), Fraction(0))


def check(text: str) -> tuple[str, str]:
    """Check a file; return the range that it proves, or ``("infeasible", "")``."""
    file = _Reader(text)
    file.expect("VER", "1.0", "VAR")
    names = [file.word() for _ in range(file.number())]
    _require(len(set(names)) == len(names), "a variable stands twice")
    file.expect("INT")
    integers = {file.number() for _ in range(file.number())}
    file.expect("OBJ", "min")
    objective = file.terms()
    file.expect("CON")
    total, num_bounds = file.number(), file.number()
    constraints: list[tuple[str, Fraction, Terms]] = []
    for _ in range(total):
        file.word()
        constraints.append((file.word(), Fraction(file.word()), file.terms(objective)))
    _require(all(len(c[2]) == 1 for c in constraints[:num_bounds]), "a bound of several variables")
    file.expect("RTP")
    goal = file.word()
    lower, upper = (file.word(), file.word()) if goal == "range" else ("infeasible", "")
    file.expect("SOL")
    best: Fraction | None = None
    for _ in range(file.number()):
        file.word()
        point = file.terms()
        _require(all(point[i].denominator == 1 for i in point if i in integers), "not integral")
        for sense, right, terms in constraints:
            left = _at(terms, point)
            _require(left <= right if sense == "L" else left >= right, "a constraint is broken")
        best = _at(objective, point)
    if goal == "range" and upper != "inf":
        _require(best is not None and best <= Fraction(upper), "no solution at the upper end")
    file.expect("DER")
    for _ in range(file.number()):
        file.word()
        sense, right, terms = file.word(), Fraction(file.word()), file.terms(objective)
        file.expect("{")
        kind, combined = file.word(), file.terms()
        file.expect("}", "-1")
        _require(sense == "G", "only lower bounds are derived")
        _derive(kind, combined, constraints, terms, right, integers)
        constraints.append((sense, right, terms))
    sense, right, terms = constraints[-1]
    if goal == "infeas":
        _require(not terms and right > 0, "the last constraint is no contradiction")
    else:
        _require(terms == objective and right >= Fraction(lower), "the lower end is not derived")
    return lower, upper


def _derive(
    kind: str,
    combined: Terms,
    constraints: list[tuple[str, Fraction, Terms]],
    terms: Terms,
    right: Fraction,
    integers: set[int],
) -> None:
    left: Terms = {}
    reached = Fraction(0)
    for index, weight in combined.items():
        sense, own_right, own = constraints[index]
        _require(weight >= 0 if sense == "G" else weight <= 0, "a weight has the wrong sign")
        reached += weight * own_right
        for i, a in own.items():
            left[i] = left.get(i, Fraction(0)) + weight * a
    left = {i: a for i, a in left.items() if a}
    if kind == "rnd":
        whole = all(i in integers and a.denominator == 1 for i, a in left.items())
        _require(whole, "it can't be rounded")
        reached = Fraction(ceil(reached))
    else:
        _require(kind == "lin", f"unknown derivation {kind}")
    absurd = not left and reached > 0
    _require(absurd or (left == terms and reached >= right), "it does not follow")
