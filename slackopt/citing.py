"""What to cite for a result: the toolkit, the paper it starts from, solvers, the rule's source.

The entries are in ``slackopt/references.bib``, one field a line; that of slackopt itself is made
here, with the version that the result was made with.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from types import MappingProxyType

from slackopt.environment import package_version
from slackopt.result import Result

TOOLKIT = "slackopt"
PAPER = "slackswap"

RULE_SOURCES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "capuchin": ("peng2020capuchin",),
        "chain": ("beaumont2019optimal", "kusumoto2019graph"),
        "dtr": ("kirisame2021dtr",),
        "knapsack": ("pytorchbudget",),
        "largest-first-offload": ("liang2025torchtitan",),
        "layer-checkpoint": ("korthikanti2023reducing", "chen2016sublinear"),
        "memo": ("zhao2025memo",),
        "mu-two": ("purandare2023mutwo",),
        "pressure": ("kirisame2021dtr", "glover1989tabu"),
        "selective": ("korthikanti2023reducing",),
        "slackswap": (PAPER,),
        "slackswap-timeline": (PAPER,),
        "sqrt-n": ("chen2016sublinear",),
        "teraio": ("yuan2025teraio", "zhang2023g10"),
        "vdnn": ("rhu2016vdnn",),
    }
)
"""Rule -> entries of its source."""

OURS = frozenset(
    {
        "exact",
        "milp",
        "cpsat",
        "bound",
        "milp-schedule",
        "cpsat-schedule",
        "enumerate",
        "keep-all",
        "swap-all",
        "recompute-all",
        "local-search",
        "round",
    }
)
"""Methods that come with slackopt and have no other source."""

_SOLVER_ENTRIES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {"highs": ("highs", "pulp"), "cbc": ("cbc", "pulp"), "cpsat": ("cpsat",), "cp-sat": ("cpsat",)}
)
"""Solver, as results name it -> entries; PuLP stands between us and its solvers."""

_TITLES = {"highs": "HiGHS", "cbc": "CBC", "cpsat": "OR-Tools CP-SAT", "pulp": "PuLP"}

_SOLVES_LPS = frozenset({"exact", "milp", "cpsat", "bound", "local-search", "round"})
"""Methods that solve the window LP, by HiGHS, whatever solver they name."""


@dataclass(frozen=True)
class Citation:
    """One BibTeX entry, and what it is cited for.

    Attributes
    ----------
    key, kind
        Key and type of the entry (``article``, ``misc``, ...).
    fields
        Field name -> value, as in BibTeX.
    cited_for
        What makes it due: ``the toolkit``, ``HiGHS 1.16.0``, ``method memo``.
    """

    key: str
    kind: str
    fields: Mapping[str, str]
    cited_for: tuple[str, ...] = ()

    @property
    def bibtex(self) -> str:
        """The entry as text, what it is cited for in a comment above it."""
        width = max(map(len, self.fields))
        lines = [f"  {name:<{width}} = {{{value}}}" for name, value in self.fields.items()]
        entry = f"@{self.kind}{{{self.key},\n" + ",\n".join(lines) + "\n}"
        return f"% {', '.join(self.cited_for)}\n{entry}" if self.cited_for else entry


@cache
def references() -> Mapping[str, Citation]:
    """Return every entry of ``references.bib`` by its key."""
    text = files("slackopt").joinpath("references.bib").read_text(encoding="utf-8")
    found = {}
    for kind, key, body in re.findall(r"^@(\w+)\{([\w-]+),\n(.*?)\n\}$", text, re.M | re.S):
        fields = dict(re.findall(r"^\s+(\w+)\s+= \{(.*)\},?$", body, re.M))
        found[key] = Citation(key, kind, MappingProxyType(fields))
    return MappingProxyType(found)


def cite(results: Iterable[Result] = ()) -> tuple[Citation, ...]:
    """Return what to cite for some results: the toolkit, the paper, solvers, sources of rules.

    Parameters
    ----------
    results
        Results; without any, the toolkit and the paper are left.

    Returns
    -------
    tuple of Citation
        Each entry once, in this order: toolkit, paper, and the others by key.

    Examples
    --------
    >>> from slackopt.citing import cite
    >>> [citation.key for citation in cite()]
    ['slackopt', 'slackswap']
    """
    versions: dict[str, None] = {}
    due: dict[str, dict[str, None]] = {PAPER: {"the rule that slackopt starts from": None}}
    for result in results:
        versions[result.slackopt_version] = None
        for key, why in _due(result):
            due.setdefault(key, {})[why] = None
    known = references()
    others = sorted(due.keys() - {PAPER})
    return (
        _toolkit(tuple(versions) or (package_version(TOOLKIT) or "unknown",)),
        *(
            Citation(key, known[key].kind, known[key].fields, tuple(due[key]))
            for key in (PAPER, *others)
        ),
    )


def without_entry(results: Iterable[Result]) -> tuple[str, ...]:
    """Return a sentence for each method and solver that slackopt has no entry for."""
    found: dict[str, None] = {}
    for result in results:
        if result.method not in OURS and result.method not in RULE_SOURCES:
            found[
                f"method {result.method!r} is of another package; cite what its makers ask for"
            ] = None
        for solver in _solvers(result):
            if solver not in _SOLVER_ENTRIES:
                found[f"solver {solver!r} has no entry here; cite what its makers ask for"] = None
    return tuple(found)


def _due(result: Result) -> Iterable[tuple[str, str]]:
    """Yield ``(key, why)`` for the method and the solvers of a result."""
    for key in RULE_SOURCES.get(result.method, ()):
        yield key, f"method {result.method}"
    for solver in _solvers(result):
        # A solver without an entry runs through PuLP as well.
        for key in _SOLVER_ENTRIES.get(solver, ("pulp",)):
            yield key, _with_version(key, result)
    searched = result.plan is not None or result.lower_bound_ns is not None
    if searched and result.method in _SOLVES_LPS:
        yield "highs", _with_version("highs", result)


def _solvers(result: Result) -> list[str]:
    """Return the solvers of a result; ``a+b`` names two."""
    return [] if result.solver is None else result.solver.split("+")


def _with_version(key: str, result: Result) -> str:
    """Return the title of a solver with the version that the result was made with."""
    package = {"highs": "highspy", "cpsat": "ortools", "pulp": "pulp"}.get(key)
    version = result.solver_version if package is None else result.environment.get(package)
    return f"{_TITLES[key]} {version or ''}".rstrip()


def _toolkit(versions: tuple[str, ...]) -> Citation:
    fields = {
        "title": "slackopt: swapping and recomputation plans for training within a memory budget",
        "author": "{The slackopt developers}",
        "note": f"Version {', '.join(versions)}",
    }
    return Citation(TOOLKIT, "misc", MappingProxyType(fields), ("the toolkit",))
