"""What `import slackopt` and the command line load: large libraries only where they are needed."""

from __future__ import annotations

import subprocess
import sys

import pytest

LARGE = (
    *(
        "highspy",
        "jinja2",
        "matplotlib",
        "networkx",
        "ortools",
        "pandas",
        "pulp",
        "pyarrow",
    ),
    *("scipy", "submitit", "torch", "transformers"),
)


@pytest.mark.parametrize("module", ["slackopt", "slackopt.cli.app"])
def test_what_is_imported_at_the_start(module: str) -> None:
    code = f"import sys, {module}; print(*[m for m in {LARGE!r} if m in sys.modules])"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == []


def test_a_rule_runs_without_solvers() -> None:
    code = f"""
import sys
import slackopt as so
graph = so.profiles.transformer("bert-large", batch=4, num_layers=4)
instance = so.Instance.from_graph(graph, device="a100-pcie4", budget=0.8)
assert so.solve(instance, "slackswap").plan is not None
print(*[m for m in {LARGE!r} if m in sys.modules])
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == []
