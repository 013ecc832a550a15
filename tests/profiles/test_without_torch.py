"""slackopt works without PyTorch, and says what to install where it is needed."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from slackopt.errors import InputError
from slackopt.profiles import from_torch, measure_link, torch_model

ROOT = Path(__file__).resolve().parents[2]


def test_importing_slackopt_does_not_import_pytorch() -> None:
    code = "import slackopt, slackopt.cli.app, sys; sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    for call in (lambda: from_torch(None), lambda: torch_model("resnet50"), measure_link):
        with pytest.raises(InputError, match=r"torch.*pip install '\.\[torch\]'"):
            call()


def test_the_pins_of_pytorch_go_with_those_of_everything_else() -> None:
    def pins(name: str) -> dict[str, str]:
        lines = (ROOT / "requirements" / name).read_text("utf-8").splitlines()
        found = (line.partition(";")[0].strip().partition("==") for line in lines if "==" in line)
        return {package: version for package, _, version in found if not package.startswith("#")}

    torch_pins, dev_pins = pins("torch.txt"), pins("dev.lock")
    assert {"torch", "transformers"} <= set(torch_pins)
    assert {name: v for name, v in torch_pins.items() if dev_pins.get(name, v) != v} == {}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    for text in project["optional-dependencies"]["torch"]:
        wanted = Requirement(text)
        assert torch_pins[wanted.name] in wanted.specifier
