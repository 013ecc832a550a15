"""The figures of a report, drawn by `slackopt.plotting`."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl

from slackopt.errors import InputError
from slackopt.files import check_writable, write_bytes
from slackopt.report.contents import FigureData, Report, figure_data

DISTANCE_LABEL = "distance to the best bound (%)"


def write_figures(report: Report, folder: Path) -> list[Path]:
    """Write every figure as PNG and PDF, and what it shows as CSV; return the paths.

    Raises
    ------
    InputError
        If the folder can't be made or written to.
    """
    from slackopt.plotting import save_figure, style

    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{folder}: can't be made: {error.strerror or error}") from None
    check_writable(folder / "figure.png")
    written = []
    data = figure_data(report)
    with _backend():
        for item in data:
            with style("paper"):
                figure = _draw(item, data)
                for suffix in ("png", "pdf"):
                    path = folder / f"{item.name}.{suffix}"
                    save_figure(figure, path)
                    written.append(path)
                _close(figure)
            path = folder / f"{item.name}.csv"
            write_bytes(item.frame.to_csv(lineterminator="\n").encode(), path)
            written.append(path)
    return written


def svg_figures(report: Report) -> list[tuple[FigureData, bytes]]:
    """Return every figure as the bytes of an SVG image, for a page that stands alone."""
    from slackopt.plotting import style

    drawn = []
    data = figure_data(report)
    with _backend():
        for item in data:
            with style("paper", width_in=4.6), mpl.rc_context({"svg.hashsalt": "slackopt"}):
                figure = _draw(item, data)
                buffer = io.BytesIO()
                metadata = {"Date": None, "Creator": None}
                figure.savefig(buffer, format="svg", metadata=metadata)
                _close(figure)
                drawn.append((item, buffer.getvalue()))
    return drawn


def _draw(item: FigureData, all_data: Sequence[FigureData]) -> mpl.figure.Figure:
    from slackopt import plotting

    # A method looks the same in every figure of a report.
    looks = plotting.line_looks(sorted({str(name) for data in all_data for name in data.frame}))
    if item.name == "profile-added-time":
        ax = plotting.plot_performance_profile(
            item.frame,
            looks=looks,
            x_scale=100,
            xlabel="added time above the best method's, τ (% of ideal)",
            limit=_limit(item, 0.0),
        )
    elif item.name == "profile-time":
        ax = plotting.plot_performance_profile(
            item.frame, looks=looks, xlabel="factor τ to the fastest method"
        )
    elif item.name == "profile-makespan":
        ax = plotting.plot_performance_profile(item.frame, looks=looks, limit=_limit(item, 1.0))
    elif item.name == "gap-over-time":
        ax = plotting.plot_gap_over_time(item.frame, looks=looks)
    elif item.name == "distance-over-time":
        ax = plotting.plot_gap_over_time(item.frame, looks=looks, ylabel=DISTANCE_LABEL)
    else:
        ax = plotting.plot_gap_over_budget(item.frame, looks=looks)
    figure = ax.get_figure(root=True)
    assert figure is not None  # noqa: S101
    return figure


def _limit(item: FigureData, first: float) -> float | None:
    """Return where to end the axis: a little after two thirds of the methods have their last step.

    One method ten times slower than the others would press them into a corner. The data file of
    the figure has all of it.
    """
    frame = item.frame
    taus = frame.index.to_numpy(dtype=float)
    ends = sorted(float(taus[(frame[name] >= frame[name].max()).argmax()]) for name in frame)
    end = first + 1.15 * (ends[-(-2 * len(ends) // 3) - 1] - first)
    return end if first < end < float(taus.max()) else None


class _backend:  # noqa: N801 - used as a context, like a function
    """Draw without a display, and leave the backend as it was."""

    def __enter__(self) -> None:
        self._before = mpl.rcParams["backend"]
        mpl.use("Agg")

    def __exit__(self, *_: object) -> None:
        mpl.use(self._before)


def _close(figure: mpl.figure.Figure) -> None:
    import matplotlib.pyplot as plt

    plt.close(figure)
