"""Settings of the documentation site.

The source folder is the root of the repository, so that a link from one page to another, to the
README or to a file is the same link in a text editor, on a code host and on the site. The list of
pages, and so the navigation, is made here: the pages themselves stay plain Markdown.

    sphinx-build -W --keep-going -c docs -d build/doctrees -b html . build/docs
    sphinx-build -W --keep-going -c docs -d build/doctrees -b doctest . build/doctest
"""

from __future__ import annotations

import ast
import dataclasses
import importlib
import re
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from pydantic_core import PydanticUndefined
from sphinx.application import Sphinx

import slackopt

ROOT = Path(__file__).resolve().parents[1]

SECTIONS = {
    "Start": ["README", "docs/problem", "docs/glossary", "docs/comparison"],
    "Methods": [
        "docs/methods",
        "docs/exact-methods",
        "docs/rules",
        "docs/formulations",
        "docs/schedule",
        "docs/solvers",
    ],
    "How to": [
        "docs/own-model",
        "docs/own-trace",
        "docs/own-heuristic",
        "docs/own-solver",
        "docs/verify",
        "docs/cluster",
        "docs/citing",
        "docs/pytorch",
        "docs/traces",
        "docs/batch",
        "docs/report",
        "docs/best",
        "docs/plotting",
        "docs/notebooks",
    ],
    "Reference": [
        "docs/commands",
        "docs/api/index",
        "docs/file-formats",
        "docs/profiles",
        "instances/README",
    ],
    "Results": ["docs/heuristics", "docs/benchmarks"],
    "Project": ["CONTRIBUTING", "CHANGELOG"],
}
"""Caption -> pages in order; one that isn't there is left out.

A page on no list makes Sphinx warn, and so fails the build.
"""

BELOW = {"instances/README": "instances/*/README.md"}
"""Page -> pattern of the pages below it."""

FOLLOWED = {
    "Start": ["notebooks/README.md"],
    "Results": ["studies/**/*.md"],
}
"""Caption -> patterns of more pages, in alphabetical order."""

SHORT_TITLES = {"README": "README: results, install", "docs/solvers": "Solvers"}
"""Page -> what the navigation calls it, where its own title is too long or says too little."""

PACKAGES = [
    "analysis",
    "batch",
    "heuristics",
    "library",
    "plotting",
    "profiles",
    "report",
    "simulation",
]

# Some packages import their heavier names when they are first asked for; autodoc doesn't ask.
for package in (slackopt, *(importlib.import_module(f"slackopt.{name}") for name in PACKAGES)):
    for public in package.__all__:
        setattr(package, public, getattr(package, public))

project = "slackopt"
author = "The slackopt developers"
copyright = author
version = release = slackopt.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.doctest",
    "sphinx.ext.mathjax",
    "sphinx.ext.napoleon",
]
root_doc = "docs/index"
include_patterns = [
    "README.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "docs/**.md",
    "docs/**.rst",
    "instances/README.md",
    "instances/**/README.md",
    "notebooks/README.md",
    "studies/**/*.md",
]
exclude_patterns = [".*", "build", "dist", "requirements", "slackopt", "tests", "benchmarks"]

html_theme = "furo"
html_title = f"slackopt {release}"
html_extra_path = ["_extra"]
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_copy_source = False

myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 4
# Links to files that are no pages (schemas, scripts) lead to copies of the files.
myst_links_external_new_tab = False

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
# `slackopt.solve` is a function, which hides the module of the same name from autodoc.
autodoc_default_options = {"members": True, "show-inheritance": True}
napoleon_google_docstring = False
napoleon_use_ivar = True
napoleon_use_rtype = False
napoleon_preprocess_types = False
# A name in backticks is a link where there is something to link to.
default_role = "py:obj"
# A short name such as `Job` may fit several objects; the first is as good as any.
suppress_warnings = ["ref.python"]

trim_doctest_flags = True
# Examples in docstrings use the names of their own subpackage.
doctest_global_setup = f"""
import importlib
import slackopt as so
for module in (so, *(importlib.import_module("slackopt." + name) for name in {PACKAGES})):
    globals().update((name, getattr(module, name)) for name in module.__all__)
"""
doctest_test_doctest_blocks = "default"


def pages(caption: str) -> list[str]:
    """Return the pages of a section that are there, without their endings."""
    listed = [page for page in SECTIONS[caption] if _source(page) is not None]
    return listed + [page for pattern in FOLLOWED.get(caption, []) for page in _matching(pattern)]


def _source(page: str) -> Path | None:
    paths = (ROOT / f"{page}{ending}" for ending in (".md", ".rst"))
    return next((path for path in paths if path.is_file()), None)


def _add_navigation(app: Sphinx, docname: str, source: list[str]) -> None:
    """Append the navigation to its pages, where nobody who reads the files needs it."""
    del app
    if docname == root_doc:
        for caption in SECTIONS:
            source[0] += _toctree(pages(caption), caption)
    elif docname in BELOW:
        source[0] += _toctree(_matching(BELOW[docname]))


def _toctree(listed: list[str], caption: str = "") -> str:
    option = f":caption: {caption}\n" if caption else ""
    entries = "\n".join(map(_entry, listed))
    return f"\n```{{toctree}}\n:hidden:\n{option}\n{entries}\n```\n"


def _matching(pattern: str) -> list[str]:
    return [str(path.relative_to(ROOT).with_suffix("")) for path in sorted(ROOT.glob(pattern))]


def _entry(page: str) -> str:
    title = SHORT_TITLES.get(page)
    return f"/{page}" if title is None else f"{title} </{page}>"


def _test_examples(app: Sphinx, docname: str, source: list[str]) -> None:
    """Make blocks of ``>>>`` lines in Markdown pages tests."""
    del app, docname
    source[0] = re.sub(r"^```(python|pycon)\n(?=>>> )", "```{doctest}\n", source[0], flags=re.M)


def _list_modules(app: Sphinx, docname: str, source: list[str]) -> None:
    """Append every module, with the first line of its docstring, to the page of the modules."""
    del app
    if docname != "docs/api/modules":
        return
    folder = ""
    for path in sorted((ROOT / "slackopt").rglob("*.py"), key=lambda p: (str(p.parent), p.name)):
        text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
        package = ".".join(path.parent.relative_to(ROOT).parts)
        first = text.split("\n")[0]
        if package != folder:
            folder = package
            source[0] += f"\n{package}\n{'-' * len(package)}\n\n"
        if path.name != "__init__.py":
            source[0] += f"- ``{path.name}``: {first}\n"
        elif first:
            source[0] += f"{first}\n\n"


def _plain_signature(
    app: Sphinx, what: str, name: str, obj: Any, options: Any, signature: str, returns: str
) -> tuple[str, str] | None:
    """Write the fields of a record with their defaults; their types are in the text below."""
    del app, what, name, options, signature, returns
    if not (isinstance(obj, type) and issubclass(obj, BaseModel)):
        return None
    shown = []
    for field, info in obj.model_fields.items():
        if field in ("format", "schema_version"):
            continue
        given = info.default is not PydanticUndefined
        shown.append(f"{field}={info.default!r}" if given else field)
        if info.default_factory is not None:
            shown[-1] = f"{field}={{}}"
    return f"(*, {', '.join(shown)})", ""


def _skip_member(
    app: Sphinx, what: str, name: str, obj: Any, skip: bool, options: Any
) -> bool | None:
    """Leave out what pydantic and named tuples add."""
    del app, what, skip, options
    alias = str(getattr(obj, "__doc__", "")).startswith("Alias for field number")
    return True if alias or name == "model_config" else None


_kept: dict[str, list[str]] = {}


def _before_napoleon(
    app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]
) -> None:
    """Keep what napoleon would misread: colons in properties, fields that share a line."""
    del app, options
    if what == "property" and not any(re.fullmatch(r"-{3,}", line) for line in lines):
        _kept[name] = list(lines)
    _mark_formulas(lines)
    fields = isinstance(obj, type) and (
        issubclass(obj, BaseModel | tuple) or dataclasses.is_dataclass(obj)
    )
    if fields and "Attributes" in lines:
        at = lines.index("Attributes")
        lines[at : at + 2] = ["Parameters", "----------"]


def _mark_formulas(lines: list[str]) -> None:
    """Make indented formulas and listings what they look like: literal blocks, not quotations."""
    depths = [len(line) - len(line.lstrip()) for line in lines]
    for i in range(len(lines) - 2, 0, -1):
        above, below = lines[i - 1].strip(), lines[i + 1].strip()
        indented = depths[i + 1] >= depths[i - 1] + 4 and not below.startswith((">>>", "- "))
        if not lines[i].strip() and above and below and indented and not above.endswith("::"):
            lines[i:i] = ["", f"{' ' * depths[i - 1]}::"]


def _after_napoleon(
    app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]
) -> None:
    del app, what, obj, options
    if name in _kept:
        lines[:] = _kept.pop(name)


def setup(app: Sphinx) -> None:
    """Connect the steps above."""
    app.connect("source-read", _add_navigation)
    app.connect("source-read", _test_examples)
    app.connect("source-read", _list_modules)
    app.connect("autodoc-process-signature", _plain_signature)
    app.connect("autodoc-skip-member", _skip_member)
    app.connect("autodoc-process-docstring", _before_napoleon, priority=400)
    app.connect("autodoc-process-docstring", _after_napoleon, priority=600)
