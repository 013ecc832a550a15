"""What `verify` says of each field of a result; docs/verify.md prints this table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

Level = Literal["proved here", "consistent", "on the solver's word", "not checked"]


@dataclass(frozen=True)
class FieldCheck:
    """What is said of a field.

    Attributes
    ----------
    levels
        ``proved here``: computed again from the instance; any other value is refused.
        ``consistent``: a value that contradicts the rest of the file is refused. ``on the solver's
        word``: the part of the claim that nothing here proves, which is told. ``not checked``:
        free text, or a record of the run.
    how
        By what.
    """

    levels: tuple[Level, ...]
    how: str


def _proved(how: str) -> FieldCheck:
    return FieldCheck(("proved here",), how)


def _consistent(how: str) -> FieldCheck:
    return FieldCheck(("consistent",), how)


def _free(how: str) -> FieldCheck:
    return FieldCheck(("not checked",), how)


FIELDS: Mapping[str, FieldCheck] = MappingProxyType(
    {
        "format": _proved("the reader refuses another one"),
        "schema_version": _proved("the reader refuses another one"),
        "instance": _proved("the name of the instance given"),
        "instance_sha256": _proved("the identity of the instance given"),
        "method": _consistent(
            "a rule proves no bound above the ideal step and no infeasibility; `bound` no more "
            "than its certificates"
        ),
        "solver": _free("a record of the run"),
        "solver_version": _free("a record of the run"),
        "status": FieldCheck(
            ("proved here", "on the solver's word"),
            "must fit plan, gap, bound and certificates; `optimal` is proved as far as the bound "
            "is, `infeasible` by the working set or its certificate, else on the solver's word",
        ),
        "stopped_by": _consistent(
            "`proof` beside `optimal` with gap 0, `infeasible` or `bounded`; `gap` beside "
            "`optimal`; `heuristic` only of rules; `heuristic` and `exhausted` beside `feasible` "
            "or `no_solution` (`exhausted` also beside `bounded`)"
        ),
        "ideal_ns": _proved("the durations added up"),
        "makespan_ns": _proved("the plan simulated again; null without a plan"),
        "throughput_ratio": _proved("the plan simulated again; null without a plan"),
        "recompute_ns": _proved("the plan simulated again; null without a plan"),
        "stall_ns": _proved("the plan simulated again; null without a plan"),
        "swapped_bytes": _proved("the plan simulated again; null without a plan"),
        "recomputed_bytes": _proved("the plan simulated again; null without a plan"),
        "peak_bytes": _proved("the plan simulated again; null without a plan"),
        "budget_bytes": _proved("that of the instance"),
        "lower_bound_ns": FieldCheck(
            ("proved here", "on the solver's word"),
            "the certificate added up in exact arithmetic; what goes beyond it, up to the "
            "makespan, rests on the solver's word, and is refused where the method has no solver",
        ),
        "gap": _proved("(makespan - bound) / bound, computed again"),
        "build_s": _consistent("at most `wall_s`"),
        "solve_s": _consistent("at most `wall_s`"),
        "wall_s": _consistent("not before the last point of the trajectory"),
        "peak_rss_bytes": _free("a record of the run"),
        "threads": _consistent("as in `options`, or 1 in a deterministic run"),
        "seed": _consistent("as in `options`"),
        "deterministic": _free("another run with these settings would show it"),
        "num_variables": _free("a record of the run"),
        "num_constraints": _free("a record of the run"),
        "trajectory": _consistent(
            "times ascend, makespans fall, bounds rise, no bound is above a makespan, and the last "
            "point is the result; the moments themselves are a record of the run"
        ),
        "options": _consistent(
            "`gap` is a number from 0 to below 1, and `status` fits it; `seed` and `threads` as "
            "above; others are a record of the run"
        ),
        "notes": _free("free text"),
        "plan": _proved("belongs to the instance, is simulated, and its timeline is checked"),
        "bound_certificate": _proved("every row is built again by its name, each stands once"),
        "infeasibility_certificate": _proved(
            "every row is built again by its name, and they contradict each other"
        ),
        "slackopt_version": _free("a record of the run"),
        "environment": _free("a record of the run"),
    }
)
"""Field of a `slackopt.Result` -> what `verify` says of it; in the order of the fields."""
