"""From the folder of runs to the stored results: what tables and figures need, and no more.

    python studies/optimality-gap/extract.py build/optimality-gap-runs

writes results/ beside this file. Runs that are not done, or that are missing, are told; the same
folder gives the same bytes.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from pathlib import Path

import pandas as pd
from study_results import COLUMNS, RESULTS, WITH_PLANS, bound_line, packed, plan_line

from slackopt import read_instance
from slackopt.analysis import runs_frame
from slackopt.batch import Run, read_runs
from slackopt.files import write_bytes

NOT_TOLD = {"host", "hostname", "platform"}
"""What a run knows of its machine and the stored results don't keep."""


def machine_of(runs: list[Run]) -> dict[str, object]:
    """Return what the runs share: processor, versions, days; never a host's name."""
    facts: dict[str, object] = {}
    for name in sorted({name for run in runs for name in run.machine} - NOT_TOLD):
        seen = Counter(json.dumps(run.machine.get(name), sort_keys=True) for run in runs)
        values = [json.loads(text) for text in sorted(seen)]
        facts[name] = values[0] if len(values) == 1 else values
    facts["slackopt_version"] = sorted({run.slackopt_version for run in runs})
    facts["first_day"] = min(run.started_at for run in runs)[:10]
    facts["last_day"] = max(run.started_at for run in runs)[:10]
    facts["runs"] = len(runs)
    facts["outcomes"] = dict(sorted(Counter(run.outcome for run in runs).items()))
    return facts


def table_of(runs: list[Run]) -> pd.DataFrame:
    """Return one row a run with the columns of the stored results."""
    frame = runs_frame(runs)
    frame = frame.assign(
        part=frame["tag_part"],
        base=frame["tag_base"],
        family=frame["tag_family"],
        budget=frame["tag_budget"],
        label=frame["tag_label"].fillna(frame["method"])
        if "tag_label" in frame.columns
        else frame["method"],
        restricted_lower_bound_ns=[
            run.result.plan.provenance.get("restricted_lower_bound_ns")
            if run.result is not None and run.result.plan is not None
            else None
            for run in runs
        ],
    )
    return frame[list(COLUMNS)].astype(dict(COLUMNS))


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("folder", type=Path, help="folder of runs")
    parser.add_argument("-o", "--output", type=Path, default=RESULTS)
    options = parser.parse_args()
    runs = list(read_runs(options.folder))
    runs.sort(
        key=lambda run: (
            run.task.tags.get("part", ""),
            run.task.instance,
            run.task.tags.get("label", run.task.method),
            run.key,
        )
    )
    table = table_of(runs)
    lines = []
    for run in runs:
        if run.task.method in WITH_PLANS and run.result is not None and run.result.plan is not None:
            path = options.folder / "instances" / f"{run.task.instance_sha256}.json.gz"
            lines.append(plan_line(run.key, read_instance(path), run.result.plan))
    bounds = [
        bound_line(run.key, run.result.bound_certificate)
        for run in runs
        if run.result is not None and run.result.bound_certificate is not None
    ]
    options.output.mkdir(parents=True, exist_ok=True)
    write_bytes(
        packed(table.to_csv(index=False, lineterminator="\n")), options.output / "runs.csv.gz"
    )
    write_bytes(packed("\n".join(lines) + "\n"), options.output / "plans.jsonl.gz")
    write_bytes(packed("".join(f"{line}\n" for line in bounds)), options.output / "bounds.jsonl.gz")
    machine = json.dumps(machine_of(runs), indent=2, sort_keys=True) + "\n"
    write_bytes(machine.encode(), options.output / "machine.json")
    size = sum(path.stat().st_size for path in options.output.iterdir())
    print(f"{len(runs)} runs, {len(lines)} plans, {size / 1e6:.2f} MB in {options.output}")
    for run in runs:
        if run.outcome != "done":
            print(f"{run.task.label}: {run.outcome}: {run.detail}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
