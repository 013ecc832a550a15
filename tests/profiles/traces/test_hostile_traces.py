"""Hostile files: one clear error naming file, entry and field; never a traceback, never a hang."""

import copy
import gzip
import io
import json
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from profiles.traces.synthetic import (
    Json,
    Recorder,
    aot_dump,
    execution_trace,
    profile_alone,
    record_step,
    write,
)

import slackopt as so
from slackopt.profiles.traces import source

TRACE, HOST, _ = execution_trace()
GOOD = json.dumps(TRACE).encode()


def tarred(*members: tuple[str, bytes]) -> bytes:
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w:gz") as archive:
        for name, content in members:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return target.getvalue()


def refused(path: Path, words: list[str], **options: Any) -> None:
    options.setdefault("accelerator", "a100")
    with pytest.raises(so.InputError) as caught:
        so.profiles.read_trace(path, **options)
    text = str(caught.value)
    assert path.name in text
    for word in words:
        assert word in text, text
    assert len(text) < 1000


FILES: dict[str, tuple[bytes | None, list[str]]] = {
    "missing": (None, ["no such file"]),
    "empty": (b"", ["is empty"]),
    "blank": (b" \n\t ", ["is empty"]),
    "cut off": (GOOD[: len(GOOD) // 2], ["not JSON: it ends too early", "near byte"]),
    "cut off in a number": (GOOD[:60], ["not JSON: it ends too early"]),
    "something behind": (GOOD + b"}", ["not JSON"]),
    "not JSON": (b'{"schema": "1.1.1", nodes: []}', ["not JSON"]),
    "NaN": (GOOD.replace(b'"seq_id"', b'NaN, "seq_id"', 1), ["not JSON"]),
    "a NaN for a value": (GOOD.replace(b'"value": 0', b'"value": NaN', 1), ["not JSON"]),
    "an endless number": (GOOD.replace(b'"pid": 1', b'"pid": ' + b"9" * 5000, 1), ["not JSON"]),
    "not UTF-8": (GOOD.replace(b"aten::mm", b"aten\xff::mm", 1), ["not"]),
    "truncated gzip": (gzip.compress(GOOD)[:-400], ["the gzip stream is truncated"]),
    "damaged gzip": (b"\x1f\x8b" + bytes(400), ["damaged gzip file"]),
    "truncated tar": (tarred(("a.json", GOOD))[:-900], ["truncated"]),
    "an empty archive": (tarred(), ["is no format known here"]),
    "two files in an archive": (tarred(("a.json", GOOD), ("b.json", GOOD)), ["more than one file"]),
    "a list": (b"[1, 2]", ["is a JSON list"]),
    "deep nesting": (b'{"nodes": ' + b"[" * 200_000, ["nested more than 10000 deep"]),
    "deep nesting, closed": (
        b'{"nodes": ' + b"[" * 200_000 + b"]" * 200_000 + b"}",
        ["nested more than 10000 deep"],
    ),
    "deep nesting in a node": (
        GOOD.replace(
            b'"seq_id", "type": "any", "value": -1',
            b'"seq_id", "type": "any", "value": ' + b"[" * 5_000 + b"]" * 5_000,
            1,
        ),
        ["field 'seq_id' must be a whole number, found a list"],
    ),
    "binary": (bytes(range(128, 256)) * 8, ["is no format known here"]),
    "zeros": (bytes(5000), ["is no format known here"]),
    "an object": (b"{}", ["no format known here", "--format"]),
    "a graph": (b'{"format": "slackopt/graph"}', ["is a graph already"]),
    "no node": (b'{"schema": "1.1.1-chakra.0.0.4", "nodes": []}', ["the trace has no node"]),
    "another schema": (b'{"schema": "2.0", "nodes": []}', ["field 'schema' is '2.0'"]),
    "a schema that is no text": (b'{"schema": 7, "nodes": []}', ["field 'schema' is 7"]),
    "no nodes": (b'{"schema": "1.1.1-chakra.0.0.4"}', ["nodes"]),
    "nodes that are no objects": (
        b'{"schema": "1.1.1-chakra.0.0.4", "nodes": [1]}',
        ["nodes[0]: must be a JSON object, found 1"],
    ),
}


@pytest.mark.parametrize("name", sorted(FILES))
def test_files(tmp_path: Path, name: str) -> None:
    content, words = FILES[name]
    path = tmp_path / "trace.json"
    if content is not None:
        path.write_bytes(content)
    refused(path, words)


def test_a_directory(tmp_path: Path) -> None:
    refused(tmp_path, ["is a directory"])


def node(document: Json, name: str) -> Json:
    return next(entry for entry in document["nodes"] if entry["name"] == name)


def attribute(document: Json, name: str, key: str, value: object) -> None:
    for entry in node(document, name)["attrs"]:
        if entry["name"] == key:
            entry["value"] = value


def set_field(name: str, *path: Any) -> Callable[[Json], None]:
    def change(document: Json) -> None:
        place: Any = node(document, name)
        for key in path[:-2]:
            place = place[key]
        if path[-1] is ...:
            del place[path[-2]]
        else:
            place[path[-2]] = path[-1]

    return change


def marked_twice(document: Json) -> None:
    node(document, "ProfilerStep#1")["name"] = "ProfilerStep#0"


def nested_markers(document: Json) -> None:
    second, first = node(document, "ProfilerStep#1"), node(document, "ProfilerStep#0")
    second["ctrl_deps"] = first["id"]


def marker_in_the_middle(document: Json) -> None:
    """The marker begins with the backward pass: neither part is a step."""
    entries = sorted(document["nodes"], key=lambda n: n["id"])
    first = next(n for n in entries if n["name"].startswith("autograd::"))
    second = next(n for n in entries if n["name"] == "ProfilerStep#1")
    for entry in entries:
        if entry["name"] == "ProfilerStep#0":
            entry["name"] = "training"
    marker = copy.deepcopy(second) | {"id": first["id"], "ctrl_deps": first["ctrl_deps"]}
    kept = [n for n in entries if n["id"] < second["id"] and n["id"] != first["id"]]
    document["nodes"] = [*kept, marker]
    # What the marker replaced no longer says that its call belongs to the backward pass.
    for entry in document["nodes"]:
        if entry["name"] == "aten::mul":
            entry["name"], entry["ctrl_deps"] = "SumBackward0", first["id"]
            attribute({"nodes": [entry]}, "SumBackward0", "scope", 1)


def same_id(document: Json) -> None:
    node(document, "aten::mm")["id"] = node(document, "aten::t")["id"]


CHANGES: dict[str, tuple[Callable[[Json], None], list[str]]] = {
    "no id": (set_field("aten::mm", "id", ...), ["nodes[", "'aten::mm'", "field 'id' is missing"]),
    "a negative id": (set_field("aten::mm", "id", -1), ["field 'id' must be at least 0"]),
    "an id that is text": (set_field("aten::mm", "id", "7"), ["field 'id' must be a whole number"]),
    "an id that is true": (set_field("aten::mm", "id", True), ["must be a whole number"]),
    "a huge id": (set_field("aten::mm", "id", 10**40), ["not JSON"]),
    "an id twice": (same_id, ["node ", "'aten::mm'", "for a second time"]),
    "no name": (set_field("aten::mm", "name", ...), ["field 'name' is missing"]),
    "an empty name": (set_field("aten::mm", "name", ""), ["field 'name' must have 1 to"]),
    "an endless name": (set_field("aten::mm", "name", "x" * 9999), ["field 'name' must have"]),
    "no parent": (set_field("aten::mm", "ctrl_deps", ...), ["field 'parent' is missing"]),
    "cyclic parents": (
        set_field("aten::addmm", "ctrl_deps", 10**6),
        ["'aten::addmm'", "field 'ctrl_deps' is 1000000", "cyclic"],
    ),
    "its own parent": (set_field("aten::sum", "ctrl_deps", 22), ["field 'ctrl_deps'"]),
    "no inputs": (set_field("aten::mm", "inputs", ...), ["field 'inputs' is missing"]),
    "inputs that are a number": (set_field("aten::mm", "inputs", 3), ["field 'inputs' must be"]),
    "no values": (set_field("aten::mm", "inputs", "values", ...), ["field 'values' is missing"]),
    "too few types": (
        set_field("aten::mm", "inputs", "types", ["Tensor(float)"]),
        ["inputs", "field 'types' has 1 entries for 2 values"],
    ),
    "types that are numbers": (
        set_field("aten::mm", "inputs", "types", [1, 2]),
        ["field 'types' must hold strings, found 1"],
    ),
    "a tensor cut short": (
        set_field("aten::mm", "inputs", "values", 0, [1, 2, 3]),
        ["inputs", "must give a tensor as [tensor id, storage id"],
    ),
    "a tensor of text": (
        set_field("aten::mm", "inputs", "values", 0, ["a"] * 6),
        ["field 'values' must be a whole number, found 'a'"],
    ),
    "a negative size": (
        set_field("aten::mm", "inputs", "values", 0, [1, 2, 0, -5, 4, "cuda:0"]),
        ["field 'values' must be at least 0, found -5"],
    ),
    "a size above any machine": (
        set_field("aten::sum", "outputs", "values", 0, [1, 2, 10**17, 1, 4, "cuda:0"]),
        ["field 'values' gives a tensor of", "bytes; at most"],
    ),
    "more elements than the shape has": (
        set_field("aten::mm", "inputs", "values", 0, [1, 2, 0, 7, 4, "cuda:0"]),
        ["field 'shapes' gives [512, 1024] to a tensor of 7 elements"],
    ),
    "a device that is a number": (
        set_field("aten::mm", "inputs", "values", 0, [1, 2, 0, 5, 4, 7]),
        ["must name a tensor's device, found 7"],
    ),
    "a shape of text": (
        set_field("aten::mm", "inputs", "shapes", 0, ["a", 1]),
        ["field 'shapes' must be a whole number"],
    ),
    "types nested without end": (
        set_field("aten::mm", "inputs", "types", 0, "L[" * 40 + "Tensor(float)" + "]" * 40),
        ["field '"],
    ),
    "attributes that are no list": (set_field("aten::mm", "attrs", {}), ["field 'attrs' must be"]),
    "an attribute without value": (
        set_field("aten::mm", "attrs", 0, {"name": "rf_id"}),
        ["attrs[0]", "field 'value' is missing"],
    ),
    "a scope of text": (
        lambda d: attribute(d, "aten::mm", "scope", "x"),
        ["field 'scope' must be a whole number, found 'x'"],
    ),
    "a marker twice": (marked_twice, ["step marker 'ProfilerStep#0' stands twice", "node "]),
    "a marker within a marker": (nested_markers, ["lies within the step marker"]),
    "a marker between the passes": (marker_in_the_middle, ["no whole step"]),
}


@pytest.mark.parametrize("name", sorted(CHANGES))
def test_execution_traces(tmp_path: Path, name: str) -> None:
    change, words = CHANGES[name]
    document = copy.deepcopy(TRACE)
    change(document)
    refused(write(tmp_path / "trace.json", document), words)


def test_tensors_without_a_producer_are_inputs(tmp_path: Path) -> None:
    document = copy.deepcopy(TRACE)
    for entry in document["nodes"]:
        if entry["name"] == "aten::sum":
            value = entry["inputs"]["values"][0]
            entry["inputs"]["values"][0] = [value[0], 999, *value[2:]]
    graph = so.profiles.read_trace(write(tmp_path / "t.json", document), accelerator="a100")
    assert "input 999" in {tensor.name for tensor in graph.tensors}


@pytest.mark.parametrize("keep", ["forward", "backward"])
def test_one_pass_alone(tmp_path: Path, keep: str) -> None:
    document = copy.deepcopy(TRACE)
    inside: set[int] = set()
    for entry in sorted(document["nodes"], key=lambda n: n["id"]):
        if entry["name"].startswith("autograd::") or entry["ctrl_deps"] in inside:
            inside.add(entry["id"])
    markers = {n["id"] for n in document["nodes"] if n["name"].startswith(("Prof", "[py"))}
    document["nodes"] = [
        n
        for n in document["nodes"]
        if n["id"] in markers or (n["id"] in inside) == (keep == "backward")
    ]
    words = {"forward": "has no backward pass", "backward": "no forward pass"}
    refused(write(tmp_path / "t.json", document), ["no whole step", words[keep]])


@pytest.mark.parametrize("step", [7, -1, "ProfilerStep#7", "x", "²"])
def test_a_step_that_is_not_there(tmp_path: Path, step: int | str) -> None:
    path = write(tmp_path / "t.json", TRACE)
    refused(path, ["has no step", "0 (ProfilerStep#0), 1 (ProfilerStep#1)"], step=step)


def test_options_that_do_not_fit(tmp_path: Path) -> None:
    path = write(tmp_path / "t.json", TRACE)
    refused(path, ["has no times", "a100"], accelerator=None)
    refused(path, ["element bytes means nothing for format 'execution-trace'"], element_bytes=2)
    with pytest.raises(so.InputError, match="unknown format 'pickle'; formats: execution-trace"):
        so.profiles.read_trace(path, "pickle")
    with pytest.raises(so.InputError, match="unknown accelerator 'abacus'"):
        so.profiles.read_trace(path, accelerator="abacus")
    with pytest.raises(so.InputError, match="can't be joined"):
        so.profiles.read_trace(path, durations=path)


FORMATS = ["aot", "csv", "execution-trace", "kineto", "node-link"]


@pytest.mark.parametrize("claimed", FORMATS)
@pytest.mark.parametrize("real", ["aot", "csv", "execution-trace", "kineto", "node-link"])
def test_a_wrong_format_is_said_so(tmp_path: Path, claimed: str, real: str) -> None:
    path = tmp_path / "file"
    graph = so.profiles.transformer("bert-large", batch=1, num_layers=1)
    if real in ("csv", "node-link"):
        so.profiles.export_graph(graph, path, real)
    else:
        write(path, {"aot": aot_dump(), "execution-trace": TRACE, "kineto": HOST}[real])
    if claimed != real:
        options = {} if claimed in ("execution-trace", "aot") else {"accelerator": None}
        refused(path, ["file"], format=claimed, **options)


def test_bombs_are_refused_by_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "MAX_TRACE_BYTES", 300_000)
    many = GOOD + b" " * 300_000
    for name, content in (
        ("bomb.json.gz", gzip.compress(many)),
        ("bomb.json", many),
        ("bomb.tar.gz", tarred(("a", many))),
    ):
        path = tmp_path / name
        path.write_bytes(content)
        refused(path, ["larger than 300000 bytes uncompressed; refused"])
    monkeypatch.setattr(source, "MAX_ENTRY_BYTES", 100_000)
    entry = tmp_path / "entry.json"
    entry.write_text('{"schema": "1.1.1", "nodes": [{"name": "' + "x" * 200_000)
    refused(entry, ["more than 100000 bytes without the end of an entry"])


def test_names_in_an_archive_are_not_used(tmp_path: Path) -> None:
    path = tmp_path / "trace.tar.gz"
    path.write_bytes(tarred(("._x", b"junk"), ("../../../escape.json", GOOD)))
    before = sorted(tmp_path.rglob("*"))
    so.profiles.read_trace(path, accelerator="a100")
    assert sorted(tmp_path.rglob("*")) == before
    link = tarfile.TarInfo("link")
    link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w") as archive:
        archive.addfile(link)
    path.write_bytes(target.getvalue())
    refused(path, ["holds no file"])


PROFILES: dict[str, tuple[str, Any, list[str]]] = {
    "a negative time": ("dur", -1.0, ["traceEvents[", "field 'dur' must be at least 0"]),
    "a time of text": ("dur", "1", ["field 'dur' must be a number"]),
    "a time of hours": ("dur", 1e13, ["field 'dur' is longer than an hour"]),
    "a huge time": ("dur", 1e300, ["field 'dur' must be a finite number"]),
    "a call in two events": ("ph", "B", ["field 'ph' is 'B': calls in two events"]),
    "no time": ("dur", ..., ["field 'dur' is missing"]),
    "no start": ("ts", ..., ["field 'ts' is missing"]),
    "a negative start": ("ts", -5, ["field 'ts' must be at least 0"]),
    "a name of numbers": ("name", 5, ["field 'name' must be a string"]),
    "arguments that are a list": ("args", [], ["args: must be a JSON object"]),
    "a thread that is a list": ("tid", [], ["field 'tid' must be a number or a string"]),
}


@pytest.mark.parametrize("joined", [False, True])
@pytest.mark.parametrize("name", sorted(PROFILES))
def test_profiler_traces(tmp_path: Path, name: str, joined: bool) -> None:
    field, value, words = PROFILES[name]
    document = copy.deepcopy(HOST if joined else profile_alone())
    event = next(e for e in document["traceEvents"] if e["name"] == "aten::mm")
    if value is ...:
        del event[field]
    else:
        event[field] = value
    path = write(tmp_path / "profile.json", document)
    if joined:
        trace = write(tmp_path / "et.json", TRACE)
        with pytest.raises(so.InputError) as caught:
            so.profiles.read_trace(trace, durations=path)
        assert all(word in str(caught.value) for word in ["profile.json", *words])
    else:
        refused(path, words, accelerator=None)


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("name", "other", ["field 'name' differs from the key 'mm'"]),
        ("index", -1, ["field 'index' must be at least 0"]),
        ("index", 99, ["field 'input_arguments' names 'mm'"]),
        ("shape", "torch.Size([s0, 4])", ["field 'shape' must be a shape without symbols"]),
        ("shape", "torch.Size([999999999, 999999999])", ["field 'shape' gives"]),
        ("input_arguments", ["nobody"], ["field 'input_arguments' names 'nobody'"]),
        ("input_arguments", [1], ["field 'input_arguments' must hold names"]),
        ("recomputable_candidate_info", {"recomputable_node_idx": 0, "runtime": -1.0}, ["runtime"]),
        ("target", ..., ["field 'target' is missing"]),
    ],
)
def test_partitioner_dumps(tmp_path: Path, field: str, value: object, words: list[str]) -> None:
    document = aot_dump()
    entry = document["Joint Graph Node Information"]["mm"]
    if value is ...:
        del entry[field]
    else:
        entry[field] = value
    refused(write(tmp_path / "aot.json", document), words)


HEADER = "activation,size_bytes,forward_ns,backward_ns,inputs"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (HEADER, ["has no row below its header"]),
        (f"{HEADER}\na,1,1\n", ["line 2: has 3 cells, and the header has 5"]),
        (f"{HEADER}\na,x,1,1,\n", ["line 2: column 'size_bytes' must be a whole number"]),
        (f"{HEADER}\na,1.5,1,1,\n", ["line 2: column 'size_bytes' must be a whole number"]),
        (f"{HEADER}\na,0,1,1,\n", ["line 2: field size_bytes: must be above 0"]),
        (f"{HEADER}\na,1,-3,1,\n", ["line 2: field duration_ns: must be above 0"]),
        (f"{HEADER}\na,1,nan,1,\n", ["line 2: column 'forward_ns' must be a whole number"]),
        (f"{HEADER}\na,{'9' * 400},1,1,\n", ["column 'size_bytes' must be a whole number"]),
        (f"{HEADER}\n,1,1,1,\n", ["line 2: field name: must not be empty"]),
        (f"{HEADER}\na,1,1,1,\na,1,1,1,\n", ["line 3: column 'activation' is 'a' for a second"]),
        (f"{HEADER}\na,1,1,1,b\n", ["line 2: column 'inputs' names 'b'"]),
        (f'{HEADER}\n"a,1,1,1,\n', ["line 2: not CSV"]),
        (f"{HEADER},colour\na,1,1,1,,red\n", ["column 'colour' is not known"]),
        (f"{HEADER},inputs\na,1,1,1,,\n", ["column 'inputs' stands twice"]),
        ("activation,size_bytes\na,1\n", ["columns are missing", "forward_ns, backward_ns"]),
        (f"# name: 7\n{HEADER}\na,1,1,1,\n", ["line 1: # name: must be a JSON string"]),
        (
            "op,phase,duration_ns,inputs,tensor,size_bytes\nf,sideways,1,,a,5\n",
            ["line 2: field phase: must be"],
        ),
        (
            "op,phase,duration_ns,inputs,tensor,size_bytes\nf,forward,1,zz,a,5\n",
            ["tensor 'zz' of op 'f' is not in tensors"],
        ),
        (
            "op,phase,duration_ns,inputs,tensor,size_bytes\nf,forward,1,,a,5\nf,forward,2,,b,5\n",
            ["line 3: column 'duration_ns' differs from the line above"],
        ),
    ],
)
def test_csv_tables(tmp_path: Path, text: str, words: list[str]) -> None:
    path = tmp_path / "table.csv"
    path.write_text(text)
    refused(path, words, accelerator=None)


def linked(**changes: Any) -> Json:
    document: Json = {
        "directed": True,
        "multigraph": False,
        "graph": {},
        "nodes": [
            {"id": "f", "bipartite": "op", "phase": "forward", "duration_ns": 1},
            {"id": "t", "bipartite": "tensor", "size_bytes": 1},
            {"id": "b", "bipartite": "op", "phase": "backward", "duration_ns": 1},
        ],
        "edges": [{"source": "f", "target": "t"}, {"source": "t", "target": "b"}],
    }
    for key, value in changes.items():
        kind, _, field = key.partition("__")
        index = {"f": 0, "t": 1, "b": 2, "edge": 0}[kind]
        entry = document["edges" if kind == "edge" else "nodes"][index]
        if value is ...:
            del entry[field]
        else:
            entry[field] = value
    return document


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"t__id": ...}, ["nodes[1]: field 'id' is missing"]),
        ({"t__id": []}, ["nodes[1]: field 'id' must be a string or a whole number"]),
        ({"t__id": "f"}, ["nodes[1]: field 'id' 'f' stands twice"]),
        ({"t__bipartite": "x"}, ["field 'bipartite' must be 'op' or 'tensor'"]),
        ({"t__size_bytes": "1"}, ["nodes[1]: field size_bytes: must be a whole number"]),
        ({"f__duration_ns": -1}, ["nodes[0]: field duration_ns: must be above 0"]),
        ({"f__duration_ns": ...}, ["nodes[0]: field duration_ns: is missing"]),
        ({"f__phase": "sideways"}, ["nodes[0]: field phase: must be"]),
        ({"f__phase": "backward", "b__phase": "forward"}, ["all forward ops come first"]),
        ({"edge__source": "zz"}, ["edges[0]: field 'source' is 'zz', which is the id of no node"]),
        ({"edge__target": "b"}, ["edges[0]: field 'target' is 'b': an edge joins"]),
        ({"edge__target": ...}, ["edges[0]: field 'target' is missing"]),
    ],
)
def test_node_link(tmp_path: Path, changes: Json, words: list[str]) -> None:
    refused(write(tmp_path / "n.json", linked(**changes)), words, accelerator=None)
    so.profiles.read_trace(write(tmp_path / "good.json", linked()))


def test_many_nodes_are_streamed(tmp_path: Path) -> None:
    """Deep and long: 20,000 calls, each made by the one before it, before a step begins."""
    recorder = Recorder()
    for _ in range(20_000):
        number = recorder.new_id()
        recorder.nodes.append(recorder.node(number, "deep", [], [], "", 0, -1))
        recorder.stack.append(number)
    recorder.stack = [1]
    record_step(recorder, 0)
    graph = so.profiles.read_trace(
        write(tmp_path / "t.json", recorder.document()), accelerator="a100"
    )
    assert len(graph.ops) == 7


SMALL: dict[str, Json] = {
    "aot": aot_dump(),
    "execution-trace": execution_trace(steps=1)[0],
    "kineto": profile_alone(),
    "node-link": linked(),
}
JUNK = st.sampled_from(
    [None, True, -1, 0, 1, 2**70, 0.5, -1e308, "", "x", "aten::mm", [], [[]], {}, {"name": 1}]
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path] if path else []
    children = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for key, child in children:
        found += places(child, (*path, key))
    return found


PLACES = {name: places(document) for name, document in SMALL.items()}


@pytest.mark.filterwarnings("ignore::slackopt.errors.MendedWarning")
@pytest.mark.parametrize("kind", sorted(SMALL))
@settings(
    max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_fuzzed_traces_give_a_graph_or_an_error(
    tmp_path: Path, kind: str, data: st.DataObject
) -> None:
    document = copy.deepcopy(SMALL[kind])
    for _ in range(data.draw(st.integers(1, 3))):
        path = data.draw(st.sampled_from(PLACES[kind]))
        place: Any = document
        try:
            for key in path[:-1]:
                place = place[key]
            if data.draw(st.booleans()):
                del place[path[-1]]
            else:
                place[path[-1]] = copy.deepcopy(data.draw(JUNK))
        except (KeyError, IndexError, TypeError):
            continue  # An earlier change took this place away.
    file = write(tmp_path / "trace.json", document)
    needs_times = kind in ("execution-trace", "aot")
    answer: so.Graph | so.InputError
    try:
        answer = so.profiles.read_trace(file, kind, accelerator="a100" if needs_times else None)
    except so.InputError as error:
        answer = error
    if isinstance(answer, so.Graph):
        assert so.Graph.model_validate_json(answer.model_dump_json()) == answer
    else:
        assert "trace.json" in str(answer)


@settings(
    max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_fuzzed_bytes_give_a_graph_or_an_error(tmp_path: Path, data: st.DataObject) -> None:
    graph = so.profiles.transformer("bert-large", batch=1, num_layers=1)
    so.profiles.export_graph(graph, tmp_path / "g", "csv")
    originals = [GOOD, gzip.compress(GOOD), tarred(("t.json", GOOD)), (tmp_path / "g").read_bytes()]
    content = bytearray(data.draw(st.sampled_from(originals)))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(content) - 1))
        content[at : at + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3))
    file = tmp_path / "trace"
    file.write_bytes(content)
    for accelerator in ("a100", None):
        answer: so.Graph | so.InputError
        try:
            answer = so.profiles.read_trace(file, accelerator=accelerator)
        except so.InputError as error:
            answer = error
        assert isinstance(answer, so.Graph) or str(file) in str(answer)
