"""Profiles of large PyTorch models: saved bytes of a layer, seconds and memory to trace them.

Each model is traced in a process of its own. The saved bytes of a middle layer are those of the
forward tensors that its backward ops read, less what all layers share (positions, masks), in units
of s*b*h: tokens of a sequence, sequences, width.

    python benchmarks/torch_profiles.py
"""

import json
import resource
import subprocess
import sys
import time

from slackopt.graph import Graph
from slackopt.profiles import torch_model

MODELS = {
    # name, batch, tokens, width, attention, a middle layer, expected multiple
    "BERT-Large": ("hf:bert-large", 8, 512, 1024, "eager", "bert.encoder.layer.12", 74.0),
    "BERT-Large, flash": ("hf:bert-large", 8, 512, 1024, "flash", "bert.encoder.layer.12", 34.07),
    "GPT-2 XL": ("hf:gpt2-xl", 4, 1024, 1600, "flash", "transformer.h.24", 58.07),
    "Llama-7B": ("hf:llama-7b", 1, 4096, 4096, "flash", "model.layers.16", 45.53),
}


def saved_bytes(graph: Graph, layer: str) -> int:
    """Bytes of forward tensors that a layer's backward ops read, made in it or the layer before."""
    life, layers = graph.lifetimes, [op.layer for op in graph.ops]
    number = int(layer.rpartition(".")[2])
    before = f"{layer.rpartition('.')[0]}.{number - 1}"
    saved = {
        t
        for k, op in enumerate(graph.ops)
        if op.phase == "backward" and op.layer == layer
        for t in life.inputs[k]
        if 0 <= life.producer[t] < life.num_forward and layers[life.producer[t]] in (layer, before)
    }
    return sum(life.sizes_bytes[t] for t in saved)


def measure(title: str) -> None:
    """Trace one model and print what came out as JSON."""
    name, batch, seq, width, attention, layer, _ = MODELS[title]
    start = time.perf_counter()
    graph = torch_model(name, batch=batch, seq=seq, attention=attention)
    seconds = time.perf_counter() - start
    cpu = resource.getrusage(resource.RUSAGE_SELF)
    found = {
        "multiple": saved_bytes(graph, layer) / (seq * batch * width),
        "ops": len(graph.ops),
        "peak_gib": graph.unlimited_peak_bytes / 2**30,
        "seconds": seconds,
        "cpu_seconds": cpu.ru_utime + cpu.ru_stime,
        "rss_gib": cpu.ru_maxrss / 2**20,
    }
    print(json.dumps(found))


def main() -> None:
    """Print a row for each model."""
    print("model                batch x tokens   sbh / layer  expected    ops  peak GiB", end="")
    print("  seconds  CPU seconds  RSS GiB")
    for title, (_, batch, seq, _, _, _, expected) in MODELS.items():
        command = [sys.executable, __file__, title]
        ran = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        row = json.loads(ran.stdout)
        print(
            f"{title:20} {batch:5} x {seq:<8} {row['multiple']:10.3f} {expected:9} "
            f"{row['ops']:7} {row['peak_gib']:9.2f} {row['seconds']:8.1f} "
            f"{row['cpu_seconds']:12.1f} {row['rss_gib']:8.2f}"
        )


if __name__ == "__main__":
    if len(sys.argv) > 1:
        measure(sys.argv[1])
    else:
        main()
