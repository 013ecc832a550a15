"""The documentation site: it builds without warnings, and nothing public is left out of it."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import pkgutil
import re
import subprocess
import sys
import zlib
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import slackopt as so

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"


def public_packages() -> list[ModuleType]:
    """Return slackopt and its subpackages that say what they offer; the command line is no API."""
    found = [so]
    for info in pkgutil.walk_packages(so.__path__, "slackopt."):
        if info.ispkg and not info.name.startswith("slackopt.cli"):
            module = importlib.import_module(info.name)
            if getattr(module, "__all__", None):
                found.append(module)
    return found


def public_objects() -> list[tuple[str, str, Any]]:
    """Return ``(package, name, object)`` of everything public but modules."""
    return [
        (package.__name__, name, getattr(package, name))
        for package in public_packages()
        for name in package.__all__
        if not inspect.ismodule(getattr(package, name))
    ]


def documented_names(inventory: Path) -> set[str]:
    """Return the names of all Python objects in the inventory of a built site."""
    data = inventory.read_bytes()
    for _ in range(4):
        data = data.split(b"\n", 1)[1]
    lines = zlib.decompress(data).decode().splitlines()
    return {line.split(" ", 1)[0] for line in lines if " py:" in line}


def sphinx(builder: str, out: Path) -> None:
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-b", builder]
    command += ["-c", str(DOCS), "-d", str(out / "doctrees"), str(ROOT), str(out / builder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=500)
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-5000:]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the site once; return the folder of its HTML pages."""
    for tool in ("sphinx", "furo", "myst_parser"):
        pytest.importorskip(tool, reason="needs pip install -e '.[docs]'")
    out = tmp_path_factory.mktemp("site")
    sphinx("html", out)
    return out / "html"


@pytest.mark.slow
def test_every_public_name_is_in_the_reference(site: Path) -> None:
    known = documented_names(site / "objects.inv")
    missing = []
    for package, name, thing in public_objects():
        module, qualified = getattr(thing, "__module__", ""), getattr(thing, "__qualname__", name)
        if not inspect.isclass(thing) and not inspect.isroutine(thing):
            found = any(each.rsplit(".", 1)[-1] == name for each in known)
            missing += [] if found else [f"{package}.{name}"]
            continue
        # What a package and one above it offer stands in one of them.
        parts = package.split(".")
        names = {".".join([*parts[:depth], name]) for depth in range(1, len(parts) + 1)}
        if not (names | {f"{module}.{qualified}"}) & known:
            missing.append(f"{package}.{name}")
    assert missing == [], "add them to a page under docs/api/"


@pytest.mark.slow
def test_every_rule_has_its_docstring_in_the_reference(site: Path) -> None:
    known = documented_names(site / "objects.inv")
    folder = Path(so.__file__).parent / "heuristics"
    rules = {
        path.stem for path in folder.glob("*.py") if "\n@heuristic(" in path.read_text("utf-8")
    }
    assert rules
    missing = {rule for rule in rules if f"slackopt.heuristics.{rule}" not in known}
    assert missing == set(), "add them to docs/api/rules.rst"


@pytest.mark.slow
def test_pages_are_rendered_as_meant(site: Path) -> None:
    first = (site / "docs" / "index.html").read_text("utf-8")
    assert 'href="problem.html"' in first
    assert 'href="../README.html"' in first, "the README is a page of the site"
    problem = (site / "docs" / "problem.html").read_text("utf-8")
    assert 'href="#default-prefetch-triggers"' in problem
    assert "docs/index.html" in (site / "index.html").read_text("utf-8")
    for page in site.glob("docs/**/*.html"):
        text = page.read_text("utf-8")
        assert "System Message" not in text, page
        assert "{doctest}" not in text, page


@pytest.mark.slow
def test_the_examples_of_docstrings_and_pages_pass(site: Path) -> None:
    sphinx("doctest", site.parent)
    told = (site.parent / "doctest" / "output.txt").read_text("utf-8")
    (count,) = re.findall(r"^ +(\d+) tests$", told.split("Doctest summary")[1], re.M)
    block = re.compile(r"^```(?:python|pycon)(\n>>> .*?)^```", re.M | re.S)
    pages = [*DOCS.glob("*.md"), ROOT / "README.md"]
    blocks = [found for page in pages for found in block.findall(page.read_text("utf-8"))]
    written = sum(text.count("\n>>> ") for text in blocks)
    assert int(count) > written > 20, "those of the pages, and some in docstrings"


def test_examples_in_docstrings_pass_outside_of_the_site() -> None:
    """Also those of modules that the reference doesn't show."""
    import doctest

    tried = 0
    for info in pkgutil.walk_packages(so.__path__, "slackopt."):
        source = importlib.util.find_spec(info.name).origin  # type: ignore[union-attr]
        if ">>> " not in Path(str(source)).read_text("utf-8"):
            continue
        module = importlib.import_module(info.name)
        outcome = doctest.testmod(module, extraglobs={"so": so})
        assert outcome.failed == 0, info.name
        tried += outcome.attempted
    assert tried > 3


def test_nothing_public_is_without_a_docstring() -> None:
    missing = []
    for package, name, thing in public_objects():
        is_class = inspect.isclass(thing)
        if (is_class or inspect.isroutine(thing)) and not inspect.getdoc(thing):
            missing.append(f"{package}.{name}")
        if not is_class:
            continue
        for attribute, value in vars(thing).items():
            described = callable(value) or isinstance(value, property | classmethod | staticmethod)
            if attribute.startswith("_") or not described:
                continue
            if not inspect.getdoc(getattr(thing, attribute)):
                missing.append(f"{package}.{name}.{attribute}")
    assert missing == []


def test_every_field_of_a_public_record_is_described() -> None:
    missing = []
    for package, name, thing in public_objects():
        fields = getattr(thing, "model_fields", None) if inspect.isclass(thing) else None
        text = inspect.getdoc(thing) or ""
        for field in fields or ():
            line = rf"^ *(?:\w+, )*{field}(?:, [\w.]+)*$"  # in a list of attributes
            told = re.search(rf"{line}|``{field}``|, \.\.\.$", text, re.M)
            trivial = field in ("format", "schema_version", "name")
            if not told and not trivial:
                missing.append(f"{package}.{name}.{field}")
    assert missing == []


def test_the_page_of_the_commands_is_up_to_date() -> None:
    script = load(DOCS / "commands.py")
    assert script.PAGE.read_text("utf-8") == script.page(), "run python docs/commands.py"
    words = [" ".join(command) for command in script.commands()]
    assert {"solve", "cite", "verify"} <= set(words)


def load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"docs_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_method_has_a_section() -> None:
    from slackopt.heuristics import heuristics

    pages = "".join((DOCS / name).read_text("utf-8") for name in ("exact-methods.md", "rules.md"))
    sections = set(re.findall(r"^### `([\w-]+)`$", pages, re.M))
    foreign = {n for n, rule in heuristics().items() if not rule.__module__.startswith("slackopt.")}
    methods = {method.name for method in so.methods()} - foreign
    assert sections == methods
    overview = (DOCS / "methods.md").read_text("utf-8")
    assert {name for name in methods if f"`{name}`" not in overview} == set()


def test_every_section_of_a_method_names_its_source() -> None:
    for name in ("exact-methods.md", "rules.md"):
        page = (DOCS / name).read_text("utf-8")
        for title, body in re.findall(r"^### `([\w-]+)`\n(.*?)(?=^##|\Z)", page, re.M | re.S):
            assert re.search(r"^\*Sources?\*: \S", body, re.M), title


def test_the_first_page_lists_every_page() -> None:
    text = (DOCS / "index.md").read_text("utf-8")
    pages = sorted(path.name for path in DOCS.glob("*.md") if path.name != "index.md")
    assert [name for name in pages if f"({name})" not in text] == []


def test_the_glossary_has_the_words_that_the_house_uses() -> None:
    rules = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    (words,) = re.findall(r"One word for one thing\.\*\* (.*?)\. A name", rules, re.S)
    glossary = (DOCS / "glossary.md").read_text("utf-8").lower()
    house = re.split(r"[,()]| and ", " ".join(words.split()).lower())
    missing = [word.strip() for word in house if word.strip() and word.strip() not in glossary]
    assert missing == []
    defined = re.findall(r"^- \*\*(.+?)\*\*: ", glossary, re.M)
    assert len(defined) == len(set(defined)) > 60
