"""Status and bound of a CBC run, read from its log and solution file, as PuLP tells neither.

Two dialects are known: CBC 2.10, which PuLP 3.3 carries, and the development version in cbcbox.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from pathlib import Path

from slackopt.solvers.status import CBC_INFEASIBLE, LIMIT, Meaning, cbc_meaning

_VERSION = re.compile(r"^(?:Version: |CBC )(\S+.*?)(?: —.*)?\s*$", re.MULTILINE)
_STOPPED = re.compile(r"Stopped on |Exiting on |Stopped \(|[Cc]trl-c|interrupted", re.MULTILINE)
_INFEASIBLE = re.compile(
    r"proven infeasible|Linear relaxation infeasible|Problem is infeasible|infeasibility proved"
    r"|PrimalInfeasible objective|(?:✔ |LP )Infeasible"
)
_INFEASIBLE_IF_BOUNDED = re.compile(r"infeasible or unbounded|Preprocessing infeasible")
# Bounds, with the time if the line has one.
_BOUNDS = (
    re.compile(r"Continuous objective value is (?P<bound>\S+) - (?P<time>[\d.]+) seconds"),
    re.compile(r"LP Optimal — .*Obj: (?P<bound>\S+) +.*Time: (?P<time>[\d.]+)s"),
    re.compile(r"best possible (?P<bound>[^\s)]+)\).*?\((?P<time>[\d.]+) seconds\)"),
    re.compile(r"^Lower bound:\s+(?P<bound>\S+)(?P<time>)\s*$"),
    re.compile(
        r"^ *[^\d\s]? *\d+ +\d+ +\d+ +(?P<best>\S+) .*?"
        r"(?P<bound>[-+.\de]+) +(?:[\d.]+%|—) +(?P<time>[\d.]+)\s*$"
    ),
)
_BEST = (
    re.compile(r"Integer solution of (?P<best>\S+) found .*\((?P<time>[\d.]+) seconds\)"),
    _BOUNDS[-1],
)
_HUGE = 1e20


def rounded_down(printed: float) -> float:
    """Return a printed bound less what printing may have added: six digits, or three decimals."""
    return printed - 5e-6 * abs(printed) - 5e-4


@dataclass
class CbcLog:
    """What a log said so far.

    Attributes
    ----------
    bound
        Best lower bound on the objective, rounding of the print allowed for; None if none.
    moves
        ``(seconds, objective, bound)`` as CBC reported them.
    version
        CBC's own, "" if it didn't say.
    """

    bound: float | None = None
    best: float | None = None
    moves: list[tuple[float, float | None, float | None]] = field(default_factory=list)
    version: str = ""
    stopped: bool = False
    proved_infeasible: bool = False
    _read: int = 0

    def update(self, path: Path) -> None:
        """Read what has been added to a log file, up to its last complete line."""
        try:
            with path.open("rb") as file:
                file.seek(self._read)
                data = file.read()
        except OSError:
            return
        data = data[: data.rfind(b"\n") + 1]
        self._read += len(data)
        for line in data.decode(errors="replace").splitlines():
            self.line(line)

    def line(self, line: str) -> None:
        """Take in one line."""
        if not self.version and (match := _VERSION.match(line)):
            self.version = match[1]
        self.stopped = self.stopped or bool(_STOPPED.search(line))
        self.proved_infeasible = self.proved_infeasible or bool(_INFEASIBLE.search(line))
        if self.bound is not None and _INFEASIBLE_IF_BOUNDED.search(line):
            self.proved_infeasible = True
        before = (self.best, self.bound)
        seconds = self.moves[-1][0] if self.moves else 0.0
        for pattern in _BEST:
            if (match := pattern.search(line)) and (value := _number(match["best"])) is not None:
                seconds = float(match["time"])
                self.best = value if self.best is None else min(self.best, value)
        for pattern in _BOUNDS:
            if (match := pattern.search(line)) and (value := _number(match["bound"])) is not None:
                seconds = float(match["time"] or seconds)
                value = rounded_down(value)
                self.bound = value if self.bound is None else max(self.bound, value)
        if (self.best, self.bound) != before:
            self.moves.append((seconds, self.best, self.bound))

    def verdict(self, first_line: str, *, late: bool) -> tuple[Meaning, bool]:
        """Say how a run ended, and whether CBC claims a feasible point.

        Parameters
        ----------
        first_line
            First line of the solution file; "" if there is none.
        late
            Whether CBC's time limit may have passed. Interrupted in preprocessing, CBC 2.10 says
            that the model is infeasible, and its log shows no sign of the limit.
        """
        words = first_line.split(" - objective value")[0].strip()
        if not words:
            if late or self.stopped:
                return LIMIT, False
            return Meaning("error", "CBC ended without a solution file"), False
        meaning = cbc_meaning(words)
        proved = self.proved_infeasible and not self.stopped and not late
        if words.startswith(CBC_INFEASIBLE) and not proved:
            # Out of time, CBC says "infeasible" of models it has no point for yet.
            if late or self.stopped:
                meaning = LIMIT
            else:
                meaning = Meaning("error", f"CBC says {words!r} without a proof in its log")
        claims_point = meaning.status in ("optimal", "limit") and "no integer solution" not in words
        return meaning, claims_point and not words.startswith(CBC_INFEASIBLE)


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) and abs(value) < _HUGE else None
