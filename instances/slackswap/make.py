"""Write the six instances of this folder, or check that they are what this script writes.

Usage: ``python instances/slackswap/make.py [--check]``
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from slackopt.files import write_record
from slackopt.instance import Instance
from slackopt.profiles import transformer

FOLDER = Path(__file__).resolve().parent
PRESETS = ("bert-large", "gpt2-xl", "llama-7b")
KINDS: tuple[Literal["flash", "eager"], ...] = ("flash", "eager")
ACCELERATOR = "a100"
DEVICE = "a100-pcie4"
BUDGET = "0.5"


def write_instances(folder: Path) -> list[Path]:
    """Write all instance files into `folder` and return their paths."""
    paths = []
    for preset in PRESETS:
        for kind in KINDS:
            graph = transformer(preset, attention=kind, accelerator=ACCELERATOR)
            name = f"{preset}-{kind}"
            instance = Instance.from_graph(graph, name=name, device=DEVICE, budget=BUDGET)
            paths.append(folder / f"{name}.json")
            write_record(instance, paths[-1])
    return paths


def differing(folder: Path) -> list[str]:
    """Names of the files in `folder` that are missing or are not what `write_instances` writes."""
    with tempfile.TemporaryDirectory() as scratch:
        return [
            made.name
            for made in write_instances(Path(scratch))
            if not (folder / made.name).is_file()
            or (folder / made.name).read_bytes() != made.read_bytes()
        ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the script; return its exit code."""
    parser = argparse.ArgumentParser(description="Write the six SlackSwap instances.")
    parser.add_argument(
        "--check", action="store_true", help="write nothing; fail if a file is out of date"
    )
    if parser.parse_args(arguments).check:
        wrong = differing(FOLDER)
        if wrong:
            print(f"out of date: {', '.join(wrong)}; run instances/slackswap/make.py")
        return 1 if wrong else 0
    for path in write_instances(FOLDER):
        print(path.name)
    return 0


if __name__ == "__main__":
    sys.exit(main())
