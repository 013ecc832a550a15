"""Exact methods on the six seed instances: certified gap, time, and when the gap was reached.

    python benchmarks/exact.py --methods exact,milp,cpsat --budgets 0.5 --time-limit 60

prints a markdown table. One row is one run; every result is verified before it is printed. The
columns "to 0.3 %" and "to 0.1 %" are the seconds after which the certified gap was that small.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import slackopt as so

FOLDER = Path(__file__).resolve().parents[1] / "instances" / "slackswap"


def reached(result: so.Result, gap: float) -> str:
    """Return the seconds after which the certified gap was at most `gap`."""
    for seconds, makespan, bound in result.trajectory:
        if makespan is not None and bound is not None and (makespan - bound) / bound <= gap:
            return f"{seconds:.1f}"
    return ""


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--methods", default="exact,milp,cpsat")
    parser.add_argument("--budgets", default="0.5", help="fractions of the unlimited peak")
    parser.add_argument("--time-limit", type=float, default=60.0)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--solver", default=None)
    parser.add_argument("--only", default="", help="glob of instance names, without .json")
    arguments = parser.parse_args()
    names = (
        "instance,budget,method,ratio (%),LP bound (s),gap (%),to 0.3 %,to 0.1 %,time (s),status"
    )
    print("| " + " | ".join(names.split(",")) + " |")
    print("|---|---:|---|---:|---:|---:|---:|---:|---:|---|")
    globs = [arguments.only] if arguments.only else ["*-eager", "*-flash"]
    for path in sorted(path for name in globs for path in FOLDER.glob(f"{name}.json")):
        if path.name == "best.json":
            continue
        base = so.read_instance(path)
        for budget in arguments.budgets.split(","):
            instance = so.Instance.from_graph(
                base.graph, device=base.device, budget=budget, name=base.name
            )
            bound = so.solve(instance, "bound", time_limit=arguments.time_limit)
            for method in arguments.methods.split(","):
                result = so.solve(
                    instance,
                    method,
                    time_limit=arguments.time_limit,
                    threads=arguments.threads,
                    solver=arguments.solver if method != "cpsat" else None,
                )
                so.verify(instance, result)
                ratio = result.throughput_ratio
                cells = [
                    base.name,
                    budget,
                    method,
                    "" if ratio is None else f"{100 * ratio:.3f}",
                    f"{bound.wall_s:.1f}",
                    "" if result.gap is None else f"{100 * result.gap:.4f}",
                    reached(result, 3e-3),
                    reached(result, 1e-3),
                    f"{result.wall_s:.1f}",
                    f"{result.status}, {result.stopped_by}",
                ]
                print("| " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
