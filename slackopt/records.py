"""The base of all typed, immutable records, and the limits their numbers must respect."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

SCHEMA_VERSION = 1
"""Version of every file format; a reader refuses a file of another version."""

MAX_BYTES = 10**15
"""Largest size of one tensor, and largest bandwidth in bytes/s: far above any machine, and
small enough that sums and products stay exact in every place that uses them."""

MAX_DURATION_NS = 3_600 * 10**9
"""Longest duration of one op or latency: one hour."""

MAX_INT = 2**63 - 1
"""Largest whole number of a file: tables and their files hold 64 bits."""

MAX_BUDGET_BYTES = MAX_INT
"""Largest budget: beyond any sum of sizes that means something."""

SizeBytes = Annotated[int, Field(gt=0, le=MAX_BYTES)]
OptionalBytes = Annotated[int, Field(ge=0, le=MAX_BYTES)]
DurationNs = Annotated[int, Field(gt=0, le=MAX_DURATION_NS)]
LatencyNs = Annotated[int, Field(ge=0, le=MAX_DURATION_NS)]
BytesPerSecond = Annotated[int, Field(gt=0, le=MAX_BYTES)]
BudgetBytes = Annotated[int, Field(gt=0, le=MAX_BUDGET_BYTES)]
Count = Annotated[int, Field(ge=0, le=MAX_INT)]
Whole = Annotated[int, Field(ge=-MAX_INT - 1, le=MAX_INT)]
Seconds = Annotated[float, Field(ge=0)]
Name = Annotated[str, Field(min_length=1, max_length=500)]
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class Record(BaseModel):
    """An immutable record that compares by value and refuses unknown fields and wrong types."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, allow_inf_nan=False, revalidate_instances="never"
    )

    def __str__(self) -> str:
        return repr(self)
