"""Figures with one line a method: what is drawn is what the frame says."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from figure_samples import gaps_by_budget, gaps_by_time, moving_result, profiles, rule_result
from matplotlib.axes import Axes

from slackopt.errors import InputError
from slackopt.plotting import (
    line_looks,
    plot_gap_over_budget,
    plot_gap_over_time,
    plot_performance_profile,
    plot_trajectory,
)


def lines(ax: Axes) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Return places and values of each line, by label."""
    return {
        str(line.get_label()): (np.asarray(line.get_xdata()), np.asarray(line.get_ydata()))
        for line in ax.lines
    }


def legend_texts(ax: Axes) -> list[str]:
    legend = ax.get_legend()
    assert legend is not None
    return [text.get_text() for text in legend.get_texts()]


def test_gaps_over_the_budget_are_in_percent_and_holes_stay_holes() -> None:
    frame = gaps_by_budget()
    ax = plot_gap_over_budget(frame)
    drawn = lines(ax)
    assert list(drawn) == legend_texts(ax) == ["milp", "slackswap"]
    for name, (budgets, gaps) in drawn.items():
        assert budgets == pytest.approx(100 * frame.index.to_numpy())
        assert gaps == pytest.approx(100 * frame[name].to_numpy(), nan_ok=True)
    assert ax.get_yscale() == "symlog"
    assert ax.get_ylim()[0] == 0
    assert plot_gap_over_budget(frame, log=False).get_yscale() == "linear"


def test_gaps_over_time_are_steps() -> None:
    frame = gaps_by_time()
    ax = plot_gap_over_time(frame)
    for line in ax.lines:
        assert line.get_drawstyle() == "steps-post"
    for name, (seconds, gaps) in lines(ax).items():
        assert seconds == pytest.approx(frame.index.to_numpy())
        assert gaps == pytest.approx(100 * frame[name].to_numpy(), nan_ok=True)
    assert ax.get_xscale() == "log"


def test_profiles_are_steps_that_go_on_to_the_edge() -> None:
    frame = profiles()
    ax = plot_performance_profile(frame)
    for name, (taus, shares) in lines(ax).items():
        assert taus[:-1] == pytest.approx(frame.index.to_numpy())
        assert shares[:-1] == pytest.approx(100 * frame[name].to_numpy())
        assert shares[-1] == shares[-2]
        assert taus[-1] == pytest.approx(ax.get_xlim()[1])
    assert 0.9 < ax.get_xlim()[0] < 1, "markers at 1 are drawn whole"
    assert ax.get_xscale() == "log", "the last step is far off"


def test_profiles_of_differences_start_at_zero_on_a_linear_axis() -> None:
    frame = profiles()
    frame.index = pd.Index([0.0, 0.01, 0.2], name="tau")
    ax = plot_performance_profile(frame, x_scale=100, xlabel="gap above the best (%)", limit=0.1)
    assert ax.get_xlim() == pytest.approx((-0.15, 10))
    assert ax.get_xscale() == "linear"
    assert lines(ax)["milp"][0][:3] == pytest.approx([0, 1, 20])
    assert ax.get_xlabel() == "gap above the best (%)"


def test_a_single_step_and_a_single_method() -> None:
    frame = pd.DataFrame({"milp": [1.0]}, index=pd.Index([1.0], name="tau"))
    ax = plot_performance_profile(frame)
    assert list(lines(ax)) == ["milp"]
    assert ax.get_xlim()[1] > 1


DRAW = {
    "budget": (plot_gap_over_budget, gaps_by_budget),
    "time": (plot_gap_over_time, gaps_by_time),
    "profile": (plot_performance_profile, profiles),
}


@pytest.mark.parametrize("kind", sorted(DRAW))
def test_a_method_looks_the_same_in_every_figure(kind: str) -> None:
    draw, frame = DRAW[kind]
    looks = line_looks(["slackswap", "cpsat", "other", "milp"])
    for line in draw(frame(), looks=looks).lines:
        look = looks[str(line.get_label())]
        assert (line.get_color(), line.get_marker()) == (look.color, look.marker)


@pytest.mark.parametrize("kind", sorted(DRAW))
def test_methods_without_a_given_look_get_one_of_their_own(kind: str) -> None:
    draw, frame = DRAW[kind]
    first = str(frame().columns[0])
    ax = draw(frame(), looks=line_looks([first]))
    seen = {(line.get_color(), line.get_marker()) for line in ax.lines}
    assert len(seen) == len(ax.lines)


@pytest.mark.parametrize("kind", sorted(DRAW))
def test_no_legend_on_request_and_no_figure_of_nothing(kind: str) -> None:
    draw, frame = DRAW[kind]
    assert draw(frame(), legend=False).get_legend() is None
    plt.close("all")
    with pytest.raises(InputError, match="no rows"):
        draw(frame().iloc[:0])
    assert plt.get_fignums() == []


@pytest.mark.parametrize("kind", sorted(DRAW))
def test_a_method_with_no_value_at_all_is_no_error(kind: str) -> None:
    draw, frame = DRAW[kind]
    empty = frame()
    empty["nothing"] = np.nan
    ax = draw(empty)
    ax.figure.canvas.draw()
    assert np.isnan(lines(ax)["nothing"][1]).all()


def test_the_trajectory_of_a_result_and_the_gap_between_its_ends() -> None:
    result = moving_result()
    ax = plot_trajectory(result)
    drawn = lines(ax)
    assert list(drawn) == ["incumbent", "lower bound"]
    assert legend_texts(ax) == ["gap", "incumbent", "lower bound"]
    times, makespans = drawn["incumbent"]
    assert times == pytest.approx([0.01, 0.5, 2, 9, 10]), "the lines end when the run did"
    assert makespans == pytest.approx([np.nan, 120, 110, 100, 100], nan_ok=True)
    assert drawn["lower bound"][1] == pytest.approx([90, 90, 95, 99, 99])
    assert ax.get_xscale() == "log"
    assert plot_trajectory(result, log_time=False).get_xlim()[0] == 0


def test_several_results_are_told_apart_by_method() -> None:
    ax = plot_trajectory([moving_result(), moving_result(method="cpsat")])
    names = [
        f"{method}: {end}" for method in ("milp", "cpsat") for end in ("incumbent", "lower bound")
    ]
    assert list(lines(ax)) == legend_texts(ax) == names
    one, bound, other, _ = ax.lines
    assert one.get_color() == bound.get_color() != other.get_color()
    assert one.get_linestyle() != bound.get_linestyle()


def test_an_event_at_time_zero_fits_on_a_logarithmic_axis() -> None:
    result = moving_result(trajectory=((0.0, 120_000_000, None),), wall_s=0.0)
    times, makespans = lines(plot_trajectory(result))["incumbent"]
    assert times == pytest.approx([1e-3, 1e-3])
    assert makespans == pytest.approx([120, 120])
    assert "lower bound" not in lines(plot_trajectory(result))


def test_a_result_without_a_trajectory_shows_its_ends() -> None:
    ax = plot_trajectory(moving_result(trajectory=(), wall_s=3.0))
    assert lines(ax)["incumbent"][1] == pytest.approx([100, 100])
    assert lines(ax)["incumbent"][0] == pytest.approx([3, 3])


def test_a_result_that_holds_nothing_is_left_out_or_refused() -> None:
    nothing = moving_result(
        method="none", makespan_ns=None, lower_bound_ns=None, trajectory=(), plan=None
    )
    assert set(lines(plot_trajectory([nothing, moving_result()]))) == {"incumbent", "lower bound"}
    with pytest.raises(InputError, match="nothing to draw"):
        plot_trajectory(nothing)
    with pytest.raises(InputError, match="nothing to draw"):
        plot_trajectory(moving_result(status="error", stopped_by="error"))
    with pytest.raises(InputError, match="nothing to draw"):
        plot_trajectory([])


def test_results_of_two_instances_are_refused() -> None:
    with pytest.raises(InputError, match="several instances"):
        plot_trajectory([rule_result(), rule_result().model_copy(update={"instance_sha256": "x"})])
