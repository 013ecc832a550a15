"""A small step, its files, and a way to run the command line in this process."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from slackopt.cli import main

MIB = 2**20


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        return json.loads(self.out)


Cli = Callable[..., Ran]


@pytest.fixture
def cli(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Cli:
    monkeypatch.delenv("COLUMNS", raising=False)

    def run(*arguments: object) -> Ran:
        capfd.readouterr()
        code = main([str(argument) for argument in arguments])
        out, err = capfd.readouterr()
        return Ran(code, out, err)

    return run


def chain(names: list[str] | None = None) -> dict[str, Any]:
    """A graph file: four forward ops in a row, four backward ops back."""
    names = names or ["a", "b", "c", "d"]
    ops, tensors, previous = [], [{"name": f"{names[0]} batch", "size_bytes": MIB}], None
    for name in names:
        ops.append(
            {
                "name": name,
                "phase": "forward",
                "duration_ns": 1_000_000,
                "inputs": [previous or tensors[0]["name"]],
                "outputs": [f"{name}.out"],
            }
        )
        tensors.append({"name": f"{name}.out", "size_bytes": 8 * MIB})
        previous = f"{name}.out"
    gradient: list[str] = []
    for name in reversed(names):
        ops.append(
            {
                "name": f"{name}.backward",
                "phase": "backward",
                "duration_ns": 2_000_000,
                "inputs": [f"{name}.out", *gradient],
                "outputs": [f"{name}.grad"],
            }
        )
        tensors.append({"name": f"{name}.grad", "size_bytes": MIB, "kind": "gradient"})
        gradient = [f"{name}.grad"]
    return {
        "format": "slackopt/graph",
        "schema_version": 1,
        "name": "chain",
        "ops": ops,
        "tensors": tensors,
    }


def question(graph: dict[str, Any] | None = None, budget_bytes: int = 24 * MIB) -> dict[str, Any]:
    """An instance file around a graph."""
    return {
        "format": "slackopt/instance",
        "schema_version": 1,
        "name": "chain",
        "budget_bytes": budget_bytes,
        "device": {"name": "link", "d2h_bytes_per_s": 10**10, "h2d_bytes_per_s": 10**10},
        "graph": graph or chain(),
    }


@pytest.fixture
def graph_file(tmp_path: Path) -> Path:
    return write(tmp_path / "graph.json", chain())


@pytest.fixture
def instance_file(tmp_path: Path) -> Path:
    return write(tmp_path / "instance.json", question())


def write(path: Path, document: object) -> Path:
    path.write_text(json.dumps(document), encoding="utf-8")
    return path
