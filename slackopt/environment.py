"""What a result was computed with: versions and machine, for result files and bug reports."""

from __future__ import annotations

import importlib.metadata
import os
import platform

PACKAGES = ("pulp", "highspy", "ortools", "numpy", "networkx", "pydantic", "torch")


def environment() -> dict[str, str | int | None]:
    """Return versions and machine facts; a package that isn't installed is None."""
    facts: dict[str, str | int | None] = {
        "slackopt": package_version("slackopt"),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "machine": platform.machine(),
        "cpu_count": os.cpu_count(),
    }
    facts.update({name: package_version(name) for name in PACKAGES})
    return facts


def package_version(name: str) -> str | None:
    """Return the installed version of a package, or None."""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None
