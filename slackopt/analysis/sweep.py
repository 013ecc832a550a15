"""Ask an instance again with another budget, link, compute speed, or without one of the decisions.

The two ways to save memory are set beside each other by *restricting* an instance: where no tensor
is swappable, only recompute is left; where no op is recomputable, only swap. The simulator does
not read these flags, so a plan of a restricted instance is a plan of the instance itself, with the
same makespan. A lower bound of a restricted instance holds
for the restricted plans only; one of the instance itself holds for all three. Which of the two ways
pays depends on compute time against transfer time, the question that Capuchin (ASPLOS 2020) decides
tensor by tensor and POET (ICML 2022) in one model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import Any, Literal, get_args

import pandas as pd

from slackopt.compare import check_methods, compare
from slackopt.device import Device
from slackopt.errors import InputError
from slackopt.graph import Graph, Op
from slackopt.instance import Instance, parse_budget
from slackopt.records import MAX_BYTES, MAX_DURATION_NS
from slackopt.result import Result

Allowed = Literal["both", "recompute", "swap"]
Budget = float | int | str | Fraction
Factor = float | int | str | Fraction

_RESULT_COLUMNS = (
    *("method", "status", "stopped_by", "ideal_ns", "makespan_ns", "throughput_ratio"),
    *("recompute_ns", "stall_ns", "swapped_bytes", "recomputed_bytes", "peak_bytes"),
    *("lower_bound_ns", "gap", "wall_s", "trajectory", "threads", "seed", "slackopt_version"),
)
_INTEGERS = (
    *("budget_bytes", "d2h_bytes_per_s", "h2d_bytes_per_s", "ideal_ns", "makespan_ns"),
    *("recompute_ns", "stall_ns", "swapped_bytes", "recomputed_bytes", "peak_bytes"),
    *("lower_bound_ns", "threads", "seed"),
)
_REALS = ("throughput_ratio", "ratio_limit", "gap", "wall_s")


@dataclass(frozen=True)
class Variant:
    """One question of a sweep.

    Attributes
    ----------
    instance
        The instance, changed.
    allowed
        Which decisions besides keep it allows: ``both``, ``recompute`` or ``swap``.
    bandwidth_factor, compute_factor
        How many times faster than given the link and the ops are.
    """

    instance: Instance
    allowed: Allowed
    bandwidth_factor: float
    compute_factor: float

    @property
    def budget_share(self) -> float:
        """Budget as a share of the unlimited peak."""
        return self.instance.budget_bytes / self.instance.graph.unlimited_peak_bytes


def restricted(instance: Instance, allowed: Allowed) -> Instance:
    """Return an instance whose plans may only recompute, or only swap.

    Parameters
    ----------
    instance
        The instance.
    allowed
        ``recompute`` (no tensor is swappable), ``swap`` (no op is recomputable) or ``both`` (the
        instance as it is).

    Raises
    ------
    InputError
        For another word.
    """
    if allowed not in get_args(Allowed):
        words = ", ".join(get_args(Allowed))
        raise InputError(f"allowed {allowed!r}: choose one of: {words}")
    if allowed == "both":
        return instance
    graph = instance.graph
    ops, tensors = graph.ops, graph.tensors
    if allowed == "recompute":
        tensors = tuple(tensor.model_copy(update={"swappable": False}) for tensor in tensors)
    else:
        ops = tuple(op.model_copy(update={"recomputable": False}) for op in ops)
    # Made anew, not copied: a copy would keep what was derived from the old flags.
    changed = Graph(name=graph.name, ops=ops, tensors=tensors, provenance=graph.provenance)
    return _remade(
        instance, name=f"{instance.name} ({allowed} only)", graph=changed, changes={"only": allowed}
    )


def with_budget(instance: Instance, budget: Budget) -> Instance:
    """Return the instance with another budget; see `slackopt.instance.parse_budget`.

    Raises
    ------
    InputError
        If the budget can't be read.
    """
    size, fraction = parse_budget(budget, instance.graph.unlimited_peak_bytes)
    return Instance(
        name=instance.name,
        budget_bytes=size,
        budget_fraction=fraction,
        device=instance.device,
        graph=instance.graph,
        provenance=instance.provenance,
    )


def with_bandwidth(instance: Instance, factor: Factor) -> Instance:
    """Return the instance with a link that moves `factor` times as many bytes per second.

    Both directions, alone and shared, are multiplied and rounded to whole bytes/s, at least 1.
    The latency of a copy stays.

    Raises
    ------
    InputError
        If the factor is not above 0, or a bandwidth leaves its range.
    """
    times = _factor(factor, "bandwidth")
    if times == 1:
        return instance
    old = instance.device

    def scaled(rate: int) -> int:
        new = max(1, round(rate * times))
        if new > MAX_BYTES:
            raise InputError(f"bandwidth factor {factor}: {new} bytes/s is above {MAX_BYTES}")
        return new

    rates = {
        field: scaled(rate)
        for field, rate in old
        if field.endswith("bytes_per_s") and rate is not None
    }
    device = Device(**dict(old) | rates | {"name": f"{old.name}, link x{_text(times)}"})
    return _remade(instance, device=device, changes={"bandwidth_factor": _text(times)})


def with_compute(
    instance: Instance, factor: Factor, *, ops: Callable[[Op], bool] | None = None
) -> Instance:
    """Return the instance with ops that take ``1 / factor`` of their time.

    Durations are divided and rounded up to whole ns, so that none becomes 0.

    Parameters
    ----------
    instance
        The instance.
    factor
        How many times faster.
    ops
        Says which ops become faster; None for all, as if FLOP/s and memory bandwidth rose
        together. To vary FLOP/s alone, name the ops that are bound by arithmetic, which a graph
        does not tell: ``lambda op: "fc" in op.name``.

    Raises
    ------
    InputError
        If the factor is not above 0, or a duration leaves its range.
    """
    times = _factor(factor, "compute")
    if times == 1:
        return instance
    graph = instance.graph

    def scaled(op: Op) -> Op:
        if ops is not None and not ops(op):
            return op
        duration = -(-op.duration_ns * times.denominator // times.numerator)
        if duration > MAX_DURATION_NS:
            raise InputError(
                f"compute factor {factor}: op {op.name!r} takes {duration} ns, above "
                f"{MAX_DURATION_NS}"
            )
        return op.model_copy(update={"duration_ns": duration})

    changed = Graph(
        name=graph.name,
        ops=tuple(map(scaled, graph.ops)),
        tensors=graph.tensors,
        provenance=graph.provenance,
    )
    changes = {"compute_factor": _text(times)} | ({} if ops is None else {"compute_ops": "some"})
    return _remade(instance, graph=changed, changes=changes)


def variants(
    instance: Instance,
    *,
    budgets: Sequence[Budget] | None = None,
    bandwidth_factors: Sequence[Factor] = (1,),
    compute_factors: Sequence[Factor] = (1,),
    allowed: Sequence[Allowed] = ("both",),
    ops: Callable[[Op], bool] | None = None,
) -> Iterator[Variant]:
    """Yield every combination, as instances of their own: to be solved here or in a batch.

    Parameters
    ----------
    instance
        The instance to start from.
    budgets
        See `with_budget`; None for its own. Fractions are of the unlimited peak, which neither
        link nor compute speed moves.
    bandwidth_factors, compute_factors, ops
        See `with_bandwidth`, `with_compute`.
    allowed
        See `restricted`.

    Raises
    ------
    InputError
        For a budget, factor or word that is not allowed.
    """
    for budget, bandwidth, compute in product(
        (None,) if budgets is None else budgets, bandwidth_factors, compute_factors
    ):
        changed = instance if budget is None else with_budget(instance, budget)
        changed = with_compute(with_bandwidth(changed, bandwidth), compute, ops=ops)
        for word in allowed:
            yield Variant(
                restricted(changed, word),
                word,
                float(_factor(bandwidth, "bandwidth")),
                float(_factor(compute, "compute")),
            )


def sweep(
    instance: Instance,
    *,
    methods: Sequence[str] = ("milp",),
    budgets: Sequence[Budget] | None = None,
    bandwidth_factors: Sequence[Factor] = (1,),
    compute_factors: Sequence[Factor] = (1,),
    allowed: Sequence[Allowed] = ("both",),
    ops: Callable[[Op], bool] | None = None,
    on_result: Callable[[Variant, Result], None] | None = None,
    **options: Any,
) -> pd.DataFrame:
    """Run methods on every variant of an instance and return one row a run.

    Everything is checked before the first run. A run that fails is a row with status ``error``.
    Ctrl-C ends the sweep after the run in progress; the rows until then are returned. For sweeps
    of hours write the instances of `variants` to files and run a batch, which can be resumed.

    Parameters
    ----------
    instance, budgets, bandwidth_factors, compute_factors, allowed, ops
        See `variants`.
    methods
        See `slackopt.methods`.
    on_result
        Called after each run.
    **options
        For `slackopt.solve`, e.g. ``time_limit``.

    Returns
    -------
    pandas.DataFrame
        Columns ``instance``, ``instance_sha256``, ``allowed``, ``bandwidth_factor``,
        ``compute_factor``, ``d2h_bytes_per_s``, ``h2d_bytes_per_s``, ``budget_bytes``,
        ``budget_share``, ``ratio_limit`` (ideal / lower bound: no plan of this variant has a
        larger throughput ratio), fields of `slackopt.Result` under their names, and ``reason``
        (why there is no plan). Unknown is NA. ``instance`` is the name of the instance to start
        from, ``instance_sha256`` is of the variant.

    Raises
    ------
    InputError
        For a variant or a method that is not allowed; before anything is run.
    """
    check_methods(methods)
    if not all((budgets is None or budgets, bandwidth_factors, compute_factors, allowed)):
        raise InputError("a sweep needs at least one budget, factor and word of each kind")
    questions = list(
        variants(
            instance,
            budgets=budgets,
            bandwidth_factors=bandwidth_factors,
            compute_factors=compute_factors,
            allowed=allowed,
            ops=ops,
        )
    )
    rows: list[dict[str, Any]] = []
    for question in questions:
        for row in compare([question.instance], methods, **options):
            result = row.result
            rows.append(_row(instance, question, result))
            if on_result is not None:
                on_result(question, result)
        if rows[-1]["stopped_by"] == "signal":
            break
    frame = pd.DataFrame(rows)
    return frame.astype(dict.fromkeys(_INTEGERS, "Int64") | dict.fromkeys(_REALS, "float64"))


def _row(instance: Instance, question: Variant, result: Result) -> dict[str, Any]:
    bound, device = result.lower_bound_ns, question.instance.device
    return {
        "instance": instance.name,
        "instance_sha256": result.instance_sha256,
        "allowed": question.allowed,
        "bandwidth_factor": question.bandwidth_factor,
        "compute_factor": question.compute_factor,
        "d2h_bytes_per_s": device.d2h_bytes_per_s,
        "h2d_bytes_per_s": device.h2d_bytes_per_s,
        "budget_bytes": question.instance.budget_bytes,
        "budget_share": question.budget_share,
        "ratio_limit": None if bound is None else result.ideal_ns / bound,
        **{name: getattr(result, name) for name in _RESULT_COLUMNS},
        "reason": result.reason,
    }


def _remade(
    instance: Instance,
    *,
    name: str | None = None,
    graph: Graph | None = None,
    device: Device | None = None,
    changes: Mapping[str, str],
) -> Instance:
    """Return an instance made anew, with what was changed in its provenance."""
    before = instance.provenance.get("changes", {})
    return Instance(
        name=name or instance.name,
        budget_bytes=instance.budget_bytes,
        budget_fraction=instance.budget_fraction,
        device=device or instance.device,
        graph=graph or instance.graph,
        provenance={**instance.provenance, "changes": {**before, **changes}},
    )


def _factor(factor: Factor, what: str) -> Fraction:
    """Read a factor as a user writes it: 0.1 is a tenth."""
    try:
        value = Fraction(str(factor))
    except (ValueError, ZeroDivisionError):
        raise InputError(f"{what} factor {factor!r}: must be a number above 0") from None
    if value <= 0:
        raise InputError(f"{what} factor {factor!r}: must be above 0")
    return value


def _text(value: Fraction) -> str:
    return str(value) if value.denominator == 1 else f"{float(value):.6g}"
