"""Features of instances and the index."""

import csv
import io
import re
from pathlib import Path

import pytest

from slackopt.device import Device
from slackopt.graph import Graph, Op, Tensor
from slackopt.instance import Instance
from slackopt.library.features import Regime, features
from slackopt.library.hardness import Hardness
from slackopt.library.index import (
    BEST_COLUMNS,
    COLUMNS,
    csv_text,
    html_text,
    library_features,
    main,
    outdated,
    write_index,
)
from slackopt.library.making import Recipe, write_family
from slackopt.library.records import BestEntry, BoundClaim, Origin, PlanClaim

GB = 10**9


def step() -> Graph:
    """Two tensors of 100 and 60 bytes wait through a step of 2 x 100 ns forward and backward."""
    return Graph(
        name="two layers",
        ops=(
            Op(name="f0", phase="forward", duration_ns=100, outputs=("a",)),
            Op(name="f1", phase="forward", duration_ns=100, inputs=("a",), outputs=("b",)),
            Op(name="loss", phase="forward", duration_ns=1, outputs=("c",)),
            Op(name="b1", phase="backward", duration_ns=100, inputs=("b", "c")),
            Op(name="b0", phase="backward", duration_ns=50, inputs=("a",)),
        ),
        tensors=(
            Tensor(name="a", size_bytes=100),
            Tensor(name="b", size_bytes=60),
            Tensor(name="c", size_bytes=5),
        ),
    )


def instance(budget: int, bandwidth: int) -> Instance:
    device = Device(name="link", d2h_bytes_per_s=bandwidth * GB, h2d_bytes_per_s=bandwidth * GB)
    return Instance.from_graph(step(), device=device, budget=budget, name="tiny")


def test_features_of_a_hand_count() -> None:
    row = features(instance(165 - 50, 1), family="fam", file="fam/tiny.json")
    assert (row.family, row.instance, row.file) == ("fam", "tiny", "fam/tiny.json")
    assert (row.ops, row.tensors, row.candidates) == (5, 3, 2)
    assert row.unlimited_peak_bytes == 165
    assert row.budget_share == pytest.approx(115 / 165)
    assert row.least_budget_share == pytest.approx(160 / 165)  # f1 needs a and b
    assert row.ideal_ns == 351
    # 1 byte a ns: 201 out during forward, 150 in during backward; 160 bytes of candidates.
    assert row.hideable_share == pytest.approx(150 / 50)
    assert row.regime == Regime.COMPUTE_BOUND
    assert row.gap is None
    assert row.hardness is None
    assert not row.shared_link


def test_regimes() -> None:
    slow = Device(name="slow", d2h_bytes_per_s=GB // 10, h2d_bytes_per_s=GB // 10)

    def regime(budget: int) -> Regime:
        return features(Instance.from_graph(step(), device=slow, budget=budget)).regime

    assert regime(165) == Regime.NONE
    assert regime(150) == Regime.COMPUTE_BOUND  # 15 bytes of 15
    assert regime(149) == Regime.BALANCED
    assert regime(135) == Regime.BALANCED  # 15 of 30
    assert regime(134) == Regime.LINK_BOUND


def test_best_known() -> None:
    asked = instance(160, 1)
    origin = Origin(method="exact", slackopt_version="1", by="us", date="2026-01-01", reached_s=2)
    entry = BestEntry(
        instance="tiny",
        instance_sha256=asked.sha256,
        ideal_ns=asked.ideal_ns,
        budget_bytes=160,
        plan=PlanClaim(makespan_ns=400, file="best/p.json.gz", sha256="0" * 64, origin=origin),
        bound=BoundClaim(lower_bound_ns=400, origin=origin),
        gap=0.0,
    )
    row = features(asked, best=entry)
    assert (row.makespan_ns, row.lower_bound_ns, row.gap) == (400, 400, 0.0)
    assert row.hardness == Hardness.EASY
    other = entry.model_copy(update={"instance_sha256": "1" * 64})
    assert features(asked, best=other).makespan_ns is None


def library(tmp_path: Path) -> Path:
    for name in ("beta", "alpha & co"):
        (tmp_path / name).mkdir()
        recipe = Recipe("one<two>", step, "a100-pcie4", "0.98")
        write_family(tmp_path / name, [recipe])
    return tmp_path


def test_index_as_csv(tmp_path: Path) -> None:
    rows = library_features(library(tmp_path))
    read = list(csv.DictReader(io.StringIO(csv_text(rows))))
    assert [row["family"] for row in read] == ["alpha & co", "beta"]
    assert tuple(read[0]) == COLUMNS
    assert read[0]["file"] == "alpha & co/one<two>.json.gz"
    assert read[0]["budget_bytes"] == str(int(0.98 * 165))
    assert read[0]["shared_link"] == "false"
    assert [read[0][name] for name in BEST_COLUMNS] == [""] * 4


def test_index_as_html(tmp_path: Path) -> None:
    text = html_text(library_features(library(tmp_path)))
    assert "one&lt;two&gt;" in text
    assert "one<two>" not in text
    assert 'href="alpha%20%26%20co/one%3Ctwo%3E.json.gz"' in text
    headers = re.findall(r"<th[ >]", text)
    cells = re.findall(r"<td[ >]", text)
    assert len(cells) == 2 * len(headers)
    assert "http" not in text


def test_script(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = library(tmp_path)
    assert main(folder, ["--check"]) == 1
    assert "out of date: index.csv, index.html" in capsys.readouterr().out
    assert main(folder, []) == 0
    assert main(folder, ["--check"]) == 0
    (folder / "index.csv").write_text("family\n")
    assert outdated(folder) == ["index.csv"]
    assert len(write_index(folder)) == 2
    assert outdated(folder) == []
