"""Figures of sweeps: throughput over the budget, sensitivity, the heat map and the phase map."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from figure_samples import at, budget_slice, speed_slice
from matplotlib.image import AxesImage

from slackopt.errors import InputError
from slackopt.plotting import (
    plot_phase_map,
    plot_sensitivity,
    plot_sensitivity_map,
    plot_throughput_over_budget,
)
from slackopt.plotting.looks import ALLOWED_NAMES


def phases(values: dict[str, list[float]]) -> pd.DataFrame:
    """Return a frame of ways at link speeds 1, 2, ... and one compute speed."""
    return pd.DataFrame(
        [
            {
                "allowed": way,
                "bandwidth_factor": float(i + 1),
                "compute_factor": 1.0,
                "throughput_ratio": ratio,
            }
            for way, ratios in values.items()
            for i, ratio in enumerate(ratios)
        ]
    )


@pytest.mark.parametrize("value", ["throughput_ratio", "added_time"])
def test_each_way_to_save_memory_is_a_line(value: str) -> None:
    frame = budget_slice()
    ax = plot_throughput_over_budget(frame, value=value)  # type: ignore[arg-type]
    drawn = {line.get_label(): line for line in ax.lines}
    for way, name in ALLOWED_NAMES.items():
        rows = at(frame, allowed=way).sort_values("budget_share")
        ratios = rows["throughput_ratio"].to_numpy(dtype=float)
        assert np.isfinite(ratios).any()
        expected = 100 * ratios if value == "throughput_ratio" else 100 * (1 / ratios - 1)
        assert np.asarray(drawn[name].get_ydata()) == pytest.approx(expected, nan_ok=True)
        assert np.asarray(drawn[name].get_xdata()) == pytest.approx(100 * rows["budget_share"])


def test_tails_reach_to_what_the_bound_allows_and_crosses_say_infeasible() -> None:
    frame = pd.DataFrame(
        {
            "budget_share": [0.3, 0.5, 0.5],
            "allowed": ["swap", "swap", "both"],
            "throughput_ratio": [np.nan, 0.8, 0.9],
            "ratio_limit": [np.nan, 0.85, 0.9],
            "status": ["infeasible", "feasible", "optimal"],
        }
    )
    ax = plot_throughput_over_budget(frame)
    ends = [
        segment[:, 1]
        for tails in ax.collections
        for segment in tails.get_segments()  # type: ignore[attr-defined]
        if segment.ndim == 2 and np.isfinite(segment).all()
    ]
    assert sorted(map(tuple, ends)) == [pytest.approx((80, 85)), pytest.approx((90, 90))]
    crosses = next(line for line in ax.lines if line.get_label() == "swap only: no plan")
    assert np.asarray(crosses.get_xdata()) == pytest.approx([30])
    legend = ax.get_legend()
    assert legend is not None
    assert "swap only: no plan" in [text.get_text() for text in legend.get_texts()]
    assert not any("swap and recompute: no" in str(line.get_label()) for line in ax.lines)


def test_sensitivity_lines_are_the_rows_of_the_frame() -> None:
    frame = at(speed_slice(), compute_factor=1.0)
    ax = plot_sensitivity(frame)
    assert ax.get_xscale() == "log"
    assert ax.get_xlabel() == "link bandwidth, device to host (GB/s)"
    drawn = {line.get_label(): line for line in ax.lines}
    for way, name in ALLOWED_NAMES.items():
        rows = at(frame, allowed=way).sort_values("d2h_bytes_per_s")
        assert np.asarray(drawn[name].get_xdata()) == pytest.approx(
            rows["d2h_bytes_per_s"].to_numpy(dtype=float) / 1e9
        )
        assert np.asarray(drawn[name].get_ydata()) == pytest.approx(
            100 * rows["throughput_ratio"].to_numpy(dtype=float), nan_ok=True
        )
    other = plot_sensitivity(frame, x="bandwidth_factor", value="stall_ns")
    assert other.get_ylabel() == "stalls (ms)"


def test_a_heat_map_has_every_number_in_its_place() -> None:
    frame = at(speed_slice(), allowed="both")
    ax = plot_sensitivity_map(frame)
    image = ax.get_images()[0]
    assert isinstance(image, AxesImage)
    cells = np.asarray(image.get_array())
    assert cells.shape == (2, 3)
    for _, row in frame.iterrows():
        i = [1.0, 2.0].index(row["compute_factor"])
        j = [0.5, 1.0, 2.0].index(row["bandwidth_factor"])
        assert cells[i, j] == pytest.approx(100 * row["throughput_ratio"])
    texts = sorted(text.get_text() for text in ax.texts)
    assert texts == sorted(f"{value:.3g}" for value in cells.ravel())
    assert len(ax.figure.axes) == 2, "the colour bar"
    assert ax.figure.axes[1].get_ylabel() == "throughput (% of ideal)"
    plt.close("all")
    alone = plot_sensitivity_map(frame, colorbar=False)
    assert len(alone.figure.axes) == 1
    assert alone.get_title() == "throughput (% of ideal)"


def test_a_heat_map_with_holes_or_of_one_value_is_drawn() -> None:
    frame = at(speed_slice(), allowed="both").copy()
    frame.loc[frame.index[0], "throughput_ratio"] = np.nan
    ax = plot_sensitivity_map(frame)
    ax.figure.canvas.draw()
    assert [str(c.get_label()) for c in ax.collections] == ["no plan"]
    assert len(ax.texts) == len(frame) - 1
    frame["throughput_ratio"] = np.nan
    plot_sensitivity_map(frame).figure.canvas.draw()
    frame["throughput_ratio"] = 0.9
    plot_sensitivity_map(frame).figure.canvas.draw()


def test_the_phase_map_names_the_faster_way_and_what_both_together_gain() -> None:
    frame = phases(
        {
            "recompute": [0.8, 0.8, 0.8, np.nan, np.nan],
            "swap": [0.4, 0.8, 0.9, 0.9, np.nan],
            "both": [0.8, 1.0, 0.9, 1.0, np.nan],
        }
    )
    ax = plot_phase_map(frame)
    kinds = {}
    for area in ax.collections:
        for path in area.get_paths():
            box = path.get_extents()
            kinds[round((box.x0 + box.x1) / 2)] = str(area.get_label())
    assert kinds == {
        0: "recompute is faster",
        1: "tie",
        2: "swap is faster",
        3: "swap is faster",
        4: "no plan",
    }
    gains = {round(text.get_position()[0]): text.get_text() for text in ax.texts}
    assert gains == {0: "0", 1: "20", 2: "0", 3: "10"}


def test_a_run_with_an_error_is_not_drawn() -> None:
    """Its plan and its bound contradict each other, so neither can be trusted."""
    frame = budget_slice().astype({"status": "string", "allowed": "string"})  # as of runs_frame
    frame.loc[frame["allowed"] == "swap", "status"] = "error"
    for value in ("throughput_ratio", "added_time"):
        ax = plot_throughput_over_budget(frame, value=value)  # type: ignore[arg-type]
        drawn = {line.get_label(): np.asarray(line.get_ydata()) for line in ax.lines}
        assert np.isnan(drawn["swap only"]).all()
        assert np.isfinite(drawn["recompute only"]).all()
    speeds = speed_slice()
    speeds.loc[:, "status"] = "error"
    at_one = at(speeds, compute_factor=1.0)
    assert all(
        np.isnan(np.asarray(line.get_ydata())).all() for line in plot_sensitivity(at_one).lines
    )
    assert not plot_sensitivity_map(at(speeds, allowed="both")).texts
    ax = plot_phase_map(speeds)
    assert [str(area.get_label()) for area in ax.collections] == ["no plan"]


def test_a_phase_map_needs_all_three_ways() -> None:
    with pytest.raises(InputError, match="allowed='swap'"):
        plot_phase_map(phases({"recompute": [0.5], "both": [0.6]}))


@pytest.mark.parametrize("column", ["budget_share", "throughput_ratio", "allowed"])
def test_a_missing_column_is_named(column: str) -> None:
    with pytest.raises(InputError, match=f"no column '{column}'"):
        plot_throughput_over_budget(budget_slice().drop(columns=column))


def test_two_values_at_one_point_are_refused_instead_of_drawn_over_each_other() -> None:
    frame = speed_slice()
    with pytest.raises(InputError, match="several rows with allowed=both"):
        plot_sensitivity(frame)
    with pytest.raises(InputError, match="several rows"):
        plot_sensitivity_map(frame)
    with pytest.raises(InputError, match="several rows"):
        plot_throughput_over_budget(frame)
    with pytest.raises(InputError, match="several rows"):
        plot_phase_map(pd.concat([frame, frame]))


def test_an_unknown_axis_or_value_is_refused() -> None:
    frame = at(speed_slice(), compute_factor=1.0)
    with pytest.raises(InputError, match="'seed' can't be drawn; choose one of: bandwidth_factor"):
        plot_sensitivity(frame, x="seed")
    with pytest.raises(InputError, match="'status' can't be drawn; choose one of: throughput"):
        plot_sensitivity(frame, value="status")
