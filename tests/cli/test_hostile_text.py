"""Texts from files never steer the terminal, whatever field of whatever file they stand in."""

import io
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cli.conftest import Cli, chain, question, write
from made_runs import run as made_run
from rich.console import Group
from rich.text import Text

from slackopt.batch import write_run
from slackopt.cli.failures import MAX_LINES
from slackopt.cli.output import Data, print_json, print_view
from slackopt.cli.run import main
from slackopt.files import read_instance
from slackopt.result import Result
from slackopt.solve import solve

HOSTILE = (
    "\x1b[2J\x1b]0;title\x07\x9b31mx\x00\x7f\r\x08\u202eevil\u2066\u2028\x85\u200f\ufeff\n"
    "slackopt: ok"
)
STYLES = re.compile(r"\x1b\[[0-9;]*m")
"""What rich writes on a terminal."""


def assert_harmless(text: str) -> None:
    for line in text.split("\n"):
        assert line.isprintable(), repr(line)
        assert line != "slackopt: ok"  # a line of its own, as if it were ours


def texts(document: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], bool]]:
    """The places of all texts in a document, and of all keys (True)."""
    if isinstance(document, dict):
        for name, value in document.items():
            yield (*place, name), True
            yield from texts(value, (*place, name))
    elif isinstance(document, list):
        for i, value in enumerate(document[:1]):
            yield from texts(value, (*place, i))
    elif isinstance(document, str):
        yield place, False


def poisoned(document: Any, place: tuple[Any, ...], *, key: bool) -> Any:
    made = json.loads(json.dumps(document))
    inner = made
    for part in place[:-1]:
        inner = inner[part]
    if key:
        inner[HOSTILE] = inner.pop(place[-1])
    else:
        inner[place[-1]] = HOSTILE
    return made


def result_document(path: Path) -> dict[str, Any]:
    result = solve(read_instance(path), "swap-all")
    found: dict[str, Any] = json.loads(result.model_dump_json())
    return found


def test_every_text_of_every_file(cli: Cli, tmp_path: Path) -> None:
    good = write(tmp_path / "good.json", question())
    result = result_document(good)
    documents: dict[str, tuple[Any, list[list[Any]]]] = {
        "graph": (chain(["a"]), [["info", "FILE"], ["instance", "FILE", "--budget", "0.9"]]),
        "instance": (
            question(chain(["a"])),
            [["info", "FILE"], ["verify", "FILE", "RESULT"]],
        ),
        "plan": (result["plan"], [["info", "FILE"], ["simulate", good, "FILE"]]),
        "result": (result, [["info", "FILE"], ["verify", good, "FILE"], ["cite", "FILE"]]),
    }
    stored = write(tmp_path / "result.json", result)
    tried = 0
    for document, commands in documents.values():
        for place, key in texts(document):
            path = write(tmp_path / "bad.json", poisoned(document, place, key=key))
            for command in commands:
                words = [{"FILE": path, "RESULT": stored}.get(word, word) for word in command]
                for more in ((), ("--json",)):
                    if more and tried % 5:
                        continue
                    ran = cli(*words, *more)
                    if command[0] == "cite" and not more:
                        assert_harmless(ran.err)
                    else:
                        assert_harmless(ran.out)
                        assert_harmless(ran.err)
                tried += 1
    assert tried > 100


def test_every_text_of_a_run_in_a_report(cli: Cli, tmp_path: Path) -> None:
    tags = {"label": "x", "study": "y"}
    crash = made_run("a", "slackswap", result=False, outcome="crash", detail="why")
    runs = [made_run("a", "milp", makespan=120, bound=130, task={"tags": tags}), crash]
    cases = [
        poisoned(document, place, key=key)
        for document in (json.loads(run.model_dump_json()) for run in runs)
        for place, key in texts(document)
        if place[0] not in ("machine", "features") and "environment" not in place
    ]
    assert len(cases) > 50
    for i in range(0, len(cases), MAX_LINES):  # as many as `report` tells of
        folder = tmp_path / str(i)
        write_run(folder, made_run("b", makespan=100))
        for k, case in enumerate(cases[i : i + MAX_LINES]):
            name = f"{k:032x}"
            write(folder / "runs" / f"{name}.json", case | ({"key": name} if "key" in case else {}))
        ran = cli("report", folder)
        assert_harmless(ran.out)
        assert_harmless(ran.err)


def test_names_of_files_and_words_of_the_command_line(cli: Cli, tmp_path: Path) -> None:
    name = HOSTILE.replace("\x00", "").replace("/", "")
    path = write(tmp_path / f"{name}.json", question())
    for words in (
        ["info", path],
        ["info", tmp_path / f"missing{name}"],
        ["verify", path, path],
        [name],
        ["info", "--" + name],
        ["solve", path, "--method", name],
        ["solve", path, "--time-limit", name],
        ["batch", path, "-m", name, "--dry-run"],
        ["batch", path, "-m", "swap-all", "--dry-run"],
        ["report", tmp_path / name],
    ):
        ran = cli(*words)
        assert_harmless(ran.out)
        assert_harmless(ran.err)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    "view", [HOSTILE, Data(HOSTILE), Text(HOSTILE), Group(Text(HOSTILE, style="bold"), HOSTILE)]
)
def test_whatever_a_view_holds(monkeypatch: pytest.MonkeyPatch, view: Any) -> None:
    for stream in (Terminal(), io.StringIO()):
        monkeypatch.setattr("sys.stdout", stream)
        print_view(view)
        told = stream.getvalue()
        if isinstance(view, Data) and not isinstance(stream, Terminal):
            assert told == HOSTILE + "\n"  # to a file, as it is
            continue
        assert "evil" in told
        for line in STYLES.sub("", told).split("\n"):
            assert line.isprintable(), repr(line)


def test_json_is_the_same_json(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    monkeypatch.setattr("sys.stdout", stream)
    document = {HOSTILE: [HOSTILE, "\ud800", "\U000e0001", "größer", "\U0001f600"]}
    print_json(document)
    assert json.loads(stream.getvalue()) == document
    assert_harmless(stream.getvalue())
    assert "größer" in stream.getvalue()


def test_a_traceback(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> Result:
        raise RuntimeError(HOSTILE)

    monkeypatch.setattr("slackopt.cli.app.app", broken)
    monkeypatch.setattr("slackopt.cli.run.app", broken)
    assert main(["--debug"]) == 1
    told = capfd.readouterr().err
    assert "Traceback" in told
    for line in told.split("\n"):
        assert line.isprintable(), repr(line)


def test_nothing_else_prints() -> None:
    """No module of the command line writes to a stream but the one that escapes."""
    folder = Path(main.__code__.co_filename).parent
    for path in folder.glob("*.py"):
        found = re.findall(
            r"sys\.std(?:err|out)\.(?:write|buffer)|(?<![_\w.])print\(|traceback\.print|echo\(",
            path.read_text(),
        )
        allowed = {"output.py": len(found), "app.py": 1}.get(path.name, 0)
        assert len(found) <= allowed, (path.name, found)
