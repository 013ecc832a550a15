"""What the README and the documentation say is run, read and looked up."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import slackopt as so
from slackopt.batch import Run, Task
from slackopt.library import Best, BestEntry, Certificate, read_best
from slackopt.published import SLACKSWAP_RATIOS
from slackopt.records import Record

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted(
    [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("instances/**/*.md")],
    key=str,
)


def blocks(page: Path, language: str) -> list[str]:
    """Return the code blocks of a page in one language."""
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text("utf-8"), re.M | re.S)


def anchors(page: Path) -> set[str]:
    """Return what a link may name after ``#``, as the usual renderers make it of headings."""
    headings = re.findall(r"^#+ (.+)$", page.read_text("utf-8"), re.M)
    kept = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings)
    return {heading.replace(" ", "-") for heading in kept}


@pytest.mark.slow
def test_the_python_examples_of_the_readme_run(tmp_path: Path) -> None:
    examples = blocks(ROOT / "README.md", "python")
    assert examples
    for example in examples:
        subprocess.run(
            [sys.executable, "-W", "error::UserWarning", "-c", example],
            cwd=tmp_path,
            env=os.environ | {"MPLBACKEND": "Agg"},
            check=True,
            capture_output=True,
        )
    assert so.read_result(tmp_path / "result.json").plan is not None
    assert (tmp_path / "step.png").stat().st_size > 10_000


@pytest.mark.slow
def test_the_shell_example_of_the_readme_runs(tmp_path: Path) -> None:
    text = (ROOT / "README.md").read_text("utf-8")
    (lines,) = re.findall(r"```\n(slackopt profile.*?)```", text, re.S)
    for line in lines.strip().splitlines():
        command = [sys.executable, "-m", *line.split()]
        subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    assert json.loads((tmp_path / "trace.json").read_text("utf-8"))["traceEvents"]


def test_the_example_files_are_valid(tmp_path: Path) -> None:
    instance_text, plan_text = blocks(ROOT / "docs" / "file-formats.md", "json")
    (tmp_path / "instance.json").write_text(instance_text, "utf-8")
    instance = so.read_instance(tmp_path / "instance.json")
    (tmp_path / "plan.json").write_text(plan_text.replace("IDENTITY", instance.sha256), "utf-8")
    plan = so.read_plan(tmp_path / "plan.json")
    timeline = so.simulate(instance, plan)
    so.check_timeline(timeline)
    assert not so.simulate(instance, so.Plan.for_instance(instance, {})).feasible, "it must evict"


RECORDS = [so.Graph, so.Op, so.Tensor, so.Instance, so.Device, so.Plan, so.Result]
RECORDS += [Run, Task, Best, BestEntry, Certificate]


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.__name__)
def test_every_field_of_a_file_is_documented(record: type[Record]) -> None:
    page = (ROOT / "docs" / "file-formats.md").read_text("utf-8")
    missing = [field for field in record.model_fields if f"`{field}`" not in page]
    assert missing == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text("utf-8")):
        if re.match(r"[a-z]+://", target):
            continue
        file, _, anchor = target.partition("#")
        linked = (page.parent / file).resolve() if file else page
        assert linked.exists(), f"{page.name}: {target}"
        if anchor:
            assert anchor in anchors(linked), f"{page.name}: {target}"


def test_the_profiles_page_has_the_figures_of_the_catalogue() -> None:
    page = (ROOT / "docs" / "profiles.md").read_text("utf-8")
    for name in so.profiles.accelerator_names():
        chip = so.profiles.get_accelerator(name)
        percents = (chip.matmul_percent, chip.attention_percent, chip.memory_percent)
        row = f"{chip.memory_bytes_per_s / 1e9:g} | {' | '.join(map(str, percents))} |"
        assert re.search(rf"^\| `{name}` \|.*\| {re.escape(row)}$", page, re.M), name
    for name in so.profiles.device_names():
        assert f"`{name}`" in page
    for name in so.profiles.preset_names():
        model = so.profiles.get_preset(name)
        shape = (model.num_layers, model.hidden, model.heads, model.ffn, model.vocab)
        row = f"| `{name}` | {' | '.join(map(str, shape))} | {model.batch} x {model.seq} |"
        assert row in page


def test_the_tables_of_the_readme_agree_with_what_is_known() -> None:
    text = (ROOT / "README.md").read_text("utf-8")
    found = re.findall(r"^\| `([\w-]+)-(paper|eager|flash)` \|(.*)\|$", text, re.M)
    kinds = [kind for _, kind, _ in found]
    assert kinds == ["paper"] * 3 + ["eager"] * 3 + ["flash"] * 3  # the published table first
    known = {e.instance: e for e in read_best(ROOT / "instances" / "slackswap").entries}
    out_of_reach = 0
    gains: dict[str, list[float]] = {"paper": [], "eager": [], "flash": []}
    most = 0.0
    for model, kind, line in found:
        paper, timeline, aggregate, exact, gain, upper, gap = map(float, line.split("|"))
        assert paper == pytest.approx(100 * SLACKSWAP_RATIOS[model])
        assert max(timeline, aggregate) <= exact <= upper
        assert gain == pytest.approx(exact - timeline, abs=0.011)
        assert gap == pytest.approx(100 * (upper / exact - 1), abs=0.02)
        # No known plan is better than what is said to be proved, and the other way round.
        best = known[f"{model}-{kind}"]
        assert 100 * best.ideal_ns / best.makespan_ns <= upper
        assert exact <= 100 * best.ideal_ns / best.lower_bound_ns + 0.005
        gains[kind].append(gain)
        if kind == "paper":
            assert timeline == pytest.approx(paper, abs=0.5)
            most = max(most, upper - timeline)
        else:
            out_of_reach += paper > upper
    assert out_of_reach == 5
    assert "on five of these six, no plan" in text
    assert f"{min(gains['paper']):.2f} to {max(gains['paper']):.2f} points were found" in text
    assert f"no plan gains more than {most:.2f}" in text
    assert f"leaves up to {max(gains['eager'] + gains['flash']):.1f} points" in text


def test_the_changelog_keeps_its_form() -> None:
    text = (ROOT / "CHANGELOG.md").read_text("utf-8")
    assert text.startswith("# Changelog\n")
    versions = re.findall(r"^## (.+)$", text, re.M)
    assert versions[0] == "[Unreleased]"
    dated = r"\[(\d+\.\d+\.\d+)\] - \d{4}-\d\d-\d\d"
    released = [re.fullmatch(dated, version) for version in versions[1:]]
    assert all(released), "## [1.2.3] - 2026-12-31"
    numbers = [tuple(map(int, found[1].split("."))) for found in released if found]
    assert numbers == sorted(numbers, reverse=True), "the newest first"
    groups = set(re.findall(r"^### (.+)$", text, re.M))
    assert groups <= {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}
    lines = [line for line in text.splitlines() if line.startswith("- ")]
    assert len(lines) == len(set(lines))
