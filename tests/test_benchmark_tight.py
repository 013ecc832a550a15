"""The benchmark at tight budgets: the same instances everywhere, and failures that are seen."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import slackopt as so

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def tight() -> Iterator[ModuleType]:
    spec = importlib.util.spec_from_file_location("tight", ROOT / "benchmarks" / "tight.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["tight"] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules["tight"]


@pytest.fixture(scope="module")
def instances(tight: ModuleType) -> list[so.Instance]:
    return list(islice(tight.tight_instances(1), 12))


def test_the_instances_are_those_of_the_stored_results(instances: list[so.Instance]) -> None:
    names = [instance.name for instance in instances]
    assert names[3:6] == [
        "003-chain-47-35-noswap",
        "004-series-parallel-54-40-noswap",
        "005-layered-50-39-noswap",
    ]
    assert instances[3].sha256.startswith("ebf3d731cf4a")
    assert instances[5].sha256.startswith("6d4edc04bccd")


def test_families_sizes_and_budgets(instances: list[so.Instance]) -> None:
    for instance in instances:
        family, _, rest = instance.name[4:].rpartition("-")[0].rpartition("-")[0].rpartition("-")
        assert family in ("chain", "series-parallel", "layered")
        assert 20 <= int(rest) == len(instance.graph.ops) <= 60
        assert 0.19 < instance.budget_bytes / instance.graph.unlimited_peak_bytes <= 0.4
        assert max(instance.lifetimes.working_set_bytes) <= instance.budget_bytes
        swappable = any(tensor.swappable for tensor in instance.graph.tensors)
        assert swappable != instance.name.endswith("-noswap")


def record(instance: so.Instance, method: str, status: str, **more: Any) -> dict[str, Any]:
    return {"sha256": instance.sha256, "method": method, "status": status, **more}


def test_what_fails(tight: ModuleType, instances: list[so.Instance]) -> None:
    a, b, c, d, e = instances[:5]
    found = [
        record(a, "exact", "feasible", makespan_ns=110, lower_bound_ns=100),
        record(a, "pressure", "feasible", makespan_ns=105),
        record(b, "exact", "no_solution"),
        record(b, "pressure", "feasible", makespan_ns=100),
        record(c, "exact", "infeasible"),
        record(c, "pressure", "feasible", makespan_ns=100),
        record(d, "exact", "optimal", makespan_ns=100, lower_bound_ns=100),
        record(d, "pressure", "feasible", makespan_ns=99),
        record(e, "exact", "no_solution"),
        record(e, "pressure", "no_solution"),
    ]
    records = {(r["sha256"], r["method"]): r for r in found}
    told = tight.failures(instances[:5], ["exact", "pressure"], records)
    assert [line.partition(":")[0] for line in told] == [b.name, c.name, c.name, d.name]
    assert "pressure has one of 0.000 ms" in told[0]
    assert "exact proves it infeasible" in told[2]
    assert "the bound of exact is above" in told[3]
    rows = tight.table(instances[:5], ["exact", "pressure"], records)
    (line,) = [row for row in rows if row.startswith("| all |  | exact |")]
    assert line == "| all |  | exact | 5 | 2 | 0 | 1.01 | 1 | 2 | 0 | 1 |"


def test_a_run_is_stored_and_gone_on_with(
    tight: ModuleType,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = tmp_path / "tight.jsonl"
    common = ["tight.py", "--first", "3", "--last", "4", "--time-limit", "5", "-o", str(file)]
    monkeypatch.setattr(sys, "argv", [*common, "--methods", "chain,dtr"])
    assert tight.main() == 0
    lines = file.read_text().splitlines()
    assert len(lines) == 4
    assert "0 failures" in capsys.readouterr().out
    monkeypatch.setattr(sys, "argv", [*common, "--methods", "dtr,chain"])
    assert tight.main() == 1, "dtr has no plan where chain has one"
    assert file.read_text().splitlines() == lines
    file.write_text("\n".join([*lines[:3], lines[3][:50]]))  # as if it was killed
    assert tight.main() == 1
    again = [line for line in file.read_text().splitlines() if line.endswith("}")]
    assert len(again) == 4
    assert "003-chain-47-35-noswap: dtr has no plan" in capsys.readouterr().out
