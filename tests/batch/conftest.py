"""A small instance, and batches on it."""

import json
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from slackopt.files import write_record
from slackopt.instance import Instance

TINY = {
    "format": "slackopt/instance",
    "schema_version": 1,
    "name": "two layers",
    "budget_bytes": 2000000,
    "device": {
        "name": "slow link",
        "d2h_bytes_per_s": 10**10,
        "h2d_bytes_per_s": 10**10,
        "latency_ns": 5000,
    },
    "graph": {
        "format": "slackopt/graph",
        "schema_version": 1,
        "name": "two layers",
        "ops": [
            {
                "name": "f0",
                "phase": "forward",
                "duration_ns": 200000,
                "inputs": ["batch"],
                "outputs": ["a0"],
            },
            {
                "name": "f1",
                "phase": "forward",
                "duration_ns": 200000,
                "inputs": ["a0"],
                "outputs": ["a1"],
            },
            {
                "name": "b1",
                "phase": "backward",
                "duration_ns": 400000,
                "inputs": ["a1"],
                "outputs": ["g1"],
                "recomputable": False,
            },
            {
                "name": "b0",
                "phase": "backward",
                "duration_ns": 400000,
                "inputs": ["g1", "a0", "batch"],
                "recomputable": False,
            },
        ],
        "tensors": [
            {"name": "batch", "size_bytes": 4096, "kind": "input", "swappable": False},
            {"name": "a0", "size_bytes": 1000000},
            {"name": "a1", "size_bytes": 900000},
            {"name": "g1", "size_bytes": 900000, "kind": "gradient", "swappable": False},
        ],
    },
}


@pytest.fixture(scope="session")
def tiny() -> Instance:
    return Instance.model_validate_json(json.dumps(TINY))


@pytest.fixture(scope="session")
def tiny_file(tiny: Instance, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("instance") / "tiny.json"
    write_record(tiny, path)
    return path


@pytest.fixture(scope="module")
def bad_methods() -> Iterator[str]:
    """The module of methods that misbehave; known as long as the tests of one module run."""
    from slackopt.heuristics.registry import _REGISTRY

    exact = sys.modules["slackopt.solve"]._EXACT  # type: ignore[attr-defined]
    before = dict(_REGISTRY), dict(exact)
    sys.modules.pop("misbehaving_rules", None)
    yield "misbehaving_rules"
    for registry, kept in zip((_REGISTRY, exact), before, strict=True):
        registry.clear()
        registry.update(kept)


@pytest.fixture(autouse=True)
def _private_scratch(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Temporary folders of a test's runs lie below the test's own, and are gone at its end."""
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", None)
    yield
    root = folder / f"slackopt-batch-{os.getuid()}"
    assert not list(root.rglob("*"))
    monkeypatch.setattr(tempfile, "tempdir", None)


def processes_with(text: str) -> list[psutil.Process]:
    """All processes whose environment or command line has a text."""
    found = []
    for process in psutil.process_iter():
        try:
            words = [*process.cmdline(), *process.environ().values()]
            if any(text in word for word in words) and process.status() != "zombie":
                found.append(process)
        except psutil.Error:
            continue
    return found
