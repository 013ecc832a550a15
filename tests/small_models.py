"""Small mixed-integer models whose ends are known."""

import random
from collections.abc import Sequence

import numpy as np

from slackopt.solvers.linear_model import LinearModel

INF = float("inf")
Terms = dict[int, float]


def model(
    costs: Sequence[float],
    rows: Sequence[tuple[Terms, float]],
    integer: Sequence[bool] | bool = True,
    upper: Sequence[float] | float = 1.0,
) -> LinearModel:
    """Minimize ``costs @ x``, each row ``(terms, right)`` at most its right side."""
    width = len(costs)
    return LinearModel(
        costs=np.array(costs, dtype=float),
        upper=np.broadcast_to(np.array(upper, dtype=float), width).copy(),
        integer=np.broadcast_to(np.array(integer, dtype=bool), width).copy(),
        starts=np.cumsum([0, *(len(terms) for terms, _ in rows)]),
        columns=np.array([j for terms, _ in rows for j in terms], dtype=np.int64),
        values=np.array([a for terms, _ in rows for a in terms.values()], dtype=float),
        right=np.array([right for _, right in rows], dtype=float),
    )


def covering(integer: bool = True) -> LinearModel:
    """Optimum 9 in integers (columns 1 and 4, for one), 8.2 without integrality."""
    rows = [({i: -(3.0 + i) for i in range(6)}, -11.0)]
    return model([i + 2.0 for i in range(6)], rows, integer)


def equations(matrix: np.ndarray, right: np.ndarray) -> list[tuple[Terms, float]]:
    """Each equation as two rows."""
    rows = []
    for line, value in zip(matrix, right, strict=True):
        rows.append(({j: float(a) for j, a in enumerate(line)}, float(value)))
        rows.append(({j: -float(a) for j, a in enumerate(line)}, -float(value)))
    return rows


def market_split(columns: int = 50, lines: int = 6) -> tuple[LinearModel, np.ndarray]:
    """Equations with a planted solution that no solver finds in seconds; the solution, too."""
    rng = random.Random(3)
    matrix = np.array([[rng.randint(1, 99) for _ in range(columns)] for _ in range(lines)])
    planted = np.array([float(rng.random() < 0.5) for _ in range(columns)])
    return model([1.0] * columns, equations(matrix, matrix @ planted)), planted


def market_split_with_slack(columns: int = 40, lines: int = 5) -> LinearModel:
    """Points are easy to find, and the gap stays open for long."""
    rng = random.Random(1)
    rows: list[tuple[Terms, float]] = []
    for k in range(lines):
        weights = [rng.randint(1, 99) for _ in range(columns)]
        terms = {j: float(a) for j, a in enumerate(weights)}
        half = float(sum(weights) // 2)
        rows.append((terms | {columns + k: -1.0}, half))
        rows.append(({j: -a for j, a in terms.items()} | {columns + k: -1.0}, -half))
    costs = [0.0] * columns + [1.0] * lines
    integer = [True] * columns + [False] * lines
    return model(costs, rows, integer, [1.0] * columns + [INF] * lines)


INFEASIBLE = {
    "one row": model([1.0] * 6, [(dict.fromkeys(range(6), -1.0), -7.0)]),
    "two rows, no integers": model(
        [1.0] * 6,
        [(dict.fromkeys(range(6), -1.0), -4.0), (dict.fromkeys(range(6), 1.0), 3.0)],
        integer=False,
    ),
    "parity": model(
        [1.0] * 11,
        equations(np.full((1, 11), 2), np.array([11])),
    ),
    "pigeons": model(
        [1.0] * 20,
        [
            *(({4 * i + j: -1.0 for j in range(4)}, -1.0) for i in range(5)),
            *(({4 * i + j: 1.0 for i in range(5)}, 1.0) for j in range(4)),
        ],
    ),
}
UNBOUNDED = {
    "integers": model([-1.0, -1.0], [({0: 1.0, 1: -1.0}, 3.0)], [True, False], INF),
    "no integers": model([-1.0, -1.0], [({0: 1.0, 1: -1.0}, 3.0)], False, INF),
}
