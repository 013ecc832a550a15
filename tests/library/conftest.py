"""A small library: one family of two instances, and a batch that solves them."""

from dataclasses import dataclass
from pathlib import Path

import pytest
from made_runs import MIB, chain_instance, solved

from slackopt.batch import Run, write_run
from slackopt.files import write_record
from slackopt.instance import Instance
from slackopt.library import update_best

METHODS = ("swap-all", "milp", "bound")


@dataclass(frozen=True)
class Small:
    """Folders of a family and of a batch, and the instances."""

    family: Path
    batch: Path
    instances: tuple[Instance, ...]

    def update(self, **options: object) -> object:
        return update_best(self.batch, [self.family], **options)  # type: ignore[arg-type]


_RUNS: dict[str, list[Run]] = {}


def small_runs() -> tuple[tuple[Instance, ...], list[Run]]:
    """The instances and their runs; solved once for all tests."""
    instances = (chain_instance("first"), chain_instance("second", 36 * MIB, length=7))
    if not _RUNS:
        _RUNS["all"] = [solved(instance, m) for instance in instances for m in METHODS]
    return instances, _RUNS["all"]


@pytest.fixture
def small(tmp_path: Path) -> Small:
    """A library without best-known solutions yet."""
    instances, runs = small_runs()
    family = tmp_path / "library" / "chains"
    family.mkdir(parents=True)
    write_record(instances[0], family / "first.json")
    write_record(instances[1], family / "second.json.gz")
    batch = tmp_path / "batch"
    for run in runs:
        write_run(batch, run)
    return Small(family, batch, instances)


@pytest.fixture
def known(small: Small) -> Small:
    """The same library with what the batch found."""
    small.update()
    return small
