"""Options that all exact methods share."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

from slackopt.errors import InputError

WORK_PER_SECOND = 0.5
"""Deterministic runs: units of work (about a second of a solver each) per second of the limit."""

NODES_PER_UNIT = 100
"""Deterministic runs: branch-and-bound nodes per unit of work, for solvers that count nodes."""


@dataclass(frozen=True)
class SolveOptions:
    """Limits and settings of one run; see `slackopt.solve`."""

    time_limit: float | None = 60.0
    gap: float = 1e-4
    threads: int = 1
    seed: int = 0
    solver: str | None = None
    deterministic: bool = False
    identical_layers: bool = True

    def __post_init__(self) -> None:
        limit = self.time_limit
        if limit is not None and not (limit > 0 and math.isfinite(limit)):
            raise InputError(f"time limit {limit}: must be a number of seconds above 0")
        if not (0 <= self.gap < 1):
            raise InputError(f"gap {self.gap}: must be at least 0 and below 1 (0.001 is 0.1 %)")
        if self.threads < 1:
            raise InputError(f"threads {self.threads}: must be at least 1")

    def work(self, share: float = 1.0) -> float | None:
        """Return the units of work of a share of a deterministic run; None in other runs."""
        if not self.deterministic:
            return None
        return share * WORK_PER_SECOND * (self.time_limit or 60.0)

    def recorded(self) -> dict[str, Any]:
        """Return the options as JSON values, for the result."""
        return asdict(self)
