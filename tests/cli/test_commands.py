"""Every command does what its help says."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from cli.conftest import Cli, chain, question, write

from slackopt.cli import about
from slackopt.files import read_graph, read_instance, read_result
from slackopt.schema import FORMATS
from slackopt.solve import methods

COMMANDS = (
    "profile",
    "import",
    "export",
    "instance",
    "info",
    "solve",
    "simulate",
    "verify",
    "compare",
    "batch",
    "report",
    "best",
    "methods",
    "cite",
    "versions",
    "schema",
)


@pytest.mark.parametrize("command", [*COMMANDS, "best list", "best update", "best verify"])
def test_help_has_an_example(cli: Cli, command: str) -> None:
    ran = cli(*command.split(), "--help")
    assert ran.code == 0
    if command == "best":  # a group: its commands have the examples
        assert "verify" in ran.out
        return
    assert f"Example: slackopt {command}" in ran.out
    assert "--json" in ran.out
    assert "--debug" in ran.out
    assert ran.err == ""


def test_the_help_page_lists_every_command(cli: Cli) -> None:
    ran = cli("--help")
    assert ran.code == 0
    for command in COMMANDS:
        assert f"\n  {command} " in ran.out
    assert "Exit codes: 0 done" in ran.out


def test_the_whole_chain(cli: Cli, tmp_path: Path) -> None:
    graph, instance = tmp_path / "graph.json.gz", tmp_path / "instance.json"
    result, trace = tmp_path / "result.json", tmp_path / "trace.json"
    settings = ["--layers", 3, "--batch", 2, "--seq", 256, "--attention", "eager", "--no-dropout"]
    made = cli("profile", "gpt2-xl", *settings, "--device", "h100-pcie5", "-o", graph, "--json")
    assert made.code == 0
    assert made.document["output"] == str(graph)
    assert made.document["provenance"]["settings"]["attention"] == "eager"
    assert made.document["provenance"]["settings"]["num_layers"] == 3
    assert made.document["provenance"]["accelerator"]["name"] == "h100"
    assert graph.read_bytes()[:2] == b"\x1f\x8b"
    assert len(read_graph(graph).ops) == made.document["ops"]

    options = ["--device", "h100-pcie5", "--budget", "85%", "--name", "my question"]
    asked = cli("instance", graph, *options, "-o", instance, "--json")
    assert asked.code == 0, asked.err
    assert read_instance(instance).name == asked.document["name"] == "my question"
    assert 0.84 < asked.document["budget_share_of_peak"] <= 0.85

    solved = cli("solve", instance, "--method", "slackswap", "-o", result, "--json")
    assert solved.code == 0
    assert solved.document == json.loads(result.read_text())
    assert solved.document["method"] == "slackswap"

    priced = cli("simulate", instance, result, "--trace", trace, "--json")
    assert priced.code == 0
    assert priced.document["makespan_ns"] == solved.document["makespan_ns"]
    assert json.loads(trace.read_text())["traceEvents"]

    verified = cli("verify", instance, result, "--json")
    assert verified.code == 0
    assert verified.document["holds"] is True
    assert verified.document["checked"]


@pytest.mark.parametrize("device", ["a100", "a100-40gb", "a100-40gb-pcie4", "a100-pcie4-shared"])
def test_profile_takes_accelerators_and_devices(cli: Cli, tmp_path: Path, device: str) -> None:
    output = tmp_path / "graph.json"
    ran = cli("profile", "llama-7b", "--layers", 1, "--device", device, "-o", output, "--json")
    assert ran.code == 0
    expected = "a100-40gb" if "40gb" in device else "a100"
    assert ran.document["provenance"]["accelerator"]["name"] == expected


def test_profile_with_another_share_of_peak(cli: Cli, tmp_path: Path) -> None:
    output = tmp_path / "graph.json"
    command = ["profile", "llama-7b", "--layers", 1, "-o", output, "--json"]
    ideal = {}
    for percent in (None, 40, 20):
        option = [] if percent is None else ["--matmul-percent", percent]
        ran = cli(*command, *option)
        assert ran.code == 0
        ideal[percent] = ran.document["ideal_ns"]
    assert ideal[None] < ideal[40] < ideal[20]
    chip = ran.document["provenance"]["accelerator"]
    assert chip["matmul_percent"] == 20
    assert chip["sources"]["matmul_percent"] == "given with --matmul-percent"


def test_a_link_of_another_machine_is_pointed_out(cli: Cli, tmp_path: Path) -> None:
    graph, output = tmp_path / "graph.json", tmp_path / "instance.json"
    cli("profile", "llama-7b", "--layers", 1, "-o", graph)
    ran = cli("instance", graph, "--device", "v100-pcie3", "--budget", "1.0", "-o", output)
    assert ran.code == 0
    assert "warning" in ran.err
    assert "'a100'" in ran.err


def test_chunks_are_of_the_instance(cli: Cli, graph_file: Path, tmp_path: Path) -> None:
    link = ("--device", "a100-pcie4", "--budget", "0.8")
    whole, pieces = tmp_path / "whole.json", tmp_path / "pieces.json"
    cli("instance", graph_file, *link, "-o", whole)
    made = cli("instance", graph_file, *link, "--chunk-bytes", 2**20, "-o", pieces)
    assert "pieces of 1.000 MiB" in made.out
    assert "pieces" not in cli("info", whole).out
    device = cli("info", pieces, "--json").document["device"]
    assert (device["name"], device["chunk_bytes"]) == ("a100-pcie4-chunks-1048576", 2**20)
    result = tmp_path / "r.json"
    assert cli("solve", pieces, "-m", "exact", "-o", result).code == 0
    assert cli("verify", pieces, result).code == 0
    assert cli("simulate", pieces, result).code == 0
    refused = cli("simulate", whole, result)
    assert refused.code == 2
    assert "made for another instance" in refused.err


def test_info_of_every_format(cli: Cli, graph_file: Path, instance_file: Path) -> None:
    result, plan = graph_file.with_name("result.json"), graph_file.with_name("plan.json")
    cli("solve", instance_file, "-m", "slackswap", "-o", result)
    solved = read_result(result)
    assert solved.plan is not None
    plan.write_text(solved.plan.model_dump_json())

    graph = cli("info", graph_file, "--json").document
    assert (graph["ops"], graph["forward_ops"], graph["tensors"]) == (8, 4, 9)
    assert graph["ideal_ns"] == 12_000_000
    instance = cli("info", instance_file, "--json").document
    # 4 ms forward at 10 GB/s move 40 MB, more than the excess.
    assert instance["excess_bytes"] == graph["unlimited_peak_bytes"] - 24 * 2**20
    assert instance["hideable_share"] == 1.0

    assert cli("info", plan, "--json").document["swap"] == solved.plan.counts["swap"]
    assert cli("info", result, "--json").document["status"] == "feasible"
    for path, words in (
        (graph_file, ["8 (4 forward, 4 backward)", "feasible budget", "12.000000 ms"]),
        (instance_file, ["hideable share", "100.0 % of the excess", "budget"]),
        (plan, ["swap", "recompute"]),
        (result, ["throughput ratio", "certified gap"]),
    ):
        ran = cli("info", path)
        assert ran.code == 0
        assert all(word in ran.out for word in words), ran.out


def test_hideable_share_is_what_the_link_can_move(cli: Cli, tmp_path: Path) -> None:
    document = question()
    document["device"]["d2h_bytes_per_s"] = 10**9  # 4 ms: 4 MB of the excess
    shown = cli("info", write(tmp_path / "slow.json", document), "--json").document
    assert shown["hideable_bytes"] == 4_000_000
    assert shown["hideable_share"] == pytest.approx(4_000_000 / shown["excess_bytes"])
    document["budget_bytes"] = 10**12
    shown = cli("info", write(tmp_path / "large.json", document), "--json").document
    assert shown["hideable_share"] is None
    assert "everything fits" in cli("info", tmp_path / "large.json").out


def test_info_of_an_instance_without_a_plan(cli: Cli, tmp_path: Path) -> None:
    tight = write(tmp_path / "tight.json", question(budget_bytes=1000))
    ran = cli("info", tight)
    assert ran.code == 0
    assert "infeasible" in ran.out
    bound = cli("info", tight, "--json").document["graph"]["min_budget_lower_bound_bytes"]
    exact = write(tmp_path / "exact.json", question(budget_bytes=bound))
    assert cli("info", exact, "--json").document["infeasible"] is None


def test_milp_proves_a_bound(cli: Cli, instance_file: Path) -> None:
    ran = cli("solve", instance_file, "--method", "milp", "--time-limit", 5, "--json")
    assert ran.code == 0
    assert ran.document["lower_bound_ns"] <= ran.document["makespan_ns"]


def test_methods_versions_and_schema(cli: Cli) -> None:
    listed = cli("methods", "--json").document["methods"]
    assert [entry["name"] for entry in listed] == [method.name for method in methods()]
    assert "slackswap" in cli("methods").out
    assert cli("versions", "--json").document["slackopt"]
    assert "python" in cli("versions").out
    assert cli("--version").out.startswith("slackopt ")
    assert cli("schema", "plan").document["title"] == "slackopt plan file"
    assert set(cli("schema", "--json").document) == set(FORMATS)
    assert about.schema("plan").document == cli("schema", "plan", "--json").document


def test_names_of_every_kind_work_through_the_whole_chain(cli: Cli, tmp_path: Path) -> None:
    names = ["a, b [0]", "Ünïcødé 層 {x}", "[red]bold[/red]", 'q"uote\\ \t\n\x1b[31m']
    graph = chain(names)
    graph["name"] = "größe [bold], 模型"
    graph_file = write(tmp_path / "mo del,[1] ä.json", graph)
    instance, result = tmp_path / "in stance,ö.json", tmp_path / "re[s]ult.json"
    plan, trace = tmp_path / "plan.json", tmp_path / "tra ce,é.json"
    made = cli(
        "instance", graph_file, "--device", "a100-pcie4", "--budget", 24 * 2**20, "-o", instance
    )
    assert made.code == 0, made.err
    assert "größe [bold], 模型" in made.out
    for method in ("slackswap", "swap-all", "milp"):
        solved = cli("solve", instance, "-m", method, "--time-limit", 5, "-o", result)
        assert solved.code == 0, solved.err
        plan.write_text(read_result(result).plan.model_dump_json(), encoding="utf-8")  # type: ignore[union-attr]
        for made_by in (plan, result):
            priced = cli("simulate", instance, made_by, "--trace", trace)
            assert priced.code == 0, priced.err
        assert any(
            "Ünïcødé 層 {x}" in event["name"]
            for event in json.loads(trace.read_text(encoding="utf-8"))["traceEvents"]
        )
        verified = cli("verify", instance, result)
        assert verified.code == 0, verified.err
        assert "\x1b" not in verified.out + verified.err + solved.out + solved.err
    assert cli("info", instance, "--json").document["name"] == "größe [bold], 模型"
    compared = cli("compare", instance, "--methods", "slackswap")
    assert compared.code == 0
    assert "größe [bold], 模型" in compared.out


def test_python_dash_m_is_the_same_program() -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "slackopt", "--version"], capture_output=True, text=True, check=True
    )
    assert ran.stdout.startswith("slackopt ")
