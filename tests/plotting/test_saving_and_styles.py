"""Files, styles and looks."""

import os
import subprocess
import sys
from itertools import combinations
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import pytest

from slackopt.errors import InputError
from slackopt.plotting import figure_bytes, line_looks, looks, save_figure, style, timeline
from slackopt.plotting.memory import (
    FOR_RERUNS,
    FREED_BY_RECOMPUTE,
    FREED_BY_SWAP,
    NEEDED,
)


def lightness(color: str) -> float:
    red, green, blue = mpl.colors.to_rgb(color)
    return 0.299 * red + 0.587 * green + 0.114 * blue


@pytest.mark.parametrize("name", ["figure.jpg", "figure", "figure.eps"])
def test_another_kind_of_file_is_refused_and_nothing_written(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match=r"\.pdf, \.svg or \.png"):
        save_figure(plt.figure(), tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_bytes_are_those_of_the_file(tmp_path: Path) -> None:
    figure = plt.figure(figsize=(1, 1))
    for kind in ("pdf", "svg", "png"):
        save_figure(figure, tmp_path / f"figure.{kind}")
        assert figure_bytes(figure, kind) == (tmp_path / f"figure.{kind}").read_bytes()
    with pytest.raises(InputError, match="choose one of: pdf, png, svg"):
        figure_bytes(figure, "jpg")


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="doesn't exist"):
        save_figure(plt.figure(), tmp_path / "missing" / "figure.pdf")


def test_a_png_has_the_dots_per_inch_of_the_style(tmp_path: Path) -> None:
    path = tmp_path / "figure.png"
    for kind, width in (("paper", 3.3 * 300), ("slide", 10 * 150)):
        with style(kind):  # type: ignore[arg-type]
            save_figure(plt.figure(), path)
        assert plt.imread(path).shape[1] == pytest.approx(width, abs=1)
    save_figure(plt.figure(figsize=(2, 1)), path, dpi=50)
    assert plt.imread(path).shape[:2] == (50, 100)


def test_a_pdf_has_no_type_3_fonts(tmp_path: Path) -> None:
    with style("paper"):
        figure, ax = plt.subplots()
        ax.set_xlabel("time (ms)")
        save_figure(figure, tmp_path / "figure.pdf")
    assert b"/Type3" not in (tmp_path / "figure.pdf").read_bytes()


def test_a_style_ends_with_its_block_also_after_an_error() -> None:
    before = dict(mpl.rcParams)
    try:
        with style("slide"):
            assert mpl.rcParams["font.size"] == 18
            raise ZeroDivisionError
    except ZeroDivisionError:
        pass
    assert dict(mpl.rcParams) == before


def test_the_styles_have_the_widths_they_say() -> None:
    with style("paper"):
        assert mpl.rcParams["figure.figsize"][0] == 3.3
        assert mpl.rcParams["font.size"] == 8
    with style("paper", width_in=7.0):
        assert mpl.rcParams["figure.figsize"][0] == 7.0


def test_an_unknown_style_is_refused() -> None:
    with pytest.raises(InputError, match="choose one of: paper, slide"), style("poster"):  # type: ignore[arg-type]
        pass
    with pytest.raises(InputError, match="above 0"), style("paper", width_in=0):
        pass


def test_lines_of_many_methods_all_differ() -> None:
    names = [f"method {i}" for i in range(280)]
    found = line_looks(names)
    assert list(found) == names
    seen = {(look.color, str(look.linestyle), look.marker) for look in found.values()}
    assert len(seen) == len(names)
    assert line_looks(["a", "b", "a"]) == line_looks(["a", "b"])


def test_neighbouring_lines_differ_without_colour() -> None:
    shown = list(line_looks(map(str, range(20))).values())
    for i, look in enumerate(shown):
        for other in shown[i + 1 : i + 5]:
            assert look.linestyle != other.linestyle
            assert look.marker != other.marker


AREAS = {
    "compute": (
        *(timeline.FORWARD, timeline.BACKWARD, timeline.RERUN),
        *(timeline.WAIT_SWAP_IN, timeline.WAIT_MEMORY),
    ),
    "decisions": tuple(looks.DECISIONS.values()),
    "memory": (NEEDED, FOR_RERUNS, FREED_BY_SWAP, FREED_BY_RECOMPUTE),
}


@pytest.mark.parametrize("group", sorted(AREAS))
def test_areas_differ_in_lightness_or_hatch(group: str) -> None:
    """In print without colour, all kinds of one figure can be told apart."""
    for one, other in combinations(AREAS[group], 2):
        assert abs(lightness(one.face) - lightness(other.face)) > 0.1 or one.hatch != other.hatch


def test_a_notebook_stays_interactive_when_its_first_figure_is_in_a_style(tmp_path: Path) -> None:
    # A notebook's backend turns interactive mode on when the first figure loads it.
    (tmp_path / "like_a_notebook.py").write_text(
        "import matplotlib\nfrom matplotlib.backends.backend_agg import *\n"
        "from matplotlib.backends.backend_agg import FigureCanvasAgg as FigureCanvas\n"
        "matplotlib.interactive(True)\n",
        encoding="utf-8",
    )
    code = (
        "import matplotlib.pyplot as plt\nfrom slackopt.plotting import style\n"
        "with style():\n    plt.figure()\nprint(plt.isinteractive())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"MPLBACKEND": "module://like_a_notebook", "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "True\n"
