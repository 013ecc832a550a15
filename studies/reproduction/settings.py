"""What SlackSwap's summary leaves open, as settings, and the instances that a setting gives.

One setting holds for all three models. The *full grid* is every combination of `FULL`; *around*
it, one more thing at a time is changed (`CHANGES`) at every combination of `AROUND`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields, replace
from functools import lru_cache
from itertools import product
from typing import Any, Literal

from slackopt import Device, Graph, Instance, Op, Tensor
from slackopt.heuristics.registry import NoPlanError
from slackopt.heuristics.slackswap import Slack, Ties, slackswap
from slackopt.profiles import get_accelerator, get_preset, transformer
from slackopt.published import SLACKSWAP_RATIOS
from slackopt.simulation.evaluator import Evaluator

MODELS = tuple(SLACKSWAP_RATIOS)
GB = 10**9
MIB = 2**20

Part = Literal["full", "around"]


@dataclass(frozen=True)
class Setting:
    """One answer to everything that the summary leaves open; the defaults are ours.

    Attributes
    ----------
    reading
        How the rule counts its slack: ``timeline`` or ``aggregate``.
    matmul_percent
        Share of the A100's peak that matrix products reach.
    link_gb_per_s
        Bandwidth of the link in each direction, GB/s.
    attention
        ``eager`` or ``flash``.
    dropout
        ``trained`` (BERT and GPT-2 as published; Llama has none) or ``none``.
    gradients
        Whether gradients of activations are tensors (``counted``) or ``left out``.
    memory_traffic
        ``timed``, or ``free``: op times are those of FLOPs and of the launch alone.
    batch
        Batch as a multiple of the preset's.
    sequence
        Sequence length as a multiple of the preset's, at equal tokens in a step.
    latency_us
        In front of each copy.
    link
        ``independent`` directions, or ``shared``: with both busy, 98 % (out) and 48 % (in) of the
        bandwidth, as measured on hosts of the A100 (`slackopt.profiles.devices`).
    workspace_mib
        Workspace of each matrix product, in the peak and in the budget.
    weight_gradients
        Whether parameters' gradients count: ``left out``; ``as made``, from the op that makes each
        to the end of the step; or ``held`` all the time, so that activations have what is left of
        the half.
    ties
        Whether the tensor made ``first`` or ``last`` wins a tie of the rule.
    """

    reading: str = "timeline"
    matmul_percent: int = 67
    link_gb_per_s: int = 25
    attention: str = "eager"
    dropout: str = "trained"
    gradients: str = "counted"
    memory_traffic: str = "timed"
    batch: str = "1"
    sequence: str = "1"
    latency_us: int = 10
    link: str = "independent"
    workspace_mib: int = 0
    weight_gradients: str = "left out"
    ties: str = "first"

    @property
    def changed(self) -> int:
        """How many of the assumptions are not ours; both readings and both attentions are."""
        ours = Setting(reading=self.reading, attention=self.attention)
        return sum(getattr(self, field.name) != getattr(ours, field.name) for field in fields(self))

    def question(self) -> Setting:
        """Return the setting without what belongs to the rule: equal ones have equal instances."""
        return replace(self, reading="timeline", ties="first")


FULL: dict[str, tuple[Any, ...]] = {
    "attention": ("eager", "flash"),
    "gradients": ("counted", "left out"),
    "matmul_percent": (30, 35, 40, 50, 60, 67),
    "link_gb_per_s": (12, 16, 20, 25, 32, 50),
    "reading": ("timeline", "aggregate"),
    "dropout": ("none", "trained"),
}

AROUND: dict[str, tuple[Any, ...]] = {
    "attention": FULL["attention"],
    "matmul_percent": (40, 50, 67),
    "link_gb_per_s": (25, 32),
    "reading": FULL["reading"],
    "dropout": ("none",),
}

CHANGES: tuple[dict[str, Any], ...] = (
    {"memory_traffic": "free"},
    {"batch": "1/2"},
    {"batch": "2"},
    {"sequence": "1/2"},
    {"sequence": "2"},
    {"latency_us": 0},
    {"latency_us": 50},
    {"link": "shared"},
    {"workspace_mib": 32},
    {"weight_gradients": "as made"},
    {"weight_gradients": "held"},
    {"ties": "last"},
)


def settings(*, small: bool = False) -> Iterator[tuple[Part, Setting]]:
    """Yield all settings in order; with `small`, some, for tests."""
    full, around = FULL, AROUND
    if small:
        narrow = {"matmul_percent": (40,), "link_gb_per_s": (25,)}
        full, around = FULL | narrow | {"gradients": ("counted",)}, AROUND | narrow
    for values in product(*full.values()):
        yield "full", Setting(**dict(zip(full, values, strict=True)))
    for values in product(*around.values()):
        base = Setting(**dict(zip(around, values, strict=True)))
        for change in CHANGES:
            yield "around", replace(base, **change)


def instance_of(model: str, setting: Setting) -> Instance:
    """Return the question of one model under a setting: half of the unlimited peak."""
    same_graph = replace(
        setting.question(),
        link_gb_per_s=Setting.link_gb_per_s,
        link=Setting.link,
        latency_us=Setting.latency_us,
    )
    graph, budget = _graph_of(model, same_graph)
    return Instance.from_graph(graph, name=model, device=_device_of(setting), budget=budget)


@lru_cache(maxsize=12)
def _graph_of(model: str, setting: Setting) -> tuple[Graph, int | str]:
    """Return the step of a model under a setting, and its budget; the link has no part in it."""
    preset = get_preset(model)
    scale = {"1/2": (1, 2), "1": (1, 1), "2": (2, 1)}
    (up, down), (longer, shorter) = scale[setting.batch], scale[setting.sequence]
    batch = preset.batch * up // down * shorter // longer
    seq = preset.seq * longer // shorter
    chip = get_accelerator("a100").assuming(
        "assumed: a setting of the reproduction study", matmul_percent=setting.matmul_percent
    )
    if setting.memory_traffic == "free":
        chip = chip.assuming("assumed: memory traffic takes no time", memory_bytes_per_s=10**15)
    graph = transformer(
        model,
        batch=batch,
        seq=seq,
        attention="eager" if setting.attention == "eager" else "flash",
        dropout=preset.dropout and setting.dropout == "trained",
        accelerator=chip,
        activation_gradients=setting.gradients == "counted",
    )
    if setting.workspace_mib:
        graph = _with_workspaces(graph, setting.workspace_mib * MIB)
    if setting.weight_gradients == "left out":
        return graph, "0.5"
    with_gradients = _with_weight_gradients(graph, batch * seq)
    if setting.weight_gradients == "as made":
        return with_gradients, "0.5"
    held = sum(tensor.size_bytes for tensor in with_gradients.tensors[len(graph.tensors) :])
    return graph, (graph.unlimited_peak_bytes + held) // 2 - held


def _device_of(setting: Setting) -> Device:
    rate = setting.link_gb_per_s * GB
    shared = setting.link == "shared"
    return Device(
        name="a100-pcie4-assumed",
        d2h_bytes_per_s=rate,
        h2d_bytes_per_s=rate,
        latency_ns=setting.latency_us * 1000,
        d2h_shared_bytes_per_s=rate * 98 // 100 if shared else None,
        h2d_shared_bytes_per_s=rate * 48 // 100 if shared else None,
        source="assumed: a setting of the reproduction study",
    )


PRODUCTS = ("qkv", "projection", "fc1", "fc2", "gate", "up", "down", "logits", "scores", "context")
"""Last part of the names of ops that are matrix products."""

WITHOUT_WEIGHTS = ("scores", "context")


def _is_product(op: Op) -> bool:
    return op.name.removesuffix(".backward").rpartition("/")[2] in PRODUCTS


def _with_workspaces(graph: Graph, workspace_bytes: int) -> Graph:
    ops = tuple(
        op.model_copy(update={"workspace_bytes": workspace_bytes}) if _is_product(op) else op
        for op in graph.ops
    )
    return Graph(name=graph.name, ops=ops, tensors=graph.tensors, provenance=graph.provenance)


def _with_weight_gradients(graph: Graph, tokens: int) -> Graph:
    """Let each backward op of a product with weights make their gradient, read at the very end."""
    size = {tensor.name: tensor.size_bytes for tensor in graph.tensors}
    forward = {op.name: op for op in graph.ops if op.phase == "forward"}
    element = 2  # bf16
    ops, tensors = [], list(graph.tensors)
    made: list[str] = []
    for op in graph.ops:
        of = forward.get(op.name.removesuffix(".backward"))
        kind = op.name.removesuffix(".backward").rpartition("/")[2]
        if op.phase == "backward" and of and _is_product(op) and kind not in WITHOUT_WEIGHTS:
            rows = tokens * element
            wide = size[of.inputs[0]] // rows
            weights = wide * sum(size[out] // rows for out in of.outputs)
            made.append(f"{of.name}.weight.grad")
            tensors.append(
                Tensor(
                    name=made[-1], size_bytes=weights * element, kind="gradient", swappable=False
                )
            )
            op = op.model_copy(update={"outputs": (*op.outputs, made[-1])})
        ops.append(op)
    ops.append(
        Op(
            name="end of step",
            phase="backward",
            duration_ns=1,
            inputs=tuple(made),
            recomputable=False,
        )
    )
    return Graph(
        name=graph.name, ops=tuple(ops), tensors=tuple(tensors), provenance=graph.provenance
    )


def run_model(model: str, setting: Setting) -> tuple[int, int | None]:
    """Return ideal step time and makespan of the rule, in ns; no makespan where it has no plan."""
    if not get_preset(model).dropout:  # the same question either way
        setting = replace(setting, dropout="none")
    return _run_model(model, setting)


@lru_cache(maxsize=64)
def _run_model(model: str, setting: Setting) -> tuple[int, int | None]:
    instance = instance_of(model, setting)
    slack: Slack = "timeline" if setting.reading == "timeline" else "aggregate"
    ties: Ties = "first" if setting.ties == "first" else "last"
    try:
        plan = slackswap(instance, slack=slack, ties=ties)
    except NoPlanError:
        return instance.ideal_ns, None
    evaluator = Evaluator(instance)  # the simulator, without the checks that `solve` adds
    return instance.ideal_ns, evaluator.makespan_ns(evaluator.decisions(plan))


def as_row(part: Part, setting: Setting) -> dict[str, Any]:
    """Return the columns that name a setting."""
    return {"part": part, **asdict(setting)}
