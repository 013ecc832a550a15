"""What holds for every figure: axes in, axes out; units; nothing outside; the same bytes."""

import hashlib
import os
import re
import subprocess
import sys
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import pytest
from figure_samples import FIGURES

from slackopt.plotting import save_figure, style

NAMES = sorted(FIGURES)
NO_UNIT = {"layer"}  # a label, not a quantity


@pytest.mark.parametrize("name", NAMES)
def test_the_given_axes_are_used_and_returned(name: str) -> None:
    figure, (first, second) = plt.subplots(2)
    assert FIGURES[name](second) is second
    assert plt.get_fignums() == [figure.number]
    assert second.has_data() or second.collections
    assert not first.has_data()


@pytest.mark.parametrize("name", NAMES)
def test_without_axes_there_is_a_new_figure_of_the_width_of_the_style(name: str) -> None:
    open_axes = plt.subplots()[1]
    with style("paper"):
        ax = FIGURES[name](None)
    assert ax is not open_axes
    assert not open_axes.has_data()
    assert len(plt.get_fignums()) == 2
    assert ax.figure.get_size_inches()[0] == pytest.approx(3.3)


@pytest.mark.parametrize("name", NAMES)
def test_no_setting_of_matplotlib_is_left_changed(name: str) -> None:
    before = dict(mpl.rcParams)
    FIGURES[name](None)
    with style("slide"):
        FIGURES[name](None)
    assert dict(mpl.rcParams) == before


@pytest.mark.parametrize("name", NAMES)
def test_axes_carry_names_and_units(name: str) -> None:
    ax = FIGURES[name](None)
    labels = [ax.get_xlabel(), ax.get_ylabel()]
    if name in ("timeline", "decision-map"):
        assert ax.get_yticklabels(), "the rows have names"
        labels = labels[:1]
    for label in labels:
        assert label
        if name == "performance-profile" and "τ to" in label:
            assert label == "factor τ to the best method"  # a plain number
        elif label not in NO_UNIT:
            assert re.search(r"\((%|ms|s|GiB|MiB|GB/s|% of .*|factor)\)$", label), label


@pytest.mark.parametrize("kind", ["paper", "slide"])
@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_cut_off_and_the_legend_covers_nothing(name: str, kind: str) -> None:
    with style(kind):  # type: ignore[arg-type]
        ax = FIGURES[name](None)
        figure = ax.figure
        figure.canvas.draw()
        box = figure.get_tightbbox()
        width, height = figure.get_size_inches()
        assert box.x0 >= -0.01, "cut off on the left"
        assert box.x1 <= width + 0.01, "cut off on the right"
        assert box.y0 >= -0.01, "cut off below"
        assert box.y1 <= height + 0.01, "cut off above"
        legend = ax.get_legend()
        if legend is not None:
            assert legend.get_window_extent().y0 >= ax.bbox.y1 - 1
        assert ax.bbox.width > 0.4 * figure.bbox.width, "room is left for the data"
        assert ax.bbox.height > 0.4 * figure.bbox.height


@pytest.mark.parametrize("name", NAMES)
def test_letters_on_an_axis_do_not_overlap(name: str) -> None:
    with style("paper"):
        ax = FIGURES[name](None)
        ax.figure.canvas.draw()
        for axis in (ax.xaxis, ax.yaxis):
            shown = [t for t in axis.get_ticklabels() if t.get_text() and t.get_visible()]
            boxes = [text.get_window_extent() for text in shown]
            ends = (
                [(box.x0, box.x1) for box in boxes]
                if axis is ax.xaxis
                else [(box.y0, box.y1) for box in boxes]
            )
            for (_, end), (start, _) in zip(sorted(ends), sorted(ends)[1:], strict=False):
                assert start >= end - 2, f"{axis.axis_name}: labels overlap"  # 2 px of line height


def test_panels_beside_each_other_do_not_touch() -> None:
    with style("paper", width_in=7.0):
        figure, grid = plt.subplots(2, 2, figsize=(7, 5), layout="constrained")
        names = ("timeline", "freed-memory", "decision-map", "gap-over-budget")
        for name, ax in zip(names, grid.flat, strict=True):
            FIGURES[name](ax)
        figure.canvas.draw()
        width, height = figure.bbox.size
        boxes = [ax.get_tightbbox() for ax in grid.flat]
        for box in boxes:
            assert box.x0 >= -1
            assert box.y0 >= -1
            assert box.x1 <= width + 1
            assert box.y1 <= height + 1
        for i, one in enumerate(boxes):
            for other in boxes[i + 1 :]:
                overlap = one.intersection(one, other)
                assert overlap is None or min(overlap.width, overlap.height) < 2


def test_saved_bytes_are_the_same_in_every_run(tmp_path: Path) -> None:
    """Two processes, with two seeds of Python's hashes, write the same bytes."""
    code = (
        "import sys; sys.path[:0] = sys.argv[2:]\n"
        "import matplotlib; matplotlib.use('Agg')\n"
        "from pathlib import Path\n"
        "from figure_samples import FIGURES\n"
        "from slackopt.plotting import save_figure, style\n"
        "with style('paper'):\n"
        "    for name, draw in FIGURES.items():\n"
        "        for suffix in ('pdf', 'svg', 'png') if 'map' in name else ('pdf',):\n"
        "            save_figure(draw(None).figure, Path(sys.argv[1]) / f'{name}.{suffix}')\n"
        "        matplotlib.pyplot.close('all')\n"
    )
    here = Path(__file__).resolve().parent
    digests = []
    for seed in ("1", "2"):
        folder = tmp_path / seed
        folder.mkdir()
        subprocess.run(
            [sys.executable, "-c", code, str(folder), str(here), str(here.parent)],
            check=True,
            env=os.environ | {"PYTHONHASHSEED": seed, "SOURCE_DATE_EPOCH": seed},
        )
        files = sorted(folder.iterdir())
        assert len(files) == len(FIGURES) + 2 * sum("map" in name for name in FIGURES)
        digests.append({f.name: hashlib.sha256(f.read_bytes()).hexdigest() for f in files})
    assert digests[0] == digests[1]


def test_a_saved_file_says_nothing_of_time_and_version(tmp_path: Path) -> None:
    figure = FIGURES["memory"](None).figure
    for suffix in ("pdf", "svg", "png"):
        path = tmp_path / f"figure.{suffix}"
        save_figure(figure, path)
        data = path.read_bytes()
        for word in (b"CreationDate", b"Matplotlib", b"dc:date", b"Software"):
            assert word not in data, (suffix, word)
