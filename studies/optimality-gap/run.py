"""Run the study: three batches, one after another, into one folder. It can be stopped and resumed.

    python studies/optimality-gap/run.py --jobs 2                     # about 20 minutes
    python studies/optimality-gap/run.py --jobs 2 -o build/study --dry-run

Options are those of `slackopt batch`. What is stored in the folder is not run again.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
STUDIES = ("models.toml", "library.toml", "parts.toml")


def main(arguments: list[str]) -> int:
    if not {"-o", "--output"} & set(arguments):
        arguments = ["-o", "build/optimality-gap-runs", *arguments]
    paths = [str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    worst = 0
    for study in STUDIES:
        print(f"{study}:", flush=True)
        command = [sys.executable, "-P", "-m", "slackopt", "batch", "--study", str(HERE / study)]
        code = subprocess.run([*command, *arguments], env=environment, check=False).returncode
        # 5: some runs are not done, which their records say; the other batches go on.
        if code not in (0, 5):
            return code
        worst = max(worst, code)
    return worst


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
