"""The notebooks: run from top to bottom on small settings, and in step with their .ipynb files."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

nbformat = pytest.importorskip("nbformat", reason="the notebooks' packages are not installed")
pytest.importorskip("jupytext", reason="the notebooks' packages are not installed")
pytest.importorskip("nbclient", reason="the notebooks' packages are not installed")
pytest.importorskip("nbconvert", reason="the notebooks' packages are not installed")
pytest.importorskip("ipykernel", reason="the notebooks' packages are not installed")

ROOT = Path(__file__).resolve().parents[2]
RUN = ROOT / "notebooks" / "run.py"
NAMES = sorted(path.stem for path in RUN.parent.glob("[0-9]*.py"))


def load_runner() -> ModuleType:
    spec = importlib.util.spec_from_file_location("notebooks_run", RUN)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


runner = load_runner()


def run(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(RUN), *words],
        capture_output=True,
        text=True,
        timeout=540,
        check=False,
        env=os.environ | environment,
    )


def test_the_nine_notebooks_are_there() -> None:
    assert [name[:2] for name in NAMES] == [f"{number}-" for number in range(1, 10)]


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_runs_from_top_to_bottom(name: str, tmp_path: Path) -> None:
    lacks = runner.missing(RUN.with_name(f"{name}.py"))
    if lacks:
        pytest.skip(f"needs {' and '.join(lacks)}")
    done = run(name, "--small", "--out", str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    executed = nbformat.read(tmp_path / f"{name}.ipynb", as_version=4)
    shown = [
        output
        for cell in executed.cells
        for output in cell.get("outputs", [])
        if "image/png" in output.get("data", {})
    ]
    # The last cell holds the checks; it says so when all of them hold.
    assert executed.cells[-1].outputs[0].text == "all checks hold\n"
    saved = sorted(path.name for path in (tmp_path / "figures").iterdir())
    assert len(shown) * 2 == len(saved), "every figure is shown, and saved as PDF and PNG"
    assert saved
    assert all(path.startswith(name[:2]) for path in saved)
    assert (tmp_path / f"{name}.html").stat().st_size > 0


@pytest.mark.parametrize("name", NAMES)
def test_ipynb_is_in_step_with_its_text(name: str) -> None:
    source = RUN.with_name(f"{name}.py")
    stored = source.with_suffix(".ipynb").read_text("utf-8")
    assert stored == runner.clean(source), "write it again: python notebooks/run.py --write"


@pytest.mark.parametrize("name", NAMES)
def test_ipynb_is_clean_and_valid(name: str) -> None:
    path = RUN.with_name(f"{name}.ipynb")
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    assert set(notebook.metadata) <= {"kernelspec", "slackopt"}
    for cell in notebook.cells:
        assert not cell.get("outputs")
        assert cell.get("execution_count") is None
        assert cell.metadata == {}


@pytest.mark.parametrize("name", NAMES)
def test_has_the_parts_that_every_notebook_has(name: str) -> None:
    cells = json.loads(RUN.with_name(f"{name}.ipynb").read_text("utf-8"))["cells"]
    texts = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown"]
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    assert texts[0].startswith("# ")
    assert "You will learn" in texts[0] or "you will learn" in texts[0].lower()
    assert "## Checks" in texts[-1]
    assert 'os.environ.get("SLACKOPT_NOTEBOOKS") == "small"' in code[0]
    assert "assert " in code[-1]
    # Figures come from slackopt.plotting, so that they print well.
    assert not any("plt." in cell or "import matplotlib.pyplot" in cell for cell in code)


def test_a_failing_notebook_is_told_and_the_others_run(tmp_path: Path) -> None:
    folder = tmp_path / "notebooks"
    folder.mkdir()
    (folder / "run.py").write_text(RUN.read_text("utf-8"), encoding="utf-8")
    (folder / "1-bad.py").write_text("# %%\nassert 1 + 1 == 3, 'no'\n", encoding="utf-8")
    (folder / "2-good.py").write_text("# %%\nprint('fine')\n", encoding="utf-8")
    (folder / "3-poor.py").write_text(
        "# ---\n# jupyter:\n#   slackopt:\n#     needs: [no_such_package]\n# ---\n\n# %%\n1\n",
        encoding="utf-8",
    )
    (folder / "4-dead.py").write_text("# %%\nimport os\n\nos._exit(1)\n", encoding="utf-8")
    done = subprocess.run(
        [sys.executable, str(folder / "run.py"), "--out", str(tmp_path / "out")],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 1
    assert "1-bad: failed" in done.stderr
    assert "AssertionError" in done.stderr
    assert "2-good: " in done.stdout
    assert "4-dead: failed" in done.stderr
    assert "failed: 1-bad, 4-dead; see " in done.stderr
    assert "3-poor: skipped, needs no_such_package" in done.stdout
    assert (tmp_path / "out" / "1-bad.ipynb").exists()


def test_an_unknown_name_is_refused(tmp_path: Path) -> None:
    done = run("99", "--out", str(tmp_path / "out"))
    assert done.returncode != 0
    assert "choose one of: 1-quick-start" in done.stderr
    assert not (tmp_path / "out").exists()
