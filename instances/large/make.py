"""Write the instances of this folder, or check that they are what this script writes.

Usage: ``python instances/large/make.py [--check] [--only TEXT]``
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

from slackopt.library.making import Between, Recipe, main
from slackopt.profiles import random_graph, transformer

FOLDER = Path(__file__).resolve().parent

OLMOE = partial(transformer, "olmoe-1b-7b", batch=4, seq=4096, experts="separate")
DEEP_BERT = partial(transformer, "bert-base", batch=4, seq=512, num_layers=400)
DEEP_GPT2 = partial(transformer, "gpt2-xl", batch=1, seq=1024, num_layers=400)
DEEP_EAGER = partial(transformer, "bert-base", batch=4, seq=512, num_layers=300, attention="eager")
DEEP_LLAMA = partial(transformer, "llama-7b", batch=1, seq=2048, num_layers=400, accelerator="h100")
LAYERED = partial(random_graph, "layered", seed=301, num_forward_ops=4000, width=8)
SERIES_PARALLEL = partial(random_graph, "series-parallel", seed=302, num_forward_ops=5000)


def recipes() -> list[Recipe]:
    """All instances of the family, in the order in which they are made."""
    return [
        Recipe(
            "olmoe-1b-7b-separate-experts-a100-pcie4-50",
            OLMOE,
            "a100-pcie4",
            "0.5",
            note="64 experts a layer, each with ops and tensors of its own",
        ),
        Recipe(
            "bert-base-l400-a100-pcie4-40",
            DEEP_BERT,
            "a100-pcie4",
            "0.4",
            note="400 equal blocks",
        ),
        Recipe("gpt2-xl-l400-a100-pcie4-60", DEEP_GPT2, "a100-pcie4", "0.6", note="400 blocks"),
        Recipe(
            "bert-base-l300-eager-a100-pcie4-50",
            DEEP_EAGER,
            "a100-pcie4",
            "0.5",
            note="300 blocks with unfused attention",
        ),
        Recipe("llama-7b-l400-h100-pcie5-30", DEEP_LLAMA, "h100-pcie5", "0.3", note="400 blocks"),
        Recipe(
            "layered-4000-301-a100-pcie4",
            LAYERED,
            "a100-pcie4",
            Between(40),
            note="no two tensors alike",
        ),
        Recipe(
            "series-parallel-5000-302-a100-pcie4",
            SERIES_PARALLEL,
            "a100-pcie4",
            Between(30),
            note="no two tensors alike",
        ),
    ]


if __name__ == "__main__":
    sys.exit(main(FOLDER, recipes()))
