"""The page of figures: its code draws its pictures, and it shows every kind of figure."""

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import matplotlib.pyplot as plt
import pytest

from slackopt import plotting

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE = (DOCS / "plotting.md").read_text("utf-8")


@pytest.fixture
def maker() -> ModuleType:
    """Return docs/figures/make.py as a module."""
    spec = importlib.util.spec_from_file_location("make_figures", DOCS / "figures" / "make.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_figure_is_on_the_page() -> None:
    functions = [name for name in plotting.__all__ if name.startswith("plot_")]
    assert functions
    assert [name for name in functions if name not in PAGE] == []


def test_every_picture_is_there_and_small() -> None:
    pictures = re.findall(r"\]\((figures/[\w-]+\.png)\)", PAGE)
    assert len(set(pictures)) == len(pictures) > 8
    sizes = [(DOCS / picture).stat().st_size for picture in pictures]
    assert max(sizes) < 150_000
    assert sum(sizes) < 800_000


def test_every_picture_has_its_code(maker: ModuleType) -> None:
    drawn = [picture for picture, _ in maker.steps(PAGE) if picture is not None]
    assert drawn == [name.split("/")[1] for name in re.findall(r"\]\((figures/[^)]+)\)", PAGE)]


@pytest.mark.slow
def test_the_code_of_the_page_draws_its_pictures(maker: ModuleType, tmp_path: Path) -> None:
    """The same pictures as those of the repository, up to the fonts of another platform."""
    drawn = maker.gallery(tmp_path)
    for name in drawn:
        new, old = plt.imread(tmp_path / name), plt.imread(DOCS / "figures" / name)
        assert new.shape == old.shape, f"{name}: draw it again by python docs/figures/make.py"
        assert new.shape[1] == pytest.approx(3.3 * maker.DPI, abs=1)
        differs = (abs(new - old) > 0.2).any(axis=2).mean()
        assert differs < 0.02, f"{name}: draw it again by python docs/figures/make.py"
