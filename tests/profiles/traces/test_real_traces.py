"""Real traces: public ones where the data is at hand, and recorded ones where PyTorch is."""

import json
from functools import cache
from pathlib import Path

import pytest
from profiles.traces.independent_count import count_saved, load

import slackopt as so

DATA = Path(__file__).parents[4] / "shared" / "data"
PUBLIC = [
    ("param_hf_gpt2_et.json.tar.gz", "ProfilerStep#0", 1),
    ("param_resnet50_et.json.tar.gz", "ProfilerStep#8", 3),
]


@cache
def public(name: str) -> so.Graph:
    if not (DATA / name).exists():
        pytest.skip(f"{name} is not at hand")
    return so.profiles.read_trace(DATA / name, accelerator="a100")


@pytest.mark.parametrize(("name", "step", "steps"), PUBLIC)
def test_public_execution_traces(name: str, step: str, steps: int) -> None:
    graph = public(name)
    assert graph.provenance["step"] == step
    assert len(graph.provenance["steps_found"]) == steps
    saved = graph.provenance["counted"]["saved_activations"]
    assert count_saved(load(DATA / name), step, "cuda:0") == (saved["number"], saved["bytes"])
    instance = so.Instance.from_graph(graph, device="a100-pcie4", budget=0.5)
    instance.check_working_set()
    result = so.solve(instance, method="swap-all")
    assert result.plan is not None
    so.verify(instance, result)


def test_gpt2_saves_what_its_layers_save() -> None:
    graph = public(PUBLIC[0][0])
    life = graph.lifetimes
    saved = {
        t
        for t in range(life.num_tensors)
        if 0 <= life.producer[t] < life.num_forward and life.first_backward_use[t] >= 0
    }
    heads, tokens, hidden, layers = 20, 512, 1280, 36
    scores = heads * tokens * tokens
    sizes = [life.sizes_bytes[t] for t in saved]
    # Softmax's output and the probabilities after dropout, in fp32; dropout's mask, in bytes.
    assert sizes.count(4 * scores) == 2 * layers
    assert sizes.count(scores) == layers
    # QKV in one; the inner width of the MLP is four times the hidden one.
    assert sizes.count(4 * 3 * tokens * hidden) == layers


torch = pytest.importorskip("torch", reason="recording a trace needs PyTorch")


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A real execution trace and the profiler's trace of the same run, on the CPU."""
    folder = tmp_path_factory.mktemp("recorded")
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(64, 128),
        torch.nn.ReLU(inplace=True),
        torch.nn.Linear(128, 64),
        torch.nn.LayerNorm(64),
        torch.nn.Linear(64, 10),
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    inputs, labels = torch.randn(512, 64), torch.randint(0, 10, (512,))
    observer = torch.profiler.ExecutionTraceObserver()
    observer.register_callback(str(folder / "et.json"))
    with torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU],
        record_shapes=True,
        profile_memory=True,
        execution_trace_observer=observer,
        schedule=torch.profiler.schedule(wait=0, warmup=1, active=2, repeat=1),
        on_trace_ready=lambda p: p.export_chrome_trace(str(folder / "profile.json")),
    ) as profiler:
        for _ in range(3):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(inputs), labels).backward()
            optimizer.step()
            profiler.step()
    return folder / "et.json", folder / "profile.json"


def test_recorded_traces_joined(recorded: tuple[Path, Path]) -> None:
    trace, profile = recorded
    graph = so.profiles.read_trace(trace, durations=profile)
    assert graph.provenance["step"] == "ProfilerStep#2"
    saved = graph.provenance["counted"]["saved_activations"]
    document = json.loads(trace.read_text())
    assert count_saved(document, "ProfilerStep#2", "cpu") == (saved["number"], saved["bytes"])
    # Eight parameters, and the running 64-bit labels and the batch as inputs.
    assert graph.provenance["counted"]["parameter_gradients"]["number"] == 8
    assert graph.provenance["counted"]["inputs"]["bytes"] == 512 * 64 * 4 + 512 * 8
    # What autograd keeps: both linear inputs beyond the batch (relu's output among them), layer
    # norm's input, mean and deviation, and the loss's.
    sizes = sorted(
        graph.lifetimes.sizes_bytes[t]
        for t in range(graph.lifetimes.num_tensors)
        if 0 <= graph.lifetimes.producer[t] < graph.lifetimes.num_forward
        and graph.lifetimes.first_backward_use[t] >= 0
    )
    large = [size for size in sizes if size > 4096]
    assert large == sorted([512 * 128 * 4, 512 * 64 * 4, 512 * 64 * 4, 512 * 10 * 4])
    assert all(op.duration_ns > 1 for op in graph.ops)
    instance = so.Instance.from_graph(graph, device="a100-pcie4", budget=1.0)
    so.verify(instance, so.solve(instance, method="keep-all"))


def test_a_recorded_profile_alone_agrees_with_the_joined_one(recorded: tuple[Path, Path]) -> None:
    trace, profile = recorded
    joined = so.profiles.read_trace(trace, durations=profile)
    alone = so.profiles.read_trace(profile)
    assert [op.name.split()[0] for op in alone.ops] == [op.name.split()[0] for op in joined.ops]
    assert [op.duration_ns for op in alone.ops] == [op.duration_ns for op in joined.ops]
    assert [op.phase for op in alone.ops] == [op.phase for op in joined.ops]
    large = {"activation": [], "gradient": []}
    for graph in (alone, joined):
        for kind, sizes in large.items():
            found = [t.size_bytes for t in graph.tensors if t.kind == kind and t.size_bytes > 4096]
            sizes.append(sorted(found))
    assert large["activation"][0] == large["activation"][1]
