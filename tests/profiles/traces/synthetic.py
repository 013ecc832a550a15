"""Small traces of every format, made here: two steps of a model of one linear layer.

A step is ``h = addmm(b, x, w)``; ``relu_(h)``; ``y = native_dropout(h)``; ``loss = sum(y)``, and
back. The address of ``y`` is given out again for the gradient of ``h``, as a real allocator does.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

DEVICE = "cuda:0"
ROWS, WIDTH = 1024, 512
Json = dict[str, Any]

ADDMM = "aten::addmm(Tensor self, Tensor mat1, Tensor mat2) -> Tensor"
MM = "aten::mm(Tensor self, Tensor mat2) -> Tensor"
SUM = "aten::sum(Tensor self, *, ScalarType? dtype=None) -> Tensor"
RELU_ = "aten::relu_(Tensor(a!) self) -> Tensor(a!)"
CLAMP_ = "aten::clamp_min_(Tensor(a!) self, Scalar min) -> Tensor(a!)"
DROPOUT = "aten::native_dropout(Tensor input, float p, bool? train) -> (Tensor, Tensor)"
DROPOUT_BACK = "aten::native_dropout_backward(Tensor grad, Tensor mask, float scale) -> Tensor"
THRESHOLD_BACK = "aten::threshold_backward(Tensor grad, Tensor self, Scalar threshold) -> Tensor"
EMPTY = "aten::empty_like(Tensor self) -> Tensor"
VIEW = "aten::t(Tensor(a) self) -> Tensor(a)"
EXPAND = "aten::expand(Tensor(a) self, SymInt[] size) -> Tensor(a)"
ADD_ = "aten::add_.Tensor(Tensor(a!) self, Tensor other, *, Scalar alpha=1) -> Tensor(a!)"


class Recorder:
    """Records calls as the observer of PyTorch does: ids in the order of calls, nested."""

    def __init__(self, schema: str = "1.1.1-chakra.0.0.4") -> None:
        self.schema = schema
        self.next_id = 2
        self.nodes: list[Json] = []
        self.stack = [1]
        self.events: list[Json] = []
        self.clock = 1000.0

    def new_id(self) -> int:
        self.next_id += 1
        return self.next_id

    def tensor(
        self, storage: int, shape: list[int], itemsize: int = 4, dtype: str = "float"
    ) -> tuple[list[Any], list[int], str, list[int]]:
        """Return value, shape, type and strides of a contiguous tensor in a storage."""
        numel, strides = 1, []
        for size in reversed(shape):
            strides.insert(0, numel)
            numel *= size
        value = [self.new_id(), storage, 0, numel, itemsize, DEVICE]
        return value, shape, f"Tensor({dtype})", strides

    @contextmanager
    def call(
        self,
        name: str,
        inputs: list[Any] | None = None,
        outputs: list[Any] | None = None,
        schema: str = "",
        scope: int = 0,
        seq: int = -1,
        dur: float = 10.0,
    ) -> Iterator[int]:
        number = self.new_id()
        begin = self.clock
        self.clock += 0.5
        self.stack.append(number)
        yield number
        self.stack.pop()
        self.clock += dur
        self.nodes.append(self.node(number, name, inputs or [], outputs or [], schema, scope, seq))
        self.events.append(
            {
                "ph": "X",
                "cat": "user_annotation" if scope == 7 else "cpu_op",
                "name": name,
                "pid": 1,
                "tid": 1,
                "ts": begin,
                "dur": self.clock - begin,
                "args": {
                    "External id": number,
                    "Record function id": number,
                    "Sequence number": max(seq, 0),
                    "Input Dims": [tensor[1] for tensor in inputs or []],
                    "Input type": [tensor[2][7:-1] for tensor in inputs or []],
                },
            }
        )

    def op(self, name: str, inputs: list[Any], outputs: list[Any], schema: str, **more: Any) -> int:
        with self.call(name, inputs, outputs, schema, **more) as number:
            return number
        raise AssertionError

    def node(
        self,
        number: int,
        name: str,
        inputs: list[Any],
        outputs: list[Any],
        schema: str,
        scope: int,
        seq: int,
    ) -> Json:
        attributes = {
            "rf_id": number,
            "fw_parent": 0,
            "seq_id": seq,
            "scope": scope,
            "tid": 1,
            "fw_tid": 0,
            "op_schema": schema,
        }
        sides = {}
        for side, tensors in (("inputs", inputs), ("outputs", outputs)):
            sides[side] = {
                "values": [tensor[0] for tensor in tensors],
                "shapes": [tensor[1] for tensor in tensors],
                "types": [tensor[2] for tensor in tensors],
                "strides": [tensor[3] for tensor in tensors],
            }
        if self.schema.startswith("1.1"):
            if "1.1.1" not in self.schema:
                for side in sides.values():
                    del side["strides"]
            named = [{"name": k, "type": "any", "value": v} for k, v in attributes.items()]
            return {
                "id": number,
                "name": name,
                "ctrl_deps": self.stack[-1],
                **sides,
                "attrs": named,
            }
        flat = {
            "inputs": sides["inputs"]["values"],
            "input_shapes": sides["inputs"]["shapes"],
            "input_types": sides["inputs"]["types"],
            "outputs": sides["outputs"]["values"],
            "output_shapes": sides["outputs"]["shapes"],
            "output_types": sides["outputs"]["types"],
        }
        if self.schema == "1.0.1":
            return {"id": number, "name": name, "parent": self.stack[-1], **attributes, **flat}
        named = [{"name": k, "type": "any", "value": v} for k, v in attributes.items()]
        return {"id": number, "name": name, "ctrl_deps": self.stack[-1], **flat, "attrs": named}

    def document(self) -> Json:
        root = self.node(1, "[pytorch|profiler|execution_trace|process]", [], [], "", 7, -1)
        root["parent" if self.schema == "1.0.1" else "ctrl_deps"] = 1
        return {"schema": self.schema, "pid": 1, "nodes": [*self.nodes, root]}

    def kineto(self, *, on_device: bool = False) -> Json:
        events = copy.deepcopy(self.events)
        if on_device:
            events += [
                {
                    "ph": "X",
                    "cat": "kernel",
                    "name": "kernel",
                    "pid": 0,
                    "tid": 7,
                    "ts": event["ts"] + 100,
                    "dur": 7.0,
                    "args": {"External id": event["args"]["External id"], "stream": 7},
                }
                for event in self.events
                if event["name"] in ("aten::addmm", "aten::mm", "aten::native_dropout")
            ]
        return {"schemaVersion": 1, "deviceProperties": [], "traceEvents": events}


X, W, B, M, LOSS, MASK, H, Y, GW, GB, SEED = 100, 101, 102, 103, 104, 105, 106, 107, 108, 109, 110


def record_step(recorder: Recorder, number: int | None = 0) -> None:
    """Record one step; with a step marker if it has a number."""
    if number is None:
        _step(recorder)
        return
    with recorder.call(f"ProfilerStep#{number}", scope=7):
        _step(recorder)


def _step(r: Recorder) -> None:
    big, weight = [ROWS, WIDTH], [WIDTH, WIDTH]
    x, w, b = r.tensor(X, big), r.tensor(W, weight), r.tensor(B, [WIDTH])
    h, y = r.tensor(H, big), r.tensor(Y, big)
    mask, loss = r.tensor(MASK, big, 1, "bool"), r.tensor(LOSS, [])
    with r.call("block 0", scope=7):
        with r.call("aten::addmm", [b, x, w], [h], ADDMM, seq=0):
            # The bias is expanded: more elements than bytes behind them.
            wide = r.tensor(B, big)
            wide[3][0] = 0
            r.op("aten::expand", [b], [wide], EXPAND)
        with r.call("aten::relu_", [h], [h], RELU_, seq=1):
            r.op("aten::clamp_min_", [h], [h], CLAMP_)
        with r.call("aten::native_dropout", [h], [y, mask], DROPOUT, seq=2):
            r.op("aten::empty_like", [h], [y], EMPTY)
            r.op("aten::empty_like", [h], [mask], EMPTY)
    r.op("aten::sum", [y], [loss], SUM, seq=3)
    seed = r.tensor(SEED, big)
    with (
        r.call("autograd::engine::evaluate_function: SumBackward0"),
        r.call("SumBackward0", [loss], scope=1, seq=3),
    ):
        r.op("aten::mul", [loss], [seed], "aten::mul(Tensor self, Tensor other) -> Tensor")
    # The address of y, free now, is given out again.
    gradient = r.tensor(Y, big)
    with (
        r.call("autograd::engine::evaluate_function: NativeDropoutBackward0"),
        r.call("NativeDropoutBackward0", [seed], scope=1, seq=2),
    ):
        r.op("aten::native_dropout_backward", [seed, mask], [gradient], DROPOUT_BACK)
    through = r.tensor(MASK, big)
    with (
        r.call("autograd::engine::evaluate_function: ReluBackward0"),
        r.call("ReluBackward0", [gradient], scope=1, seq=1),
    ):
        r.op("aten::threshold_backward", [gradient, h], [through], THRESHOLD_BACK)
    gw, turned = r.tensor(GW, weight), r.tensor(X, [WIDTH, ROWS])
    turned[3][:] = [1, WIDTH]
    with (
        r.call("autograd::engine::evaluate_function: AddmmBackward0"),
        r.call("AddmmBackward0", [through], scope=1, seq=0),
    ):
        r.op("aten::t", [x], [turned], VIEW)
        r.op("aten::mm", [turned, through], [gw], MM)
    with r.call("autograd::engine::evaluate_function: torch::autograd::AccumulateGrad"):
        r.op("torch::autograd::AccumulateGrad", [gw], [], "", scope=1)
    with r.call("Optimizer.step#SGD.step", scope=7):
        r.op("aten::add_", [w, gw], [w], ADD_)
        r.op("aten::add_", [b, r.tensor(GB, [WIDTH])], [b], ADD_)


def execution_trace(
    schema: str = "1.1.1-chakra.0.0.4", steps: int = 2, *, markers: bool = True
) -> tuple[Json, Json, Json]:
    """Return an execution trace, and the profiler's trace of the run on host and on device."""
    recorder = Recorder(schema)
    for number in range(steps):
        record_step(recorder, number if markers else None)
    return recorder.document(), recorder.kineto(), recorder.kineto(on_device=True)


def profile_alone() -> Json:
    """A profiler trace with shapes and memory: two linear layers' worth of calls, one step."""
    events: list[Json] = []
    clock, free = [0.0], [0.0]

    def memory(address: int, size: int) -> None:
        arguments = {"Addr": address, "Bytes": size, "Device Type": 1, "Device Id": 0}
        events.append(
            {
                "ph": "i",
                "cat": "cpu_instant_event",
                "name": "[memory]",
                "pid": 1,
                "tid": 1,
                "ts": clock[0],
                "args": arguments,
            }
        )
        clock[0] += 0.25

    @contextmanager
    def call(
        name: str, shapes: list[list[int]], kernel: float | None = None, **more: Any
    ) -> Iterator[None]:
        begin = clock[0]
        clock[0] += 0.5
        yield
        clock[0] += 1.0
        number = len(events) + 1
        cat = more.pop("cat", "cpu_op")
        arguments = {
            "External id": number,
            "Record function id": number,
            "Input Dims": shapes,
            "Input type": ["float"] * len(shapes),
            **more,
        }
        events.append(
            {
                "ph": "X",
                "cat": cat,
                "name": name,
                "pid": 1,
                "tid": 1,
                "ts": begin,
                "dur": clock[0] - begin,
                "args": arguments,
            }
        )
        if kernel is not None:
            free[0] = max(free[0], begin)
            events.append(
                {
                    "ph": "X",
                    "cat": "kernel",
                    "name": "k",
                    "pid": 0,
                    "tid": 7,
                    "ts": free[0],
                    "dur": kernel,
                    "args": {"External id": number},
                }
            )
            free[0] += kernel
        clock[0] += 0.25

    a, b, c = 4 * ROWS * WIDTH, 4 * ROWS * 64, 512
    with call("ProfilerStep#4", [], cat="user_annotation"):
        with call("aten::mm", [[ROWS, 16], [16, WIDTH]], 5.0, **{"Sequence number": 0}):
            memory(1, a)
        with call("aten::mm", [[ROWS, WIDTH], [WIDTH, 64]], 6.0, **{"Sequence number": 1}):
            memory(2, b)
        with call("aten::sum", [[ROWS, 64]], 1.0, **{"Sequence number": 2}):
            memory(3, c)
        with (
            call("autograd::engine::evaluate_function: SumBackward0", []),
            call("SumBackward0", [[]], **{"Sequence number": 2}),
            call("aten::mul", [[ROWS, 64]], 1.0),
        ):
            memory(4, b)
        memory(2, -b)
        with (
            call("autograd::engine::evaluate_function: MmBackward0", []),
            call("MmBackward0", [[ROWS, 64]], **{"Sequence number": 1}),
            call("aten::mm", [[WIDTH, ROWS], [ROWS, 64]], 6.0),
        ):
            memory(5, 4 * WIDTH * 64)
        memory(1, -a)
        memory(4, -b)
    return {"schemaVersion": 1, "traceEvents": events}


def aot_dump(*, absolute: bool = True, measured: bool = False) -> Json:
    """A joint graph: y = relu(x @ w), z = dropout(y), and back."""
    shape = f"torch.Size([{ROWS}, {WIDTH}])"
    nodes: Json = {}
    memories: list[int] = []

    def node(name: str, target: str, inputs: list[str], size: str = shape, **more: Any) -> None:
        runtime = more.get("runtime")
        entry: Json = {
            "index": len(nodes),
            "name": name,
            "is_recomputable_candidate": runtime is not None,
            "target": target,
            "shape": size,
            "input_arguments": inputs,
            "stack_trace": "",
        }
        if runtime is not None:
            entry["recomputable_candidate_info"] = {
                "recomputable_node_idx": len(memories),
                "memory": 0.5,
                "runtime": runtime,
            }
            memories.append(2 * ROWS * WIDTH)
        nodes[name] = entry

    node("primals_1", "primals_1", [], f"torch.Size([{WIDTH}, {WIDTH}])")
    node("primals_2", "primals_2", [])
    node("tangents_1", "tangents_1", [])
    runtime = 0.25 if measured else 2 * ROWS * WIDTH * WIDTH
    node("mm", "aten.mm.default", ["primals_2", "primals_1"], runtime=runtime)
    node("view", "aten.view.default", ["mm"], f"torch.Size([{ROWS * WIDTH}])")
    node("relu", "aten.relu.default", ["view"], runtime=1)
    node("dropout", "aten.native_dropout.default", ["relu"], "[]")
    node("getitem", "<built-in function getitem>", ["dropout"])
    node("getitem_1", "<built-in function getitem>", ["dropout"])
    node("mul", "aten.mul.Tensor", ["tangents_1", "getitem_1"])
    node("le", "aten.le.Scalar", ["relu"])
    node("where", "aten.where.self", ["le", "mul"])
    node("mm_1", "aten.mm.default", ["primals_2", "where"], f"torch.Size([{WIDTH}, {WIDTH}])")
    node("output", "output", ["getitem", "mm_1"], "[]")
    document: Json = {
        "Joint Graph Size": len(nodes),
        "Joint Graph Edges": {"Total": 0, "Edges": []},
        "Joint Graph Node Information": nodes,
    }
    if absolute:
        document["Absolute Memories"] = memories
    return document


def write(path: Path, document: object) -> Path:
    path.write_text(json.dumps(document))
    return path
