"""What the optimum reaches under every setting that comes within a point of the published table.

    python studies/reproduction/optimum.py                 # can be stopped and resumed
    python studies/reproduction/optimum.py --points 0.5    # the closer settings only
    python studies/reproduction/optimum.py --extract       # only from build/ to results/

`exact` stops at a certified gap of 0.05 %, or after 10 s. Other options are those of `slackopt
batch`, e.g. ``--jobs 2``. Writes results/optimum.csv (one row a question), plans.jsonl.gz and
bounds.jsonl.gz (as in studies/optimality-gap) and machine.json.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from closeness import close, read_grid, setting_of
from grid import RESULTS, ROOT
from house import bound_line, packed, plan_line
from settings import MODELS, Setting, instance_of, settings

from slackopt import Instance
from slackopt.batch import Run, read_runs
from slackopt.files import write_bytes, write_record

BUILD = ROOT / "build" / "reproduction"
POINTS = 1.0
LIMIT_S = 10
GAP = 0.0005
COLUMNS = (
    "question",
    "model",
    "instance_sha256",
    "ideal_ns",
    "makespan_ns",
    "lower_bound_ns",
    "wall_s",
)


def numbered() -> dict[Setting, int]:
    """Return a number for each question of the grid: settings that differ in the rule share one."""
    return {
        question: number
        for number, question in enumerate(dict.fromkeys(s.question() for _, s in settings()))
    }


def asked(results: Path = RESULTS, points: float = POINTS) -> Iterator[tuple[int, str, Instance]]:
    """Yield number, model and instance of every question under a setting so close."""
    numbers = numbered()
    near = close(read_grid(results), points)
    questions = sorted({numbers[setting_of(row).question()] for _, row in near.iterrows()})
    by_number = {number: question for question, number in numbers.items()}
    for number in questions:
        for model in MODELS:
            instance = instance_of(model, by_number[number])
            yield number, model, instance.model_copy(update={"name": name_of(model, number)})


def stored_points(results: Path = RESULTS) -> float:
    """Return how close the settings are whose optima are stored."""
    machine = json.loads((results / "machine.json").read_text(encoding="utf-8"))
    return float(machine["points"])


def name_of(model: str, number: int) -> str:
    """Return the name of the instance of a model under a question."""
    return f"{model}-{number:04}"


def run(options: list[str], points: float = POINTS) -> int:
    """Write the instances and run the batch; return its exit code."""
    paths = []
    for _, _, instance in asked(points=points):
        paths.append(BUILD / "instances" / f"{instance.name}.json.gz")
        if not paths[-1].is_file():
            paths[-1].parent.mkdir(parents=True, exist_ok=True)
            write_record(instance, paths[-1])
    print(f"{len(paths)} questions", flush=True)
    words = [
        "batch",
        *map(str, paths),
        "-m",
        "exact",
        "--time-limit",
        str(LIMIT_S),
        "--gap",
        str(GAP),
    ]
    command = [sys.executable, "-m", "slackopt", *words, "-o", str(BUILD / "runs"), *options]
    return subprocess.run(command, check=False, env=os.environ).returncode


def extract(points: float = POINTS, output: Path = RESULTS) -> list[str]:
    """Write the stored results of the runs; return what is missing, if anything."""
    runs = {
        run.task.instance_sha256: run for run in read_runs(BUILD / "runs") if run.outcome == "done"
    }
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    plans, bounds, used, missing = [], [], [], []
    for number, model, instance in asked(points=points):
        found = runs.get(instance.sha256)
        if found is None or found.result is None or found.result.plan is None:
            missing.append(instance.name)
            continue
        result = found.result
        values = (result.makespan_ns, result.lower_bound_ns, round(result.wall_s, 1))
        writer.writerow((number, model, instance.sha256, instance.ideal_ns, *values))
        plans.append(plan_line(instance.name, instance, result.plan))
        if result.bound_certificate is not None:
            bounds.append(bound_line(instance.name, result.bound_certificate))
        used.append(found)
    if missing:
        return missing
    write_bytes(text.getvalue().encode(), output / "optimum.csv")
    for name, lines in (("plans", plans), ("bounds", bounds)):
        write_bytes(packed("".join(f"{line}\n" for line in lines)), output / f"{name}.jsonl.gz")
    machine = json.dumps({"points": points} | _machine(used), indent=2, sort_keys=True) + "\n"
    write_bytes(machine.encode(), output / "machine.json")
    print(f"{len(used)} questions in {output}")
    return []


def _machine(runs: list[Run]) -> dict[str, object]:
    """Return what the runs share: processor and versions; never a host's name."""
    names = ("processor", "python", "highspy", "ortools", "pulp")
    facts: dict[str, object] = {}
    for name in names:
        seen = Counter(str(run.machine.get(name)) for run in runs)
        facts[name] = next(iter(seen)) if len(seen) == 1 else sorted(seen)
    facts["slackopt_version"] = sorted({run.slackopt_version for run in runs})
    facts["runs"] = len(runs)
    return facts


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--points", type=float, default=POINTS, help="only settings so close")
    parser.add_argument("--extract", action="store_true", help="run nothing")
    options, words = parser.parse_known_args()
    if not options.extract and (code := run(words, options.points)) not in (0, 5):
        return code
    missing = extract(options.points)
    if missing:
        print(f"not done: {len(missing)} of the questions ({missing[0]}, ...); run again")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
