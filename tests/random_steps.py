"""Random small steps, instances and plans: seeded generators, and Hypothesis strategies.

Sizes, durations and copies are of the same order and mostly tiny, so that ties and interactions
between the streams are frequent.
"""

from __future__ import annotations

from random import Random
from typing import Any

from hypothesis import strategies as st

from slackopt.device import Device
from slackopt.graph import Graph, Op, Tensor
from slackopt.instance import MAX_PIECES, Instance
from slackopt.plan import Plan
from slackopt.simulation import Timeline, simulate

NS_PER_S = 10**9
# Weights of keep, swap, recompute in a random plan.
PLAN_STYLES = (
    *((1, 1, 1),) * 2,
    *((1, 3, 1),) * 2,
    (1, 1, 3),
    (1, 4, 4),
    (6, 1, 1),
    *((0, 1, 0),) * 3,
    (0, 0, 1),
    (1, 0, 0),
)
MAX_BANDWIDTH = 10**15


# ---------------------------------------------------------------------------------------------
# Graphs


class _Builder:
    """Collects ops and tensors."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.wide_sizes = rng.random() < 0.15
        self.wide_durations = rng.random() < 0.15
        self.max_small = rng.choice((3, 10, 20))
        self.p_workspace = rng.choice((0.0, 0.3, 0.8))
        self.p_fixed_op = rng.choice((0.0, 0.1, 0.4))
        self.p_fixed_tensor = rng.choice((0.0, 0.1, 0.4))
        self.ops: list[dict[str, Any]] = []
        self.tensors: list[str] = []

    def number(self, wide: bool) -> int:
        if wide:
            return int(10 ** self.rng.uniform(0, 9))
        return self.rng.randint(1, self.max_small)

    def tensor(self, name: str) -> str:
        self.tensors.append(name)
        return name

    def op(self, phase: str, inputs: list[str], outputs: list[str]) -> None:
        unique = list(dict.fromkeys(inputs))
        if self.rng.random() < 0.3:
            self.rng.shuffle(unique)
        k = len(self.ops)
        self.ops.append({"name": f"op{k}", "phase": phase, "inputs": unique, "outputs": outputs})

    def graph(self) -> Graph:
        rng = self.rng
        used = {name for op in self.ops for name in (*op["inputs"], *op["outputs"])}
        names = [name for name in self.tensors if name in used]  # no batch tensor without a reader
        if rng.random() < 0.3:
            rng.shuffle(names)
        return Graph(
            name="random",
            ops=tuple(
                Op(
                    name=op["name"],
                    phase=op["phase"],
                    duration_ns=self.number(self.wide_durations),
                    inputs=tuple(op["inputs"]),
                    outputs=tuple(op["outputs"]),
                    workspace_bytes=(
                        self.number(self.wide_sizes) if rng.random() < self.p_workspace else 0
                    ),
                    recomputable=rng.random() >= self.p_fixed_op,
                )
                for op in self.ops
            ),
            tensors=tuple(
                Tensor(
                    name=name,
                    size_bytes=self.number(self.wide_sizes),
                    swappable=rng.random() >= self.p_fixed_tensor,
                )
                for name in names
            ),
        )


def random_graph(rng: Random, *, max_ops: int = 14) -> Graph:
    """Return a random step with at most `max_ops` ops."""
    builder = _Builder(rng)
    if max_ops >= 3 and rng.random() < 0.65:
        _mirror(builder, max_ops)
    else:
        _arbitrary(builder, max_ops)
    return builder.graph()


def _mirror(builder: _Builder, max_ops: int) -> None:
    """Forward ops, perhaps a loss, and one or two backward ops for each forward op in reverse."""
    rng = builder.rng
    batch = [builder.tensor(f"batch{i}") for i in range(rng.randint(0, 2))]
    labels = [builder.tensor("labels")] if rng.random() < 0.3 else []  # read by backward ops only
    with_loss = rng.random() < 0.5
    layers = rng.randint(1, max(1, (max_ops - with_loss) // 2))
    room = max_ops - 2 * layers - with_loss
    p_save = rng.choice((0.4, 0.7, 1.0))
    made: list[str] = list(batch)
    saved: list[list[str]] = []
    main = batch[:1]
    for k in range(layers):
        inputs = list(main)
        if made and rng.random() < 0.3:  # a branch: a residual, or a second input
            inputs.append(rng.choice(made))
        outputs = [builder.tensor(f"a{k}")] if rng.random() < 0.95 else []
        outputs += [builder.tensor(f"mask{k}.{i}") for i in range(rng.choice((0, 0, 0, 1, 2)))]
        builder.op("forward", inputs, outputs)
        saved.append([name for name in (*inputs, *outputs) if rng.random() < p_save])
        made += outputs
        main = outputs[:1] or main
    if with_loss:
        builder.op("forward", list(main) + made[-1:], [builder.tensor("loss")])
        main = ["loss"]
    gradient = list(main) if rng.random() < 0.5 else []
    for k in reversed(range(layers)):
        inputs = gradient + saved[k]
        if labels and (rng.random() < 0.3 or k == 0):
            inputs += labels
        if rng.random() < 0.1 and made:
            inputs.append(rng.choice(made))
        outputs = [builder.tensor(f"d{k}")] if rng.random() < 0.9 else []
        outputs += [builder.tensor(f"dw{k}")] if rng.random() < 0.2 else []
        builder.op("backward", inputs, outputs)
        gradient = outputs[:1]
        if room > 0 and rng.random() < 0.3:  # gradient of the weights in an op of its own
            room -= 1
            weight = [builder.tensor(f"dv{k}")] if rng.random() < 0.5 else []
            builder.op("backward", inputs[-2:], weight)


def _arbitrary(builder: _Builder, max_ops: int) -> None:
    """Any ops that read any tensors made before."""
    rng = builder.rng
    num_ops = rng.randint(1, max_ops)
    num_forward = rng.randint(min(1, num_ops - 1), max(1, num_ops - 1))
    if rng.random() < 0.08:
        num_forward = rng.choice((0, num_ops))
    made = [builder.tensor(f"batch{i}") for i in range(rng.randint(0, 3))]
    late = [builder.tensor(f"late{i}") for i in range(rng.choice((0, 0, 1, 2)))]
    for k in range(num_ops):
        forward = k < num_forward
        pool = made if forward else made + late
        inputs = rng.sample(pool, min(len(pool), rng.choice((0, 1, 1, 2, 2, 3, 4))))
        if made and rng.random() < 0.4:
            inputs.insert(0, made[-1])
        outputs = [builder.tensor(f"t{k}.{i}") for i in range(rng.choice((0, 1, 1, 1, 1, 2, 2, 3)))]
        builder.op("forward" if forward else "backward", inputs, outputs)
        made += outputs


def chained_graph(rng: Random, *, max_layers: int = 3) -> Graph:
    """Return residual chains, ``x_(i+1) = x_i + f(x_i)``, nearly all of it recomputable.

    The parts of ``f`` have one output or more: a mask beside the main output, or two outputs that
    the next op reads both. Many sums and branches have no backward use: they are sources of
    reruns, and of each other's reruns. The backward ops go through the layers in reverse, and
    some read tensors of other layers, so that reruns are pulled forward.
    """
    p_sum, p_branch, p_side = rng.choice((0.0, 0.2, 0.6)), rng.choice((0.3, 0.7)), rng.random()
    p_other, p_fixed = rng.choice((0.0, 0.1, 0.4)), rng.choice((0.0, 0.0, 0.1))
    p_many, p_skip = rng.choice((0.0, 0.3, 0.6)), rng.choice((0.1, 0.1, 0.4))
    p_fork = rng.choice((0.0, 0.0, 0.5))
    ops: list[Op] = []
    made: list[str] = []
    saved: list[list[str]] = []

    def op(phase: Any, inputs: list[str], outputs: list[str]) -> list[str]:
        ops.append(
            Op(
                name=f"op{len(ops)}",
                phase=phase,
                duration_ns=rng.randint(1, 12),
                inputs=tuple(dict.fromkeys(inputs)),
                outputs=tuple(outputs),
                workspace_bytes=rng.choice((0, 0, 3)),
                recomputable=rng.random() >= p_fixed,
            )
        )
        made.extend(outputs)
        return outputs

    total = "x0"
    if rng.random() < 0.5:
        made.append(total)  # the batch
    else:
        op("forward", [], [total])
    for i in range(rng.randint(2, max_layers)):
        layer: list[str] = [total] if rng.random() < p_sum else []
        read = [total]
        fork = rng.random() < p_fork
        if fork:  # two outputs, two branches: the one may be needed again long before the other
            op("forward", read, [f"f{i}.0", f"f{i}.1"])
            wide = op("forward", [f"f{i}.0"], [f"w{i}"])
            read = op("forward", wide, [f"v{i}"])
            side = op("forward", [f"f{i}.1"], [f"t{i}"])
            layer += [name for name in (*wide, *read, *side) if rng.random() < 0.8]
            read = [*read, *side]
        for part in range(0 if fork else rng.randint(1, 2)):
            draw = rng.random()
            outputs = [f"h{i}.{part}", *([f"s{i}.{part}"] if draw < p_many else [])]
            if rng.random() < p_skip:
                read = [*read, rng.choice(made)]
            outputs = op("forward", read, outputs)
            layer += outputs[:1] if rng.random() < p_branch else []
            layer += outputs[1:] if rng.random() < p_side else []
            # The next op reads one output, or all of them.
            read = outputs if draw < p_many / 2 else outputs[:1]
        total = f"x{i + 1}"
        op("forward", [f"x{i}", *read], [total, *([f"m{i}"] if rng.random() < p_many / 2 else [])])
        saved.append(layer)
    op("forward", [total] if rng.random() < 0.7 else [], [])
    forward_made = list(made)
    for layer in reversed(saved):
        rng.shuffle(layer)
        cuts = sorted(rng.choices(range(len(layer) + 1), k=rng.choice((1, 2))))
        for begin, end in zip([0, *cuts], [*cuts, len(layer)], strict=True):
            reads = [name for name in layer[begin:end] if rng.random() < 0.95]
            if rng.random() < p_other:
                reads.append(rng.choice(forward_made))
            if reads or rng.random() < 0.3:
                op("backward", reads, [f"d{len(ops)}"] if rng.random() < 0.3 else [])
    if ops[-1].phase == "forward":
        op("backward", forward_made[:1], [])
    used = {name for op in ops for name in (*op.inputs, *op.outputs)}
    p_swappable = rng.choice((0.3, 0.8))
    return Graph(
        name="chained",
        ops=tuple(ops),
        tensors=tuple(
            Tensor(name=name, size_bytes=rng.randint(1, 12), swappable=rng.random() < p_swappable)
            for name in made
            if name in used
        ),
    )


# ---------------------------------------------------------------------------------------------
# Devices and instances


def random_device(rng: Random, graph: Graph) -> Device:
    """Return a device on which a copy takes about as long as an op."""
    mean_size = sum(t.size_bytes for t in graph.tensors) / max(1, len(graph.tensors)) or 1.0
    mean_duration = graph.ideal_ns / len(graph.ops)
    per_ns = mean_size / mean_duration

    def bandwidth() -> int:
        wanted = per_ns * rng.choice((0.2, 0.3, 0.6, 1.0, 2.0, 5.0)) * NS_PER_S
        if rng.random() < 0.5:  # whole bytes per nanosecond: exact ties
            wanted = max(1, round(wanted / NS_PER_S)) * NS_PER_S
        return min(MAX_BANDWIDTH, max(1, int(wanted)))

    d2h = bandwidth()
    h2d = d2h if rng.random() < 0.5 else bandwidth()
    shared: dict[str, int | None] = {}
    if rng.random() < 0.5:
        factors = [rng.choice((0.3, 0.5, 0.5, 0.8, 1.0)) for _ in range(2)]
        shared["d2h_shared_bytes_per_s"] = max(1, int(d2h * factors[0]))
        shared["h2d_shared_bytes_per_s"] = max(1, int(h2d * factors[1]))
    latency = rng.choice((0, 0, 1, 2, int(mean_duration * rng.random())))
    host = None
    if rng.random() < 0.4:
        sizes = [t.size_bytes for t in graph.tensors if t.swappable] or [1]
        host = rng.choice((max(sizes), max(sizes), rng.randint(1, sum(sizes)), sum(sizes)))
        host = rng.choice((host, min(sum(sizes), host + rng.choice(sizes))))
    return Device(
        name="random",
        d2h_bytes_per_s=d2h,
        h2d_bytes_per_s=h2d,
        latency_ns=latency,
        host_memory_bytes=host,
        chunk_bytes=_random_chunk(graph, (d2h, h2d, latency, host)),
        **shared,
    )


def _random_chunk(graph: Graph, drawn: object) -> int:
    """Return whole tensors mostly, else pieces of one byte or more.

    Drawn from what was drawn before, so that instances stay otherwise those of their seed.
    """
    sizes = [tensor.size_bytes for tensor in graph.tensors]
    rng = Random(f"{drawn} {sizes}")
    largest = max(sizes, default=1)
    pieces = rng.choice((0, 0, 0, 2, 3, 7, largest))
    return -(-largest // min(pieces, MAX_PIECES)) if pieces else 0


def random_instance(rng: Random, *, max_ops: int = 14) -> Instance:
    """Return a random instance with a budget mostly between working set and unlimited peak."""
    graph = random_graph(rng, max_ops=max_ops)
    low = max(graph.lifetimes.working_set_bytes)
    high = graph.unlimited_peak_bytes
    assert low <= high
    small = max(1, (high - low) // 10)
    budget = rng.choice(
        (
            low,
            low + rng.randint(0, small),
            rng.randint(low, high),
            rng.randint(low, high),
            rng.randint((low + high) // 2, high),
            high - rng.randint(0, small),
            high,
        )
    )
    if rng.random() < 0.08:
        budget = rng.choice((low - 1, low // 2, high + 1, 2 * high))
    return Instance.from_graph(graph, device=random_device(rng, graph), budget=max(1, budget))


def chained_instance(rng: Random, *, max_layers: int = 3) -> Instance:
    """Return a `chained_graph` with a budget at which most plans run, or a lower one."""
    graph = chained_graph(rng, max_layers=max_layers)
    low, high = max(graph.lifetimes.working_set_bytes), graph.unlimited_peak_bytes
    budget = rng.choice((high, high + 20, rng.randint(low, high)))
    return Instance.from_graph(graph, device=random_device(rng, graph), budget=max(1, budget))


def with_chunks(instance: Instance, chunk_bytes: int) -> Instance:
    """Return the instance with swap-outs that free memory in pieces; 0: whole tensors."""
    return instance.model_copy(update={"device": instance.device.with_chunks(chunk_bytes)})


def simulate_with_chunks(instance: Instance, plan: Plan, chunk_bytes: int) -> Timeline:
    """Simulate a plan on the instance `with_chunks`."""
    variant = with_chunks(instance, chunk_bytes)
    return simulate(variant, Plan.for_instance(variant, plan.decisions, plan.prefetch))


# ---------------------------------------------------------------------------------------------
# Plans


def allowed_decisions(instance: Instance) -> dict[str, tuple[str, ...]]:
    """Return for each tensor the decisions that a plan may make and that can have a trigger."""
    life = instance.lifetimes
    result: dict[str, tuple[str, ...]] = {}
    for t, tensor in enumerate(instance.graph.tensors):
        allowed = ["keep"]
        if life.first_backward_use[t] < 0 or life.is_candidate(t):
            # Where l_t is the last op of all, no trigger is valid (and no decision has an effect).
            if tensor.swappable and life.last_forward_use[t] < life.num_ops - 1:
                allowed.append("swap")
            if life.can_recompute(t):
                allowed.append("recompute")
        result[tensor.name] = tuple(allowed)
    return result


def trigger_range(instance: Instance, name: str) -> tuple[int, int, int]:
    """Return the lowest trigger of a tensor, its first backward use (or the end), the highest."""
    life = instance.lifetimes
    t = [tensor.name for tensor in instance.graph.tensors].index(name)
    last = life.num_ops - 1
    first_use = life.first_backward_use[t]
    return life.last_forward_use[t] + 1, last if first_use < 0 else first_use, last


def random_plan(rng: Random, instance: Instance) -> Plan:
    """Return a random valid plan in which every swapped tensor has a trigger."""
    keep, swap, recompute = rng.choice(PLAN_STYLES)
    weight = {"keep": keep, "swap": swap, "recompute": recompute}
    near_need = rng.random()
    decisions: dict[str, Any] = {}
    prefetch: dict[str, int] = {}
    for name, allowed in allowed_decisions(instance).items():
        weights = [weight[choice] for choice in allowed]
        decision = rng.choices(allowed, weights)[0] if any(weights) else "keep"
        if decision == "keep" and rng.random() < 0.7:
            continue  # not named: kept
        decisions[name] = decision
        if decision == "swap":
            low, need, high = trigger_range(instance, name)
            draw = rng.random()
            if draw < 0.2:
                trigger = rng.randint(low, high)
            elif rng.random() < near_need:
                trigger = need + rng.choice((-2, -1, -1, 0, 0, 1))
            else:
                trigger = low + rng.choice((0, 0, 1))
            prefetch[name] = min(high, max(low, trigger))
    return Plan.for_instance(instance, decisions, prefetch)


# ---------------------------------------------------------------------------------------------
# Hypothesis strategies; they draw the structure itself, so that examples shrink.


@st.composite
def graphs(draw: st.DrawFn, *, max_ops: int = 8) -> Graph:
    """Draw a small step."""
    small = st.integers(1, 12)
    num_ops = draw(st.integers(1, max_ops))
    num_forward = draw(st.integers(0, num_ops))
    names = [f"batch{i}" for i in range(draw(st.integers(0, 2)))]
    ops = []
    for k in range(num_ops):
        inputs = draw(st.lists(st.sampled_from(names), max_size=3, unique=True)) if names else []
        outputs = [f"t{k}.{i}" for i in range(draw(st.sampled_from((1, 0, 2))))]
        names += outputs
        ops.append(
            Op(
                name=f"op{k}",
                phase="forward" if k < num_forward else "backward",
                duration_ns=draw(small),
                inputs=tuple(inputs),
                outputs=tuple(outputs),
                workspace_bytes=draw(st.sampled_from((0, 1, 5))),
                recomputable=draw(st.sampled_from((True, True, True, False))),
            )
        )
    used = {name for op in ops for name in (*op.inputs, *op.outputs)}
    tensors = tuple(
        Tensor(
            name=name,
            size_bytes=draw(small),
            swappable=draw(st.sampled_from((True, True, True, False))),
        )
        for name in names
        if name in used
    )
    return Graph(name="drawn", ops=tuple(ops), tensors=tensors)


@st.composite
def devices(draw: st.DrawFn) -> Device:
    """Draw a link of about one byte per nanosecond."""
    rates = st.sampled_from((10**9, 5 * 10**8, 2 * 10**9, 3 * 10**8, 1_700_000_001))
    d2h, h2d = draw(rates), draw(rates)
    percent = draw(st.none() | st.tuples(st.integers(20, 100), st.integers(20, 100)))
    return Device(
        name="drawn",
        d2h_bytes_per_s=d2h,
        h2d_bytes_per_s=h2d,
        latency_ns=draw(st.integers(0, 4)),
        d2h_shared_bytes_per_s=None if percent is None else d2h * percent[0] // 100,
        h2d_shared_bytes_per_s=None if percent is None else h2d * percent[1] // 100,
        host_memory_bytes=draw(st.none() | st.integers(1, 40)),
        chunk_bytes=draw(st.sampled_from((0, 0, 0, 1, 2, 5))),
    )


@st.composite
def instances(draw: st.DrawFn, *, max_ops: int = 8) -> Instance:
    """Draw an instance with a budget from the working set to the unlimited peak."""
    graph = draw(graphs(max_ops=max_ops))
    low, high = max(graph.lifetimes.working_set_bytes), graph.unlimited_peak_bytes
    budget = max(1, high - draw(st.integers(0, high - low)))
    return Instance.from_graph(graph, device=draw(devices()), budget=budget)


@st.composite
def plans(draw: st.DrawFn, instance: Instance) -> Plan:
    """Draw a valid plan in which every swapped tensor has a trigger."""
    decisions: dict[str, Any] = {}
    prefetch: dict[str, int] = {}
    for name, allowed in allowed_decisions(instance).items():
        if len(allowed) > 1:
            decisions[name] = draw(st.sampled_from(allowed))
        if decisions.get(name) == "swap":
            low, _, high = trigger_range(instance, name)
            prefetch[name] = draw(st.integers(low, high))
    return Plan.for_instance(instance, decisions, prefetch)


@st.composite
def instances_with_plans(draw: st.DrawFn, *, max_ops: int = 8) -> tuple[Instance, Plan]:
    """Draw an instance and a plan for it."""
    instance = draw(instances(max_ops=max_ops))
    return instance, draw(plans(instance))
