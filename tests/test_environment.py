"""environment.yml asks for the same packages, within the same bounds, as pyproject.toml."""

import tomllib
from pathlib import Path

import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]

# Name on the Python package index -> name on conda-forge, where the two differ.
CONDA_NAMES = {"ortools": "ortools-python"}

# Only conda lists these: the interpreter is `requires-python`, pip installs slackopt itself.
CONDA_ONLY = {"python", "pip"}


def project() -> dict:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def conda_bounds() -> dict[str, SpecifierSet]:
    environment = yaml.safe_load((ROOT / "environment.yml").read_text(encoding="utf-8"))
    assert environment["channels"] == ["conda-forge"]
    bounds = {}
    for line in environment["dependencies"]:
        name, _, specifier = line.partition(" ")
        assert name not in bounds, f"environment.yml lists {name} twice"
        bounds[name] = SpecifierSet(specifier)
    return bounds


def test_packages_and_bounds_agree():
    wanted = {}
    for text in project()["dependencies"]:
        requirement = Requirement(text)
        name = canonicalize_name(requirement.name)
        wanted[CONDA_NAMES.get(name, name)] = requirement.specifier
    listed = {name: bound for name, bound in conda_bounds().items() if name not in CONDA_ONLY}
    assert listed == wanted


def test_python_bounds_agree():
    assert conda_bounds()["python"] == SpecifierSet(project()["requires-python"])


def test_every_package_has_a_lower_bound():
    texts = list(project()["dependencies"])
    for extra in project()["optional-dependencies"].values():
        texts.extend(extra)
    unbounded = [
        text for text in texts if not any(s.operator == ">=" for s in Requirement(text).specifier)
    ]
    assert unbounded == []
