"""The fuzzer of the readers: what counts as a finding, and that its seeds can be read."""

import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import slackopt as so
from slackopt import files

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
from fuzz_inputs import READERS
from fuzz_mutations import changed_inputs
from fuzz_readers import Watch, _slow

# Those whose seeds need no solver.
QUICK = ("graph", "device", "kineto", "execution-trace", "aot", "node-link", "table", "archive")


@pytest.fixture
def slow() -> Iterator[None]:
    before = signal.signal(signal.SIGPROF, _slow)
    yield
    signal.signal(signal.SIGPROF, before)


def raising(error: Callable[[Path], Exception]) -> Callable[[Path], Any]:
    def read(path: Path) -> Any:
        raise error(path)

    return read


@pytest.mark.parametrize(
    ("read", "found"),
    [
        (raising(lambda path: so.InputError(f"{path}: is empty")), None),
        (raising(lambda path: so.InputError("is empty")), "names no file"),
        (raising(lambda path: so.InputError(f"{path}: is\nempty")), "not one sentence"),
        (raising(lambda path: KeyError("field")), "KeyError"),
        (raising(lambda path: MemoryError()), "MemoryError"),
        (lambda path: so.Plan(instance="x", model_fields_set="y"), "ValidationError"),
    ],
)
def test_findings(
    tmp_path: Path, slow: None, read: Callable[[Path], Any], found: str | None
) -> None:
    watch = Watch("graph", "structure", read, tmp_path)
    watch(b"content")
    watch(b"more")
    assert (watch.executions, watch.accepted) == (2, 0)
    if found is None:
        assert not watch.findings
        return
    ((text, kept),) = watch.findings.items()
    assert text.startswith(found)
    assert Path(kept).read_bytes() == b"content"


@pytest.mark.filterwarnings("ignore::slackopt.errors.MendedWarning")
@pytest.mark.parametrize("name", QUICK)
def test_seeds_are_read(tmp_path: Path, slow: None, name: str) -> None:
    watch = Watch(name, "structure", READERS[name].read, tmp_path)
    seeds = READERS[name].seeds()
    for seed in seeds:
        watch(seed)
    assert not watch.findings
    # Of the profiler's traces, two are only to be joined with an execution trace.
    assert watch.accepted == len(seeds) - 2 * (name == "kineto")


SEEDS = [seed for name in ("device", "table") for seed in READERS[name].seeds()]


@settings(max_examples=50, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_changes_are_bytes(data: st.DataObject) -> None:
    assert isinstance(data.draw(changed_inputs(SEEDS)), bytes)


def test_reading_reserves_what_a_file_holds() -> None:
    """Found by the fuzzer: one byte more than the limit was asked for at once, 2 GiB."""

    class Stream:
        def __init__(self) -> None:
            self.asked: list[int] = []

        def read(self, number: int) -> bytes:
            self.asked.append(number)
            return b"x" * 10 if len(self.asked) < 3 else b""

    stream: Any = Stream()
    assert files._read_up_to(stream, files.MAX_FILE_BYTES) == b"x" * 20
    assert max(stream.asked) <= 2**20
    assert files._read_up_to(stream, 0) == b""
