"""Readers to fuzz, each with valid files to start from."""

from __future__ import annotations

import gzip
import io
import json
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

_SMALL_GRAPHS = 3


@dataclass(frozen=True)
class Reader:
    """A reader, and what makes valid files for it."""

    seeds: Callable[[], list[bytes]]
    read: Callable[[Path], Any]


def _json(document: Any) -> bytes:
    return json.dumps(document).encode()


def _graphs() -> list[Any]:
    from random_steps import random_graph

    return [random_graph(Random(seed)) for seed in range(_SMALL_GRAPHS)]


def _instances() -> list[Any]:
    import slackopt as so

    graph = so.profiles.transformer("gpt2", batch=4, seq=256, num_layers=1)
    return [so.Instance.from_graph(graph, device="a100-pcie4", budget=0.95)]


def _solved() -> list[Any]:
    import slackopt as so

    return [
        so.solve(instance, method=method)
        for instance in _instances()
        for method in ("swap-all", "slackswap", "bound")
    ]


def _records(records: list[Any]) -> list[bytes]:
    return [record.model_dump_json().encode() for record in records]


def _plans() -> list[bytes]:
    return _records([result.plan for result in _solved() if result.plan is not None])


def _devices() -> list[bytes]:
    return _records([instance.device for instance in _instances()])


def _best() -> list[bytes]:
    root = Path(__file__).resolve().parent.parent / "instances"
    files = sorted(root.rglob("best.json"), key=lambda path: path.stat().st_size)
    return [path.read_bytes() for path in files[:2]]


def _studies() -> list[bytes]:
    return [Path(__file__).with_name("solvers.toml").read_bytes()]


def _exported(kind: str) -> list[bytes]:
    import slackopt as so

    found = []
    with tempfile.TemporaryDirectory() as folder:
        for graph in _graphs():
            so.profiles.export_graph(graph, Path(folder) / "graph", kind)
            found.append((Path(folder) / "graph").read_bytes())
    return found


def _tables() -> list[bytes]:
    short = (
        b"activation,size_bytes,forward_ns,backward_ns,inputs,saved,recomputable\n"
        b'a,1000,10,20,,,\n"b, c",2000,11,21,,"a;b, c",false\nd,500,12,22,"a;b, c",,\n'
    )
    return [
        *_exported("csv"),
        short,
        b"\xef\xbb\xbf" + short.replace(b"b, c", b"b").replace(b"a;b", b"a").replace(b",", b"\t"),
        short.replace(b"b, c", b"b").replace(b"a;b", b"a").replace(b",", b";"),
    ]


def _kineto() -> list[bytes]:
    from profiles.traces.synthetic import execution_trace, profile_alone

    _, host, device = execution_trace(steps=1)
    return [_json(profile_alone()), _json(host), _json(device)]


def _execution_traces() -> list[bytes]:
    from profiles.traces.synthetic import execution_trace

    return [_json(execution_trace(schema, steps=1)[0]) for schema in ("1.1.1-chakra", "1.0.1")]


def _joined() -> list[bytes]:
    from profiles.traces.synthetic import execution_trace

    return [_json(trace) for trace in execution_trace(steps=1)[1:]]


def _dumps() -> list[bytes]:
    from profiles.traces.synthetic import aot_dump

    return [_json(aot_dump()), _json(aot_dump(measured=True))]


def archived(content: bytes, kind: str, members: int = 1) -> bytes:
    """Put a file into an archive."""
    target = io.BytesIO()
    if kind == "zip":
        with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
            for i in range(members):
                archive.writestr(f"folder/{i}.json", content)
        return target.getvalue()
    if kind == "gz":
        return gzip.compress(content, mtime=0)
    with tarfile.open(fileobj=target, mode="w:gz" if kind == "tar.gz" else "w") as tar:
        for i in range(members):
            info = tarfile.TarInfo(f"folder/{i}.json")
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return target.getvalue()


def _archives() -> list[bytes]:
    inner = _execution_traces()[0], _tables()[-1]
    return [archived(content, kind) for content in inner for kind in ("zip", "gz", "tar", "tar.gz")]


def _trace(kind: str | None, **options: Any) -> Callable[[Path], Any]:
    def read(path: Path) -> Any:
        import slackopt as so

        return so.profiles.read_trace(path, kind, **options)

    return read


def _any_trace(path: Path) -> Any:
    from slackopt.profiles.traces import detect_format, read_trace

    found = detect_format(str(path))
    needs = found in ("execution-trace", "aot")
    return read_trace(path, accelerator="a100" if needs else None)


def _read_joined(path: Path) -> Any:
    import slackopt as so

    trace = path.with_name("joined.json")
    if not trace.exists():
        trace.write_bytes(_execution_traces()[0])
    return so.profiles.read_trace(trace, durations=path)


def _read(name: str) -> Callable[[Path], Any]:
    def read(path: Path) -> Any:
        from slackopt import files

        return getattr(files, f"read_{name}")(path)

    return read


def _read_best(path: Path) -> Any:
    from slackopt.files import read_record
    from slackopt.library.records import Best

    return read_record(path, Best)


def _read_study(path: Path) -> Any:
    from slackopt.batch.study import read_study

    return read_study(path)


READERS: dict[str, Reader] = {
    "graph": Reader(lambda: _records(_graphs()), _read("graph")),
    "instance": Reader(lambda: _records(_instances()), _read("instance")),
    "plan": Reader(_plans, _read("plan")),
    "result": Reader(lambda: _records(_solved()), _read("result")),
    "device": Reader(_devices, _read("device")),
    "best": Reader(_best, _read_best),
    "study": Reader(_studies, _read_study),
    "kineto": Reader(_kineto, _trace("kineto")),
    "execution-trace": Reader(_execution_traces, _trace("execution-trace", accelerator="a100")),
    "joined": Reader(_joined, _read_joined),
    "aot": Reader(_dumps, _trace("aot", accelerator="a100")),
    "node-link": Reader(lambda: _exported("node-link"), _trace("node-link")),
    "table": Reader(_tables, _trace("csv")),
    "archive": Reader(_archives, _any_trace),
}
"""Every reader by name."""
