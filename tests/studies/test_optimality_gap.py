"""The optimality-gap study: its files, extraction, tables, figures and the numbers of its text."""

import csv
import gzip
import importlib
import json
import re
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

import slackopt as so
from slackopt.batch import LocalExecutor, make_study, read_study, run_study
from slackopt.batch.expand import expand
from slackopt.heuristics import heuristics
from slackopt.simulation.evaluator import Evaluator
from slackopt.simulation.sequence import RECOMPUTE, SWAP

ROOT = Path(__file__).resolve().parents[2]
STUDY = ROOT / "studies" / "optimality-gap"
MODULES = ("slackswap_joint", "slackswap_parts")


@pytest.fixture(scope="module", autouse=True)
def _on_path():
    """The scripts of the study import each other by name, as they do when they are run."""
    sys.path.insert(0, str(STUDY))
    yield
    sys.path.remove(str(STUDY))


@pytest.fixture(scope="module")
def stored(_on_path):
    return importlib.import_module("study_results")


@pytest.fixture(scope="module")
def rows(stored) -> pd.DataFrame:
    return stored.read_runs_table()


@pytest.fixture(scope="module")
def rules(_on_path):
    for name in MODULES:
        importlib.import_module(name)
    return heuristics()


@pytest.fixture(scope="module")
def tables(rows):
    return {t.name: t for t in importlib.import_module("study_tables").make_tables(rows)}


def small_instance() -> so.Instance:
    graph = so.profiles.transformer("bert-large", batch=8, num_layers=3, attention="eager")
    return so.Instance.from_graph(graph, device="a100-pcie4", budget=0.6)


# The stored results.


def test_the_stored_results_are_small_and_say_where_they_come_from(rows) -> None:
    assert sum(path.stat().st_size for path in (STUDY / "results").iterdir()) < 3_000_000
    machine = json.loads((STUDY / "results" / "machine.json").read_text())
    assert machine["runs"] == len(rows)
    assert set(machine) >= {"python", "highspy", "ortools", "pulp", "processor", "slackopt_version"}
    assert not set(machine) & {"host", "hostname", "platform"}
    for name in ("key", "instance_sha256", "outcome", "seed", "slackopt_version"):
        assert rows[name].notna().all()
    assert rows["key"].is_unique


@pytest.mark.parametrize("part", ["models", "parts", "library"])
def test_the_stored_results_are_those_of_the_study_file(part, rows, rules) -> None:
    """Same instances (by content), methods, options and limits; nothing missing, nothing else."""
    asked = {
        (case.task.instance_sha256, case.task.method, json.dumps(case.task.options, sort_keys=True))
        for case in expand(read_study(STUDY / f"{part}.toml"))
    }
    own = rows[rows["part"] == part]
    assert set(zip(own["instance_sha256"], own["method"], own["options"], strict=True)) == asked
    assert len(own) == len(asked)


def test_stored_plans_have_the_makespans_that_are_stored(rows, stored) -> None:
    planned = rows[rows["method"].isin(stored.WITH_PLANS) & rows["has_plan"]]
    assert len(planned) > 500
    for _, row in planned.iterrows():
        instance = stored.instance_of(row)
        assert so.simulate(instance, stored.plan_of(row)).makespan_ns == row["makespan_ns"]


def test_stored_certificates_prove_the_bounds(rows, stored) -> None:
    """Added up anew, without a solver; what a solver claims beyond is a part of a per mille."""
    exact = rows[(rows["method"] == "exact") & (rows["part"] == "models")]
    for _, row in exact.iterrows():
        proved = stored.proved_ns(row)
        if proved is None:  # no plan is faster than the ideal step
            assert row["lower_bound_ns"] == row["ideal_ns"]
        else:
            assert row["lower_bound_ns"] * 0.999 <= proved <= row["lower_bound_ns"]


def test_rules_still_come_out_as_stored(rows, rules, stored) -> None:
    """A rule that was changed since makes the stored results old: run it again with --force."""
    own = rows[
        (rows["base"] == "bert-large-flash")
        & (rows["budget"] == "0.4")
        & rows["method"].isin(rules)
        & ~rows["method"].isin(["local-search", "round"])
        & ~rows["method"].str.startswith("slackswap-fixed")
    ]
    assert len(own) > 20
    for _, row in own.iterrows():
        options = json.loads(row["options"])
        result = so.solve(stored.instance_of(row), row["method"], **options)
        assert (result.makespan_ns is not None) == row["has_plan"], row["label"]
        if row["has_plan"]:
            assert result.makespan_ns == row["makespan_ns"], row["label"]


def test_a_changed_instance_is_refused(rows, stored) -> None:
    row = rows.iloc[0].copy()
    row["instance_sha256"] = "0" * 64
    with pytest.raises(so.InputError, match="has changed since the study was run"):
        stored.instance_of(row)


# From runs to stored results.


def test_extraction_of_a_batch(tmp_path: Path, stored) -> None:
    study = make_study(
        {
            "instances": [str(ROOT / "instances/tiny/mixed.json.gz")],
            "methods": ["slackswap", "enumerate", "vdnn"],
            "tags": {"part": "models"},
            "time_limit": 20,
        }
    )
    run_study(study, tmp_path / "runs", executor=LocalExecutor(jobs=1))
    for out in ("a", "b"):
        script = [sys.executable, str(STUDY / "extract.py"), str(tmp_path / "runs")]
        done = subprocess.run(
            [*script, "-o", str(tmp_path / out)], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
    for name in ("runs.csv.gz", "plans.jsonl.gz", "machine.json"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
    found = stored.read_runs_table(tmp_path / "a").set_index("method")
    assert list(found["outcome"]) == ["done"] * 3
    instance = so.read_instance(ROOT / "instances/tiny/mixed.json.gz")
    rule = so.solve(instance, "slackswap")
    assert found.loc["slackswap", "makespan_ns"] == rule.makespan_ns
    assert found.loc["slackswap", "instance_sha256"] == instance.sha256
    row = found.reset_index().set_index("method", drop=False).loc["slackswap"]
    assert stored.plan_of(row, tmp_path / "a").decisions == {
        name: word for name, word in rule.plan.decisions.items() if word != "keep"
    }
    optimum = so.solve(instance, "enumerate").makespan_ns
    assert found.loc["slackswap", "gap_to_best"] == pytest.approx(
        (rule.makespan_ns - optimum) / optimum
    )


# The rules that take SlackSwap apart.


def test_fixed_parts_keep_to_slackswaps_choice_and_are_no_slower(rules) -> None:
    instance = small_instance()
    base = so.solve(instance, "slackswap")
    chosen = {
        word: {name for name, value in base.plan.decisions.items() if value == word}
        for word in ("swap", "recompute")
    }
    assert chosen["swap"]
    assert chosen["recompute"]
    evaluator = Evaluator(instance)
    for rule, word, code in (
        ("slackswap-fixed-swaps", "swap", SWAP),
        ("slackswap-fixed-recomputes", "recompute", RECOMPUTE),
    ):
        plan = rules[rule](instance, time_limit=20.0)
        makespan = so.simulate(instance, plan).makespan_ns
        assert makespan <= base.makespan_ns
        bound = plan.provenance["restricted_lower_bound_ns"]
        assert bound <= makespan
        names = [tensor.name for tensor in instance.graph.tensors]
        decided = {names[t] for t, c in enumerate(evaluator.decisions(plan)) if c == code}
        if code == SWAP:
            assert decided <= chosen[word]
        else:
            producers = evaluator.life.producer
            index = instance.graph.tensor_index
            rerun = {producers[index[name]] for name in chosen[word]}
            assert {producers[index[name]] for name in decided} <= rerun


def test_joint_drops_everything_that_a_rerun_makes(rules) -> None:
    plans = importlib.import_module("study_plans")
    instance = small_instance()
    joint = rules["slackswap-joint"](instance)
    alone = rules["slackswap"](instance)
    assert plans._reruns(instance, alone)["remade_bytes"] > 0
    assert "recompute" in joint.decisions.values()
    codes = Evaluator(instance).decisions(joint)
    life = instance.lifetimes
    for t in life.candidates:
        if codes[t] == RECOMPUTE:
            together = [codes[o] for o in life.outputs[life.producer[t]] if life.is_candidate(o)]
            assert set(together) <= {RECOMPUTE, SWAP}


# Tables, figures and the text.


def test_paper_makes_the_text_tables_and_figures(tmp_path: Path, tables) -> None:
    done = subprocess.run(
        [sys.executable, str(STUDY / "paper.py"), "-o", str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    made = importlib.import_module("study_tables")
    assert len(tables) == 8
    for name, table in tables.items():  # made here a second time: the same bytes
        assert (tmp_path / f"{name}.csv").read_text() == made.csv_text(table)
        assert (tmp_path / f"{name}.tex").read_text() == made.latex_text(table)
        assert "\\toprule" in made.latex_text(table)
    assert (tmp_path / "report.md").read_text() == (STUDY / "report.md").read_text(), (
        "the text is old; run studies/optimality-gap/paper.py --write-text"
    )
    for name in ("gap-over-budget", "profile", "parts", "decisions"):
        assert (tmp_path / f"{name}.pdf").read_bytes().startswith(b"%PDF")


def test_the_numbers_of_the_text_are_those_of_the_tables(tables) -> None:
    """Every table of the text is compared, cell by cell, with the table of the study."""
    text = (STUDY / "report.md").read_text(encoding="utf-8")
    found = re.findall(r"<!-- table: ([\w-]+) -->\n((?:\|.*\n)+)", text)
    assert found
    for name, block in found:
        lines = [[c.strip() for c in line.strip("|\n ").split("|")] for line in block.splitlines()]
        header, body = lines[0], lines[2:]
        frame = tables[name].frame
        texts = [c for c in frame.columns if not pd.api.types.is_numeric_dtype(frame[c])]
        for cells in body:
            told = dict(zip(header, cells, strict=True))
            keys = [c for c in texts if c in told]
            row = frame[(frame[keys] == [told[c] for c in keys]).all(axis=1)]
            assert len(row) == 1, told
            for column, cell in told.items():
                if column not in keys:
                    value = row.iloc[0][column]
                    digits = tables[name].digits[column]
                    if pd.isna(value):
                        assert cell == "-", (name, told)
                    else:
                        assert abs(float(cell) - value) <= 0.5001 * 10**-digits, (name, told)
                        assert len(cell.partition(".")[2]) == digits


def test_the_summary_of_the_text_is_that_of_the_stored_rows() -> None:
    """Computed once more from the file of rows, by nothing of the study's own code."""
    text = gzip.decompress((STUDY / "results" / "runs.csv.gz").read_bytes()).decode()
    runs = list(csv.DictReader(text.splitlines()))
    bounds: dict[str, int] = {}
    for run in runs:
        if run["lower_bound_ns"]:
            sha256, bound = run["instance_sha256"], int(run["lower_bound_ns"])
            bounds[sha256] = max(bound, bounds.get(sha256, 0))

    def mean_gap(part: str, label: str, model: str = "") -> float:
        gaps = [
            int(run["makespan_ns"]) / bounds[run["instance_sha256"]] - 1
            for run in runs
            if run["part"] == part and run["label"] == label and run["base"].startswith(model)
        ]
        assert len(gaps) == (14 if model else 42)
        assert min(gaps) >= 0
        return 100 * sum(gaps) / len(gaps)

    one, line = mean_gap("models", "slackswap"), mean_gap("models", "slackswap-timeline")
    joint = mean_gap("parts", "timeline/joint")
    llama = mean_gap("models", "slackswap", "llama") - mean_gap(
        "models", "slackswap-timeline", "llama"
    )
    told = (STUDY / "report.md").read_text(encoding="utf-8")
    assert f"six models is {one:.2f} % when the slack is one number, and {line:.2f} %" in told
    assert f"that costs Llama {llama:.2f} points" in told
    assert f"cuts the mean gap from {line:.2f} % to {joint:.2f} %" in told
    assert "{" not in told


def test_csv_reads_back(tables) -> None:
    made = importlib.import_module("study_tables")
    for table in tables.values():
        read = list(csv.reader(made.csv_text(table).splitlines()))
        assert read[0] == list(table.frame.columns)
        assert len(read) == len(table.frame) + 1
