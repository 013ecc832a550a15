"""Which tensor of which layer is kept, swapped or recomputed, as a map."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import matplotlib as mpl
import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.font_manager import FontProperties
from matplotlib.ticker import MaxNLocator

from slackopt.errors import InputError
from slackopt.instance import Instance
from slackopt.lifetimes import ABSENT
from slackopt.plan import Plan
from slackopt.plotting.canvas import legend_above, line_width
from slackopt.plotting.looks import DECISIONS
from slackopt.result import Result

_MIB = 2**20
_ROW_HEIGHT = 1.3
"""Height of a row in a new figure, in units of the size of its letters."""

_ROUND = 7
"""Height of what is above and below the rows, in the same units."""


@dataclass(frozen=True)
class DecisionMap:
    """What a plan decides, by role and layer.

    Attributes
    ----------
    roles
        Rows, in the order in which the step makes the tensors.
    layers
        Columns, in forward order. Empty for a graph without layers: the columns are the indices
        of its ops then, and -1 for what is there from the start.
    cells
        ``(row, column)`` -> decision, for every tensor that a plan decides on.
    sizes_bytes
        Per row: the largest tensor.
    """

    roles: tuple[str, ...]
    layers: tuple[str, ...]
    cells: dict[tuple[int, int], str]
    sizes_bytes: tuple[int, ...]


def decision_map(instance: Instance, plan: Plan) -> DecisionMap:
    """Sort the decisions of a plan by layer, and by the role of the tensor in its layer.

    The layer of a tensor is the label of its producer (`slackopt.graph.Op.layer`). Its role is
    its name without that label, and without numbers where equal tensors of two layers are
    numbered differently; several tensors of one role in a layer are counted: ``dropout 2``. A
    layer that has no sister (`embedding`) keeps its label in the role. Where no op has a layer,
    columns are ops and roles are kinds of tensors. Shown are the candidates that can be
    evicted, and whatever else the plan swaps or recomputes.

    Raises
    ------
    InputError
        If the plan is for another instance.
    """
    plan.check(instance)
    life, graph = instance.lifetimes, instance.graph
    labels = [op.layer for op in graph.ops]
    layered = any(labels)
    families = Counter(_family(label) for label in dict.fromkeys(labels))
    shown = [
        t
        for t, tensor in enumerate(graph.tensors)
        if (life.is_candidate(t) and (tensor.swappable or life.can_recompute(t)))
        or plan.decisions.get(tensor.name, "keep") != "keep"
    ]
    shown.sort(key=lambda t: (life.producer[t], t))
    places: list[tuple[str, int | str]] = []
    seen: dict[tuple[str, int | str], int] = {}
    for t in shown:
        tensor, producer = graph.tensors[t], life.producer[t]
        column: int | str = producer
        if layered:
            column = "" if producer == ABSENT else labels[producer]
        if not layered:
            role = tensor.kind
        elif families[_family(str(column))] > 1:
            role = _role(tensor.name, str(column))
        else:
            role = tensor.name
        count = seen[role, column] = seen.get((role, column), 0) + 1
        places.append((f"{role} {count}" if count > 1 else role, column))
    roles = list(dict.fromkeys(role for role, _ in places))
    used = {column for _, column in places}
    layers = [label for label in dict.fromkeys(["", *labels]) if label in used] if layered else []
    # Without layers, what is there from the start (producer -1) stands before the first op.
    index: dict[int | str, int] = {k: k for k in range(-1, life.num_ops)}
    index |= {label: i for i, label in enumerate(layers)}
    row = {role: i for i, role in enumerate(roles)}
    sizes = [0] * len(roles)
    cells: dict[tuple[int, int], str] = {}
    for t, (role, column) in zip(shown, places, strict=True):
        cells[row[role], index[column]] = plan.decisions.get(graph.tensors[t].name, "keep")
        sizes[row[role]] = max(sizes[row[role]], life.sizes_bytes[t])
    return DecisionMap(
        roles=tuple(roles),
        layers=tuple(layers),
        cells=cells,
        sizes_bytes=tuple(sizes),
    )


def plot_decision_map(
    instance: Instance,
    plan: Plan | Result,
    ax: Axes | None = None,
    *,
    legend: bool = True,
    sizes: bool = True,
) -> Axes:
    """Draw which tensor of which layer is kept, swapped or recomputed.

    Parameters
    ----------
    instance
        The instance.
    plan
        A plan for it, or a result that holds one.
    ax
        Axes to draw into; None for a new figure, higher for many rows.
    legend
        Whether to explain the decisions above the axes.
    sizes
        Whether to write the size of the tensors of each row on the right, in MiB; where layers
        differ, of the largest.

    Returns
    -------
    matplotlib.axes.Axes
        `ax`, or the new axes; it holds one collection for each decision that occurs. Rows are
        roles, columns layers (or ops, where the graph has no layers). A place without a
        box is a tensor that this layer does not have, or that is never idle.

    Raises
    ------
    InputError
        If the result has no plan, the plan is for another instance, or there is nothing to decide.
    """
    if isinstance(plan, Result):
        if plan.plan is None:
            raise InputError(f"decision map: the result of {plan.method!r} has no plan")
        plan = plan.plan
    found = decision_map(instance, plan)
    if not found.cells:
        raise InputError(
            f"decision map: no tensor of instance {instance.name!r} is ever idle, so there is "
            "nothing to decide"
        )
    fit = ax is not None
    if ax is None:
        width, least = mpl.rcParams["figure.figsize"]
        letter = FontProperties(size=mpl.rcParams["ytick.labelsize"]).get_size_in_points() / 72
        height = (len(found.roles) * _ROW_HEIGHT + _ROUND) * letter
        ax = plt.subplots(figsize=(width, max(height, 0.8 * least)), layout="constrained")[1]
    for decision, look in DECISIONS.items():
        places = [place for place, value in found.cells.items() if value == decision]
        if places:
            ax.add_collection(
                PolyCollection(
                    [_box(row, column) for row, column in places],
                    facecolor=look.face,
                    edgecolor=look.ink,  # which is the colour of the hatch as well
                    hatch=look.hatch,
                    linewidth=line_width(0.2),
                    label=look.label,
                )
            )
    columns = [column for _, column in found.cells]
    last = len(found.layers) - 1 if found.layers else max(columns)
    ax.set_xlim(min(0, *columns) - 0.5, last + 0.5)
    ax.set_ylim(len(found.roles) - 0.5, -0.5)
    _name_rows(ax, found, sizes, fit=fit)
    _name_columns(ax, found)
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    if legend:
        legend_above(ax, side="right")
    return ax


def _box(row: int, column: int) -> Sequence[tuple[float, float]]:
    left, right, top, bottom = column - 0.5, column + 0.5, row - 0.5, row + 0.5
    return ((left, top), (right, top), (right, bottom), (left, bottom))


def _name_rows(ax: Axes, found: DecisionMap, sizes: bool, *, fit: bool) -> None:
    places = range(len(found.roles))
    # Into axes that are not high enough the letters are made to fit, with some room for a layout
    # that makes the axes lower still.
    figure = ax.get_figure(root=True)
    assert figure is not None  # noqa: S101
    pitch = ax.bbox.height / figure.dpi * 72 / len(found.roles)
    style = FontProperties(size=mpl.rcParams["ytick.labelsize"]).get_size_in_points()
    size = min(style, 0.75 * pitch) if fit else style
    ax.set_yticks(places, found.roles, fontsize=size)
    if sizes:
        right = ax.secondary_yaxis("right")
        right.set_yticks(places, [_mib(number) for number in found.sizes_bytes], fontsize=size)
        right.tick_params(length=0)
        right.spines[:].set_visible(False)
        right.set_ylabel("size (MiB)")


def _name_columns(ax: Axes, found: DecisionMap) -> None:
    if not found.layers:
        ax.set_xlabel("op that makes the tensor (index)")
        ax.xaxis.set_major_locator(MaxNLocator(8, integer=True))
        return
    # Layers without a number of their own have their labels in the names of the rows.
    numbers = [re.fullmatch(r"\D*(\d+)\D*", label) for label in found.layers]
    every = max(1, -(-sum(number is not None for number in numbers) // 8))
    ticks = [
        (i, number[1])
        for i, number in enumerate(numbers)
        if number is not None and int(number[1]) % every == 0
    ]
    ax.set_xticks([i for i, _ in ticks], [name for _, name in ticks])
    ax.set_xlabel("layer")


def _role(name: str, label: str) -> str:
    """Return the name of a tensor without the label of its layer, and numbers as ``#``."""
    if label and label in name:
        before, _, after = name.partition(label)
        name = f"{before.rstrip('/._ -')}/{after.lstrip('/._ -')}".strip("/")
        return name or label
    return _family(name)


def _family(label: str) -> str:
    return re.sub(r"\d+", "#", label)


def _mib(size_bytes: int) -> str:
    size = size_bytes / _MIB
    return "<0.001" if 0 < size < 0.001 else f"{size:.3g}"
