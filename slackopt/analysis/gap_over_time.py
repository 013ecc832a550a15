"""How the gap closes while a method runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt
import pandas as pd

from slackopt.analysis.means import share_quantile
from slackopt.analysis.performance_profile import method_column
from slackopt.errors import InputError
from slackopt.result import TrajectoryPoint

GRID_POINTS = 200


def gap_over_time(
    frame: pd.DataFrame,
    *,
    reference: Literal["own", "best"] = "own",
    share: float = 0.5,
    grid: Sequence[float] | None = None,
    by: str | None = None,
) -> pd.DataFrame:
    """Gap that a share of the runs of each method has reached, over time.

    The ends of a run are step functions of time: from a point of its trajectory on they keep
    their values until the next one, and after the last for good. The gap of a run is

        g(t) = (makespan(t) - LB(t)) / LB(t)

    with its own bound at t (``own``: the certified gap, for methods that prove bounds) or the
    best bound of all runs on the instance (``best``: also for rules). It is infinite while an
    end is missing. makespan(t) is the smallest and LB(t) the largest until t, so that no g rises,
    whatever stands in a file. The value for a method is the smallest g that at least `share` of its
    runs stay within at t.

    Parameters
    ----------
    frame
        From `runs_frame`.
    reference
        Which bound.
    share
        Above 0, at most 1.
    grid
        Times in seconds, rising. By default `GRID_POINTS` of them in equal ratios, from the
        first event of all trajectories to the last; values between grid points are not shown.
    by
        Column that tells methods apart: ``label`` if there is one, or ``method``.

    Returns
    -------
    pandas.DataFrame
        Index ``seconds``; one column per method, in alphabetical order; missing while fewer
        than `share` of its runs have a gap. Methods that never have one are left out.
        A failed run without a trajectory counts as one that never has a gap.

    Raises
    ------
    InputError
        For a share or a grid that makes no sense.
    """
    by = method_column(frame) if by is None else by
    rows = frame[[by, "trajectory", "best_lower_bound_ns", "status"]]
    times = _grid(rows["trajectory"], grid)
    gaps: dict[str, list[npt.NDArray[np.float64]]] = {}
    for name, trajectory, best, status in rows.itertuples(index=False):
        bound = None if pd.isna(best) else int(best)
        sound = () if not pd.isna(status) and status == "error" else trajectory
        gaps.setdefault(str(name), []).append(_gap(sound, times, reference, bound))
    columns = {name: share_quantile(np.array(gaps[name]), share) for name in sorted(gaps)}
    shown = {
        name: np.where(np.isfinite(values), values, np.nan)
        for name, values in columns.items()
        if bool(np.isfinite(values).any())
    }
    return pd.DataFrame(shown, index=pd.Index(times, name="seconds"))


def step_values(
    trajectory: Sequence[TrajectoryPoint], times: npt.NDArray[np.float64]
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return the best makespan and bound so far, in ns, at each time; NaN while there is none."""
    points = sorted(trajectory, key=lambda point: point[0])
    at = np.searchsorted([point[0] for point in points], times, side="right")
    makespans = np.array([np.nan, *(_float(point[1]) for point in points)])
    bounds = np.array([np.nan, *(_float(point[2]) for point in points)])
    return np.fmin.accumulate(makespans)[at], np.fmax.accumulate(bounds)[at]


def _float(value: int | None) -> float:
    return np.nan if value is None else float(value)


def _gap(
    trajectory: Sequence[TrajectoryPoint],
    times: npt.NDArray[np.float64],
    reference: str,
    best: int | None,
) -> npt.NDArray[np.float64]:
    makespan, bound = step_values(trajectory, times)
    if reference == "best":
        bound = np.full(len(times), np.nan if best is None else float(best))
    with np.errstate(divide="ignore", invalid="ignore"):
        gap = (makespan - bound) / bound
    return np.where(np.isfinite(gap), gap, np.inf)


def _grid(trajectories: pd.Series, given: Sequence[float] | None) -> npt.NDArray[np.float64]:
    if given is not None:
        times = np.asarray(given, dtype=float)
        if times.ndim != 1 or not bool(np.all(np.isfinite(times)) and np.all(np.diff(times) > 0)):
            raise InputError("a grid of times must be a rising list of finite seconds")
        return times
    events = [point[0] for trajectory in trajectories for point in trajectory]
    if not events:
        return np.zeros(0)
    first, last = max(min(events), 1e-3), max(max(events), 1e-3)
    if first == last:
        return np.array([last])
    times = np.geomspace(first, last, GRID_POINTS)
    times[-1] = last  # geomspace may round the end down, below the last event
    return times
