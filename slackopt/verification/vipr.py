"""Write what a result certifies as a VIPR certificate, for an exact checker that is not ours.

VIPR (K. K. H. Cheung, A. Gleixner, D. E. Steffy, "Verifying Integer Programming Results", IPCO
2017) is the certificate format of exact SCIP; ``viprchk`` checks it in rational arithmetic. The
file holds, of the window formulation, the rows of the certificate, the bounds of their columns,
and one combination of both,

    c x  =  sum_i (-y_i) (a_i x)  +  sum_j r_j x_j  >=  - sum_i y_i b_i  +  sum_j min(0, r_j) u_j ,

with ``r = c + y A`` (`slackopt.formulations.certificate`). The objective is the time added to the
ideal step. At the point of a plan each column is a whole number (decisions are 0 or 1, stalls whole
nanoseconds), so all are declared integral, and a bound may be rounded up. What the checker takes
on trust is that the rows hold for every plan: docs/formulations.md has the proofs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil

from slackopt.errors import InputError
from slackopt.formulations.certificate import Combination, combine, read_weights
from slackopt.formulations.columns import UNITS_PER_BYTE
from slackopt.formulations.linear import Row
from slackopt.formulations.memory_rows import MemoryKey
from slackopt.formulations.plan_points import plan_point
from slackopt.formulations.window import WindowFormulation
from slackopt.instance import Instance
from slackopt.result import Result, WindowMultiplier
from slackopt.simulation.evaluator import Evaluator


@dataclass(frozen=True)
class ViprCertificate:
    """A certificate.

    Attributes
    ----------
    text
        Content of the file.
    states
        What it states, and what of the result it leaves out, one sentence each.
    """

    text: str
    states: tuple[str, ...]


def vipr_certificate(instance: Instance, result: Result) -> ViprCertificate:
    """Write the claims of a result, which `slackopt.verify` must have let pass.

    Raises
    ------
    InputError
        If the result certifies nothing.
    """
    window = WindowFormulation(instance)
    if result.status == "infeasible":
        return _infeasible(window, result)
    if result.lower_bound_ns is None and result.plan is None:
        raise InputError(
            f"status {result.status!r} without a plan and a bound claims nothing that a VIPR "
            "certificate could hold"
        )
    return _range(window, result)


def _infeasible(window: WindowFormulation, result: Result) -> ViprCertificate:
    zero = [0] * len(window.columns)
    for weights in (
        _read(result.infeasibility_certificate),
        _read(result.bound_certificate),  # where older files have it
        _working_set_weights(window),
    ):
        found = None if weights is None else combine(window, weights, costs=zero)
        if found is not None and found.constant > 0:
            break
    else:
        raise InputError("that no plan exists rests on a solver's word: there is nothing to write")
    model = _Model(window, [row for row, _ in found.rows], with_objective=False)
    last = f"no_plan G {found.constant} 0 {model.reason(found)} -1"
    text = model.text(window.instance, "RTP infeas", None, [last])
    return ViprCertificate(text, (f"no plan exists: {len(found.rows)} rows contradict each other",))


def _range(window: WindowFormulation, result: Result) -> ViprCertificate:
    ideal = window.instance.ideal_ns
    found = combine(window, _read(result.bound_certificate) or {})
    if found.constant < 0:
        found = combine(window, {})  # the ideal step alone says more
    claimed = (result.lower_bound_ns or ideal) - ideal
    lower = max(0, min(claimed, ceil(found.constant)))
    states = [f"no plan is below {ideal + lower} ns, from {len(found.rows)} rows"]
    if claimed > lower:
        states.append(f"left out: the bound {ideal + claimed} ns, which rests on a solver's word")
    model = _Model(window, [row for row, _ in found.rows], with_objective=True)
    steps = [f"sum G {found.constant} OBJ {model.reason(found)} -1"]
    if lower > found.constant:
        steps.append(f"bound G {lower} OBJ {{ rnd 1 {model.num_constraints} 1 }} -1")
    point, upper = None, "inf"
    if result.plan is not None and result.makespan_ns is not None:
        point = _point(window, result, model)
        if point is None:
            states.append("left out: the plan, which is no point of these rows at its makespan")
        else:
            upper = str(result.makespan_ns - ideal)
            states.append(f"the plan's point satisfies these rows at {result.makespan_ns} ns")
    text = model.text(window.instance, f"RTP range {lower} {upper}", point, steps)
    return ViprCertificate(text, tuple(states))


def _point(window: WindowFormulation, result: Result, model: _Model) -> list[int] | None:
    """Return the plan's point if it is one of the model, at the plan's makespan."""
    assert result.plan is not None  # noqa: S101
    evaluator = Evaluator(window.instance)
    decisions = evaluator.decisions(result.plan)
    index = window.instance.graph.tensor_index
    given = {index[name]: trigger for name, trigger in result.plan.prefetch.items()}
    sequence, record = evaluator.simulate(decisions, given)
    if record.makespan_ns != result.makespan_ns:
        return None
    point = plan_point(window, decisions, sequence, record)
    cost = sum(column.objective * x for column, x in zip(window.columns, point, strict=True))
    added = result.makespan_ns == window.instance.ideal_ns + cost
    return point if added and model.holds(point) else None


def _working_set_weights(window: WindowFormulation) -> dict[str, Fraction] | None:
    """Weights by which the rows of an op that alone exceeds the budget contradict each other.

    Its memory row counts each idle tensor as kept, less what its decision takes away; and the
    decision takes it away once.
    """
    over = [k for k, size in enumerate(window.fixed_bytes) if size > window.instance.budget_bytes]
    if not over:
        return None
    weights = {MemoryKey(over[0], at_end=False).name: Fraction(1)}
    for t in window.idle_in(over[0]):
        if t in window.swap and t in window.recompute:
            weights[f"choice[{t}]"] = Fraction(window.life.sizes_bytes[t] * UNITS_PER_BYTE)
    return weights


def _read(weights: Sequence[WindowMultiplier] | None) -> dict[str, Fraction] | None:
    return None if weights is None else read_weights((w.row, w.weight) for w in weights)


class _Model:
    """The part of the formulation that a file holds: rows, their columns, bounds of these."""

    def __init__(
        self, window: WindowFormulation, rows: Sequence[Row], *, with_objective: bool
    ) -> None:
        columns = window.columns
        used = {j for row in rows for j in row.coefficients}
        if with_objective:
            used |= {j for j, column in enumerate(columns) if column.objective}
        self.rows = rows
        self.columns = {j: columns[j] for j in sorted(used)}
        self.with_objective = with_objective
        self.number = {j: i for i, j in enumerate(self.columns)}
        self.lower = dict(zip(self.columns, range(len(used)), strict=True))
        limited = [j for j, column in self.columns.items() if column.upper is not None]
        self.upper = {j: len(used) + i for i, j in enumerate(limited)}
        self.num_bounds = len(self.lower) + len(self.upper)
        self.num_constraints = self.num_bounds + len(rows)

    def reason(self, found: Combination) -> str:
        """Return the derivation of ``costs x >= constant`` from bounds and rows."""
        terms = {
            (self.lower if cost > 0 else self.upper)[j]: cost for j, cost in found.reduced.items()
        }
        terms |= {self.num_bounds + i: -weight for i, (_, weight) in enumerate(found.rows)}
        return f"{{ lin {_pairs(terms)} }}"

    def holds(self, point: Sequence[int]) -> bool:
        """Whether a point satisfies all constraints of the file."""
        bounded = all(
            point[j] >= 0 and (column.upper is None or point[j] <= column.upper)
            for j, column in self.columns.items()
        )
        return bounded and all(
            sum(a * point[j] for j, a in row.coefficients.items()) <= row.upper for row in self.rows
        )

    def text(
        self, instance: Instance, claim: str, point: Sequence[int] | None, steps: Sequence[str]
    ) -> str:
        """Return the file."""
        number, columns = self.number, self.columns
        costs = {number[j]: column.objective for j, column in columns.items() if column.objective}
        lines = [
            f"% instance {instance.sha256}",
            f"% minimise the ns added to the ideal step of {instance.ideal_ns} ns",
            "VER 1.0",
            f"VAR {len(columns)}",
            *(column.name for column in columns.values()),
            f"INT {len(columns)}",
            *map(str, number.values()),
            "OBJ min",
            _pairs(costs if self.with_objective else {}),
            f"CON {self.num_constraints} {self.num_bounds}",
            *(f"lower{j} G 0 1 {number[j]} 1" for j in self.lower),
            *(f"upper{j} L {columns[j].upper} 1 {number[j]} 1" for j in self.upper),
            *(
                f"{row.name} L {row.upper} "
                + _pairs({number[j]: a for j, a in row.coefficients.items() if a})
                for row in self.rows
            ),
            claim,
        ]
        if point is None:
            lines.append("SOL 0")
        else:
            lines += ["SOL 1", f"plan {_pairs({number[j]: point[j] for j in columns if point[j]})}"]
        return "\n".join([*lines, f"DER {len(steps)}", *steps, ""])


def _pairs(terms: dict[int, int] | dict[int, Fraction]) -> str:
    """Write the number of terms, and each index with its value."""
    return " ".join([str(len(terms)), *(f"{i} {value}" for i, value in sorted(terms.items()))])
