"""Fuzzes every reader of files: each input gives a sound object or one sentence, never more.

Valid files are made for every reader, then changed: in their structure (fields left out, doubled,
swapped, replaced; rows and cells of tables; archives around them) by Hypothesis, and byte by byte
by atheris, guided by the coverage of slackopt's code, where `pip install atheris` was run.
A *finding* is any other exception than `InputError`, an error that doesn't name the file or has
several lines, an object that its own JSON doesn't give back, 10 s of processor time, or 1 GiB of
memory. Its input is kept. Each reader runs in a process of its own, one after the other.

    python benchmarks/fuzz_readers.py --seconds 3600
    python benchmarks/fuzz_readers.py --seconds 60 --reader kineto --seed 3
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

CPU_LIMIT_S = 10
MEMORY_LIMIT_BYTES = 2**30
MAX_MESSAGE = 2000
_STEP = 200
_FLUSH = 50
_SILENT_S = 300


class Slow(BaseException):
    """An input took more than `CPU_LIMIT_S`."""


class Watch:
    """Runs a reader on inputs, counts, and keeps the inputs of findings."""

    def __init__(self, name: str, way: str, read: Callable[[Path], Any], folder: Path) -> None:
        self.name, self.way, self.read, self.folder = name, way, read, folder
        self.executions = self.accepted = 0
        self.findings: dict[str, str] = {}
        self.reports = folder / f"{name}.{way}.json"
        self.input = folder / f"{name}.{way}.input"

    def __call__(self, content: bytes) -> None:
        """Read one input."""
        self.input.write_bytes(content)
        signal.setitimer(signal.ITIMER_PROF, CPU_LIMIT_S)
        start = time.process_time()
        try:
            found = self._try()
        except Slow:
            found = f"took more than {CPU_LIMIT_S} s"
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
        if found is None and time.process_time() - start > CPU_LIMIT_S:
            found = f"took more than {CPU_LIMIT_S} s"
        self.executions += 1
        if found is not None and found not in self.findings:
            kept = self.folder / f"{self.name}.{self.way}.{len(self.findings)}"
            kept.write_bytes(content)
            self.findings[found] = str(kept)
            self.flush()
        if self.executions % _FLUSH == 0:
            self.flush()

    def flush(self) -> None:
        """Write what there is so far."""
        found = {
            "executions": self.executions,
            "accepted": self.accepted,
            "findings": self.findings,
        }
        temporary = self.reports.with_suffix(".new")
        temporary.write_text(json.dumps(found))
        temporary.replace(self.reports)

    def _try(self) -> str | None:
        from slackopt.errors import InputError

        try:
            value = self.read(self.input)
            check(value)
        except InputError as error:
            return self._judge(error)
        except Exception as error:
            frames = traceback.extract_tb(error.__traceback__)
            at = next((f for f in reversed(frames) if "slackopt" in f.filename), frames[-1])
            return f"{type(error).__name__} at {Path(at.filename).name}:{at.lineno}: {error}"[:200]
        self.accepted += 1
        return None

    def _judge(self, error: Any) -> str | None:
        message = error.message
        if str(self.input) not in message:
            return f"names no file: {message[:80]}"
        if "\n" in message or len(message) > MAX_MESSAGE:
            return f"not one sentence: {message.replace(str(self.input), '')[:40]!r}"
        return None


def check(value: Any) -> None:
    """Check that what was read is sound."""
    from slackopt.graph import Graph
    from slackopt.instance import Instance
    from slackopt.records import Record

    for one in value if isinstance(value, tuple) else (value,):
        if isinstance(one, Record):
            assert type(one).model_validate_json(one.model_dump_json()) == one
        graph = one.graph if isinstance(one, Instance) else one
        if isinstance(graph, Graph):
            assert graph.unlimited_peak_bytes >= 0
            assert graph.ideal_ns > 0


# ---------------------------------------------------------------------------------------------
# One reader, one process


def limit_memory() -> None:
    """Let this process have 1 GiB more than it has."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + MEMORY_LIMIT_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (most, most))


def _slow(*_: Any) -> None:
    raise Slow


def by_structure(watch: Watch, seeds: list[bytes], seconds: float, seed: int) -> None:
    """Change seeds in their structure until the time is over."""
    import hypothesis
    from fuzz_mutations import changed_inputs

    until = time.monotonic() + seconds
    for content in seeds:
        watch(content)
    for round_ in range(10**9):

        @hypothesis.seed(seed * 10**6 + round_)
        @hypothesis.settings(
            max_examples=_STEP,
            database=None,
            deadline=None,
            phases=[hypothesis.Phase.generate],
            suppress_health_check=list(hypothesis.HealthCheck),
        )
        @hypothesis.given(changed_inputs(seeds))
        def run(content: bytes) -> None:
            if time.monotonic() < until:
                watch(content)

        run()
        if time.monotonic() >= until:
            return


def by_bytes(name: str, folder: Path, seconds: float, seed: int, make: Callable[[], Watch]) -> None:
    """Let atheris change seeds until the time is over; doesn't return."""
    import atheris
    from fuzz_inputs import READERS

    with atheris.instrument_imports(include=["slackopt", "ijson", "csv", "tarfile", "zipfile"]):
        import slackopt.batch.study
        import slackopt.files
        import slackopt.library.store
        import slackopt.profiles  # noqa: F401
    corpus = folder / f"{name}.corpus"
    corpus.mkdir(exist_ok=True)
    for i, content in enumerate(READERS[name].seeds()):
        (corpus / f"seed{i}").write_bytes(content)
    watch = make()
    options = ["-rss_limit_mb=4096", "-timeout=60", f"-seed={seed + 1}", "-verbosity=0"]
    options += [f"-max_total_time={max(1, round(seconds))}", "-max_len=200000", "-close_fd_mask=3"]
    atheris.Setup([sys.argv[0], *options, str(corpus)], watch)
    limit_memory()
    atheris.Fuzz()


def child(name: str, way: str, folder: Path, seconds: float, seed: int) -> None:
    """Fuzz one reader in one way."""
    warnings.simplefilter("ignore")
    signal.signal(signal.SIGPROF, _slow)

    def make() -> Watch:
        from fuzz_inputs import READERS

        return Watch(name, way, READERS[name].read, folder)

    if way == "bytes":
        by_bytes(name, folder, seconds, seed, make)
    else:
        from fuzz_inputs import READERS

        seeds = READERS[name].seeds()
        watch = make()
        limit_memory()
        by_structure(watch, seeds, seconds, seed)
        watch.flush()


# ---------------------------------------------------------------------------------------------
# All of them


def has_atheris() -> bool:
    """Whether atheris is installed."""
    with contextlib.suppress(ImportError):
        import atheris  # noqa: F401

        return True
    return False


def run_child(name: str, way: str, folder: Path, seconds: float, seed: int) -> dict[str, Any]:
    """Run one reader in a process; a crash or a hang of the process is a finding, too."""
    command = [sys.executable, __file__, "--child", way, "--reader", name]
    command += ["--seconds", f"{seconds:.1f}", "--seed", str(seed), "--keep", str(folder)]
    reports, last = folder / f"{name}.{way}.json", folder / f"{name}.{way}.input"
    reports.unlink(missing_ok=True)
    with (folder / f"{name}.{way}.log").open("ab") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            code = process.wait(seconds + _SILENT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            code = process.wait()
    found: dict[str, Any] = {"executions": 0, "accepted": 0, "findings": {}}
    if reports.exists():
        found = json.loads(reports.read_text())
    if code and not (way == "bytes" and code == 1 and found["findings"]):
        kept = folder / f"{name}.{way}.crash"
        if last.exists():
            kept.write_bytes(last.read_bytes())
        found["findings"][f"the process ended with {code}"] = str(kept)
    return found


def shares(names: list[str], seconds: float) -> Iterator[tuple[str, str, float]]:
    """Split the time over readers and ways."""
    ways = ("structure", "bytes") if has_atheris() else ("structure",)
    for name in names:
        for way in ways:
            yield name, way, seconds / len(names) / len(ways)


def main() -> int:
    """Fuzz, print the table, and return 1 if there is a finding."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60.0, help="of all readers together")
    parser.add_argument("--reader", action="append", help="this one only; repeatable")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", type=Path, help="folder for the inputs of findings")
    parser.add_argument("--child", choices=("structure", "bytes"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        child(given.reader[0], given.child, given.keep, given.seconds, given.seed)
        return 0
    from fuzz_inputs import READERS

    names = given.reader or list(READERS)
    unknown = [name for name in names if name not in READERS]
    if unknown:
        parser.error(f"no reader {unknown[0]!r}; readers: {', '.join(READERS)}")
    folder = given.keep or Path(tempfile.mkdtemp(prefix="fuzz-readers-"))
    folder.mkdir(parents=True, exist_ok=True)
    if not has_atheris():
        print("atheris is not installed: structure only", file=sys.stderr)
    total: Counter[str] = Counter()
    print("| reader | changed | executions | accepted | findings |\n|---|---|---:|---:|---:|")
    findings: dict[str, str] = {}
    for name, way, seconds in shares(names, given.seconds):
        found = run_child(name, way, folder, seconds, given.seed)
        total.update(executions=found["executions"], accepted=found["accepted"])
        numbers = f"{found['executions']:,} | {found['accepted']:,} | {len(found['findings'])}"
        print(f"| {name} | {way} | {numbers} |", flush=True)
        findings |= {f"{name}, {way}: {text}": kept for text, kept in found["findings"].items()}
    print(f"| all | | {total['executions']:,} | {total['accepted']:,} | {len(findings)} |")
    for text, kept in findings.items():
        print(f"\n{text}\n    input: {kept}")
    return 1 if findings else 0


if __name__ == "__main__":
    os.environ.setdefault("PYTHONHASHSEED", "0")
    sys.exit(main())
