"""Runs for tests: made by hand, every number given, or of a method on a small step."""

from __future__ import annotations

import hashlib
from typing import Any

from slackopt.batch.run import Run, Task
from slackopt.device import Device
from slackopt.graph import Graph, Op, Tensor
from slackopt.instance import Instance
from slackopt.result import Result
from slackopt.solve import solve


def sha256(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()


def run(
    instance: str = "one",
    method: str = "milp",
    *,
    makespan: int | None = None,
    bound: int | None = None,
    ideal: int = 100,
    status: str | None = None,
    outcome: str = "done",
    result: bool = True,
    wall_s: float = 1.0,
    trajectory: tuple[tuple[float, int | None, int | None], ...] = (),
    budget: float = 0.5,
    features: dict[str, Any] | None = None,
    task: dict[str, Any] | None = None,
    **fields: Any,
) -> Run:
    """A run on an instance of 1000 bytes unlimited peak; the budget is a share of that."""
    asked = Task(
        instance_path=f"{instance}.json",
        instance=instance,
        instance_sha256=sha256(f"{instance} {budget}"),
        method=method,
        **(task or {}),
    )
    if status is None:
        status = "no_solution" if makespan is None else "feasible"
    gap = None if makespan is None or bound is None else (makespan - bound) / bound
    found = Result(
        instance=instance,
        instance_sha256=asked.instance_sha256,
        method=method,
        status=status,
        stopped_by="error" if status == "error" else "time",
        ideal_ns=ideal,
        makespan_ns=makespan,
        throughput_ratio=None if makespan is None else ideal / makespan,
        budget_bytes=int(1000 * budget),
        lower_bound_ns=bound,
        gap=gap,
        wall_s=wall_s,
        trajectory=trajectory,
        slackopt_version="0.1.0",
    )
    key = sha256(f"{instance} {method} {budget} {task} {fields}")[:32]
    return Run(
        key=key,
        task=asked,
        outcome=outcome,
        result=found if result else None,
        features={"unlimited_peak_bytes": 1000, "device": "a100-pcie4", "ideal_ns": ideal}
        | (features or {}),
        started_at="2026-01-02T03:04:05Z",
        finished_at="2026-01-02T03:04:06Z",
        wall_s=fields.pop("process_s", wall_s + 0.5),
        slackopt_version=fields.pop("slackopt_version", "0.1.0"),
        **fields,
    )


MIB = 2**20


def chain_instance(name: str = "chain", budget_bytes: int = 32 * MIB, length: int = 6) -> Instance:
    """A step of forward ops in a row and backward ops back; at 32 MiB it has to evict."""
    ops: list[Op] = []
    tensors = [Tensor(name="batch", size_bytes=MIB)]
    previous = "batch"
    for i in range(length):
        out = f"f{i}.out"
        ops.append(
            Op(
                name=f"f{i}",
                phase="forward",
                duration_ns=1_000_000,
                inputs=(previous,),
                outputs=(out,),
            )
        )
        tensors.append(Tensor(name=out, size_bytes=8 * MIB))
        previous = out
    gradient: tuple[str, ...] = ()
    for i in reversed(range(length)):
        ops.append(
            Op(
                name=f"b{i}",
                phase="backward",
                duration_ns=2_000_000,
                inputs=(f"f{i}.out", *(() if i else ("batch",)), *gradient),
                outputs=(f"b{i}.grad",),
            )
        )
        tensors.append(Tensor(name=f"b{i}.grad", size_bytes=MIB, kind="gradient"))
        gradient = (f"b{i}.grad",)
    graph = Graph(name=name, ops=tuple(ops), tensors=tuple(tensors))
    link = Device(name="link", d2h_bytes_per_s=10**9, h2d_bytes_per_s=10**9)
    return Instance.from_graph(graph, device=link, budget=budget_bytes, name=name)


def solved(instance: Instance, method: str, **fields: Any) -> Run:
    """A run of a method that is really run on an instance."""
    made = run(instance.name, method, **fields)
    task = made.task.model_copy(update={"instance_sha256": instance.sha256})
    result = solve(instance, method, time_limit=5)
    key = sha256(f"{instance.sha256} {method} {fields}")[:32]
    return made.model_copy(update={"key": key, "task": task, "result": result})
