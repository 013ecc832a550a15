"""The instance files of the repository: sound, indexed, and made again byte for byte."""

import csv
import gzip
import importlib.util
import sys
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from slackopt.files import read_instance, read_record
from slackopt.instance import Instance
from slackopt.library.features import features_of_file
from slackopt.library.index import BEST_COLUMNS, COLUMNS, csv_text
from slackopt.library.instances import instance_files
from slackopt.library.making import SUFFIX, content, made
from slackopt.library.store import read_best
from slackopt.library.verification import verify_best
from slackopt.published import published_ratio
from slackopt.solve import solve

LIBRARY = Path(__file__).resolve().parent.parent / "instances"
FOLDER = LIBRARY / "slackswap"
NAMES = [
    f"{model}-{kind}"
    for model in ("bert-large", "gpt2-xl", "llama-7b")
    for kind in ("flash", "eager", "paper")
]
FAMILIES = sorted(path.parent.name for path in LIBRARY.glob("*/make.py") if path.parent != FOLDER)
MAX_BYTES = 60 * 10**6
MIN_INSTANCES = 150


@cache
def script(family: str) -> ModuleType:
    name = f"{family.replace('-', '_')}_make"
    spec = importlib.util.spec_from_file_location(name, LIBRARY / family / "make.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Dataclasses look their module up while they are made.
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@cache
def index() -> list[dict[str, str]]:
    with (LIBRARY / "index.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


# ---------------------------------------------------------------------------------------------
# slackswap


def test_remaking_gives_identical_bytes(tmp_path: Path) -> None:
    make = script("slackswap")
    paths = make.write_instances(tmp_path)
    assert [path.stem for path in paths] == NAMES
    for path in paths:
        assert path.read_bytes() == (FOLDER / path.name).read_bytes()
    files = {path.stem for path in FOLDER.glob("*.json") if path.name != "best.json"}
    assert files == set(NAMES)


def test_check_finds_a_changed_and_a_missing_file(tmp_path: Path) -> None:
    make = script("slackswap")
    make.write_instances(tmp_path)
    assert make.differing(tmp_path) == []
    (tmp_path / "gpt2-xl-eager.json").write_text("{}")
    (tmp_path / "llama-7b-flash.json").unlink()
    assert make.differing(tmp_path) == ["gpt2-xl-eager.json", "llama-7b-flash.json"]


@pytest.mark.parametrize("name", NAMES)
def test_instances_are_valid(name: str) -> None:
    instance = read_record(FOLDER / f"{name}.json", Instance)
    assert instance.name == name
    assert instance.device.name == "a100-pcie4"
    assert instance.budget_fraction == "0.5"
    assert instance.budget_bytes == instance.graph.unlimited_peak_bytes // 2
    instance.check_working_set()


@pytest.mark.parametrize("model", ["bert-large", "gpt2-xl", "llama-7b"])
def test_the_published_table_comes_out(model: str) -> None:
    """Within half a point, under one setting for all three models, which the file tells."""
    instance = read_record(FOLDER / f"{model}-paper.json", Instance)
    result = solve(instance, "slackswap-timeline")
    published = published_ratio(instance, "slackswap-timeline")
    assert published is not None
    assert result.throughput_ratio == pytest.approx(published, abs=0.005)

    assumptions = instance.provenance["assumptions"]
    assert "the paper's own profile is not public" in assumptions
    chip = instance.graph.provenance["accelerator"]
    assert chip["sources"]["matmul_percent"] == assumptions
    # What is not assumed is as in the other instances.
    ours = read_record(FOLDER / f"{model}-eager.json", Instance)
    assert instance.device == ours.device
    other = ours.graph.provenance["accelerator"]
    assert {key for key in chip if chip[key] != other[key]} == {"matmul_percent", "sources"}
    assert f"{chip['matmul_percent']} % of peak" in assumptions
    settings, others = instance.graph.provenance["settings"], ours.graph.provenance["settings"]
    assert settings == others | {"dropout": False}


# ---------------------------------------------------------------------------------------------
# All families


def test_the_set_is_large_and_its_files_are_small() -> None:
    assert len(instance_files([LIBRARY])) >= MIN_INSTANCES
    files = [path for path in LIBRARY.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) <= MAX_BYTES


@pytest.mark.parametrize("family", FAMILIES)
def test_a_family_holds_what_its_script_makes(family: str) -> None:
    names = [recipe.name for recipe in script(family).recipes()]
    assert len(set(names)) == len(names)
    files = {path.name for path in (LIBRARY / family).glob(f"*{SUFFIX}")}
    assert files == {f"{name}{SUFFIX}" for name in names}
    readme = (LIBRARY / family / "README.md").read_text("utf-8")
    assert "## Licence" in readme
    assert f"python instances/{family}/make.py" in readme


@pytest.mark.parametrize("family", FAMILIES)
def test_remaking_a_sample_gives_the_same_text(family: str) -> None:
    # The first, a middle and the last one; `make.py --check` makes all of them.
    recipes = script(family).recipes()
    sample = [recipes[i] for i in sorted({0, len(recipes) // 2, len(recipes) - 1})]
    if family == "large":  # each takes a second or more
        sample = sample[:1]
    for instance in made(sample, family):
        path = LIBRARY / family / f"{instance.name}{SUFFIX}"
        assert gzip.decompress(path.read_bytes()).decode() == content(instance)


def test_the_index_lists_every_file() -> None:
    files = [path.relative_to(LIBRARY).as_posix() for path in instance_files([LIBRARY])]
    rows = index()
    assert tuple(rows[0]) == COLUMNS
    assert sorted(row["file"] for row in rows) == sorted(files)
    keys = [(row["family"], row["instance"]) for row in rows]
    assert keys == sorted(set(keys))
    assert len({row["sha256"] for row in rows}) == len(rows)  # no instance twice
    page = (LIBRARY / "index.html").read_text("utf-8")
    assert page.count("<tr>") == len(rows) + 1


def test_the_index_says_what_is_in_the_files() -> None:
    # Every tenth file; the columns that depend on best.json change with it.
    for row in index()[::10]:
        features = features_of_file(LIBRARY / row["file"], LIBRARY)
        (read,) = csv.DictReader(csv_text([features]).splitlines())
        for column in COLUMNS:
            if column not in BEST_COLUMNS:
                assert read[column] == row[column], (row["file"], column)


def test_every_kind_of_device_is_there() -> None:
    rows = index()

    def count(column: str, value: str) -> int:
        return sum(row[column] == value for row in rows)

    for regime in ("link-bound", "balanced", "compute-bound"):
        assert count("regime", regime) >= 15
    assert count("regime", "none") == 0  # keeping everything is never an answer
    assert sum(row["host_memory_bytes"] != "" for row in rows) >= 5
    assert count("shared_link", "true") >= 5
    shares = [float(row["budget_share"]) for row in rows]
    assert min(shares) < 0.35
    assert max(shares) > 0.85


def test_only_marked_instances_are_infeasible_at_a_glance() -> None:
    rows = index()
    marked = [row["instance"] for row in rows if row["instance"].endswith("-infeasible")]
    assert len(marked) == 3
    below = [
        row["instance"]
        for row in rows
        if float(row["budget_share"]) < float(row["least_budget_share"]) - 1e-6
    ]
    assert below == ["below-working-set-infeasible"]


@pytest.mark.parametrize("name", ["equal-hidden", "residual", "no-swap", "layered-7-4-a100-pcie4"])
def test_optima_of_tiny_instances(name: str) -> None:
    instance = read_instance(LIBRARY / "tiny" / f"{name}{SUFFIX}")
    results: dict[str, Any] = {
        method: solve(instance, method, time_limit=None, gap=0)
        for method in ("enumerate", "milp-schedule")
    }
    optimum = results["enumerate"].makespan_ns
    assert results["enumerate"].status == "optimal"
    assert results["milp-schedule"].makespan_ns == optimum
    assert solve(instance, "bound").lower_bound_ns <= optimum


@pytest.mark.parametrize(
    "name",
    [
        "below-working-set-infeasible",
        "no-host-no-rerun-infeasible",
        "rerun-too-large-infeasible",
    ],
)
def test_infeasible_instances_are_infeasible(name: str) -> None:
    instance = read_instance(LIBRARY / "tiny" / f"{name}{SUFFIX}")
    assert solve(instance, "enumerate", time_limit=None).status == "infeasible"


def test_the_index_tells_what_best_json_tells() -> None:
    """After `slackopt best update`, run instances/index.py again."""
    with (LIBRARY / "index.csv").open(newline="", encoding="utf-8") as file:
        rows = {(row["family"], row["instance"]): row for row in csv.DictReader(file)}
    told = 0
    for path in sorted(LIBRARY.glob("*/best.json")):
        for entry in read_best(path.parent).entries:
            row = rows[path.parent.name, entry.instance]
            if entry.plan is not None:
                assert row["makespan_ns"] == str(entry.plan.makespan_ns)
                assert float(row["gap"]) >= 0
                told += 1
    assert told > 150


def test_a_sample_of_the_claims_holds() -> None:
    """`slackopt best verify instances` checks them all."""
    report = verify_best(LIBRARY, sample=15, seed=5, lp_limit_s=1.0)
    assert report.failures == []
    assert (report.entries, report.checked) == (214, 15)
