"""The same question gives the same bytes, whatever the process."""

import os
import subprocess
import sys
from pathlib import Path

SCRIPT = """
import json, random, sys
import slackopt as so
from slackopt.simulation.chrome_trace import chrome_trace
from random_steps import random_instance, random_plan

graph = so.profiles.transformer("bert-large", num_layers=3, attention="eager")
instance = so.Instance.from_graph(graph, device="a100-pcie4-shared", budget=0.6)
plan = so.solve(instance, method="slackswap").plan
rng = random.Random(5)
cases = [(instance, plan)]
for _ in range(40):
    small = random_instance(rng)
    cases.append((small, random_plan(rng, small)))
for question, answer in cases:
    timeline = so.simulate(question, answer)
    sys.stdout.write(json.dumps(timeline.summary()) + "\\n" + chrome_trace(timeline))
    sys.stdout.write(timeline.plan.model_dump_json() + "\\n")
"""


def output(seed: str) -> bytes:
    """Return what the script prints in a fresh process with a hash seed."""
    paths = [str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    environment = os.environ | {
        "PYTHONHASHSEED": seed,
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
    }
    return subprocess.run(
        [sys.executable, "-c", SCRIPT], env=environment, capture_output=True, check=True
    ).stdout


def test_two_processes_give_the_same_bytes() -> None:
    first = output("0")
    assert len(first) > 10_000
    assert first == output("4711")
