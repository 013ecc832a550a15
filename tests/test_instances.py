"""The instance files of the repository."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from slackopt.files import read_record
from slackopt.instance import Instance

FOLDER = Path(__file__).resolve().parent.parent / "instances" / "slackswap"
NAMES = [
    f"{model}-{kind}"
    for model in ("bert-large", "gpt2-xl", "llama-7b")
    for kind in ("flash", "eager")
]


def load_script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("slackswap_make", FOLDER / "make.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_remaking_gives_identical_bytes(tmp_path: Path) -> None:
    make = load_script()
    paths = make.write_instances(tmp_path)
    assert [path.stem for path in paths] == NAMES
    for path in paths:
        assert path.read_bytes() == (FOLDER / path.name).read_bytes()
    assert {path.stem for path in FOLDER.glob("*.json")} == set(NAMES)


def test_check_finds_a_changed_and_a_missing_file(tmp_path: Path) -> None:
    make = load_script()
    make.write_instances(tmp_path)
    assert make.differing(tmp_path) == []
    (tmp_path / "gpt2-xl-eager.json").write_text("{}")
    (tmp_path / "llama-7b-flash.json").unlink()
    assert make.differing(tmp_path) == ["gpt2-xl-eager.json", "llama-7b-flash.json"]


@pytest.mark.parametrize("name", NAMES)
def test_instances_are_valid(name: str) -> None:
    instance = read_record(FOLDER / f"{name}.json", Instance)
    assert instance.name == name
    assert instance.device.name == "a100-pcie4"
    assert instance.budget_fraction == "0.5"
    assert instance.budget_bytes == instance.graph.unlimited_peak_bytes // 2
    instance.check_working_set()
