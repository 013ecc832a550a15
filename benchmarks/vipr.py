"""Send every certificate of the instance library through ``viprchk``, an exact checker of others.

    python benchmarks/vipr.py --checker PATH [--folder instances] [--match TEXT]

For each entry with a certificate, or with a budget below a working set, the claim is written as a
VIPR file (with the best plan as its solution) and given to the checker; then the claim is raised by
one part in a million, or the contradiction loses a row, and the checker must refuse it. The exit
code is 1 if it accepts a false claim, or refuses a true one.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from slackopt.errors import InputError
from slackopt.files import BEST, read_instance
from slackopt.instance import Instance
from slackopt.library.instances import instance_files, instance_name
from slackopt.library.records import BestEntry, Certificate
from slackopt.library.store import find_best_files, read_best, read_best_plan, read_claim
from slackopt.result import Result
from slackopt.simulation import simulate
from slackopt.verification.vipr import vipr_certificate


def result_of(folder: Path, entry: BestEntry, instance: Instance) -> Result:
    """What the library certifies of an instance, as a result; a solver's word is left out."""

    def weights(file: str | None, sha256: str | None):
        if file is None or sha256 is None:
            return None
        record = read_claim(folder, file, sha256, Certificate)
        assert isinstance(record, Certificate)
        return record.weights

    bound, no_plan = entry.bound, entry.infeasible
    plan = None if entry.plan is None else read_best_plan(folder, entry.instance)
    timeline = None if plan is None else simulate(instance, plan)
    status = "feasible" if plan is not None else "infeasible" if no_plan is not None else "bounded"
    return Result(
        instance=entry.instance,
        instance_sha256=instance.sha256,
        method="library",
        status=status,
        stopped_by="proof",
        ideal_ns=instance.ideal_ns,
        budget_bytes=instance.budget_bytes,
        makespan_ns=None if timeline is None else timeline.makespan_ns,
        lower_bound_ns=None if bound is None else bound.lower_bound_ns,
        plan=plan,
        bound_certificate=None if bound is None else weights(bound.file, bound.sha256),
        infeasibility_certificate=no_plan and weights(no_plan.file, no_plan.sha256),
        slackopt_version="library",
    )


def falsified(text: str, ideal_ns: int) -> str:
    """The same file with a bound larger by a millionth, or a contradiction without a row."""
    if "RTP infeas" in text:
        head, _, end, last = text.rsplit(None, 3)
        return f"{head} 0 {end} {last}\n"

    def more(match: re.Match[str]) -> str:
        lower = int(match[2])
        return f"{match[1]}{lower + max(1, (ideal_ns + lower) // 10**6)}{match[3]}"

    text = re.sub(r"^(RTP range )(\d+)( .*)$", more, text, flags=re.MULTILINE)
    return re.sub(r"^(bound G )(\d+)( .*)$", more, text, flags=re.MULTILINE)


def main() -> int:
    """Run and print; return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--checker", required=True, help="the program viprchk")
    parser.add_argument("--folder", default="instances", help="a family's folder, or one of these")
    parser.add_argument("--match", default="", help="only instances with this in their names")
    asked = parser.parse_args()
    counts = dict.fromkeys(("bound", "bound and plan", "infeasible", "not written", "wrong"), 0)
    longest = size = checks_s = 0.0
    with tempfile.TemporaryDirectory() as scratch:
        file = Path(scratch) / "claim.vipr"

        def accepts(text: str) -> bool:
            file.write_text(text, "utf-8")
            ran = subprocess.run([asked.checker, file], capture_output=True, text=True, check=False)
            return ran.returncode == 0 and "Successfully verified" in ran.stdout

        for path in find_best_files(asked.folder):
            folder = path.parent
            paths = {instance_name(p): p for p in instance_files([folder]) if p.name != BEST}
            for entry in read_best(folder).entries:
                if asked.match not in entry.instance:
                    continue
                instance = read_instance(paths[entry.instance])
                try:
                    made = vipr_certificate(instance, result_of(folder, entry, instance))
                except InputError as error:
                    counts["not written"] += 1
                    print(f"{entry.instance}: not written: {error}")
                    continue
                begun = time.monotonic()
                true = accepts(made.text)
                seconds = time.monotonic() - begun
                checks_s += seconds
                longest, size = max(longest, seconds), max(size, len(made.text) / 1e6)
                false = accepts(falsified(made.text, instance.ideal_ns))
                kind = "infeasible" if "RTP infeas" in made.text else "bound"
                kind += " and plan" if "\nSOL 1\n" in made.text else ""
                counts[kind] += 1
                counts["wrong"] += not true or false
                if not true or false:
                    verdict = "a false claim accepted" if true else "refused"
                    print(f"{entry.instance}: WRONG: {verdict}: {'; '.join(made.states)}")
    print(", ".join(f"{kind}: {number}" for kind, number in counts.items()))
    print(f"checks: {checks_s:.1f} s, longest {longest:.2f} s; largest file {size:.1f} MB")
    return 1 if counts["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())
