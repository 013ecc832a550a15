"""Counts the saved activations of an execution trace, without the package under test.

Written from the definition alone: a forward storage that a call in the backward pass takes. It
reads the document as a whole and goes through the calls in the order of the file, which is the
order in which they returned (the reader of the package goes through them in the order in which they
were made, and has ops, views and merging, of which nothing is here). A storage begins with the
first call that returns it without having taken it, unless a call made within that call did.

    python tests/profiles/traces/independent_count.py TRACE.json.tar.gz ProfilerStep#8
"""

from __future__ import annotations

import json
import sys
import tarfile
from pathlib import Path
from typing import Any

STORAGE, NUMEL, ITEMSIZE, DEVICE = 1, 3, 4, 5


def load(path: Path) -> dict[str, Any]:
    if path.name.endswith(".tar.gz"):
        with tarfile.open(path) as archive:
            member = archive.extractfile(archive.getmembers()[0])
            assert member is not None
            return json.load(member)  # type: ignore[no-any-return]
    return json.loads(path.read_text())  # type: ignore[no-any-return]


def tensors(arguments: dict[str, Any]) -> list[list[Any]]:
    found: list[list[Any]] = []

    def search(value: Any) -> None:
        if not isinstance(value, list):
            return
        if len(value) == 6 and isinstance(value[5], str) and isinstance(value[0], int):
            found.append(value)
        else:
            for part in value:
                search(part)

    for kind, value in zip(arguments["types"], arguments["values"], strict=True):
        if "Tensor" in kind:
            search(value)
    return [value for value in found if value[NUMEL] * value[ITEMSIZE]]


def count_saved(document: dict[str, Any], step: str, device: str) -> tuple[int, int]:
    """Return number and bytes of the saved activations of one step."""
    nodes = {node["id"]: node for node in document["nodes"]}
    attributes = {
        number: {entry["name"]: entry["value"] for entry in node["attrs"]}
        for number, node in nodes.items()
    }
    markers = sorted(n for n, node in nodes.items() if node["name"].startswith("ProfilerStep#"))
    begin = next(n for n in markers if nodes[n]["name"] == step)
    end = min((n for n in markers if n > begin), default=max(nodes) + 1)

    def above(number: int) -> list[int]:
        chain = [number]
        while nodes[chain[-1]]["ctrl_deps"] in nodes and nodes[chain[-1]]["ctrl_deps"] != chain[-1]:
            chain.append(nodes[chain[-1]]["ctrl_deps"])
        return chain

    def storages(number: int, side: str) -> set[int]:
        return {t[STORAGE] for t in tensors(nodes[number][side]) if t[DEVICE] == device}

    def allocated_around(chain: list[int], storage: int) -> bool:
        """Whether a call above had the storage allocated unseen: it returns what it didn't take."""
        return any(
            storage in storages(n, "outputs") and storage not in storages(n, "inputs")
            for n in chain[1:]
        )

    born: dict[int, tuple[int, bool, int]] = {}  # storage id -> call, backward, bytes
    saved: dict[tuple[int, int], int] = {}
    for node in document["nodes"]:
        number = node["id"]
        if not begin <= number < end:
            continue
        chain = above(number)
        if any(nodes[n]["name"].startswith("Optimizer.") for n in chain):
            continue
        backward = any(nodes[n]["name"].startswith("autograd::engine::") for n in chain)
        takes = [t for t in tensors(node["inputs"]) if t[DEVICE] == device]
        gives = [t for t in tensors(node["outputs"]) if t[DEVICE] == device]
        if backward and attributes[number]["op_schema"]:
            for tensor in takes:
                storage = tensor[STORAGE]
                from_forward = storage in born and not born[storage][1]
                if from_forward and not allocated_around(chain, storage):
                    saved[storage, born[storage][0]] = born[storage][2]
        taken = {tensor[STORAGE] for tensor in takes}
        for tensor in gives:
            storage = tensor[STORAGE]
            if storage in taken or (storage in born and born[storage][0] > number):
                continue
            size = tensor[NUMEL] * tensor[ITEMSIZE]
            if storage in born and born[storage][0] == number:
                size = max(size, born[storage][2])
            born[storage] = (number, backward, size)
    return len(saved), sum(saved.values())


if __name__ == "__main__":
    number, size = count_saved(load(Path(sys.argv[1])), sys.argv[2], "cuda:0")
    print(f"{number} storages, {size} bytes")
