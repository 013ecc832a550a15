"""Bad input: one clear sentence, exit code 2 (3 if it proves infeasibility), nothing written."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cli.conftest import MIB, Cli, Ran, chain, question, write

Change = Callable[[dict[str, Any]], Any]
ABSURD = 10**30


def refused(cli: Cli, folder: Path, words: list[str], *arguments: object, code: int = 2) -> Ran:
    """Run a command that must fail: as text and as JSON, with nothing written."""
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    ran = cli(*arguments)
    assert ran.code == code, ran.err
    assert ran.out == ""
    assert ran.err.startswith("slackopt: error: ")
    assert "Traceback" not in ran.err
    assert "pydantic" not in ran.err
    for word in words:
        assert word in ran.err, ran.err
    as_json = cli(*arguments, "--json")
    assert as_json.code == code
    if "error" in as_json.document:
        assert as_json.document["error"]["exit_code"] == code
        assert as_json.document["error"]["message"] in ran.err
    else:
        assert as_json.document["status"] == "infeasible"
    assert before == {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    return ran


# Files that are no records.

FILES: dict[str, tuple[bytes | None, list[str]]] = {
    "missing": (None, ["no such file"]),
    "empty": (b"", ["not JSON: Expecting value at line 1, column 1"]),
    "not JSON": (b'{"format": slackopt}', ["not JSON: Expecting value at line 1, column 12"]),
    "cut off": (json.dumps(question()).encode()[:-20], ["not JSON"]),
    "truncated gzip": (gzip.compress(json.dumps(question()).encode())[:-30], ["truncated"]),
    "damaged gzip": (b"\x1f\x8b" + bytes(40), ["damaged gzip"]),
    "binary": (bytes(range(128, 256)), ["not UTF-8 text (byte 0)"]),
    "zeros": (bytes(1000), ["not JSON"]),
    "deeply nested": (b"[" * 200_000 + b"]" * 200_000, ["nested too deeply"]),
    "a list": (b"[]", ["the top level must be a JSON object"]),
    "an empty object": (b"{}", ["has no field 'format'", "'slackopt/instance'"]),
    "NaN": (b'{"format": NaN}', ["NaN is not allowed; every number must be finite"]),
    "Infinity": (b'{"format": -Infinity}', ["-Infinity is not allowed"]),
    "an infinite number": (b'{"format": 1e999}', ["the number 1e999 is too large"]),
    "an endless number": (b'{"format": ' + b"9" * 5000 + b"}", ["not JSON that can be read"]),
    "a key twice": (
        b'{"name": "x", "format": 1, "format": 2}',
        ["key 'format' of 'x' stands twice"],
    ),
    "another format": (
        b'{"format": "slackopt/plan"}',
        ["expected 'slackopt/instance'", "right file?"],
    ),
    "a list as format": (b'{"format": []}', ["format is []", "right file?"]),
}


@pytest.mark.parametrize("case", FILES)
@pytest.mark.parametrize("command", ["solve", "compare"])
def test_files(cli: Cli, tmp_path: Path, case: str, command: str) -> None:
    content, words = FILES[case]
    path, output = tmp_path / "given.json", tmp_path / "out.json"
    if content is not None:
        path.write_bytes(content)
    options = ["-o", output] if command == "solve" else ["--methods", "slackswap"]
    ran = refused(cli, tmp_path, [str(path), *words], command, path, *options)
    assert ran.err.count("\n") == 1


def test_a_directory_instead_of_a_file(cli: Cli, tmp_path: Path) -> None:
    refused(cli, tmp_path, ["can't be read: Is a directory"], "info", tmp_path)


def test_a_byte_order_mark_is_fine(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "i.json"
    path.write_text(json.dumps(question()), encoding="utf-8-sig")
    assert cli("info", path).code == 0


# Documents with a wrong field or a graph that is no step.


def change(document: dict[str, Any], place: str, value: object) -> dict[str, Any]:
    """Set ``ops.0.name`` to a value; the value `...` removes it."""
    *path, last = place.split(".")
    node: Any = document
    for part in path:
        node = node[int(part) if part.isdecimal() else part]
    if value is ...:
        del node[last]
    elif isinstance(node, list):
        node[int(last)] = value
    else:
        node[last] = value
    return document


WHOLE = "must be a whole number, written without point or exponent"
GRAPHS: dict[str, tuple[str, object, list[str]]] = {
    "unknown schema version": (
        "schema_version",
        99,
        ["schema_version is 99, this slackopt reads 1"],
    ),
    "no schema version": ("schema_version", ..., ["schema_version is None"]),
    "a version that is no number": ("schema_version", True, ["schema_version is True"]),
    "unknown tensor as input": (
        "ops.1.inputs",
        ["x y"],
        ["ops[1].inputs[0]: tensor 'x y' of op 'b' is not in tensors"],
    ),
    "unknown tensor as output": (
        "ops.7.outputs",
        ["x"],
        ["ops[7].outputs[0]: tensor 'x' of op 'a.backward' is not in"],
    ),
    "produced twice": (
        "ops.1.outputs",
        ["a.out"],
        ["tensor 'a.out' is produced twice, by op 'a' and by op 'b'"],
    ),
    "never produced": (
        "tensors.0.name",
        "spare",
        ["tensors[0]: tensor 'spare' is never produced and never used"],
    ),
    "used before production": (
        "ops.0.inputs",
        ["c.out"],
        ["op 'a' uses tensor 'c.out' before op 'c' (ops[2]) produces it"],
    ),
    "cycle": ("ops.0.inputs", ["c.out"], ["the graph has a cycle through ops '"]),
    "op that reads what it makes": (
        "ops.0.inputs",
        ["a.out"],
        ["op 'a' uses tensor 'a.out' before op 'a' (ops[0]) produces it"],
    ),
    "an input twice": (
        "ops.1.inputs",
        ["a.out", "a.out"],
        ["ops[1].inputs: op 'b' lists an input twice"],
    ),
    "phases mixed": ("ops.1.phase", "backward", ["forward op 'c' stands after backward op 'b'"]),
    "unknown phase": (
        "ops.1.phase",
        "sideways",
        ["ops[1].phase of 'b': must be 'forward' or 'backward', found 'sideways'"],
    ),
    "empty graph": ("ops", [], ["the graph is empty; a step needs at least one op"]),
    "ops of no kind": ("ops", 7, ["ops: must be a list, found 7"]),
    "an op that is none": ("ops.2", 7, ["ops[2]: must be a JSON object, found 7"]),
    "duplicate op": ("ops.1.name", "a", ["ops[1].name: 'a' is already the name of ops[0]"]),
    "duplicate tensor": (
        "tensors.1.name",
        "b.out",
        ["tensors[2].name: 'b.out' is already the name of tensors[1]"],
    ),
    "empty name": ("ops.1.name", "", ["ops[1].name: must not be empty, found ''"]),
    "long name": ("name", "x" * 501, ["name: must have at most 500 characters"]),
    "name of no kind": ("ops.1.name", None, ["ops[1].name: must be a string, found null"]),
    "unknown field": (
        "ops.1.duration",
        5,
        ["ops[1].duration of 'b': is no field of this format; remove it or"],
    ),
    "missing field": ("ops.1.duration_ns", ..., ["ops[1].duration_ns of 'b': is missing; add it"]),
    "negative size": (
        "tensors.1.size_bytes",
        -1,
        ["tensors[1].size_bytes of 'a.out': must be above 0, found -1"],
    ),
    "zero size": ("tensors.1.size_bytes", 0, ["must be above 0, found 0"]),
    "absurd size": (
        "tensors.1.size_bytes",
        ABSURD,
        [f"must be at most {10**15}, found {ABSURD}"],
    ),
    "absurd float size": ("tensors.1.size_bytes", 1e30, [WHOLE, "found 1e+30"]),
    "fractional size": ("tensors.1.size_bytes", 1.5, [WHOLE, "found 1.5"]),
    "size as text": ("tensors.1.size_bytes", "12GiB", [WHOLE, "found '12GiB'"]),
    "size that is no number": ("tensors.1.size_bytes", True, [WHOLE, "found true"]),
    "size as list": ("tensors.1.size_bytes", [1], [WHOLE, "found a list"]),
    "negative time": (
        "ops.1.duration_ns",
        -5,
        ["ops[1].duration_ns of 'b': must be above 0, found -5"],
    ),
    "zero time": ("ops.1.duration_ns", 0, ["must be above 0, found 0"]),
    "absurd time": ("ops.1.duration_ns", ABSURD, [f"must be at most {3600 * 10**9}, found"]),
    "absurd float time": ("ops.1.duration_ns", 1e30, [WHOLE]),
    "negative workspace": ("ops.1.workspace_bytes", -1, ["must be at least 0, found -1"]),
    "flag of no kind": ("ops.1.recomputable", "yes", ["must be true or false, found 'yes'"]),
}


@pytest.mark.parametrize("case", GRAPHS)
def test_graphs(cli: Cli, tmp_path: Path, case: str) -> None:
    place, value, words = GRAPHS[case]
    path = write(tmp_path / "graph.json", change(chain(), place, value))
    options = ["--device", "a100-pcie4", "--budget", "1.0", "-o", tmp_path / "out.json"]
    refused(cli, tmp_path, [str(path), *words], "instance", path, *options)


INSTANCES: dict[str, tuple[str, object, list[str]]] = {
    "budget 0": ("budget_bytes", 0, ["budget_bytes: must be above 0, found 0"]),
    "negative budget": ("budget_bytes", -1, ["budget_bytes: must be above 0, found -1"]),
    "absurd budget": ("budget_bytes", ABSURD, ["budget_bytes: must be at most"]),
    "zero bandwidth": (
        "device.d2h_bytes_per_s",
        0,
        ["device.d2h_bytes_per_s: must be above 0, found 0"],
    ),
    "negative bandwidth": ("device.h2d_bytes_per_s", -7, ["must be above 0, found -7"]),
    "absurd bandwidth": ("device.h2d_bytes_per_s", 1e30, [WHOLE]),
    "negative latency": ("device.latency_ns", -1, ["must be at least 0, found -1"]),
    "half a shared link": (
        "device.d2h_shared_bytes_per_s",
        10**9,
        ["give both d2h_shared_bytes_per_s and"],
    ),
    "no device": ("device", ..., ["device: is missing; add it"]),
    "a graph in it is wrong": (
        "graph.ops.1.inputs",
        ["x"],
        ["graph.ops[1].inputs[0]: tensor 'x' of op 'b' is not in"],
    ),
    "a field in its graph is wrong": (
        "graph.ops.1.duration_ns",
        0,
        ["graph.ops[1].duration_ns of 'b': must be above 0"],
    ),
}


@pytest.mark.parametrize("case", INSTANCES)
def test_instances(cli: Cli, tmp_path: Path, case: str) -> None:
    place, value, words = INSTANCES[case]
    path = write(tmp_path / "instance.json", change(question(), place, value))
    output = tmp_path / "out.json"
    refused(cli, tmp_path, [str(path), *words], "solve", path, "-m", "slackswap", "-o", output)


def test_nan_in_a_place_of_any_kind(cli: Cli, tmp_path: Path) -> None:
    path = write(tmp_path / "i.json", question() | {"provenance": {"x": float("nan")}})
    refused(cli, tmp_path, ["NaN is not allowed"], "info", path)


def test_a_key_twice_in_an_op(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "graph.json"
    text = json.dumps(chain()).replace('"name": "b",', '"name": "b", "duration_ns": 1,')
    path.write_text(text)
    refused(cli, tmp_path, ["key 'duration_ns' of 'b' stands twice"], "info", path)


def test_every_violation_is_listed_up_to_twenty(cli: Cli, tmp_path: Path) -> None:
    graph = chain([f"op{i}" for i in range(15)])
    for op in graph["ops"]:
        op["duration_ns"] = 0
    path = write(tmp_path / "graph.json", graph)
    ran = refused(cli, tmp_path, ["30 fields are wrong", "and 10 more"], "info", path)
    assert ran.err.count("\n") == 22


# Budgets.

BUDGETS: dict[str, list[str]] = {
    "0": ["must be above 0", "give a fraction"],
    "0.0": ["must be above 0"],
    "0GiB": ["must be above 0"],
    "-1": ["can't be read"],
    "1": ["could mean 1 byte or the whole peak", "100%"],
    "1.5": ["a fraction is at most 1"],
    "150%": ["a fraction is at most 1"],
    "rubbish": [
        "can't be read",
        "give a fraction of the unlimited peak (0.5, 50%) or bytes (12GiB",
    ],
    "": ["can't be read"],
    "nan": ["can't be read"],
    "inf": ["can't be read"],
    "12 parsecs": ["can't be read"],
    "1e30": ["must be at most"],
    "1e40GiB": ["must be at most"],
    "0.1B": ["less than one byte"],
    "1e-20": ["less than one byte of the peak"],
}


@pytest.mark.parametrize("budget", BUDGETS)
def test_budgets(cli: Cli, tmp_path: Path, graph_file: Path, budget: str) -> None:
    options = ["--device", "a100-pcie4", f"--budget={budget}", "-o", tmp_path / "out.json"]
    refused(cli, tmp_path, ["budget", *BUDGETS[budget]], "instance", graph_file, *options)


@pytest.mark.parametrize(
    ("budget", "expected"),
    [("24MiB", 24 * MIB), ("30000000", 30_000_000), ("1.0", None), ("100%", None), ("1/1", None)],
)
def test_good_budgets(
    cli: Cli, tmp_path: Path, graph_file: Path, budget: str, expected: int | None
) -> None:
    options = ["--device", "a100-pcie4", "--budget", budget, "-o", tmp_path / "out.json"]
    made = cli("instance", graph_file, *options, "--json")
    assert made.code == 0
    found = made.document["budget_bytes"]
    assert found == (
        made.document["graph"]["unlimited_peak_bytes"] if expected is None else expected
    )


def test_a_budget_below_the_working_set(cli: Cli, tmp_path: Path, graph_file: Path) -> None:
    words = [
        "has no plan: op '",
        "bytes with everything evicted that can be",
        "raise the budget to",
    ]
    options = ["--device", "a100-pcie4", "--budget", "5MiB", "-o", tmp_path / "out.json"]
    refused(cli, tmp_path, words, "instance", graph_file, *options, code=3)
    tight = write(tmp_path / "tight.json", question(budget_bytes=5 * MIB))
    for method in ("slackswap", "milp"):
        options = ["-m", method, "-o", tmp_path / "out.json"]
        refused(cli, tmp_path, words, "solve", tight, *options, code=3)
    batch = write(tmp_path / "batch.json", question(budget_bytes=1000))
    words = ["op 'a' (ops[0]) needs 1048576 bytes for the batch"]
    refused(cli, tmp_path, words, "solve", batch, code=3)


# Names, options and files that don't fit together.


def test_unknown_names(cli: Cli, tmp_path: Path, graph_file: Path, instance_file: Path) -> None:
    output = ["-o", tmp_path / "out.json"]
    for words, arguments in (
        (["unknown model 'gpt5'", "bert-large"], ["profile", "gpt5", *output]),
        (
            ["unknown device 'tpu'", "accelerators: ", "a100-pcie4"],
            ["profile", "bert-large", "--device", "tpu", *output],
        ),
        (
            ["unknown device 'a100'", "a100-pcie4"],
            ["instance", graph_file, "--device", "a100", "--budget", "0.5", *output],
        ),
        (["method 'magic' is unknown", "slackswap"], ["solve", instance_file, "-m", "magic"]),
        (["method 'magic' is unknown"], ["compare", instance_file, "--methods", "milp,magic"]),
        (["no method is named"], ["compare", instance_file, "--methods", ","]),
        (["named twice"], ["compare", instance_file, "--methods", "milp,milp"]),
        (["file format 'x' is unknown; choose one of: graph"], ["schema", "x"]),
        (["no such command 'frobnicate'"], ["frobnicate"]),
        (["no such option: --frob"], ["info", "--frob", instance_file]),
        (["missing argument"], ["info"]),
        (["'--attention': ", "'slow'"], ["profile", "bert-large", "--attention", "slow", *output]),
        (["missing option", "-o"], ["profile", "bert-large"]),
    ):
        refused(cli, tmp_path, words, *arguments)


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        ("--batch", "0", ["batch 0: must be a whole number from 1 to"]),
        ("--seq", "-5", ["seq -5: must be a whole number from 1 to"]),
        ("--layers", "100000000000", ["num_layers 100000000000: must be"]),
        ("--batch", "many", ["'--batch': ", "'many'"]),
        (
            "--matmul-percent",
            "101",
            ["these figures make no accelerator", "matmul_percent: must be at most 100"],
        ),
        ("--seq", "9999999", ["these settings make no valid step", "duration_ns: must be at most"]),
        (
            "--name",
            "x" * 501,
            ["these settings make no valid step", "name: must have at most 500 characters"],
        ),
    ],
)
def test_profile_settings(
    cli: Cli, tmp_path: Path, option: str, value: str, words: list[str]
) -> None:
    command = ["profile", "bert-large", "-o", tmp_path / "out.json"]
    if option != "--layers":
        command += ["--layers", 1]
    refused(cli, tmp_path, words, *command, option, value)


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        ("--time-limit", "0", ["time limit 0.0: must be a number of seconds above 0"]),
        ("--time-limit", "nan", ["time limit nan"]),
        ("--gap", "2", ["gap 2.0: must be at least 0 and below 1"]),
        ("--gap", "nan", ["gap nan"]),
        ("--threads", "0", ["threads 0: must be at least 1"]),
        ("--threads", "two", ["--threads"]),
    ],
)
def test_solve_options(
    cli: Cli, tmp_path: Path, instance_file: Path, option: str, value: str, words: list[str]
) -> None:
    output = ["-o", tmp_path / "out.json"]
    refused(cli, tmp_path, words, "solve", instance_file, option, value, *output)
    refused(cli, tmp_path, words, "compare", instance_file, option, value)


def test_a_plan_for_another_instance(cli: Cli, tmp_path: Path, instance_file: Path) -> None:
    result = tmp_path / "r.json"
    assert cli("solve", instance_file, "-m", "slackswap", "-o", result).code == 0
    other = write(tmp_path / "other.json", question(budget_bytes=25 * MIB) | {"name": "other"})
    trace = ["--trace", tmp_path / "t.json"]
    words = [
        f"{result}: the plan was made for another instance: it is for 'chain'",
        "not for 'other'",
    ]
    refused(cli, tmp_path, words, "simulate", other, result, *trace)
    words = [f"{result}: the result is for instance 'chain'", "give the instance it was made from"]
    refused(cli, tmp_path, words, "verify", other, result)


PLANS: dict[str, tuple[str, object, list[str]]] = {
    "unknown tensor": ("decisions", {"no such": "swap"}, ["no such tensor in the instance"]),
    "unknown decision": ("decisions", {"a.out": "burn"}, ["decisions['a.out']: must be 'keep'"]),
    "never idle": ("decisions", {"d.out": "swap"}, ["never idle, so it can only be kept"]),
    "batch": ("decisions", {"a batch": "recompute"}, ["can't be recomputed: it has no producer"]),
    "trigger of a kept tensor": ("prefetch", {"d.out": 5}, ["the tensor is not decided swap"]),
    "negative trigger": ("prefetch", {"a.out": -1}, ["prefetch['a.out']: must be at least 0"]),
    "late trigger": ("prefetch", {"a.out": 99}, ["trigger 99 must be after"]),
}


@pytest.mark.parametrize("case", PLANS)
def test_plans(cli: Cli, tmp_path: Path, instance_file: Path, case: str) -> None:
    result = tmp_path / "r.json"
    cli("solve", instance_file, "-m", "swap-all", "-o", result)
    place, value, words = PLANS[case]
    document = json.loads(result.read_text())["plan"]
    path = write(tmp_path / "plan.json", change(document, place, value))
    refused(cli, tmp_path, words, "simulate", instance_file, path, "--trace", tmp_path / "t.json")


def test_wrong_kinds_of_files(
    cli: Cli, tmp_path: Path, graph_file: Path, instance_file: Path
) -> None:
    words = ["format is 'slackopt/graph', expected 'slackopt/instance'"]
    refused(cli, tmp_path, words, "solve", graph_file)
    words = ["expected 'slackopt/plan' or 'slackopt/result'"]
    refused(cli, tmp_path, words, "simulate", instance_file, instance_file)
    result = tmp_path / "r.json"
    cli("solve", instance_file, "-m", "swap-all", "-o", result)
    words = ["belongs to the instance", "slackopt instance --chunk-bytes"]
    refused(cli, tmp_path, words, "simulate", instance_file, result, "--chunk-bytes", 4096)
    link = ("--device", "a100-pcie4", "--budget", "0.8", "-o", tmp_path / "made.json")
    words = ["chunk_bytes: must be at least 0, found -1"]
    refused(cli, tmp_path, words, "instance", graph_file, *link, "--chunk-bytes", -1)
    words = ["into more than 10000 pieces; give at least"]
    refused(cli, tmp_path, words, "instance", graph_file, *link, "--chunk-bytes", 1)
    document = json.loads(result.read_text()) | {"plan": None, "status": "no_solution"}
    words = ["the result has no plan (status 'no_solution')"]
    refused(cli, tmp_path, words, "simulate", instance_file, write(result, document))


def test_no_command_at_all(cli: Cli) -> None:
    ran = cli()
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == "slackopt: error: missing command; see slackopt --help\n"


@pytest.mark.parametrize("text", ["2", "50", "100"])
def test_a_budget_that_could_be_a_percentage_is_refused(
    cli: Cli, tmp_path: Path, graph_file: Path, text: str
) -> None:
    made = tmp_path / "instance.json"
    ran = cli("instance", graph_file, "--device", "a100-pcie4", "--budget", text, "-o", made)
    assert ran.code == 2
    assert f"write {text}% or" in ran.err
    assert not made.exists()


def test_a_graph_in_the_place_of_an_instance(cli: Cli, graph_file: Path) -> None:
    ran = cli("solve", graph_file)
    assert ran.code == 2
    assert "make an instance of it: slackopt instance" in ran.err
