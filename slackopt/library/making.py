"""Making the instance files of a family from recipes, byte for byte.

A family is a folder with a ``make.py`` that lists recipes and calls `main`. Its files are
``<name>.json.gz``. What must be the same everywhere is their content after decompression: the
deflate stream depends on the zlib that Python was built with, so that a file whose content is right
is left as it is.
"""

from __future__ import annotations

import argparse
import gzip
import io
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from slackopt.device import Device
from slackopt.errors import InputError
from slackopt.files import read_text, write_bytes
from slackopt.graph import Graph
from slackopt.instance import Instance
from slackopt.profiles.devices import get_device

SUFFIX = ".json.gz"


@dataclass(frozen=True)
class Between:
    """A budget between the largest working set (0 %) and the unlimited peak (100 %).

    For graphs whose working set is a large share of the peak, where a fraction of the peak alone
    says little. Negative: below the working set, which no plan can meet.
    """

    percent: int

    def budget_bytes(self, graph: Graph) -> int:
        """Return the budget in bytes."""
        least = max(graph.lifetimes.batch_bytes, *graph.lifetimes.working_set_bytes)
        return least + (graph.unlimited_peak_bytes - least) * self.percent // 100


@dataclass(frozen=True)
class Recipe:
    """How one instance is made.

    Attributes
    ----------
    name
        Name of the instance and of its file.
    graph
        Makes the graph. Recipes that share it are made one after the other, from one graph.
    device
        Name in the catalogue, or a device.
    budget
        As `slackopt.instance.parse_budget` reads it, or a `Between`.
    note
        What the instance is there for: a sentence, kept in its provenance.
    """

    name: str
    graph: Callable[[], Graph]
    device: str | Device
    budget: str | Between
    note: str = ""


def capped(device: str, host_memory_bytes: int) -> Device:
    """Return a device of the catalogue with less host memory."""
    found = get_device(device)
    size = f"{host_memory_bytes / 2**30:g}GiB"
    return found.model_copy(
        update={"name": f"{device}-host-{size}", "host_memory_bytes": host_memory_bytes}
    )


def slow_link(device: str, divisor: int) -> Device:
    """Return a device of the catalogue whose link, shared by `divisor` devices, is slower."""
    found = get_device(device)
    rates = {
        name: value // divisor
        for name, value in found.model_dump().items()
        if name.endswith("bytes_per_s") and value is not None
    }
    source = f"{found.source}; bandwidth divided by {divisor}: as many devices behind one link"
    return found.model_copy(
        update={**rates, "name": f"{device}-shared-by-{divisor}", "source": source}
    )


def made(recipes: Sequence[Recipe], family: str) -> Iterator[Instance]:
    """Make the instances of a family, in order."""
    build = lru_cache(maxsize=1)(lambda make: make())
    for recipe in recipes:
        graph = build(recipe.graph)
        budget: Any = recipe.budget
        if isinstance(budget, Between):
            budget = budget.budget_bytes(graph)
        instance = Instance.from_graph(graph, name=recipe.name, device=recipe.device, budget=budget)
        provenance = {"family": family} | ({"note": recipe.note} if recipe.note else {})
        # model_copy keeps the checked graph; a new record would check it again.
        yield instance.model_copy(update={"provenance": provenance})


def content(instance: Instance) -> str:
    """Return the text of an instance file, before compression."""
    return instance.model_dump_json(indent=1) + "\n"


def compress(text: str) -> bytes:
    """Compress with a header that is the same for every Python version."""
    buffer = io.BytesIO()
    with gzip.GzipFile(filename="", mode="wb", fileobj=buffer, compresslevel=9, mtime=0) as file:
        file.write(text.encode())
    return buffer.getvalue()


def write_family(folder: Path, recipes: Sequence[Recipe], only: str = "") -> list[Path]:
    """Write the files whose content is missing or not as made; return the paths of all.

    Parameters
    ----------
    folder
        The family; its name is the family's name.
    recipes
        Its instances.
    only
        Make instances whose name contains this text alone.
    """
    paths = []
    for instance in made(_chosen(recipes, only), folder.name):
        path = folder / f"{instance.name}{SUFFIX}"
        text = content(instance)
        if not _holds(path, text):
            write_bytes(compress(text), path)
        paths.append(path)
    return paths


def differing(folder: Path, recipes: Sequence[Recipe], only: str = "") -> list[str]:
    """Names of files that are missing, have another content than made, or are not in recipes."""
    wrong = [
        f"{instance.name}{SUFFIX}"
        for instance in made(_chosen(recipes, only), folder.name)
        if not _holds(folder / f"{instance.name}{SUFFIX}", content(instance))
    ]
    if not only:
        known = {f"{recipe.name}{SUFFIX}" for recipe in recipes}
        wrong += sorted(path.name for path in folder.glob(f"*{SUFFIX}") if path.name not in known)
    return wrong


def main(folder: Path, recipes: Sequence[Recipe], arguments: Sequence[str] | None = None) -> int:
    """Run a family's script; return its exit code."""
    parser = argparse.ArgumentParser(description=f"Make the instances of {folder.name!r}.")
    parser.add_argument(
        "--check", action="store_true", help="write nothing; fail if a file is out of date"
    )
    parser.add_argument("--only", default="", metavar="TEXT", help="only names that contain it")
    options = parser.parse_args(arguments)
    names = [recipe.name for recipe in recipes]
    assert len(set(names)) == len(names), "two recipes have one name"  # noqa: S101
    if options.check:
        wrong = differing(folder, recipes, options.only)
        if wrong:
            print(f"out of date: {', '.join(wrong)}; run instances/{folder.name}/make.py")  # noqa: T201
        return 1 if wrong else 0
    paths = write_family(folder, recipes, options.only)
    print(f"{folder.name}: {len(paths)} instances")  # noqa: T201
    return 0


def _chosen(recipes: Sequence[Recipe], only: str) -> list[Recipe]:
    return [recipe for recipe in recipes if only in recipe.name]


def _holds(path: Path, text: str) -> bool:
    try:
        return read_text(path) == text
    except InputError:
        return False
