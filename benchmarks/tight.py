"""Methods at tight budgets: random chains, series-parallel and layered graphs at 20 to 40 %.

    python benchmarks/tight.py --methods exact,milp-schedule,pressure,chain --time-limit 20

runs methods on small random steps that no single op rules out, half of them with nothing that may
be swapped, and prints how many each method solved, proved infeasible or left open. It then lists
every instance on which the first method has no plan and another has one, and every contradiction
(a plan of an instance proved infeasible, or below a proved bound); with either, the exit code is 1.

Results are kept in a file, one JSON object a line. A run goes on where it was stopped: what is in
the file already is not run again, so give another version of a method another file. ``--first``,
``--last`` and ``--only`` run a part of the instances; ``--table`` runs nothing.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from fnmatch import fnmatchcase
from itertools import islice
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import Progress

import slackopt as so
from slackopt.profiles.random_graphs import SplitMix64, random_graph
from slackopt.solvers.enumerate import MAX_DECISION_VECTORS, count_decision_vectors

FAMILIES = ("chain", "series-parallel", "layered")
MOST_OPS = 60
LEAST_OPS = {True: 20, False: 40}
LEAST_PERCENT, MOST_PERCENT = {True: 20, False: 30}, 40
"""With and without swapping. Without it, hardly any smaller step has a plan at a smaller share of
its peak."""
SIZES = {"min_bytes": 2**23, "max_bytes": 2**25}
LINK_BYTES_PER_S = 200 * 10**9
"""Fast enough that swapping is worth it beside element-wise ops of 1.8 TB/s."""

Record = dict[str, Any]


def tight_instances(seed: int) -> Iterator[so.Instance]:
    """Yield instances without end: the families in turn, with and without swapping.

    Without swapping, every forward op may run twice. A draw whose largest op alone exceeds the
    budget is made again.
    """
    rng = SplitMix64(seed)
    number = 0
    while True:
        family, swap = FAMILIES[number % 3], number // 3 % 2 == 0
        least, percent = LEAST_OPS[swap], LEAST_PERCENT[swap]
        if family != "chain" and not swap:
            percent += 5
        forward = (least + rng.below(MOST_OPS - least + 1)) // 2 - 1
        percent += rng.below(MOST_PERCENT - percent + 1)
        instance = _instance(_graph(family, forward, rng.next()), family, number, percent, swap)
        life = instance.lifetimes
        if max(life.batch_bytes, *life.working_set_bytes) <= instance.budget_bytes:
            yield instance
            number += 1


def _graph(family: str, forward: int, seed: int) -> so.Graph:
    if family == "chain":
        return random_chain(SplitMix64(seed), forward)
    return random_graph(family, seed=seed, num_forward_ops=forward, width=1 + seed % 2, **SIZES)


def random_chain(rng: SplitMix64, forward: int) -> so.Graph:
    """Make a chain: op i reads a tensor and makes one; its backward op reads one or both.

    Durations of 1 to 20 ms forward and twice that backward, sizes of 1 to 10 MiB; gradients are as
    large as their tensors.
    """
    times = [(1 + rng.below(20)) * 10**6 for _ in range(forward)]
    sizes = [(1 + rng.below(10)) * 2**20 for _ in range(forward)]
    tensors = [so.Tensor(name="batch", size_bytes=sizes[0])]
    tensors += [so.Tensor(name=f"a{i}", size_bytes=size) for i, size in enumerate(sizes)]
    names = ["batch", *(f"a{i}" for i in range(forward))]
    ops = [
        so.Op(
            name=f"f{i}",
            phase="forward",
            duration_ns=times[i],
            inputs=(names[i],),
            outputs=(names[i + 1],),
        )
        for i in range(forward)
    ]

    def backward(name: str, duration_ns: int, inputs: Sequence[str], size_bytes: int) -> None:
        gradient = f"{name}.grad"
        tensors.append(
            so.Tensor(name=gradient, size_bytes=size_bytes, kind="gradient", swappable=False)
        )
        ops.append(
            so.Op(
                name=name,
                phase="backward",
                duration_ns=duration_ns,
                inputs=tuple(inputs),
                outputs=(gradient,),
                recomputable=False,
            )
        )

    backward("loss", 10**6, names[-1:], sizes[-1])
    for i in reversed(range(forward)):
        reads = (names[i : i + 1], names[i + 1 : i + 2], names[i : i + 2])[rng.below(3)]
        size = sizes[i - 1] if i else sizes[0]
        backward(f"b{i}", 2 * times[i], [ops[-1].outputs[0], *reads], size)
    return so.Graph(name="chain", ops=tuple(ops), tensors=tuple(tensors))


def _instance(graph: so.Graph, family: str, number: int, percent: int, swap: bool) -> so.Instance:
    way = "swap" if swap else "noswap"
    name = f"{number:03d}-{family}-{len(graph.ops)}-{percent}-{way}"
    ops, tensors = graph.ops, graph.tensors
    if not swap:
        tensors = tuple(tensor.model_copy(update={"swappable": False}) for tensor in tensors)
        ops = tuple(op.model_copy(update={"recomputable": op.phase == "forward"}) for op in ops)
    device = so.Device(
        name="link",
        d2h_bytes_per_s=LINK_BYTES_PER_S,
        h2d_bytes_per_s=LINK_BYTES_PER_S,
        latency_ns=10_000,
    )
    return so.Instance.from_graph(
        so.Graph(name=name, ops=ops, tensors=tensors),
        device=device,
        budget=graph.unlimited_peak_bytes * percent // 100,
        name=name,
    )


def run(instance: so.Instance, method: str, time_limit: float, seed: int) -> Record:
    """Run one method on one instance; a plan counts once it was verified."""
    record: Record = {"instance": instance.name, "sha256": instance.sha256, "method": method}
    record["time_limit"] = time_limit
    if method == "enumerate" and count_decision_vectors(instance) > MAX_DECISION_VECTORS:
        return record | {"status": "refused"}
    begun = time.process_time()
    result = so.solve(instance, method, time_limit=time_limit, seed=seed)
    used = time.process_time() - begun
    so.verify(instance, result)
    return record | {
        "status": result.status,
        "stopped_by": result.stopped_by,
        "makespan_ns": result.makespan_ns,
        "lower_bound_ns": result.lower_bound_ns,
        "ideal_ns": result.ideal_ns,
        "wall_s": result.wall_s,
        "cpu_s": round(used, 3),
        "plan": None if result.plan is None else dict(result.plan.decisions),
    }


def stored(path: Path, time_limit: float) -> dict[tuple[str, str], Record]:
    """Return the results of a file by hash of the instance and method; the last of each counts."""
    found = {}
    if path.exists():
        for line in path.read_text(encoding="utf-8").splitlines():
            try:
                record = json.loads(line)
            except json.JSONDecodeError:  # empty, or the end of a run that was killed
                continue
            if record["time_limit"] == time_limit:
                found[record["sha256"], record["method"]] = record
    return found


def outcome(record: Record) -> str:
    """Name what a run came to: ``solved``, ``infeasible``, ``open`` or ``refused``."""
    if record["status"] == "refused":
        return "refused"
    if record.get("makespan_ns") is not None:
        return "solved"
    return "infeasible" if record["status"] == "infeasible" else "open"


def table(
    instances: Sequence[so.Instance],
    methods: Sequence[str],
    records: dict[tuple[str, str], Record],
) -> list[str]:
    """Return a table of outcomes, family by family, with and without swapping.

    Of the instances on which some plan is proved optimal, *optimal* counts those on which the
    method has a plan as short, and *mean gap* is that of its plans. *missed* counts the instances
    that it left open though another method has a plan.
    """
    head = "family,swap,method,runs,solved,optimal,mean gap (%),infeasible,open,refused,missed"
    lines = ["| " + head.replace(",", " | ") + " |", "|---|---|---|" + "---:|" * 8]
    for family in (*FAMILIES, "all"):
        for swap in ("swap", "noswap") if family != "all" else ("",):
            chosen = [
                i
                for i in instances
                if family == "all" or (f"-{family}-" in i.name and i.name.endswith(f"-{swap}"))
            ]
            lines += [_row(family, swap, m, chosen, methods, records) for m in methods]
    return lines


def _row(
    family: str,
    swap: str,
    method: str,
    instances: Sequence[so.Instance],
    methods: Sequence[str],
    records: dict[tuple[str, str], Record],
) -> str:
    counts = dict.fromkeys(("solved", "infeasible", "open", "refused"), 0)
    gaps, missed = [], 0
    for instance in instances:
        record = records.get((instance.sha256, method))
        if record is None:
            continue
        counts[outcome(record)] += 1
        others = [r for m in methods if (r := records.get((instance.sha256, m))) is not None]
        best = min((r["makespan_ns"] for r in others if outcome(r) == "solved"), default=None)
        bound = max((r.get("lower_bound_ns") or 0 for r in others), default=0)
        if outcome(record) == "open":
            missed += best is not None
        if outcome(record) == "solved" and best is not None and best <= bound * (1 + 1e-4):
            gaps.append(record["makespan_ns"] / best - 1)
    mean = f"{100 * sum(gaps) / len(gaps):.2f}" if gaps else ""
    optimal = sum(gap <= 1e-4 for gap in gaps)
    cells = [family, swap, method, sum(counts.values()), counts["solved"], optimal, mean]
    cells += [counts["infeasible"], counts["open"], counts["refused"], missed]
    return "| " + " | ".join(map(str, cells)) + " |"


def failures(
    instances: Sequence[so.Instance],
    methods: Sequence[str],
    records: dict[tuple[str, str], Record],
) -> list[str]:
    """Return a sentence for each plan that the first method misses, and each contradiction."""
    found = []
    for instance in instances:
        of = {m: records[instance.sha256, m] for m in methods if (instance.sha256, m) in records}
        plans = {m: r["makespan_ns"] for m, r in of.items() if outcome(r) == "solved"}
        first = of.get(methods[0])
        if first is not None and methods[0] not in plans and plans:
            best = min(plans, key=plans.__getitem__)
            found.append(
                f"{instance.name}: {methods[0]} has no plan ({first['status']}), {best} has one "
                f"of {plans[best] / 1e6:.3f} ms"
            )
        for method, record in of.items():
            for other, makespan in plans.items():
                if outcome(record) == "infeasible":
                    found.append(
                        f"{instance.name}: {method} proves it infeasible, {other} has a plan"
                    )
                elif (record.get("lower_bound_ns") or 0) > makespan:
                    found.append(f"{instance.name}: the bound of {method} is above {other}'s plan")
    return found


def main() -> int:
    """Run and print; return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--methods", default="exact,milp-schedule,enumerate,pressure,chain")
    parser.add_argument("--time-limit", type=float, default=20.0)
    parser.add_argument("--instances", type=int, default=200)
    parser.add_argument("--first", type=int, default=0, help="number of the first instance to run")
    parser.add_argument("--last", type=int, help="number of the last instance to run")
    parser.add_argument("--only", default="*", help="pattern of the names of instances to run")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("-o", "--output", type=Path, default=Path("tight.jsonl"))
    parser.add_argument("--save", type=Path, help="folder to write the instances to")
    parser.add_argument("--table", action="store_true", help="print what the file has")
    arguments = parser.parse_args()
    methods = arguments.methods.split(",")
    count = arguments.instances if arguments.last is None else arguments.last + 1
    instances = list(islice(tight_instances(arguments.seed), arguments.first, count))
    instances = [i for i in instances if fnmatchcase(i.name, arguments.only)]
    if arguments.save is not None:
        arguments.save.mkdir(parents=True, exist_ok=True)
        for instance in instances:
            so.write_record(instance, arguments.save / f"{instance.name}.json")
    records = stored(arguments.output, arguments.time_limit)
    tasks = [(i, m) for i in instances for m in methods if (i.sha256, m) not in records]
    if tasks and not arguments.table:
        arguments.output.parent.mkdir(parents=True, exist_ok=True)
        with (
            ProcessPoolExecutor(arguments.jobs) as pool,
            arguments.output.open("a", encoding="utf-8") as file,
            Progress(console=Console(stderr=True)) as bar,
        ):
            task = bar.add_task("runs", total=len(tasks))
            file.write("\n" if file.tell() else "")  # after a line that was cut off
            futures = [
                pool.submit(run, i, m, arguments.time_limit, arguments.seed) for i, m in tasks
            ]
            for future in as_completed(futures):
                record = future.result()
                records[record["sha256"], record["method"]] = record
                file.write(json.dumps(record) + "\n")
                file.flush()
                bar.advance(task)
    print("\n".join(table(instances, methods, records)))
    wrong = failures(instances, methods, records)
    print(f"\n{len(wrong)} failures", *wrong, sep="\n- ")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
