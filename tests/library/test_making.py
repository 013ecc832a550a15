"""Making the files of a family from recipes."""

import gzip
import json
from functools import partial
from pathlib import Path

import pytest

from slackopt.device import Device
from slackopt.files import read_instance
from slackopt.graph import Graph
from slackopt.library.making import (
    Between,
    Recipe,
    capped,
    compress,
    content,
    differing,
    made,
    main,
    slow_link,
    write_family,
)
from slackopt.profiles import get_device, random_graph

GRAPH = partial(random_graph, "layered", seed=1, num_forward_ops=6)
RECIPES = [
    Recipe("first", GRAPH, "a100-pcie4", "0.9", note="a note"),
    Recipe("second", GRAPH, capped("a100-pcie4", 2**30), Between(50)),
]


def family(tmp_path: Path) -> Path:
    folder = tmp_path / "made-up"
    folder.mkdir()
    return folder


def test_files_are_the_instances(tmp_path: Path) -> None:
    folder = family(tmp_path)
    paths = write_family(folder, RECIPES)
    assert [path.name for path in paths] == ["first.json.gz", "second.json.gz"]
    first, second = map(read_instance, paths)
    assert first.name == "first"
    assert first.provenance == {"family": "made-up", "note": "a note"}
    assert first.budget_fraction == "0.9"
    assert second.provenance == {"family": "made-up"}
    assert second.device.host_memory_bytes == 2**30
    assert second.device.name == "a100-pcie4-host-1GiB"
    assert first.graph == second.graph == GRAPH()
    assert content(first) == gzip.decompress(paths[0].read_bytes()).decode()


def test_budget_between_working_set_and_peak() -> None:
    graph = GRAPH()
    least = max(graph.lifetimes.batch_bytes, *graph.lifetimes.working_set_bytes)
    assert Between(0).budget_bytes(graph) == least
    assert Between(100).budget_bytes(graph) == graph.unlimited_peak_bytes
    assert least < Between(50).budget_bytes(graph) < graph.unlimited_peak_bytes
    assert Between(-1).budget_bytes(graph) < least


def test_header_holds_no_time_and_no_platform(tmp_path: Path) -> None:
    data = compress("text")
    # RFC 1952: magic, deflate, no flags, time 0, slowest, system unknown.
    assert data[:10] == bytes([0x1F, 0x8B, 8, 0, 0, 0, 0, 0, 2, 255])
    assert gzip.decompress(data) == b"text"


def test_check_finds_what_is_wrong(tmp_path: Path) -> None:
    folder = family(tmp_path)
    write_family(folder, RECIPES)
    assert differing(folder, RECIPES) == []
    (folder / "first.json.gz").write_bytes(gzip.compress(b"{}"))
    (folder / "second.json.gz").unlink()
    (folder / "third.json.gz").write_bytes(b"")
    assert differing(folder, RECIPES) == ["first.json.gz", "second.json.gz", "third.json.gz"]
    assert differing(folder, RECIPES, only="sec") == ["second.json.gz"]


def test_a_file_with_the_right_content_is_left_alone(tmp_path: Path) -> None:
    folder = family(tmp_path)
    (path, _) = write_family(folder, RECIPES)
    # As another zlib might have compressed it.
    other = gzip.compress(gzip.decompress(path.read_bytes()), compresslevel=1)
    path.write_bytes(other)
    assert differing(folder, RECIPES) == []
    write_family(folder, RECIPES)
    assert path.read_bytes() == other


def test_script(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = family(tmp_path)
    assert main(folder, RECIPES, ["--check"]) == 1
    assert "out of date: first.json.gz, second.json.gz; run" in capsys.readouterr().out
    assert main(folder, RECIPES, ["--only", "first"]) == 0
    assert [path.name for path in folder.iterdir()] == ["first.json.gz"]
    assert main(folder, RECIPES, []) == 0
    assert main(folder, RECIPES, ["--check"]) == 0
    assert capsys.readouterr().out.endswith("made-up: 2 instances\n")


def test_a_graph_is_made_once_for_recipes_in_a_row() -> None:
    calls = []

    def graph() -> Graph:
        calls.append(1)
        return GRAPH()

    recipes = [Recipe(str(i), graph, "a100-pcie4", "0.9") for i in range(3)]
    assert len(list(made(recipes, "x"))) == 3
    assert len(calls) == 1


def test_links_behind_one_switch() -> None:
    plain, slow = get_device("a100-pcie4-shared"), slow_link("a100-pcie4-shared", 4)
    assert slow.name == "a100-pcie4-shared-shared-by-4"
    for name in ("d2h_bytes_per_s", "h2d_bytes_per_s", "d2h_shared_bytes_per_s"):
        assert getattr(slow, name) == getattr(plain, name) // 4
    assert slow.latency_ns == plain.latency_ns
    assert isinstance(slow, Device)
    assert "divided by 4" in slow.source
    assert json.loads(slow.model_dump_json())["host_memory_bytes"] is None
