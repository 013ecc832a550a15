# ---
# jupyter:
#   jupytext:
#     formats: ipynb,py:percent
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
#   slackopt:
#     needs: [torch, transformers]
# ---

# %% [markdown]
# # From a PyTorch model to a plan
#
# You will learn to
#
# - trace the training step of a PyTorch model of your own, without a GPU,
# - check that the trace saves what PyTorch really saves,
# - read a plan in terms of your modules,
# - compare a traced Hugging Face model with the analytic preset of the same size.
#
# This notebook needs PyTorch and transformers: `make torch`, or
# `pip install "slackopt[torch]"`.

# %%
import os
import warnings
from pathlib import Path

import matplotlib as mpl
import pandas as pd

import slackopt as so

warnings.filterwarnings("ignore", message="IProgress not found")  # transformers likes bars
try:
    import torch
    import transformers
    from torch.nn import functional
except ImportError as error:
    raise SystemExit(
        'this notebook needs PyTorch and transformers: make torch, or pip install "slackopt[torch]"'
    ) from error

# SLACKOPT_NOTEBOOKS=small makes every notebook run in seconds: the tests do so.
SMALL = os.environ.get("SLACKOPT_NOTEBOOKS") == "small"
FIGURES = Path(os.environ.get("SLACKOPT_FIGURES", "../build/notebooks/figures"))
FIGURES.mkdir(parents=True, exist_ok=True)
mpl.rcParams["figure.dpi"] = 160  # on the screen; files have their own
print(f"torch {torch.__version__}, transformers {transformers.__version__}")

# %% [markdown]
# ## A model of your own
#
# Any module will do. This one mixes along channels, in residual blocks.


# %%
class Block(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = torch.nn.LayerNorm(width)
        self.up = torch.nn.Linear(width, 4 * width)
        self.down = torch.nn.Linear(4 * width, width)

    def forward(self, x):
        return x + self.down(functional.gelu(self.up(self.norm(x))))


class Model(torch.nn.Module):
    def __init__(self, width, depth, classes):
        super().__init__()
        self.blocks = torch.nn.ModuleList(Block(width) for _ in range(depth))
        self.head = torch.nn.Linear(width, classes)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.head(x)


torch.manual_seed(0)
width, depth, rows = (256, 4, 1024) if SMALL else (512, 8, 8192)
model = Model(width, depth, classes=10)
inputs, labels = torch.randn(rows, width), torch.randint(10, (rows,))
before = {name: parameter.clone() for name, parameter in model.named_parameters()}

# %% [markdown]
# `from_torch` runs one step on tensors without data, and writes down every op that reaches
# PyTorch's kernels, every storage, and who reads it. Op times are estimates for the accelerator.

# %%
graph = so.profiles.from_torch(model, inputs, targets=labels, loss=functional.cross_entropy)
print(graph)
first = [op for op in graph.ops if op.phase == "forward"][:6]
pd.DataFrame(
    {
        "op": [op.name for op in first],
        "layer": [op.layer for op in first],
        "duration (us)": [op.duration_ns / 1e3 for op in first],
        "makes": [", ".join(op.outputs) for op in first],
    }
).round(2)

# %% [markdown]
# ## Is the trace right?
#
# PyTorch tells which tensors it saves for the backward pass. Here the step runs for real, on the
# CPU. Parameters don't count, and views of one storage count once.

# %%
saved = {}
statics = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}


def pack(tensor):
    storage = tensor.untyped_storage()
    if storage.data_ptr() not in statics:
        saved[storage.data_ptr()] = storage  # held, so that no address is used twice
    return tensor


with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
    loss = functional.cross_entropy(model(inputs), labels)
real_bytes = sorted(storage.nbytes() for storage in saved.values())
real_bytes = [size for size in real_bytes if size > 0]

life = graph.lifetimes
traced_bytes = sorted(
    life.sizes_bytes[t]
    for t in range(life.num_tensors)
    if life.first_backward_use[t] >= 0 and life.producer[t] < life.num_forward
)
print(f"autograd saves {len(real_bytes)} storages, {sum(real_bytes) / 2**20:.2f} MiB")
print(f"the graph says {len(traced_bytes)} storages, {sum(traced_bytes) / 2**20:.2f} MiB")

# %% [markdown]
# ## A plan for it
#
# Tensors below 1 MiB are not swappable here (`min_swap_bytes` changes that): a copy has a fixed
# cost. The names in the table are paths of your modules.

# %%
instance = so.Instance.from_graph(graph, device="a100-pcie4", budget=0.6)
result = so.solve(instance, "milp", time_limit=2 if SMALL else 30, gap=1e-3)
print(result)
made_by = {name: op for op in graph.ops for name in op.outputs}
sizes = {tensor.name: tensor.size_bytes for tensor in graph.tensors}
chosen = [
    {
        "tensor": name,
        "decision": decision,
        "layer": made_by[name].layer if name in made_by else "",  # the batch has no op
        "size (MiB)": sizes[name] / 2**20,
    }
    for name, decision in result.plan.decisions.items()
    if decision != "keep"
]
pd.DataFrame(chosen).head(12)

# %%
with so.plotting.style("paper"):
    ax = so.plotting.plot_decision_map(instance, result)
    so.plotting.save_figure(ax.figure, FIGURES / "3-own-model.pdf")
    so.plotting.save_figure(ax.figure, FIGURES / "3-own-model.png")

# %% [markdown]
# ## A model by name, and the analytic preset
#
# The same ViT-Base twice: traced from transformers, and written down from its shape. The two come
# from different code, so they should be close, not equal. For one, the trace sees each of the
# products for queries, keys and values, where the preset has one.

# %%
size = {"batch": 8, "num_layers": 3} if SMALL else {"batch": 64, "num_layers": 12}
traced = so.profiles.torch_model("hf:vit", **size)
preset = so.profiles.transformer("vit-base", **size)
pairs = pd.DataFrame(
    {
        name: {
            "ops": len(graph.ops),
            "ideal step time (ms)": graph.ideal_ns / 1e6,
            "unlimited peak (GiB)": graph.unlimited_peak_bytes / 2**30,
        }
        for name, graph in (("traced", traced), ("analytic", preset))
    }
)
pairs.round(3)

# %% [markdown]
# And what SlackSwap and the exact method reach on both, at 70 % of the peak of each:

# %%
solved = {}
for name, each in (("traced", traced), ("analytic", preset)):
    question = so.Instance.from_graph(each, device="a100-pcie4", budget=0.7)
    for method in ("slackswap-timeline", "milp"):
        answer = so.solve(question, method, time_limit=1 if SMALL else 30, gap=1e-3)
        solved[name, method] = (question, answer)
pd.DataFrame(
    [
        {
            "graph": name,
            "method": method,
            "status": answer.status,
            "throughput (% of ideal)": None
            if answer.throughput_ratio is None
            else 100 * answer.throughput_ratio,
            "certified gap (%)": None if answer.gap is None else 100 * answer.gap,
        }
        for (name, method), (_, answer) in solved.items()
    ]
).round(3)

# %%
question, answer = solved["traced", "milp"]
figure = so.plotting.plot_step(so.simulate(question, answer.plan))
so.plotting.save_figure(figure, FIGURES / "3-traced-vit.pdf")
so.plotting.save_figure(figure, FIGURES / "3-traced-vit.png")

# %% [markdown]
# ## Checks

# %%
assert traced_bytes == real_bytes, "the graph's saved storages are autograd's, byte for byte"
for name, parameter in model.named_parameters():
    assert torch.equal(parameter, before[name]), "the model was left as it was"
    assert parameter.grad is None
so.verify(instance, result)
assert result.lower_bound_ns <= result.makespan_ns
assert 0.5 < preset.unlimited_peak_bytes / traced.unlimited_peak_bytes < 2
assert 0.5 < preset.ideal_ns / traced.ideal_ns < 2
for question, answer in solved.values():
    so.verify(question, answer)
for name in ("traced", "analytic"):
    bound, plan = solved[name, "milp"][1], solved[name, "slackswap-timeline"][1]
    assert plan.makespan_ns is None or bound.lower_bound_ns <= plan.makespan_ns
print("all checks hold")
