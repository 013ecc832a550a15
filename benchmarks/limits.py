"""Do methods keep their time limit, and do exact ones have a bound when it is over?

    python benchmarks/limits.py
    python benchmarks/limits.py --methods exact,bound --limits 10 --all

Every method on the largest instance of each family of the library (``--all``: on every instance),
at each limit. Each run is a process of its own, so that no run warms another up; timed is `solve`
alone. An *overrun* is the time beyond the limit; a limit is kept within 1 s and 5 %. On a machine
that does other work as well, the processor's time says more than the clock's: both are printed.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path

from slackopt.files import read_instance
from slackopt.library.instances import instance_files
from slackopt.solve import methods, solve

LIBRARY = Path(__file__).parents[1] / "instances"
GRACE_S, GRACE_SHARE = 1.0, 0.05


def largest(files: list[Path]) -> list[Path]:
    """Return the largest instance of each family, by the number of ops."""
    best: dict[str, tuple[int, Path]] = {}
    for file in files:
        ops = len(read_instance(file).graph.ops)
        if ops > best.get(file.parent.name, (0, file))[0]:
            best[file.parent.name] = (ops, file)
    return [file for _, file in best.values()]


def measure(file: str, method: str, limit: float) -> dict[str, object]:
    """Run one method and tell how long it took and what it has."""
    instance = read_instance(file)
    begun, cpu = time.monotonic(), time.process_time()
    result = solve(instance, method, time_limit=limit)
    wall, cpu = time.monotonic() - begun, time.process_time() - cpu
    return {
        "wall_s": wall,
        "cpu_s": cpu,
        "status": result.status,
        "stopped_by": result.stopped_by,
        "ratio": result.throughput_ratio,
        "bound": None if result.lower_bound_ns is None else result.lower_bound_ns / result.ideal_ns,
    }


def main() -> None:
    """Print a row for each run, and what broke its promise at the end."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--methods", help="with commas; all by default")
    parser.add_argument("--limits", default="10,1,0.1", help="seconds, with commas")
    parser.add_argument("--all", action="store_true", help="every instance of the library")
    parser.add_argument("--instances", nargs="*", help="these instances instead")
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        file, method, limit = options.one
        print(json.dumps(measure(file, method, float(limit))))
        return
    kinds = {method.name: method.kind for method in methods()}
    chosen = options.methods.split(",") if options.methods else list(kinds)
    files = [Path(f) for f in options.instances or ()]
    if not files:
        files = instance_files([LIBRARY])
        files = files if options.all else largest(files)
    print("| instance | method | limit (s) | wall (s) | CPU (s) | ends | ratio (%) | bound (%) |")
    print("|---|---|---:|---:|---:|---|---:|---:|")
    late, unbounded, runs = [], [], 0
    for file in files:
        for method in chosen:
            for limit in map(float, options.limits.split(",")):
                command = [sys.executable, __file__, "--one", str(file), method, str(limit)]
                done = subprocess.run(command, capture_output=True, text=True, check=False)
                if "InputError" in done.stderr:  # a method for smaller instances
                    continue
                done.check_returncode()
                run = json.loads(done.stdout.splitlines()[-1])
                name, runs = file.name.partition(".json")[0], runs + 1
                ratio = "" if run["ratio"] is None else f"{100 * run['ratio']:.3f}"
                bound = "" if run["bound"] is None else f"{100 * run['bound']:.3f}"
                ends = f"{run['status']}, {run['stopped_by']}"
                print(
                    f"| {name} | {method} | {limit:g} | {run['wall_s']:.2f} | {run['cpu_s']:.2f} "
                    f"| {ends} | {ratio} | {bound} |",
                    flush=True,
                )
                most = limit * (1 + GRACE_SHARE) + GRACE_S
                if run["wall_s"] > most:
                    over = f"{run['wall_s'] - limit:.2f} s over (CPU {run['cpu_s']:.2f} s)"
                    late.append(f"{name}, {method}, {limit:g} s: {over}")
                if kinds[method] == "exact" and not bound and run["status"] != "infeasible":
                    unbounded.append(f"{name}, {method}, {limit:g} s")
    print(f"\n{runs} runs; {len(late)} beyond their limit by more than 1 s and 5 %:")
    print(*late, sep="\n")
    print(f"\n{len(unbounded)} of exact methods without a bound:")
    print(*unbounded, sep="\n")


if __name__ == "__main__":
    main()
