"""CSV tables and node-link JSON: exact round trips of any graph, and tables written by hand."""

import csv
import json
from pathlib import Path

import networkx as nx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import slackopt as so
from slackopt.profiles.traces import source
from slackopt.profiles.traces.table import join_names, split_names

FORMATS = ["csv", "node-link"]
NAMES = st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=8)


@st.composite
def graphs(draw: st.DrawFn) -> so.Graph:
    names = draw(st.lists(NAMES, min_size=2, max_size=6, unique=True))
    count = draw(st.integers(1, len(names)))
    ops, known = [], list(names[count:])
    for k in range(count):
        inputs = draw(st.lists(st.sampled_from(known), unique=True)) if known else []
        outputs = [names[k]] if draw(st.booleans()) else []
        ops.append(
            so.Op(
                name=f"{names[k]}!",
                phase="forward",
                duration_ns=draw(st.integers(1, 10**12)),
                inputs=tuple(inputs),
                outputs=tuple(outputs),
                workspace_bytes=draw(st.integers(0, 10**15)),
                recomputable=draw(st.booleans()),
                layer=draw(st.text(st.characters(exclude_categories=("Cs",)), max_size=5)),
            )
        )
        known += outputs
    last = so.Op(name="last", phase="backward", duration_ns=1, inputs=tuple(known))
    tensors = [
        so.Tensor(
            name=name,
            size_bytes=draw(st.integers(1, 10**15)),
            kind=draw(st.sampled_from(["activation", "input", "", "a,b\n"])),
            swappable=draw(st.booleans()),
        )
        for name in draw(st.permutations(known))
    ]
    provenance = draw(st.dictionaries(NAMES, st.integers(-(2**60), 2**60) | NAMES, max_size=2))
    return so.Graph(
        name=draw(NAMES), ops=(*ops, last), tensors=tuple(tensors), provenance=provenance
    )


@pytest.mark.parametrize("kind", FORMATS)
@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(graph=graphs())
def test_any_graph_comes_back(tmp_path: Path, kind: str, graph: so.Graph) -> None:
    path = tmp_path / "graph"
    so.profiles.export_graph(graph, path, kind)
    assert so.profiles.read_trace(path) == graph


@pytest.mark.parametrize("kind", FORMATS)
def test_a_preset_comes_back(tmp_path: Path, kind: str) -> None:
    graph = so.profiles.transformer("bert-large", batch=2, num_layers=2)
    so.profiles.export_graph(graph, tmp_path / "graph", kind)
    assert so.profiles.read_trace(tmp_path / "graph", kind) == graph


def test_networkx_reads_what_is_exported(tmp_path: Path) -> None:
    graph = so.profiles.transformer("bert-large", batch=2, num_layers=1)
    so.profiles.export_graph(graph, tmp_path / "graph.json", "node-link")
    digraph = nx.node_link_graph(json.loads((tmp_path / "graph.json").read_text()), edges="edges")
    assert nx.is_directed_acyclic_graph(digraph)
    assert digraph.number_of_nodes() == len(graph.ops) + len(graph.tensors)
    first = graph.ops[0]
    assert digraph.nodes[f"op/{first.name}"]["duration_ns"] == first.duration_ns
    assert set(digraph.successors(f"op/{first.name}")) == {f"tensor/{n}" for n in first.outputs}


def test_a_graph_of_networkx_by_hand(tmp_path: Path) -> None:
    digraph = nx.DiGraph()
    digraph.add_node(1, bipartite="op", phase="forward", duration_ns=5)
    digraph.add_node(2, bipartite="op", phase="backward", duration_ns=7)
    digraph.add_node("t", bipartite="tensor", size_bytes=9)
    digraph.add_edges_from([(1, "t"), ("t", 2)])
    for edges in ("links", "edges"):
        path = tmp_path / f"{edges}.json"
        path.write_text(json.dumps(nx.node_link_data(digraph, edges=edges)))
        graph = so.profiles.read_trace(path)
        assert graph.name == edges
        assert [op.name for op in graph.ops] == ["1", "2"]
        assert graph.ops[1].inputs == ("t",)


def test_a_full_table_is_plain_csv(tmp_path: Path) -> None:
    graph = so.profiles.transformer("bert-large", batch=2, num_layers=1)
    so.profiles.export_graph(graph, tmp_path / "graph.csv", "csv")
    lines = (tmp_path / "graph.csv").read_text().splitlines()
    rows = list(csv.DictReader(line for line in lines if not line.startswith("#")))
    made = [row["tensor"] for row in rows if row["op"] and row["tensor"]]
    assert made == [name for op in graph.ops for name in op.outputs]
    total = sum({row["op"]: int(row["duration_ns"]) for row in rows if row["op"]}.values())
    assert total == graph.ideal_ns


def test_a_short_table(tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    path.write_text(
        "activation,size_bytes,forward_ns,backward_ns,inputs,saved,recomputable\n"
        "a,1000,10,20,,,\n"
        "b,2000,11,21,,a;b,false\n"
        "c,500,12,22,a;b,,\n"
    )
    graph = so.profiles.read_trace(path)
    assert [(op.name, op.phase, op.duration_ns, op.inputs, op.outputs) for op in graph.ops] == [
        ("a", "forward", 10, (), ("a",)),
        ("b", "forward", 11, ("a",), ("b",)),
        ("c", "forward", 12, ("a", "b"), ("c",)),
        ("c.backward", "backward", 22, ("c",), ()),
        ("b.backward", "backward", 21, ("a", "b"), ()),
        ("a.backward", "backward", 20, ("a",), ()),
    ]
    assert [op.recomputable for op in graph.ops] == [True, False, True, False, False, False]
    assert graph.provenance["files"] == ["mine.csv"]


@given(st.lists(NAMES))
def test_lists_of_names(names: list[str]) -> None:
    assert split_names(join_names(names)) == tuple(names)


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("value", [float("nan"), float("inf"), {1, 2}], ids=["nan", "inf", "set"])
def test_a_provenance_that_is_no_json_is_refused(tmp_path: Path, kind: str, value: object) -> None:
    graph = so.profiles.transformer("bert-large", batch=1, num_layers=1)
    odd = graph.model_copy(update={"provenance": {"x": value}})
    with pytest.raises(so.InputError, match="its provenance can't be written as JSON"):
        so.profiles.export_graph(odd, tmp_path / "graph", kind)
    assert not (tmp_path / "graph").exists()


@pytest.mark.parametrize("kind", FORMATS)
def test_the_limit_is_for_an_entry_not_for_a_list(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source, "MAX_ENTRY_BYTES", 140_000)
    graph = so.profiles.transformer("bert-large", batch=1, num_layers=60)
    so.profiles.export_graph(graph, tmp_path / "graph", kind)
    assert (tmp_path / "graph").stat().st_size > 200_000
    assert so.profiles.read_trace(tmp_path / "graph", kind) == graph
