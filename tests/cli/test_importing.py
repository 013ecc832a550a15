"""``import`` and ``export`` on the command line."""

from pathlib import Path

import pytest
from cli.conftest import Cli
from profiles.traces.synthetic import aot_dump, execution_trace, profile_alone, write

import slackopt as so


@pytest.fixture
def files(tmp_path: Path) -> Path:
    trace, host, _ = execution_trace()
    write(tmp_path / "et.json", trace)
    write(tmp_path / "profile.json", host)
    write(tmp_path / "alone.json", profile_alone())
    write(tmp_path / "aot.json", aot_dump(absolute=False))
    (tmp_path / "mine.csv").write_text(
        "activation,size_bytes,forward_ns,backward_ns\na,1000,10,20\nb,2000,10,20\n"
    )
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "ops"),
    [
        (["et.json", "--accelerator", "a100"], 7),
        (["et.json", "profile.json"], 7),
        (["profile.json", "et.json", "--step", "ProfilerStep#0"], 7),
        (["et.json", "--accelerator", "h100", "--step", "0", "--no-restore-random-state"], 7),
        (["alone.json", "--format", "kineto"], 5),
        (["aot.json", "--accelerator", "a100", "--element-bytes", "2"], 8),
        (["mine.csv"], 4),
    ],
)
def test_import(cli: Cli, files: Path, arguments: list[str], ops: int) -> None:
    paths = [str(files / a) if (files / a).exists() else a for a in arguments]
    ran = cli("import", *paths, "-o", files / "graph.json", "--json")
    assert ran.code == 0, ran.err
    assert ran.document["ops"] == ops
    assert len(so.read_graph(files / "graph.json").ops) == ops
    assert cli("info", files / "graph.json").code == 0


def test_what_import_says(cli: Cli, files: Path) -> None:
    ran = cli("import", files / "et.json", "--accelerator", "a100", "-o", files / "g.json.gz")
    assert ran.code == 0, ran.err
    for words in (
        "ProfilerStep#1 (found: ProfilerStep#0, ProfilerStep#1)",
        "saved activations    3 storages",
        "statics              2 storages",
        "left out",
        "7 (3 forward, 4 backward)",
        "written to",
    ):
        assert words in ran.out
    assert ran.err == ""


@pytest.mark.parametrize("kind", ["csv", "node-link"])
def test_export_and_back(cli: Cli, files: Path, kind: str) -> None:
    graph, table, again = files / "g.json", files / "out", files / "again.json"
    assert cli("import", files / "et.json", "--accelerator", "a100", "-o", graph).code == 0
    ran = cli("export", graph, "--format", kind, "-o", table)
    assert ran.code == 0, ran.err
    assert "7 ops and 8 tensors" in ran.out
    assert cli("export", graph, "--format", kind, "-o", table, "--json").document["ops"] == 7
    assert cli("import", table, "-o", again).code == 0
    assert again.read_bytes() == graph.read_bytes()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["et.json"], ["et.json: has no times", "profiler trace of the same run", "a100"]),
        (["et.json", "--accelerator", "abacus"], ["unknown accelerator 'abacus'"]),
        (["et.json", "--accelerator", "a100", "--step", "7"], ["has no step '7'"]),
        (["et.json", "et.json"], ["can't be joined"]),
        (["et.json", "profile.json", "aot.json"], ["3 files given"]),
        (["et.json", "--format", "pickle"], ["--format", "pickle"]),
        (["aot.json", "--accelerator", "a100"], ["aot.json", "'Absolute Memories' is missing"]),
        (["mine.csv", "--step", "1"], ["step means nothing for format 'csv'"]),
        (["nobody.json"], ["nobody.json: no such file"]),
    ],
)
def test_refusals(cli: Cli, files: Path, arguments: list[str], words: list[str]) -> None:
    paths = [str(files / a) if "." in a else a for a in arguments]
    ran = cli("import", *paths, "-o", files / "graph.json")
    assert ran.code == 2
    assert ran.out == ""
    assert "Traceback" not in ran.err
    for word in words:
        assert word in ran.err
    assert not (files / "graph.json").exists()


def test_an_input_is_not_overwritten(cli: Cli, files: Path) -> None:
    before = (files / "mine.csv").read_bytes()
    ran = cli("import", files / "mine.csv", "-o", files / "mine.csv")
    assert ran.code == 2
    assert "is an input of this command" in ran.err
    assert (files / "mine.csv").read_bytes() == before
