"""Small steps written down by hand, in bytes and nanoseconds of the same order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from slackopt.device import Device
from slackopt.graph import Graph, Op, Tensor
from slackopt.instance import Instance
from slackopt.plan import Plan
from slackopt.simulation import Timeline, check_timeline, simulate

BYTE_PER_NS = 10**9


def link(rate: float = 1.0, latency_ns: int = 0, **more: int) -> Device:
    """Return a device that moves `rate` bytes a nanosecond each way."""
    per_s = int(rate * BYTE_PER_NS)
    return Device(
        name="link", d2h_bytes_per_s=per_s, h2d_bytes_per_s=per_s, latency_ns=latency_ns, **more
    )


def step(
    ops: Sequence[tuple[str, str, int, Sequence[str], Sequence[str]]],
    sizes: Mapping[str, int],
    *,
    labels: Mapping[str, str] | None = None,
    fixed: Sequence[str] = (),
    not_swappable: Sequence[str] = (),
) -> Graph:
    """Make a graph of ops ``(name, "f" or "b", duration, inputs, outputs)``."""
    return Graph(
        name="handmade",
        ops=tuple(
            Op(
                name=name,
                phase="forward" if phase == "f" else "backward",
                duration_ns=duration,
                inputs=tuple(inputs),
                outputs=tuple(outputs),
                recomputable=name not in fixed,
                layer=(labels or {}).get(name, ""),
            )
            for name, phase, duration, inputs, outputs in ops
        ),
        tensors=tuple(
            Tensor(name=name, size_bytes=size, swappable=name not in not_swappable)
            for name, size in sizes.items()
        ),
    )


def chain(
    sizes: Sequence[int], durations: Sequence[int] | None = None, *, labels: bool = False
) -> Graph:
    """Make a chain: op ``f_k`` makes ``a_k`` from ``a_{k-1}``, and ``b_k`` reads both.

    Each backward op makes a gradient of one byte.
    """
    n = len(sizes)
    times = durations or [10] * n
    ops = [(f"f{k}", "f", times[k], [f"a{k - 1}"] if k else [], [f"a{k}"]) for k in range(n)]
    for k in reversed(range(n)):
        saved = [f"a{j}" for j in (k - 1, k) if j >= 0]
        gradient = [] if k == n - 1 else [f"g{k + 1}"]
        ops.append((f"b{k}", "b", 2 * times[k], [*gradient, *saved], [f"g{k}"]))
    names = {f"a{k}": size for k, size in enumerate(sizes)} | {f"g{k}": 1 for k in range(n)}
    by_op = {f"{phase}{k}": f"layer {k}" for phase in "fb" for k in range(n)} if labels else None
    return step(ops, names, labels=by_op)


def instance(graph: Graph, budget: int | float, device: Device | None = None) -> Instance:
    """Make an instance."""
    return Instance.from_graph(graph, device=device or link(), budget=budget)


def checked(question: Instance, plan: Plan) -> Timeline:
    """Simulate a plan and check it; it must run."""
    timeline = simulate(question, plan)
    assert timeline.makespan_ns is not None, timeline.out_of_memory
    check_timeline(timeline)
    return timeline


def decided(plan: Plan, decision: str) -> set[str]:
    """Names of the tensors with a decision."""
    return {name for name, d in plan.decisions.items() if d == decision}
