"""What goes where: standard output, standard error, files; exit codes."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from cli.conftest import Cli, question, write

from slackopt.cli import failures, run
from slackopt.cli.output import noise_to_stderr
from slackopt.files import read_result

PROGRAM = [sys.executable, "-m", "slackopt"]
NOISY = """
import ctypes, os, sys
from slackopt.heuristics.registry import heuristic, heuristics
from slackopt.cli import main

@heuristic("noisy")
def noisy(instance):
    "Prints everywhere."
    print("noise from Python")
    os.write(1, b"noise from the descriptor\\n")
    libc = ctypes.CDLL(None)
    libc.puts(b"noise from C")
    os.system("echo noise from a child")
    return heuristics()["slackswap"](instance)

sys.exit(main())
"""


def program(*arguments: object, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*PROGRAM, *map(str, arguments)], capture_output=True, text=True, check=False, **options
    )


@pytest.mark.parametrize(
    "command",
    [
        ["solve", "{i}", "-m", "noisy", "--json"],
        ["compare", "{i}", "--methods", "noisy,milp", "--time-limit", "5", "--json"],
        ["compare", "{i}", "--methods", "noisy,milp", "--time-limit", "5"],
    ],
)
def test_noise_never_reaches_standard_output(instance_file: Path, command: list[str]) -> None:
    arguments = [part.format(i=instance_file) for part in command]
    ran = subprocess.run(
        [sys.executable, "-c", NOISY, *arguments], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    assert "noise" not in ran.stdout
    assert "HiGHS" not in ran.stdout
    for source in ("Python", "the descriptor", "C", "a child"):
        assert f"noise from {source}\n" in ran.stderr
    if "--json" in command:
        json.loads(ran.stdout)


def test_json_of_every_command_is_one_document(instance_file: Path, tmp_path: Path) -> None:
    graph = tmp_path / "g.json"
    commands: list[list[object]] = [
        ["profile", "bert-large", "--layers", 1, "-o", graph],
        ["instance", graph, "--device", "a100-pcie4", "--budget", "0.9", "-o", tmp_path / "i.json"],
        ["info", instance_file],
        ["solve", instance_file, "-o", tmp_path / "r.json", "--time-limit", 5],
        ["simulate", instance_file, tmp_path / "r.json"],
        ["verify", instance_file, tmp_path / "r.json"],
        ["compare", instance_file, "--methods", "milp,slackswap", "--time-limit", 5],
    ]
    for command in commands:
        ran = program(*command, "--json")
        assert ran.returncode == 0, ran.stderr
        assert isinstance(json.loads(ran.stdout), dict)
        assert "\x1b" not in ran.stdout + ran.stderr


def test_a_closed_standard_output_does_no_harm(instance_file: Path, tmp_path: Path) -> None:
    output = tmp_path / "r.json"
    command = (
        f"exec {sys.executable} -m slackopt solve {instance_file} -m slackswap -o {output} >&-"
    )
    assert subprocess.run(["bash", "-c", command], capture_output=True, check=False).returncode == 0
    assert read_result(output).status == "feasible"


def test_a_reader_that_has_seen_enough(instance_file: Path) -> None:
    command = f"{sys.executable} -m slackopt schema | head -1; echo ${{PIPESTATUS[0]}}"
    ran = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)
    assert ran.stdout == "{\n0\n"
    assert ran.stderr == ""


@pytest.mark.parametrize(
    ("message", "code"), [("interrupted", 130)], ids=["ctrl-c outside of a method"]
)
def test_interrupt(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, instance_file: Path, message: str, code: int
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("slackopt.cli.inspecting.read_record", interrupted)
    ran = cli("info", instance_file)
    assert (ran.code, ran.err, ran.out) == (code, f"slackopt: {message}\n", "")
    assert cli("info", instance_file, "--json").document["error"]["exit_code"] == code


def test_a_bug_is_one_sentence_without_debug(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, instance_file: Path
) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("oh")

    monkeypatch.setattr("slackopt.cli.inspecting.read_record", broken)
    ran = cli("info", instance_file)
    assert ran.code == 1
    assert ran.err.count("\n") == 1
    assert "unexpected ZeroDivisionError: oh" in ran.err
    assert "Traceback" in cli("info", instance_file, "--debug").err


def test_no_half_files(cli: Cli, instance_file: Path, tmp_path: Path) -> None:
    before = sorted(tmp_path.iterdir())
    tight = write(tmp_path / "tight.json", question(budget_bytes=1000))
    output = tmp_path / "r.json"
    assert cli("solve", tight, "-m", "slackswap", "-o", output).code == 3
    assert cli("solve", instance_file, "-m", "keep-all", "-o", output).code == 4
    tight.unlink()
    assert sorted(tmp_path.iterdir()) == before


def test_an_output_that_cannot_be_written_is_seen_first(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, instance_file: Path, tmp_path: Path
) -> None:
    def unreachable(*_: object, **__: object) -> None:
        raise AssertionError("the work was begun")

    monkeypatch.setattr("slackopt.cli.solving.run_method", unreachable)
    for output, words in (
        (tmp_path / "none" / "r.json", "doesn't exist; make it first"),
        (tmp_path, "it is a directory; name a file in it"),
        (instance_file / "r.json", "is not a directory"),
        (instance_file, "is an input of this command"),
    ):
        ran = cli("solve", instance_file, "-o", output)
        assert ran.code == 2
        assert words in ran.err
    assert json.loads(instance_file.read_text()) == question()


def test_infeasible_prints_the_result(cli: Cli, tmp_path: Path) -> None:
    tight = write(tmp_path / "tight.json", question(budget_bytes=1000))
    ran = cli("solve", tight, "-m", "milp", "--json")
    assert ran.code == 3
    assert ran.document["status"] == "infeasible"
    assert ran.document["plan"] is None
    assert "raise the budget to at least" in ran.err


def test_nothing_found(cli: Cli, instance_file: Path) -> None:
    ran = cli("solve", instance_file, "-m", "keep-all", "--json")
    assert ran.code == 4
    assert ran.document["status"] == "no_solution"
    assert "does not prove that there is none" in ran.err


def test_a_failed_check_lists_every_claim(cli: Cli, instance_file: Path, tmp_path: Path) -> None:
    result = tmp_path / "r.json"
    cli("solve", instance_file, "-m", "slackswap", "-o", result)
    document = json.loads(result.read_text())
    document["makespan_ns"] -= 1
    document["peak_bytes"] += 1
    ran = cli("verify", instance_file, write(result, document))
    assert ran.code == 6
    assert "3 claims do not hold" in ran.err  # the trajectory ends at another makespan
    assert "peak_bytes is claimed as" in ran.err
    refused = cli("verify", instance_file, result, "--json")
    assert refused.code == 6
    assert len(refused.document["error"]["details"]) == 3


def test_verify_tells_proofs_from_a_solvers_word(
    cli: Cli, instance_file: Path, tmp_path: Path
) -> None:
    bound, claimed, vipr = tmp_path / "b.json", tmp_path / "c.json", tmp_path / "b.vipr"
    assert cli("solve", instance_file, "-m", "bound", "-o", bound).code == 0
    assert json.loads(bound.read_text())["status"] == "bounded"
    proved = cli("verify", instance_file, bound, "--strict", "--vipr", vipr)
    assert (proved.code, proved.err) == (0, "")
    assert "every claim about the instance is proved" in proved.out
    assert f"{vipr}: no plan is below" in proved.out
    assert vipr.read_text().startswith("% instance ")
    document = json.loads(bound.read_text()) | {"method": "my-solver", "status": "no_solution"}
    document |= {"stopped_by": "time", "trajectory": []}
    document["lower_bound_ns"] += 1
    ran = cli("verify", instance_file, write(claimed, document), "--json")
    assert ran.code == 0
    assert not ran.document["all_proved"]
    assert ran.document["on_word"]
    told = cli("verify", instance_file, claimed)
    assert told.code == 0
    assert "no claim is refuted, and part rests on a solver's word" in told.out
    strict = cli("verify", instance_file, claimed, "--strict")
    assert strict.code == 7
    assert "part rests on a solver's word: lower bound" in strict.err


def test_verify_writes_no_vipr_file_where_nothing_is_certified(
    cli: Cli, instance_file: Path, tmp_path: Path
) -> None:
    result, vipr = tmp_path / "r.json", tmp_path / "r.vipr"
    cli("solve", instance_file, "-m", "slackswap", "-o", result)
    document = json.loads(result.read_text())
    nothing = dict.fromkeys(name for name in document if name.endswith(("_ns", "_bytes")))
    kept = {name: document[name] for name in ("ideal_ns", "budget_bytes")}
    document |= nothing | kept | {"plan": None, "throughput_ratio": None, "trajectory": []}
    document |= {"status": "no_solution"}
    ran = cli("verify", instance_file, write(result, document), "--vipr", vipr)
    assert ran.code == 2
    assert "claims nothing" in ran.err
    assert not vipr.exists()


def test_a_plan_out_of_memory_is_reported(cli: Cli, instance_file: Path, tmp_path: Path) -> None:
    result, plan, trace = tmp_path / "r.json", tmp_path / "p.json", tmp_path / "t.json"
    cli("solve", instance_file, "-m", "slackswap", "-o", result)
    document = json.loads(result.read_text())["plan"] | {"decisions": {}, "prefetch": {}}
    ran = cli("simulate", instance_file, write(plan, document), "--trace", trace, "--json")
    assert ran.code == 3
    assert ran.document["feasible"] is False
    assert ran.document["out_of_memory"]["op"] == "d"
    assert "out of memory at 3.000 ms: op 'd' (ops[3]) waits for 8388608 bytes" in ran.err
    assert not trace.exists()
    assert "out of memory" in cli("simulate", instance_file, plan).out


def test_no_colours_and_120_columns_off_a_terminal(instance_file: Path) -> None:
    environment = os.environ | {"FORCE_COLOR": "1", "TERM": "xterm-256color"}
    environment.pop("COLUMNS", None)
    ran = program("compare", instance_file, "--methods", "slackswap,keep-all", env=environment)
    assert ran.returncode == 0
    assert "\x1b" not in ran.stdout
    lines = ran.stdout.splitlines()
    assert max(map(len, lines)) <= 120
    assert all(line == line.rstrip() for line in lines)
    narrow = program("info", instance_file, env=environment | {"COLUMNS": "60"})
    assert max(map(len, narrow.stdout.splitlines())) <= 60


def test_ctrl_c_ends_a_solve_with_what_it_has(
    cli: Cli, instance_file: Path, tmp_path: Path
) -> None:
    slow = """
import sys, time
from slackopt.heuristics.registry import heuristic
from slackopt.cli import main
@heuristic("slow")
def slow(instance):
    "Never ends."
    print("begun", file=sys.stderr, flush=True)
    time.sleep(60)
sys.exit(main())
"""
    for command in (
        ["solve", str(instance_file), "-m", "slow", "--json"],
        ["compare", str(instance_file), "-m", "slow,slackswap", "--json"],
    ):
        process = subprocess.Popen(
            [sys.executable, "-c", slow, *command],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert process.stderr is not None
        assert process.stderr.readline() == "begun\n"
        time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=20)
        document = json.loads(out)
        result = document["rows"][0] if "rows" in document else document
        assert result["stopped_by"] == "signal"
        assert result["status"] == "no_solution"
        assert process.returncode == (130 if "rows" in document else 4), err
        assert "Traceback" not in err


def test_long_lists_are_cut(capfd: pytest.CaptureFixture[str]) -> None:
    failures.print_error("many", [f"line {i}" for i in range(25)])
    err = capfd.readouterr().err
    assert err.count("\n") == 22
    assert err.endswith("  - and 5 more\n")


def test_noise_is_turned_back(capfd: pytest.CaptureFixture[str]) -> None:
    with noise_to_stderr():
        os.write(1, b"inside\n")
        print("inside too")
    os.write(1, b"outside\n")
    out, err = capfd.readouterr()
    assert out == "outside\n"
    assert re.fullmatch(r"inside\ninside too\n|inside too\ninside\n", err)


def test_main_takes_the_process_arguments(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["slackopt", "--version"])
    assert run.main() == 0
    assert capfd.readouterr().out.startswith("slackopt ")


def test_no_column_goes_on_a_narrow_terminal(
    cli: Cli, instance_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    shown = cli("compare", instance_file, "-m", "slackswap-timeline,keep-all").out
    assert "slackswap-timeline" in shown
    assert "time" in shown
    assert "…" not in shown


def test_a_bound_alone_is_no_failure_and_the_model_is_told(
    cli: Cli, instance_file: Path, tmp_path: Path
) -> None:
    model = tmp_path / "model.lp"
    ran = cli("solve", instance_file, "--method", "bound", "--export", model)
    assert ran.code == 0
    assert f"model written to {model}" in ran.err
    assert "bound: lower bound" in ran.err
    assert "no_solution" not in ran.out + ran.err
