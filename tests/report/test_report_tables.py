"""Tables for papers, pages and other programs: structure, escapes, alignment, round trips."""

import base64
import csv
import io
import re
from html.parser import HTMLParser
from pathlib import Path

import pandas as pd
import pytest
from made_runs import run

from slackopt.batch import write_run
from slackopt.errors import InputError
from slackopt.report import (
    csv_bytes,
    figure_data,
    html_page,
    json_rows,
    latex_tables,
    make_report,
    parquet_bytes,
    write_figures,
)
from slackopt.report.columns import INSTANCES, shown_table

NASTY = r"50% & <b>_{x}^2</b> \o/ #1 $y$ ~"
PATH = ((0.5, 150, None), (1.0, 150, 100), (3.0, 110, 100))


@pytest.fixture
def batch(tmp_path: Path) -> Path:
    for run_ in (
        run(NASTY, "milp", makespan=110, bound=100, trajectory=PATH, status="optimal"),
        run(NASTY, "cpsat", makespan=120, bound=100, trajectory=PATH, status="optimal"),
        run(NASTY, "slackswap", makespan=1234567, trajectory=PATH[:1]),
        run("two", "milp", makespan=130, bound=130, budget=0.7, trajectory=PATH),
        run("two", "cpsat", outcome="crash", detail=f"{NASTY}\x1b[31m", result=False, budget=0.7),
        run("two", "slackswap", makespan=150, budget=0.7),
    ):
        write_run(tmp_path, run_)
    return tmp_path


def test_latex_is_whole_and_escaped(batch: Path) -> None:
    text = latex_tables(make_report(batch))
    for name in ("table", "tabular"):
        assert text.count(rf"\begin{{{name}}}") == text.count(rf"\end{{{name}}}") == 2
    for rule in ("toprule", "midrule", "bottomrule"):
        assert text.count(f"\\{rule}") == 2
    escaped = (
        r"50\% \& <b>\_\{x\}\textasciicircum 2</b> \textbackslash o/ \#1 \$y\$ \textasciitilde"
    )
    assert escaped in text.replace(r"\textasciicircum  ", r"\textasciicircum ")
    # Outside of the preamble's comment no sign that TeX reads as a command is left bare.
    for body in re.findall(r"\\midrule\n(.*?)\\bottomrule", text, re.S):
        rows = body.strip().splitlines()
        columns = {len(re.findall(r"(?<!\\)&", row)) for row in rows}
        assert len(columns) == 1
        assert all(row.endswith(r"\\") for row in rows)
        assert not re.search(r"(?<!\\)[%#$_{}]", re.sub(r"\\\w+ ?(\{\})?", "", body))
    spec = re.findall(r"\\begin\{tabular\}\{([lr]+)\}", text)
    assert spec[0].startswith("lr")
    assert "\x1b" not in text


def test_points_stand_below_each_other(batch: Path) -> None:
    report = make_report(batch)
    kept, cells = shown_table(report.instances, INSTANCES)
    assert "device" not in kept
    assert "runs" not in kept
    for name, how in kept.items():
        if how.digits is not None:
            digits = {len(cell.split(".")[1]) for cell in cells[name] if cell != "-"}
            assert digits == {how.digits}
    assert set(cells["gap"][cells["method"] == "slackswap"]) == {"-"}


def test_a_long_latex_table_runs_over_pages(tmp_path: Path) -> None:
    for i in range(50):
        write_run(tmp_path, run(f"i{i:02}", "milp", makespan=110))
    text = latex_tables(make_report(tmp_path), ["instances"])
    assert text.count(r"\begin{longtable}") == text.count(r"\end{longtable}") == 1
    assert r"\endhead" in text
    assert r"\begin{table}" not in text


class Page(HTMLParser):
    """Counts tags, and keeps images and what loads something from elsewhere."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.images: list[str] = []
        self.tags: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag not in ("meta", "img", "link", "br"):
            self.open.append(tag)
        if tag == "img":
            self.images.append(dict(attributes)["src"] or "")
        assert tag not in ("script", "link", "b"), tag

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_page_stands_alone(batch: Path) -> None:
    (batch / "runs" / "notes.txt").write_text("mine")
    text = html_page(make_report(batch))
    page = Page()
    page.feed(text)
    assert page.open == []
    assert page.tags.count("table") == 3  # methods, instances, failed runs
    assert len(page.images) >= 5
    for source in page.images:
        kind, data = source.split(",", 1)
        assert kind == "data:image/svg+xml;base64"
        assert b"<svg" in base64.b64decode(data)
    assert "http" not in re.sub(r"base64,[^\"]*", "", text)
    assert "&lt;b&gt;_{x}^2&lt;/b&gt;" in text
    assert "Files skipped: 1" in text
    assert "\x1b" not in text


def test_csv_and_parquet_read_back(batch: Path) -> None:
    report = make_report(batch)
    rows = list(csv.DictReader(io.StringIO(csv_bytes(report.runs).decode())))
    assert len(rows) == 6
    assert {row["instance"] for row in rows} == {NASTY, "two"}
    by_key = {row["key"]: row for row in rows}
    for _, row in report.runs.iterrows():
        assert float(by_key[row["key"]]["gap"] or "nan") == pytest.approx(row["gap"], nan_ok=True)
    parquet = pytest.importorskip("pyarrow.parquet")
    table = parquet.read_table(io.BytesIO(parquet_bytes(report.runs))).to_pandas()
    assert table["key"].tolist() == report.runs["key"].tolist()
    assert table["makespan_ns"].max() == 1234567
    assert table["trajectory"].iloc[0].startswith("[")
    assert parquet_bytes(report.runs) == parquet_bytes(report.runs)


def test_json_rows_have_null_for_unknown(batch: Path) -> None:
    rows = json_rows(make_report(batch).methods)
    rule = next(row for row in rows if row["method"] == "slackswap")
    assert rule["gap"] is None
    assert rule["with_plan"] == 2


def test_figures_are_written_with_their_data(batch: Path, tmp_path: Path) -> None:
    report = make_report(batch)
    folder = tmp_path / "figures"
    written = write_figures(report, folder)
    names = [item.name for item in figure_data(report)]
    assert names == [
        *("profile-makespan", "profile-added-time", "profile-time"),
        *("gap-over-time", "distance-over-time", "gap-over-budget"),
    ]
    assert sorted(path.name for path in written) == sorted(
        f"{name}.{suffix}" for name in names for suffix in ("png", "pdf", "csv")
    )
    assert sorted(written) == sorted(folder.iterdir())
    for path in written:
        head = path.read_bytes()[:8]
        assert head.startswith({".png": b"\x89PNG", ".pdf": b"%PDF"}.get(path.suffix, b""))
        assert path.stat().st_size > 20
    table = pd.read_csv(folder / "gap-over-budget.csv", index_col="budget_share")
    assert table.index.tolist() == [0.5, 0.7]
    first = {path: path.read_bytes() for path in written}
    write_figures(report, folder)
    assert {path: path.read_bytes() for path in written} == first


def test_methods_that_never_have_a_plan_are_not_in_profiles_of_plans(tmp_path: Path) -> None:
    write_run(tmp_path, run("a", "bound", bound=100))
    write_run(tmp_path, run("a", "milp", makespan=110))
    profiles = {item.name: item.frame for item in figure_data(make_report(tmp_path))}
    assert list(profiles["profile-makespan"].columns) == ["milp"]
    assert "gap-over-budget" not in profiles  # one budget only


def test_a_report_of_nothing_is_refused(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    with pytest.raises(InputError, match="no run in it"):
        make_report(tmp_path)
    (tmp_path / "runs" / "x.json").write_text("{")
    with pytest.raises(InputError, match=r"1 files are no sound runs, the first: .*x\.json"):
        make_report(tmp_path)


def test_methods_can_be_chosen_and_gaps_stay(batch: Path) -> None:
    report = make_report(batch, methods=["slackswap"])
    assert set(report.methods["method"]) == {"slackswap"}
    assert report.runs["best_lower_bound_ns"].tolist() == [100, 130]
    with pytest.raises(InputError, match="no runs of method 'vdnn'; it has: cpsat, milp, slacks"):
        make_report(batch, methods=["vdnn"])


def test_a_proof_that_no_plan_exists_is_shown(tmp_path: Path) -> None:
    write_run(tmp_path, run("tight", "bound", status="infeasible"))
    write_run(tmp_path, run("tight", "slackswap"))
    _, cells = shown_table(make_report(tmp_path).instances, INSTANCES)
    assert cells["makespan_ns"].tolist() == ["infeasible", "-"]
